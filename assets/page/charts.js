// All charts of a run. Drawing them is the dearest thing on the page, so they take turns.
(function () {
  "use strict";
  const DFlashViz = window.DFlashViz;
  const { add } = DFlashViz;
  const EVERY_MS = 250; // a chart in sight
  const QUIET_MS = 400; // one out of sight waits until nothing new has come for so long
  const REST = 4; // after a drawing, at least so many times as long belongs to the rest of the page
  const HURRY_MS = 150; // while steps follow each other faster than this, the reader is on the way to somewhere
  const HURRIED_MS = 700; // and a chart in sight may wait so long
  const NEAR = "200px";

  class Charts {
    constructor(parent, popover) {
      this.popover = popover;
      this.node = add(parent, "section", "dv-charts");
      this.node.setAttribute("aria-label", "Charts");
      this.charts = [];
      this.lanes = [];
      this.news = 0; // when something came last
      this.sought = -Infinity; // when the reader sought a step last
      this.free = 0; // when the next drawing may begin
      this.sight = new IntersectionObserver((entries) => this.seen(entries), { rootMargin: NEAR });
      this.forget = DFlashViz.watchPlotly(() => this.plotlyChanged());
    }

    plotlyChanged() {
      this.charts.forEach((chart) => chart.made || chart.tell());
      this.plan();
    }

    // Scrubbing goes before charts: they follow more rarely while it lasts.
    hurry() {
      this.sought = performance.now();
    }

    // `told` are the document's titles and definitions, in its order.
    layOut(told) {
      if (told === this.told && this.charts.length) return;
      this.clear();
      this.told = told;
      const kinds = DFlashViz.CHARTS;
      const wanted = told || kinds.map((kind) => ({ key: kind.key }));
      for (const one of wanted) {
        const kind = kinds.find((candidate) => candidate.key === one.key);
        if (kind) this.add(new DFlashViz.Chart(this.node, kind, one, this.popover));
      }
    }

    add(chart) {
      chart.last = -Infinity;
      this.charts.push(chart);
      this.sight.observe(chart.node);
    }

    seen(entries) {
      for (const entry of entries) {
        const chart = this.charts.find((one) => one.node === entry.target);
        if (chart) chart.inSight = entry.isIntersecting;
      }
      this.plan();
    }

    draw(lanes) {
      this.lanes = lanes;
      this.news = performance.now();
      this.plan();
    }

    // The next one to come may be another one than a moment ago.
    plan() {
      clearTimeout(this.timer);
      const next = this.nextChart();
      if (!next) return;
      this.timer = setTimeout(() => {
        this.drawOne();
        this.plan();
      }, Math.max(0, next.at - performance.now()));
    }

    dueAt(chart) {
      if (!chart.inSight) return Math.max(this.free, this.news + QUIET_MS);
      const rest = Math.min(this.sought + HURRY_MS, chart.last + HURRIED_MS);
      return Math.max(this.free, chart.last + EVERY_MS, rest);
    }

    // The stale chart that is due first, and when.
    nextChart() {
      const stale = this.charts.filter((chart) => chart.isStale(this.lanes));
      const due = stale.map((chart) => ({ chart, at: this.dueAt(chart) }));
      return due.sort((a, b) => a.at - b.at || a.chart.last - b.chart.last)[0];
    }

    drawOne() {
      const next = this.nextChart();
      if (!next) return;
      const start = performance.now();
      next.chart.draw(this.lanes);
      next.chart.last = performance.now();
      this.free = next.chart.last + REST * (next.chart.last - start);
    }

    recolour() {
      this.charts.forEach((chart) => chart.recolour());
      this.plan();
    }

    clear() {
      clearTimeout(this.timer);
      this.charts.splice(0).forEach((chart) => chart.destroy());
      this.sight.disconnect();
      this.lanes = [];
    }

    destroy() {
      this.clear();
      this.forget();
    }
  }

  DFlashViz.Charts = Charts;
})();
