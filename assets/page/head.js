// Above the race: what is shown, under which conditions, and problems that concern all lanes.
(function () {
  "use strict";
  const DFlashViz = window.DFlashViz;
  const { add, setText } = DFlashViz;
  const CONTENDED = "Contended: all lanes at once";
  const CONTENDED_TITLE = "The lanes ran at the same time. Their times are not comparable with those of lanes that ran alone.";

  function addProblem(parent, line) {
    const node = add(parent, "div", "dv-problem");
    add(node, "strong", "", "⚠ " + (line.message || "Something went wrong."));
    if (line.action) add(node, "span", "", " " + line.action);
    node.setAttribute("role", "alert");
  }

  class Head {
    constructor(parent) {
      this.node = add(parent, "div", "dv-head");
      const row = add(this.node, "div", "dv-head-row");
      this.origin = add(row, "span", "dv-chip dv-origin");
      this.contended = add(row, "span", "dv-chip dv-contended", CONTENDED);
      this.contended.title = CONTENDED_TITLE;
      this.prompt = add(row, "div", "dv-prompt");
      this.note = add(this.node, "div", "dv-note");
      this.problems = add(this.node, "div", "dv-problems");
      this.clear();
    }

    clear() {
      for (const node of [this.origin, this.contended, this.prompt, this.note]) node.hidden = true;
      this.problems.replaceChildren();
    }

    show(node, text) {
      node.hidden = !text;
      setText(node, text || "");
    }

    drawRun(run) {
      const recorded = run.origin === "recorded";
      this.show(this.origin, recorded ? "Recorded run, not live" : "Live");
      this.origin.dataset.origin = recorded ? "recorded" : "live";
      this.contended.hidden = !run.contended;
      this.show(this.prompt, run.prompt ? "Prompt: " + run.prompt : "");
      this.prompt.title = run.prompt || "";
      this.show(this.note, run.note);
    }

    drawProblem(line) {
      addProblem(this.problems, line);
    }
  }

  Object.assign(DFlashViz, { Head, addProblem });
})();
