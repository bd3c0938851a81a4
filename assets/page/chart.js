// Acceptance length per step: one Plotly chart, made once and extended in place.
(function () {
  "use strict";
  const DFlashViz = window.DFlashViz;
  const { add, laneStyle } = DFlashViz;
  const EXTEND_EVERY_MS = 250;
  const FEWEST_STEPS = 10; // the axis starts with room for these, so that the first steps do not rescale it
  const HEIGHT = 260;
  const TITLE = "Acceptance length (AL) per step";
  const DEFINITION =
    "AL of a step = num_accepted + 1: the accepted prefix and the target's own token. " +
    "Line: pooled AL so far = 1 + sum of accepted / steps. Prefill is left out. Drag to zoom, double-click to reset.";

  function colours(node) {
    const style = getComputedStyle(node);
    const read = (name) => style.getPropertyValue(name).trim();
    return { text: read("--dv-text"), grid: read("--dv-grid"), line: read("--dv-text"), marker: read("--dv-lane") };
  }

  function axis(title, colour, extra) {
    return Object.assign(
      { title: { text: title, standoff: 6 }, color: colour.text, gridcolor: colour.grid, zeroline: false, automargin: true },
      extra
    );
  }

  function layout(node, numSpeculative) {
    const colour = colours(node);
    const top = numSpeculative ? { range: [0, numSpeculative + 1.5] } : { rangemode: "tozero" };
    return {
      height: HEIGHT,
      margin: { l: 44, r: 12, t: 8, b: 40 },
      paper_bgcolor: "rgba(0,0,0,0)",
      plot_bgcolor: "rgba(0,0,0,0)",
      font: { family: "system-ui, sans-serif", size: 12, color: colour.text },
      uirevision: "keep", // what the reader zoomed to stays
      showlegend: true,
      legend: { orientation: "h", x: 0, y: 1.02, yanchor: "bottom" },
      xaxis: axis("step", colour, { autorangeoptions: { include: [0, FEWEST_STEPS] } }),
      yaxis: axis("acceptance length (tokens)", colour, top),
    };
  }

  function traces(node, laneName) {
    const style = laneStyle(laneName);
    const colour = colours(node);
    return [
      {
        x: [], y: [], name: "AL of the step", mode: "markers", type: "scatter",
        marker: { symbol: style.marker, size: 7, color: colour.marker, line: { width: 0 } },
      },
      {
        x: [], y: [], name: "running AL (pooled)", mode: "lines", type: "scatter",
        line: { color: colour.line, width: 2, dash: style.dash },
      },
    ];
  }

  class Chart {
    constructor(parent, lane) {
      this.lane = lane;
      this.taken = 0;
      this.steps = 0;
      this.sum = 0;
      this.lastDraw = -Infinity;
      add(parent, "div", "dv-heading", TITLE);
      add(parent, "div", "dv-dim", DEFINITION);
      this.box = add(parent, "div", "dv-chart");
      this.message = add(this.box, "div", "dv-dim", "No decode steps yet.");
      this.plot = add(this.box, "div", "dv-plot");
      this.observer = new ResizeObserver(() => this.resize());
      this.observer.observe(this.box);
    }

    // Plotly refuses to measure a chart in a tab that is not shown.
    resize() {
      if (this.made && this.box.clientWidth > 0) window.Plotly.Plots.resize(this.plot);
    }

    make() {
      if (this.made) return;
      this.message.remove();
      const config = { displayModeBar: false, displaylogo: false };
      window.Plotly.newPlot(this.plot, traces(this.plot, this.lane.name), layout(this.plot, this.lane.numSpeculative), config);
      this.made = true;
    }

    // Draws at most four times a second; what comes between waits for the next time.
    draw() {
      if (this.timer) return;
      const wait = Math.max(0, this.lastDraw + EXTEND_EVERY_MS - performance.now());
      this.timer = setTimeout(() => {
        this.timer = null;
        this.lastDraw = performance.now();
        this.extend();
      }, wait);
    }

    take() {
      const points = { x: [], y: [], mean: [] };
      for (; this.taken < this.lane.steps.length; this.taken += 1) {
        const step = this.lane.steps[this.taken];
        if (!step.drafted.length) continue; // the AL is about steps that drafted
        this.steps += 1;
        this.sum += step.num_accepted;
        points.x.push(step.index);
        points.y.push(step.num_accepted + 1);
        points.mean.push(1 + this.sum / this.steps);
      }
      return points;
    }

    extend() {
      if (!window.Plotly) {
        this.message.textContent = "The chart needs Plotly, which this page could not load. All else works without it.";
        return;
      }
      const { x, y, mean } = this.take();
      if (!x.length) return;
      this.make();
      window.Plotly.extendTraces(this.plot, { x: [x, x], y: [y, mean] }, [0, 1]);
      this.plot.setAttribute("role", "img");
      const running = mean[mean.length - 1].toFixed(2);
      this.plot.setAttribute("aria-label", TITLE + ": " + this.steps + " steps, running AL (pooled) " + running + " tokens");
    }

    recolour() {
      if (!this.made) return;
      const colour = colours(this.plot);
      window.Plotly.restyle(this.plot, { "marker.color": colour.marker }, [0]);
      window.Plotly.restyle(this.plot, { "line.color": colour.line }, [1]);
      window.Plotly.relayout(this.plot, {
        "font.color": colour.text, "xaxis.color": colour.text, "yaxis.color": colour.text,
        "xaxis.gridcolor": colour.grid, "yaxis.gridcolor": colour.grid,
      });
    }

    destroy() {
      clearTimeout(this.timer);
      this.observer.disconnect();
      if (this.made) window.Plotly.purge(this.plot);
    }
  }

  DFlashViz.Chart = Chart;
})();
