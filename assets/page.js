// The live page: DFlashViz.mount(root) draws what view.feed(lines) brings.
//
// Plain scripts that share the DFlashViz namespace. Load them in this order, this file last:
//   page/core.js
//   page/tokens.js
//   page/lane.js
//   page/feed.js
//   page/figures.js
//   page/block.js
//   page/history.js
//   page/answer.js
//   page/chart.js
//   page/card.js
//   page/head.js
//   page.js
(function () {
  "use strict";
  const DFlashViz = window.DFlashViz;
  const { add, setText } = DFlashViz;
  const WIDE = 680;
  const NARROW = 480;
  const ANNOUNCE_EVERY_MS = 2000;
  const EMPTY = "Ask something: every drafted block will appear here.";
  const WAITING = "Asked. The first block appears as soon as the engine has read the prompt.";
  const UNREADABLE = { message: "A line of this run could not be read.", action: "What could be read is shown." };

  class View {
    constructor(root) {
      this.root = root;
      this.reader = new DFlashViz.Reader();
      this.cards = new Map();
      this.frame = null;
      root.replaceChildren();
      this.head = new DFlashViz.Head(root, this.playbackActions());
      this.empty = add(root, "div", "dv-empty-state", EMPTY);
      this.deck = add(root, "div", "dv-deck");
      this.live = add(root, "div", "dv-hidden");
      this.live.setAttribute("aria-live", "polite");
      this.popover = new DFlashViz.Popover(root);
      this.onKey = (event) => this.key(event);
      document.addEventListener("keydown", this.onKey);
      this.watchTheme();
      this.watchWidth();
      this.clear();
    }

    // Escape leaves a selected step. "?" explains a figure wherever the focus is, but in a text field it
    // is a question mark.
    key(event) {
      if (event.key === "Escape") this.cards.forEach((card) => card.leaveSelection());
      if (event.key !== "?" || event.target.closest("input, textarea, [contenteditable]")) return;
      const inside = Array.from(this.cards.values()).find((card) => card.node.contains(event.target));
      const card = inside || this.cards.values().next().value;
      if (card) card.figures.explain();
    }

    playbackActions() {
      return {
        toggle: () => this.togglePlay(),
        restart: () => this.restart(),
        speed: (speed) => this.setSpeed(speed),
      };
    }

    // The chart's colours are values, not classes: it must be told when the theme changes.
    watchTheme() {
      this.observer = new MutationObserver(() => this.cards.forEach((card) => card.chart.recolour()));
      for (const node of [document.body, document.documentElement]) {
        this.observer.observe(node, { attributes: true, attributeFilter: ["class"] });
      }
    }

    // What fits beside each other depends on the column this stands in, not on the window.
    watchWidth() {
      const measure = () => {
        const width = this.root.clientWidth;
        this.root.dataset.width = width >= WIDE ? "wide" : width <= NARROW ? "narrow" : "medium";
      };
      this.sizes = new ResizeObserver(measure);
      this.sizes.observe(this.root);
      measure();
    }

    feed(value) {
      const { fresh, lines } = this.reader.read(value || "");
      if (fresh) this.reset();
      for (const line of lines) this.receive(line);
      if (this.player && DFlashViz.prefersReducedMotion() && !this.asked) this.player.finish().forEach((l) => this.apply(l));
      this.schedule();
    }

    reset() {
      this.player = null;
      this.asked = false; // whether the reader asked for motion
      this.laneName = undefined;
      this.clear();
    }

    clear() {
      this.failed = false;
      this.clearCards();
      this.run = null;
      this.engine = null;
      this.lastTick = null;
      this.problems = [];
      this.head.clear();
      this.schedule();
    }

    clearCards() {
      this.popover.hide();
      this.cards.forEach((card) => card.destroy());
      this.cards.clear();
    }

    receive(line) {
      if (line.type === "header") this.laneName = line.lane;
      if (["step", "figures", "end"].includes(line.type) && line.lane === undefined) line.lane = this.laneName;
      if (line.type === "run") this.startRun(line);
      else if (this.player && line.lane !== undefined) this.player.push(line);
      else this.apply(line);
    }

    startRun(run) {
      this.run = run;
      this.runDirty = true;
      if (run.play && !this.player) this.player = new DFlashViz.Player(run.speed || 1);
    }

    // Data only; the next frame draws.
    apply(line) {
      if (line.type === "engine") this.engine = line;
      else if (line.type === "problem") this.problems.push(line);
      else if (line.type === "unreadable") this.problems.push(UNREADABLE);
      else if (line.lane !== undefined) this.card(line.lane).take(line);
    }

    card(name) {
      if (!this.cards.has(name)) {
        const card = new DFlashViz.Card(this.deck, name, this.popover);
        card.setOrigin(this.run && this.run.origin);
        this.cards.set(name, card);
      }
      return this.cards.get(name);
    }

    schedule() {
      if (this.frame !== null) return;
      this.frame = requestAnimationFrame((now) => {
        this.frame = null;
        this.draw(now);
      });
    }

    // Everything that arrived since the last frame, in one go.
    draw(now) {
      this.tick(now);
      if (this.runDirty && this.run) this.head.drawRun(this.run);
      this.runDirty = false;
      if (this.engine) this.head.engine.draw(this.engine);
      if (this.problems.length) this.failed = true; // nothing is to be waited for any more
      this.problems.splice(0).forEach((line) => this.head.drawProblem(line));
      this.empty.hidden = this.cards.size > 0 || Boolean(this.failed);
      setText(this.empty, this.run ? WAITING : EMPTY);
      this.cards.forEach((card) => card.draw());
      this.announce(now);
    }

    tick(now) {
      if (!this.player) return;
      const seconds = this.lastTick === null ? 0 : (now - this.lastTick) / 1000;
      this.player.advance(seconds).forEach((line) => this.apply(line));
      this.lastTick = this.player.playing ? now : null;
      this.head.controls.draw(this.player);
      if (this.player.playing) this.schedule();
    }

    togglePlay() {
      if (!this.player) return;
      this.asked = true;
      if (this.player.finished) return this.restart();
      this.player.playing = !this.player.playing;
      this.lastTick = null;
      return this.schedule();
    }

    restart() {
      if (!this.player) return;
      this.asked = true;
      this.lastTick = null;
      this.player.rewind();
      this.clearCards();
      this.schedule();
    }

    setSpeed(speed) {
      if (this.player) this.player.speed = speed;
      this.schedule();
    }

    // Throttled: a screen reader could not keep up with every step.
    announce(now) {
      const card = this.cards.values().next().value;
      const step = card && card.lane.steps[card.lane.steps.length - 1];
      if (!step) return;
      clearTimeout(this.announceTimer);
      const wait = Math.max(0, (this.lastAnnounced || -Infinity) + ANNOUNCE_EVERY_MS - now);
      this.announceTimer = setTimeout(() => {
        this.lastAnnounced = performance.now();
        setText(this.live, DFlashViz.announcement(step));
      }, wait);
    }

    destroy() {
      cancelAnimationFrame(this.frame);
      document.removeEventListener("keydown", this.onKey);
      clearTimeout(this.announceTimer);
      this.observer.disconnect();
      this.sizes.disconnect();
      this.clearCards();
      this.popover.destroy();
      this.root.replaceChildren();
      views.delete(this.root);
    }
  }

  const views = new Map();

  DFlashViz.mount = function (root) {
    if (views.has(root)) views.get(root).destroy();
    const view = new View(root);
    views.set(root, view);
    return view;
  };
})();
