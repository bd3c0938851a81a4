// The answer as it grows, each token underlined by its origin. Marks are style only: a copy is plain text.
(function () {
  "use strict";
  const DFlashViz = window.DFlashViz;
  const { MARKS, add, el, origins, tokens, uniqueId } = DFlashViz;
  const MARKED_TOKENS = 1000; // more elements than this make the page slow
  const LEGEND = ["accepted", "recovered", "bonus", "plain"];

  class Answer {
    // `laneId` is the id of the heading that names the lane: there is an answer for each.
    constructor(parent, laneId) {
      this.stream = tokens.stream();
      this.drawn = 0; // steps
      this.trimmed = 0; // tokens without marks
      this.spans = [];
      this.chosen = [];
      this.build(parent, laneId);
    }

    build(parent, laneId) {
      const bar = add(parent, "div", "dv-bar");
      const title = add(bar, "div", "dv-heading", "Answer");
      title.id = uniqueId();
      this.toggle = DFlashViz.button(bar, "dv-toggle", "Marks", () => this.setMarks(!this.marked));
      this.box = add(parent, "div", "dv-answer");
      this.box.tabIndex = 0;
      this.box.setAttribute("role", "region");
      this.box.setAttribute("aria-labelledby", laneId + " " + title.id);
      this.old = this.box.appendChild(document.createTextNode(""));
      this.follower = new DFlashViz.Follower(this.box);
      this.legend = add(parent, "div", "dv-legend");
      LEGEND.forEach((kind) => this.legendItem(kind));
      this.limit = add(this.legend, "span", "dv-dim", "Marks are on the last " + MARKED_TOKENS + " tokens.");
      this.limit.hidden = true;
      this.setMarks(true);
    }

    legendItem(kind) {
      const item = add(this.legend, "span", "dv-legend-item");
      add(item, "span", "dv-legend-sign dv-row-" + kind, MARKS[kind].sign).setAttribute("aria-hidden", "true");
      add(item, "span", "dv-said dv-said-" + kind, MARKS[kind].word);
    }

    setMarks(on) {
      this.marked = on;
      this.toggle.textContent = on ? "Marks on" : "Marks off";
      this.toggle.setAttribute("aria-pressed", String(on));
      this.box.classList.toggle("dv-marks", on);
    }

    draw(lane) {
      this.append(lane);
      if (lane.text) this.markDifference(lane.text);
    }

    append(lane) {
      if (this.drawn === lane.steps.length) return;
      const fragment = document.createDocumentFragment();
      for (; this.drawn < lane.steps.length; this.drawn += 1) this.appendStep(lane, this.drawn, fragment);
      this.box.appendChild(fragment);
      this.trim();
    }

    appendStep(lane, at, fragment) {
      const step = lane.steps[at];
      origins(step).forEach((kind, i) => {
        const text = this.stream.push(lane.tokenBytes(step.emitted[i]));
        const node = el("span", "dv-said dv-said-" + kind, text);
        if (tokens.isSpecial(text)) node.classList.add("dv-special");
        fragment.appendChild(node);
        this.spans.push({ node, at });
      });
    }

    // Older tokens keep their text, in one text node; their marks stay in the history.
    trim() {
      const excess = this.spans.splice(0, Math.max(0, this.spans.length - MARKED_TOKENS));
      if (!excess.length) return;
      this.trimmed += excess.length;
      this.old.appendData(excess.map((span) => span.node.textContent).join(""));
      excess.forEach((span) => span.node.remove());
      this.limit.hidden = false;
    }

    // Where this answer first differs from the one without speculation.
    markDifference(text) {
      if (this.different || text.at === null || text.at === undefined) return;
      const span = this.spans[text.at - this.trimmed];
      if (!span) return;
      this.different = span.node;
      span.node.classList.add("dv-different");
      span.node.dataset.sign = DFlashViz.verdictOf(text)[0];
      span.node.title = text.message || "Here the answer first differs from the one without speculation.";
    }

    // Bytes of a character that never came to its end.
    finish() {
      const rest = this.stream.flush();
      if (rest && this.spans.length) this.spans[this.spans.length - 1].node.append(rest);
    }

    // Scrolls this box alone, never the page.
    reveal() {
      if (this.chosen.length) this.follower.scrollTo(this.chosen[0].offsetTop - this.box.clientHeight / 3);
      else if (this.at === null) this.follower.backToEnd();
    }

    highlight(at) {
      this.at = at;
      this.chosen.forEach((node) => node.classList.remove("dv-chosen"));
      this.chosen = at === null ? [] : this.spans.filter((span) => span.at === at).map((span) => span.node);
      this.chosen.forEach((node) => node.classList.add("dv-chosen"));
      this.reveal();
    }
  }

  DFlashViz.Answer = Answer;
})();
