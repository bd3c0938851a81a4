// One Plotly chart of all lanes: made once, then updated in place, so that the reader's zoom stays.
(function () {
  "use strict";
  const DFlashViz = window.DFlashViz;
  const { add, setText } = DFlashViz;
  const HEIGHT = 260;
  const MISSING = "The chart needs Plotly, which this page could not load. All else works without it.";
  const LOADING = "The chart is loading.";
  const PATIENCE_MS = 20000;
  const loadedSince = performance.now();
  let failed = false;

  function isPlotly(node) {
    return node instanceof HTMLScriptElement && /plotly/.test(node.src);
  }

  // Whether Plotly is "ready", still "loading", or "missing". A host may load scripts in any order.
  function plotlyState() {
    if (window.Plotly) return "ready";
    const asked = Array.from(document.scripts).some(isPlotly);
    return asked && !failed && performance.now() - loadedSince < PATIENCE_MS ? "loading" : "missing";
  }

  // Calls back when the state may have changed; returns what ends that. The window hears of no script's load.
  function watchPlotly(changed) {
    const told = (event) => {
      if (!isPlotly(event.target)) return;
      failed = event.type === "error";
      changed();
    };
    const timer = setTimeout(changed, Math.max(0, PATIENCE_MS - (performance.now() - loadedSince)));
    for (const kind of ["load", "error"]) document.addEventListener(kind, told, true);
    return () => {
      clearTimeout(timer);
      for (const kind of ["load", "error"]) document.removeEventListener(kind, told, true);
    };
  }

  // Colours of a chart are values, not classes.
  function themeOf(node) {
    const style = getComputedStyle(node);
    const read = (name) => style.getPropertyValue(name).trim();
    const dark = Boolean(node.closest(".dark"));
    return {
      text: read("--dv-text"), dim: read("--dv-dim"), grid: read("--dv-grid"), bg: read("--dv-bg"), border: read("--dv-border"),
      lane: (lane) => (dark ? lane.style.dark : lane.style.light),
    };
  }

  // Plotly reads a little markup in its texts; names are free text and shall stay text.
  function plainText(text) {
    return String(text).replace(/&/g, "&amp;").replace(/</g, "&lt;");
  }

  function axis(theme, own) {
    const { title, ...rest } = own;
    const words = { text: title, standoff: 6 };
    const colours = { color: theme.text, gridcolor: theme.grid, linecolor: theme.grid };
    return Object.assign({ title: words, zeroline: false, automargin: true }, colours, rest);
  }

  function layoutOf(kind, theme, lanes) {
    return Object.assign({
      height: HEIGHT,
      margin: { l: 44, r: 12, t: 8, b: 40 },
      paper_bgcolor: "rgba(0,0,0,0)",
      plot_bgcolor: "rgba(0,0,0,0)",
      font: { family: "system-ui, sans-serif", size: 12, color: theme.text },
      uirevision: "keep", // what the reader zoomed to stays
      showlegend: true,
      legend: { orientation: "h", x: 0, y: 1.02, yanchor: "bottom" },
      xaxis: axis(theme, kind.xaxis(lanes)),
      yaxis: axis(theme, kind.yaxis(lanes)),
    }, kind.layout);
  }

  class Chart {
    constructor(parent, kind, told, popover) {
      this.kind = kind;
      this.title = told.title || kind.key;
      this.lanes = [];
      this.drawn = "";
      this.node = add(parent, "section", "dv-chart-part");
      this.node.dataset.key = kind.key;
      this.node.setAttribute("aria-label", this.title);
      const title = add(this.node, "button", "dv-chart-title");
      title.type = "button";
      add(title, "span", "dv-figure-label", this.title);
      const definition = told.definition || "No definition was given for this chart.";
      popover.attach(title, () => definition);
      this.note = add(this.node, "span", "dv-chart-note dv-dim");
      this.box = add(this.node, "div", "dv-chart");
      this.message = add(this.box, "div", "dv-dim");
      this.tell();
      this.plot = add(this.box, "div", "dv-plot");
      this.plot.dataset.key = kind.key;
      this.observer = new ResizeObserver(() => this.resize());
      this.observer.observe(this.box);
    }

    // What stands in the place of a chart that is not made yet.
    tell() {
      setText(this.message, { ready: this.nothingOf(this.lanes), loading: LOADING, missing: MISSING }[plotlyState()]);
    }

    // Why there is nothing to draw.
    nothingOf(lanes) {
      const { kind } = this;
      const hopeless = lanes.length > 0 && lanes.every((lane) => lane.over || (lane.countsOnly && !kind.counted));
      if (!hopeless) return "No " + kind.lacks + " yet.";
      return lanes.some((lane) => lane.countsOnly) ? "Counts only: no " + kind.lacks + " to show." : "No " + kind.lacks + ".";
    }

    // Plotly refuses to measure a chart in a tab that is not shown.
    resize() {
      if (this.made && this.box.clientWidth > 0) window.Plotly.Plots.resize(this.plot);
    }

    // Which data, or words for want of any, a drawing would show; equal texts need no second drawing.
    state(lanes) {
      const revisions = lanes.map((lane) => lane.revision(this.kind.key));
      return revisions.concat(this.made ? [] : this.nothingOf(lanes)).join(" ");
    }

    isStale(lanes) {
      return plotlyState() === "ready" && this.drawn !== this.state(lanes);
    }

    draw(lanes) {
      this.lanes = lanes;
      const shown = lanes.filter(this.kind.shows);
      setText(this.note, this.noteOn(shown));
      if (shown.length || this.made) this.plotLanes(shown);
      else this.tell();
      this.drawn = this.state(lanes);
    }

    plotLanes(shown) {
      const theme = themeOf(this.plot);
      const traces = this.kind.traces(shown, theme);
      if (this.made) window.Plotly.react(this.plot, traces, this.changedLayout(shown));
      else this.make(traces, layoutOf(this.kind, theme, shown));
      const words = shown.map((lane) => lane.style.title + " " + this.kind.words(lane)).join("; ");
      this.plot.setAttribute("aria-label", this.title + ": " + (words || this.nothingOf(this.lanes)));
    }

    // In a long run a point stands for many steps: no reader shall take it for one.
    noteOn(lanes) {
      const bin = Math.max(1, ...lanes.map((lane) => lane.bin));
      return this.kind.binned !== undefined && bin > 1 ? "each point: " + bin + " steps" + this.kind.binned : "";
    }

    make(traces, layout) {
      this.made = true;
      this.message.remove();
      this.plot.setAttribute("role", "img");
      window.Plotly.newPlot(this.plot, traces, layout, { displayModeBar: false, displaylogo: false });
    }

    // The layout in use carries the reader's zoom: only what depends on the lanes is laid over it.
    changedLayout(lanes) {
      const { layout } = this.plot;
      if (!this.kind.ticks) return layout;
      return Object.assign({}, layout, { yaxis: Object.assign({}, layout.yaxis, this.kind.ticks(lanes)) });
    }

    recolour() {
      this.drawn = "";
      if (!this.made) return;
      const theme = themeOf(this.plot);
      window.Plotly.relayout(this.plot, {
        "font.color": theme.text, "xaxis.color": theme.text, "yaxis.color": theme.text,
        "xaxis.gridcolor": theme.grid, "yaxis.gridcolor": theme.grid,
        "xaxis.linecolor": theme.grid, "yaxis.linecolor": theme.grid,
      });
    }

    destroy() {
      this.observer.disconnect();
      if (this.made) window.Plotly.purge(this.plot);
      this.node.remove();
    }
  }

  Object.assign(DFlashViz, { Chart, plainText, watchPlotly });
})();
