// The live page: DFlashViz.mount(root) draws what view.feed(lines) brings.
//
// Plain scripts that share the DFlashViz namespace. Load them in this order, this file last:
//   page/core.js
//   page/tokens.js
//   page/lane.js
//   page/feed.js
//   page/player.js
//   page/popover.js
//   page/step_facts.js
//   page/step_draft.js
//   page/step_table.js
//   page/step_lists.js
//   page/inspector.js
//   page/head.js
//   page/race.js
//   page/table.js
//   page/block.js
//   page/history.js
//   page/answer.js
//   page/card.js
//   page/deck.js
//   page/chart.js
//   page/kinds.js
//   page/charts.js
//   page.js
(function () {
  "use strict";
  const DFlashViz = window.DFlashViz;
  const { add, setText } = DFlashViz;
  const WIDE = 900; // two cards side by side
  const NARROW = 480; // cards to swipe through
  const BROAD_CARD = 680; // steps and answer side by side
  const NARROW_CARD = 400;
  const ROOMY_TABLE = 560; // signs beside the lanes' titles, not above them
  const ANNOUNCE_EVERY_MS = 2000;
  const EMPTY = "Ask something: every drafted block will appear here.";
  const WAITING = "Asked. The first block appears as soon as the engine has read the prompt.";
  const UNREADABLE = { message: "A line of this run could not be read.", action: "What could be read is shown." };

  class View {
    constructor(root) {
      this.root = root;
      this.reader = new DFlashViz.Reader();
      this.frame = null;
      root.replaceChildren();
      this.head = new DFlashViz.Head(root);
      this.empty = add(root, "div", "dv-empty-state", EMPTY);
      this.popover = new DFlashViz.Popover(root);
      this.board = add(root, "div", "dv-board"); // race and table, side by side where there is room
      this.race = new DFlashViz.Race(this.board, this.playbackActions());
      this.table = new DFlashViz.Table(this.board, this.popover);
      this.deck = new DFlashViz.Deck(root, () => this.schedule());
      this.charts = new DFlashViz.Charts(root, this.popover);
      this.live = add(root, "div", "dv-hidden");
      this.live.setAttribute("aria-live", "polite");
      this.onKey = (event) => this.key(event);
      document.addEventListener("keydown", this.onKey);
      this.watchTheme();
      this.watchWidth();
      this.reset();
    }

    // Escape leaves a selected step. "?" explains what has the focus, else the first figure; in a text
    // field it is a question mark.
    key(event) {
      if (event.key === "Escape") this.deck.cards.forEach((card) => card.leaveSelection());
      if (event.key !== "?" || event.target.closest("input, textarea, [contenteditable]")) return;
      const focused = document.activeElement;
      const node = this.popover.explains(focused) ? focused : this.table.firstFigure;
      if (!node || this.board.hidden) return;
      node.focus();
      this.popover.toggle(node);
    }

    playbackActions() {
      return {
        toggle: () => this.togglePlay(),
        restart: () => this.restart(),
        speed: (speed) => this.setSpeed(speed),
        mode: (mode) => this.setMode(mode),
      };
    }

    // The charts' colours are values, not classes: they must be told when the theme changes.
    watchTheme() {
      this.observer = new MutationObserver(() => this.charts.recolour());
      for (const node of [document.body, document.documentElement]) {
        this.observer.observe(node, { attributes: true, attributeFilter: ["class"] });
      }
    }

    watchWidth() {
      this.sizes = new ResizeObserver(() => this.measure());
      this.sizes.observe(this.root);
    }

    // What fits beside each other depends on the column this stands in, not on the window.
    measure() {
      const width = this.root.clientWidth;
      const many = this.lanes.size > 1;
      const card = width >= WIDE && many ? width / 2 : width;
      const table = width >= WIDE ? width / 2 : width;
      this.root.dataset.width = width >= WIDE ? "wide" : width <= NARROW ? "narrow" : "medium";
      this.root.dataset.lanes = many ? "many" : "one";
      this.root.dataset.card = card >= BROAD_CARD ? "broad" : card < NARROW_CARD ? "narrow" : "medium";
      this.root.dataset.table = table >= ROOMY_TABLE ? "roomy" : "tight";
      this.placeTable(width < WIDE);
    }

    // Without room beside the race the table comes after the cards: it would push the blocks out of sight.
    placeTable(below) {
      if (below === (this.table.node.parentNode !== this.board)) return;
      if (below) this.deck.node.after(this.table.node);
      else this.board.append(this.table.node);
    }

    feed(value) {
      const { fresh, lines } = this.reader.read(value || "");
      if (fresh) this.reset();
      for (const line of lines) this.receive(line);
      if (this.player.playing && DFlashViz.prefersReducedMotion() && !this.asked) this.apply(this.player.finish());
      this.schedule();
    }

    reset() {
      this.player = new DFlashViz.Player();
      this.lanes = new Map();
      this.run = null;
      this.definitions = null;
      this.keys = []; // of figures without a definition
      this.replayable = false;
      this.asked = false; // whether the reader asked for motion
      this.laneName = undefined;
      this.latest = null; // the lane that stepped last
      this.failed = false;
      this.lastTick = null;
      this.problems = [];
      this.popover.hide();
      this.head.clear();
      this.deck.clear();
      this.charts.clear();
      this.layoutDirty = true;
      this.schedule();
    }

    receive(line) {
      if (line.type === "header") this.laneName = line.lane;
      if (["step", "figures", "end"].includes(line.type) && line.lane === undefined) line.lane = this.laneName;
      if (line.lane !== undefined) this.apply(this.player.push(line));
      else if (line.type === "run") this.startRun(line);
      else if (line.type === "definitions") this.define(line);
      else if (line.type === "lanes") (line.lanes || []).forEach((lane) => this.addLane(lane));
      else if (line.type === "finish") this.replayable = true;
      else if (line.type === "problem") this.problems.push(line);
      else if (line.type === "unreadable") this.problems.push(UNREADABLE);
    }

    startRun(run) {
      this.run = run;
      this.runDirty = true;
      this.player.speed = run.speed || 1;
      this.replayable = Boolean(run.play) || run.origin === "recorded";
      if (run.play) this.player.rewind();
    }

    define(line) {
      this.definitions = line;
      this.layoutDirty = true;
    }

    addLane(told) {
      if (this.lanes.has(told.name)) return;
      const lane = new DFlashViz.Lane(DFlashViz.laneStyle(told, this.lanes.size));
      this.lanes.set(told.name, lane);
      this.deck.add(lane, this.run && this.run.origin);
      this.layoutDirty = true;
    }

    // Data only; the next frame draws.
    apply(lines) {
      for (const line of lines) {
        this.addLane({ name: line.lane }); // documents need not announce their lanes
        const lane = this.lanes.get(line.lane);
        lane.take(line);
        if (line.type === "step") this.latest = lane;
        if (line.type === "figures" && !this.definitions) this.learnKeys(Object.keys(line.values || {}));
      }
    }

    learnKeys(keys) {
      const added = keys.filter((key) => !this.keys.includes(key));
      if (!added.length) return;
      this.keys.push(...added);
      this.layoutDirty = true;
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
      const lanes = Array.from(this.lanes.values());
      if (this.layoutDirty) this.layOut(lanes);
      if (this.runDirty && this.run) this.head.drawRun(this.run);
      this.runDirty = false;
      if (this.problems.length) this.failed = true; // nothing is to be waited for any more
      this.problems.splice(0).forEach((line) => this.head.drawProblem(line));
      this.empty.hidden = lanes.length > 0 || this.failed;
      setText(this.empty, this.run ? WAITING : EMPTY);
      this.race.draw(lanes, this.player, this.run, this.replayable);
      this.table.draw(lanes);
      this.deck.draw(now);
      this.charts.draw(lanes);
      this.announce(now);
    }

    // The places of lanes, figures and charts: once per document, before there are values.
    layOut(lanes) {
      this.layoutDirty = false;
      const told = this.definitions || {};
      for (const node of [this.board, this.table.node, this.deck.node, this.charts.node]) node.hidden = !lanes.length;
      this.measure();
      this.race.layOut(lanes);
      this.table.layOut(told.figures || this.keys.map((key) => ({ key })), lanes);
      this.deck.layOut(lanes);
      if (lanes.length) this.charts.layOut(told.charts);
    }

    tick(now) {
      const { player } = this;
      if (player.follows) return;
      const seconds = this.lastTick === null ? 0 : (now - this.lastTick) / 1000;
      this.apply(player.advance(seconds));
      this.lastTick = player.playing ? now : null;
      if (player.playing) this.schedule();
    }

    togglePlay() {
      this.asked = true;
      if (this.player.finished) return this.restart();
      this.player.playing = !this.player.playing;
      this.lastTick = null;
      return this.schedule();
    }

    // The same lanes in the same places, with nothing in them yet.
    restart() {
      this.asked = true;
      this.lastTick = null;
      this.player.rewind();
      this.popover.hide();
      this.lanes.forEach((lane, name) => this.lanes.set(name, new DFlashViz.Lane(lane.style)));
      this.deck.replace(this.lanes, this.run && this.run.origin);
      this.schedule();
    }

    setSpeed(speed) {
      this.player.speed = speed;
      this.schedule();
    }

    // A replay under way starts over: the two ways share no clock.
    setMode(mode) {
      const underWay = !this.player.finished;
      this.player.mode = mode;
      if (underWay) return this.restart();
      return this.schedule();
    }

    // Throttled: a screen reader could not keep up with every step.
    announce(now) {
      const lane = this.latest;
      const step = lane && lane.steps[lane.steps.length - 1];
      if (!step || this.announced === step) return;
      this.announced = step;
      clearTimeout(this.announceTimer);
      const wait = Math.max(0, (this.lastAnnounced || -Infinity) + ANNOUNCE_EVERY_MS - now);
      this.announceTimer = setTimeout(() => {
        this.lastAnnounced = performance.now();
        setText(this.live, lane.style.title + ", " + DFlashViz.announcement(step));
      }, wait);
    }

    destroy() {
      cancelAnimationFrame(this.frame);
      document.removeEventListener("keydown", this.onKey);
      clearTimeout(this.announceTimer);
      this.observer.disconnect();
      this.sizes.disconnect();
      this.deck.clear();
      this.charts.clear();
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
