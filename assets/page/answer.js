// The answer as far as it is shown, each token underlined by one of its facts. Marks are style only: a copy is
// plain text.
(function () {
  "use strict";
  const DFlashViz = window.DFlashViz;
  const { MARKS, add, confidence, copyButton, countWhile, el, origins, setAttribute, setText, tokens, uniqueId } = DFlashViz;
  const MARKED_TOKENS = 1000; // more elements than this make the page slow
  // Of text without marks. A page cannot lay out millions of characters at every step: a long answer loses its
  // beginning, and after a jump less of it is restored, so that the next jump is as quick.
  const OLDER_TOKENS = 20000;
  const RESTORED_TOKENS = 3000;
  const FEWEST_MARKED = 500; // left after steps back, before the marks are made anew
  const WRITTEN = 80000; // characters, of an answer that came without tokens
  const CHARACTER = 3; // tokens before the end that can hold the bytes of an unfinished character
  const ORIGINS = ["accepted", "recovered", "bonus", "plain"];
  const MODES = [["origin", "Origin"], ["step", "Step"], ["confidence", "Confidence"], ["plain", "Plain"]];
  // Five levels of the target's probability of the token, by the least that belongs to each.
  const LEVELS = [
    [5, 0.9, "0.9 or more"], [4, 0.7, "0.7 to 0.9"], [3, 0.5, "0.5 to 0.7"], [2, 0.2, "0.2 to 0.5"], [1, 0, "less than 0.2"],
  ];
  const UNKNOWN = "not recorded";
  const UNKNOWN_LEVEL = 0;

  function levelOf(p) {
    return p === null ? UNKNOWN_LEVEL : LEVELS.find(([, least]) => p >= least)[0];
  }

  function limitWords(older) {
    const marks = "Marks are on the last " + MARKED_TOKENS + " tokens";
    return marks + (older ? "; the beginning is left out: “Copy text” gives all." : ".");
  }

  class Answer {
    // `laneId` is the id of the heading that names the lane: there is an answer for each.
    constructor(parent, laneId, lane) {
      this.lane = lane;
      this.at = null; // the step that is highlighted
      this.chosen = [];
      this.build(parent, laneId);
      this.start(0);
      this.setMode("origin");
    }

    build(parent, laneId) {
      const bar = add(parent, "div", "dv-bar dv-answer-bar");
      const title = add(bar, "div", "dv-heading", "Answer");
      title.id = uniqueId();
      copyButton(bar, "dv-copy-text", "Copy text", () => this.wholeText());
      const modes = add(bar, "div", "dv-answer-modes");
      modes.setAttribute("role", "group");
      modes.setAttribute("aria-label", "Marks of the answer");
      this.buttons = MODES.map(([mode, words]) => this.modeButton(modes, mode, words));
      this.box = add(parent, "div", "dv-answer");
      this.box.tabIndex = 0;
      this.box.setAttribute("role", "region");
      this.box.setAttribute("aria-labelledby", laneId + " " + title.id);
      this.old = this.box.appendChild(document.createTextNode(""));
      this.follower = new DFlashViz.Follower(this.box);
      this.legend = add(parent, "div", "dv-legend");
    }

    modeButton(parent, mode, words) {
      const node = DFlashViz.button(parent, "dv-toggle", words, () => this.setMode(mode));
      node.dataset.mode = mode;
      return node;
    }

    setMode(mode) {
      this.mode = mode;
      this.buttons.forEach((node) => setAttribute(node, "aria-pressed", node.dataset.mode === mode));
      this.box.dataset.marks = mode;
      this.drawLegend();
    }

    drawLegend() {
      const legends = {
        origin: () => ORIGINS.map((kind) => this.legendItem(MARKS[kind].sign, "dv-row-" + kind, MARKS[kind].word, { kind })),
        step: () => [0, 1].map((band) => this.legendItem("┊", "", band ? "the next" : "tokens of one step", { band })),
        confidence: () => [...LEVELS.map(([level, , words]) => this.legendItem("", "", words, { level })),
          this.legendItem("", "", UNKNOWN, { level: UNKNOWN_LEVEL })],
        plain: () => [el("span", "dv-dim", "The text without marks.")],
      };
      this.legend.dataset.marks = this.mode;
      this.legend.replaceChildren(...legends[this.mode]());
      this.legend.title = this.mode === "confidence" ? "The target's probability of the emitted token, at temperature 1" : "";
      this.limit = add(this.legend, "span", "dv-dim dv-limit");
      this.drawLimit();
    }

    legendItem(sign, signClass, words, facts) {
      const item = el("span", "dv-legend-item");
      add(item, "span", "dv-legend-sign " + signClass, sign).setAttribute("aria-hidden", "true");
      Object.assign(add(item, "span", "dv-said", words).dataset, facts);
      return item;
    }

    drawLimit() {
      this.limit.hidden = !this.firstMarked;
      setText(this.limit, limitWords(this.firstOld > 0));
    }

    // An empty answer whose next token is the one at `firstOld` of the lane's.
    start(firstOld) {
      this.stream = tokens.stream();
      this.firstOld = firstOld; // tokens before it are left out
      this.firstMarked = firstOld; // tokens before it have no element of their own
      this.drawn = 0; // tokens, counted from the answer's first
      this.spans = [];
      this.different = null;
      this.finished = false;
      this.old.data = "";
      while (this.old.nextSibling) this.old.nextSibling.remove();
    }

    draw() {
      const { lane } = this;
      if (lane.countsOnly) return this.drawWritten(lane.written);
      const reopened = this.finished && !lane.end;
      const crowded = this.firstMarked - this.firstOld > OLDER_TOKENS;
      if (lane.tokens > this.drawn + MARKED_TOKENS || crowded || reopened) this.restart();
      else if (lane.tokens < this.drawn) this.takeBack(lane.tokens);
      this.append(lane.tokens);
      if (lane.end && !this.finished) this.finish();
      this.markDifference(lane.text);
      return this.drawLimit();
    }

    // Where no steps bring it, the text comes as it is.
    drawWritten(text) {
      const shown = text.slice(-WRITTEN);
      if (this.old.data !== shown) this.old.data = shown;
      this.limit.hidden = shown === text;
      setText(this.limit, "The beginning is left out: “Copy text” gives all.");
    }

    // From nothing to the marked tokens: older ones become text in one go.
    restart() {
      const marked = Math.max(0, this.lane.tokens - MARKED_TOKENS);
      this.start(Math.max(0, marked - RESTORED_TOKENS));
      const parts = this.textParts(this.firstOld, marked);
      this.old.data = this.stream.push(this.firstOld ? tokens.middle(parts) : tokens.concat(parts));
      this.firstMarked = this.drawn = marked;
      this.chosen = [];
    }

    // A few steps back: their tokens go. What a character is made of so far goes back into the stream.
    takeBack(to) {
      if (this.firstMarked && to - this.firstMarked < FEWEST_MARKED) return this.restart();
      this.spans.splice(Math.max(0, to - this.firstMarked)).forEach((span) => span.node.remove());
      this.stream = tokens.stream();
      this.stream.push(tokens.middle(this.textParts(Math.max(0, to - CHARACTER), to)));
      this.drawn = to;
      return undefined;
    }

    // What is no text is in no copy either.
    textParts(from, to) {
      const { lane } = this;
      return lane.output.slice(from, to).filter((id) => !lane.special.has(id)).map((id) => lane.tokenBytes(id));
    }

    append(to) {
      if (this.drawn >= to) return;
      const { lane } = this;
      const fragment = document.createDocumentFragment();
      let at = countWhile(lane.shown, (i) => lane.steps[i].from + lane.steps[i].emitted.length <= this.drawn);
      for (; at < lane.shown; at += 1) this.appendStep(at, fragment);
      this.drawn = to;
      this.box.appendChild(fragment);
      this.trim();
      if (this.at !== null) this.choose(this.at);
    }

    appendStep(at, fragment) {
      const { lane } = this;
      const step = lane.steps[at];
      origins(step).forEach((kind, i) => {
        if (step.from + i < this.drawn) return;
        const id = step.emitted[i];
        const special = lane.special.has(id) ? " dv-special" : "";
        const node = el("span", "dv-said" + special, this.stream.push(lane.tokenBytes(id)));
        this.describe(node, kind, at, i, confidence(step, i));
        fragment.appendChild(node);
        this.spans.push({ node, at });
      });
    }

    // All that any of the modes shows.
    describe(node, kind, at, i, p) {
      node.setAttribute("data-kind", kind); // `dataset` takes several times as long
      node.setAttribute("data-band", at % 2);
      node.setAttribute("data-level", levelOf(p));
      if (i === 0) node.setAttribute("data-first", "");
      node.title = MARKS[kind].word + ", target's probability " + (p === null ? UNKNOWN : p.toFixed(2));
    }

    // Older tokens keep their text, in one text node; their marks stay in the history.
    trim() {
      const excess = this.spans.splice(0, Math.max(0, this.spans.length - MARKED_TOKENS));
      if (!excess.length) return;
      this.firstMarked += excess.length;
      const kept = excess.filter((span) => !span.node.classList.contains("dv-special"));
      this.old.appendData(kept.map((span) => span.node.textContent).join(""));
      excess.forEach((span) => span.node.remove());
    }

    // Where this answer first differs from the one without speculation.
    markDifference(text) {
      const differs = text && typeof text.at === "number";
      const span = differs ? this.spans[text.at - this.firstMarked] : undefined;
      const node = span ? span.node : null;
      if (node === this.different) return;
      if (this.different) this.different.classList.remove("dv-different");
      this.different = node;
      if (!node) return;
      node.classList.add("dv-different");
      node.dataset.sign = DFlashViz.verdictOf(text)[0];
      node.title = text.message || "Here the answer first differs from the one without speculation.";
    }

    // Bytes of a character that never came to its end.
    finish() {
      this.finished = true;
      const rest = this.stream.flush();
      if (rest && this.spans.length) this.spans[this.spans.length - 1].node.append(rest);
    }

    // All that is shown, and what is too old for the box: as the reader would have copied it.
    wholeText() {
      if (this.lane.countsOnly) return this.lane.written;
      const stream = tokens.stream();
      const text = stream.push(tokens.concat(this.textParts(0, this.lane.tokens)));
      return this.finished ? text + stream.flush() : text;
    }

    // Scrolls this box alone, never the page.
    reveal() {
      if (this.chosen.length) this.follower.scrollTo(this.chosen[0].offsetTop - this.box.clientHeight / 3);
      else if (this.at === null) this.follower.backToEnd();
    }

    highlight(at) {
      this.at = at;
      this.choose(at);
      this.reveal();
    }

    choose(at) {
      this.chosen.forEach((node) => node.classList.remove("dv-chosen"));
      this.chosen = at === null ? [] : this.spans.filter((span) => span.at === at).map((span) => span.node);
      this.chosen.forEach((node) => node.classList.add("dv-chosen"));
    }
  }

  DFlashViz.Answer = Answer;
})();
