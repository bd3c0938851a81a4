// One card per lane: the parts that draw its steps and its answer.
(function () {
  "use strict";
  const DFlashViz = window.DFlashViz;
  const { add, setText, plural } = DFlashViz;

  const ENDINGS = {
    stop: "Ended by a stop condition (end-of-sequence token or stop string)",
    length: "Ended at the token limit",
    abort: "Stopped before its end",
    error: "Ended with an error",
  };

  function shortName(model) {
    if (!model || !model.name) return null;
    return model.name.replace(/\/+$/, "").split("/").pop();
  }

  // A drafter may run with smaller blocks than it was trained for: more K, other figures.
  function trained(print, k) {
    const size = print.trained_block_size;
    return size && size !== k + 1 ? " (trained for " + size + ")" : "";
  }

  function facts(lane) {
    const k = lane.numSpeculative;
    const print = lane.fingerprint;
    const found = [
      k ? "K = " + k : null,
      k && lane.method === "dflash" ? "block size " + (k + 1) + trained(print, k) : null,
      shortName(print.target) && "target " + shortName(print.target),
      shortName(print.drafter) && "drafter " + shortName(print.drafter),
      print.device,
    ];
    return found.filter(Boolean).join(" · ");
  }

  class Card {
    // See `Deck` for the actions.
    constructor(parent, lane, actions) {
      this.lane = lane;
      this.actions = actions;
      this.selected = null;
      this.shown = null; // which step the block shows
      this.drawn = -1;
      this.last = -Infinity;
      this.problems = 0; // drawn
      this.node = add(parent, "section", "dv-card");
      this.node.setAttribute("aria-label", "Lane " + lane.style.title);
      DFlashViz.dress(this.node, lane.style);
      this.buildTitle();
      this.problem = add(this.node, "div", "dv-problems");
      this.block = new DFlashViz.Block(this.node, (position) => actions.inspect(lane, this.at, position));
      this.buildColumns();
      this.observer = new ResizeObserver(() => this.resized());
      this.observer.observe(this.node);
    }

    // Boxes in a tab that is not shown have no size and cannot scroll: catch up when they get one.
    resized() {
      this.answer.follower.resized();
      this.history.follower.resized();
      this.history.scrolled();
    }

    buildTitle() {
      const row = add(this.node, "div", "dv-title");
      const heading = add(row, "div", "dv-lane-name");
      heading.id = this.headingId = DFlashViz.uniqueId();
      heading.setAttribute("role", "heading");
      heading.setAttribute("aria-level", "2");
      DFlashViz.nameLane(heading, this.lane.style);
      this.turn = add(row, "span", "dv-chip dv-turn");
      this.facts = add(row, "div", "dv-facts");
      this.stepNumber = add(row, "div", "dv-step-number", "no step yet");
      this.notice = add(this.node, "div", "dv-note dv-notice");
      this.notice.hidden = true;
    }

    buildColumns() {
      const columns = add(this.node, "div", "dv-halves");
      const left = add(columns, "div", "dv-column dv-history-column");
      this.history = new DFlashViz.History(left, this.headingId, (at) => this.select(at));
      const right = add(columns, "div", "dv-column");
      this.answer = new DFlashViz.Answer(right, this.headingId, this.lane);
      const last = add(this.node, "div", "dv-last");
      this.ending = add(last, "div", "dv-ending dv-dim", "No answer yet.");
      this.check = add(last, "div", "dv-check");
    }

    setOrigin(origin) {
      this.history.setFollowText(origin === "recorded" ? "Follow latest" : "Back to live");
    }

    setActive(active) {
      this.node.toggleAttribute("data-active", active);
      if (active) this.node.setAttribute("aria-current", "true");
      else this.node.removeAttribute("aria-current");
    }

    select(at) {
      this.selected = at;
      if (at !== null) this.actions.selected();
      this.answer.highlight(at);
      this.drawBlock();
      this.actions.again();
    }

    // The step that the block shows; -1 before the first.
    get at() {
      return this.selected === null ? this.lane.shown - 1 : this.selected;
    }

    leaveSelection() {
      if (this.selected !== null) this.history.backToLive();
    }

    get stale() {
      return this.drawn !== this.lane.version;
    }

    draw(now) {
      this.last = now;
      this.drawn = this.lane.version;
      this.drawTitle();
      this.drawBlock();
      this.history.resize(this.lane);
      this.answer.draw();
      this.drawEnding();
      this.drawProblems();
    }

    // Scrolls, and so measures: apart from the drawing, which would have to be laid out each time.
    follow() {
      this.answer.follower.toEnd();
      this.history.followEnd();
    }

    drawTitle() {
      const { lane } = this;
      setText(this.turn, lane.state);
      this.turn.dataset.state = lane.state;
      const words = facts(lane);
      setText(this.facts, words);
      this.facts.title = words;
      const step = lane.last;
      this.drawNotice(lane.countsOnly);
      if (lane.countsOnly) return setText(this.stepNumber, "counts only");
      if (!step) return setText(this.stepNumber, "no step yet");
      const batch = step.batch_size > 1 ? " · batch of " + step.batch_size : "";
      return setText(this.stepNumber, "step " + step.index + batch);
    }

    // Instead of blocks that nobody has seen.
    drawNotice(words) {
      setText(this.notice, words);
      this.notice.hidden = !words;
      this.node.toggleAttribute("data-counts-only", Boolean(words));
    }

    drawBlock() {
      const { lane } = this;
      this.block.reserve(lane.numSpeculative);
      const { at } = this;
      const key = at + "/" + (this.selected !== null);
      if (at < 0) this.block.wait(DFlashViz.turnWords(lane));
      else if (key !== this.shown) this.block.draw(lane, at, this.selected !== null);
      this.shown = key;
    }

    drawEnding() {
      const { end } = this.lane;
      if (this.ended === end) return undefined;
      this.ended = end;
      return end ? this.drawEnd(end) : this.drawNoEnd();
    }

    drawNoEnd() {
      setText(this.ending, this.lane.ended ? "More steps follow." : "The answer is being written.");
      setText(this.check, "");
      this.check.className = "dv-check";
      this.check.removeAttribute("role");
    }

    drawEnd(end) {
      const how = ENDINGS[end.finish_reason] || "Ended: " + end.finish_reason;
      const error = end.error ? ": " + end.error : "";
      setText(this.ending, how + error.replace(/\.$/, "") + ". " + plural(end.num_output_tokens, "token") + ".");
      return this.drawCheck(end.check || { agrees: null, message: "" });
    }

    // Disagreement means that a step was lost or misread: never shown quietly.
    drawCheck(check) {
      const message = check.message || "";
      const words = { true: "✓ The recording agrees with vLLM's own counts", false: "⚠ The recording does not agree with vLLM's own counts" };
      const start = words[String(check.agrees)] || "Not checked against vLLM's own counts";
      this.check.className = "dv-check dv-check-" + check.agrees;
      if (check.agrees === false) this.check.setAttribute("role", "alert");
      if (this.lane.countsOnly) return setText(this.check, message);
      return setText(this.check, start + (message ? ": " + message : "."));
    }

    drawProblems() {
      const { problems, end } = this.lane;
      if (problems.length !== this.problems) {
        this.problem.replaceChildren();
        problems.forEach((line) => DFlashViz.addProblem(this.problem, line));
      }
      this.problems = problems.length;
      this.node.toggleAttribute("data-problem", this.problems > 0); // takes the room of the ending, which may never come
      this.ending.hidden = this.problems > 0 && !end;
    }

    destroy() {
      this.observer.disconnect();
      this.node.remove();
    }
  }

  DFlashViz.Card = Card;
})();
