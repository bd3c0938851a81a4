// The live page: DFlashViz.mount(root) draws what view.feed(lines) brings.
//
// Plain scripts that share the DFlashViz namespace. Load them in this order, this file last:
//   page/core.js
//   page/tokens.js
//   page/steps.js
//   page/lane.js
//   page/feed.js
//   page/player.js
//   page/address.js
//   page/popover.js
//   page/step_facts.js
//   page/step_draft.js
//   page/step_table.js
//   page/step_lists.js
//   page/inspector.js
//   page/head.js
//   page/scrubber.js
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
  const { add, isKind, setText } = DFlashViz;
  const WIDE = 900; // two cards side by side
  const NARROW = 480; // cards to swipe through
  const BROAD_CARD = 680; // steps and answer side by side
  const NARROW_CARD = 400;
  const ROOMY_TABLE = 560; // signs beside the lanes' titles, not above them
  const ANNOUNCE_EVERY_MS = 2000;
  const SAY_AFTER_MS = 100; // for a screen reader to notice that the words before are gone
  const EMPTY = "Ask something: every drafted block will appear here.";
  const WAITING = "Asked. The first block appears as soon as the engine has read the prompt.";
  const UNREADABLE = { message: "A line of this run could not be read.", action: "What could be read is shown." };

  // Widgets in which a key has a meaning of its own.
  const TYPING = "input:not([type=range]), textarea, select, [contenteditable]";
  const PRESSED = "button, a, summary, [role=button]"; // by the space bar
  const SCROLLED = ".dv-answer"; // by Home, End and the space bar

  class View {
    constructor(root) {
      this.root = root;
      root.tabIndex = -1; // a click anywhere brings the keys here
      this.reader = new DFlashViz.Reader();
      this.frame = null;
      root.replaceChildren();
      this.head = new DFlashViz.Head(root);
      this.empty = add(root, "div", "dv-empty-state", EMPTY);
      this.popover = new DFlashViz.Popover(root);
      this.board = add(root, "div", "dv-board"); // race and table, side by side where there is room
      const left = add(this.board, "div", "dv-board-part");
      this.race = new DFlashViz.Race(left);
      this.scrubber = new DFlashViz.Scrubber(left, this.popover, this.playbackActions());
      this.table = new DFlashViz.Table(this.board, this.popover);
      this.deck = new DFlashViz.Deck(root, this.deckActions());
      this.inspector = new DFlashViz.Inspector(root, this.popover, this.inspectorActions());
      this.address = new DFlashViz.Address(root);
      this.charts = new DFlashViz.Charts(root, this.popover);
      this.live = add(root, "div", "dv-hidden");
      this.live.setAttribute("aria-live", "polite");
      this.onKey = (event) => this.key(event);
      document.addEventListener("keydown", this.onKey);
      this.onStageKey = (event) => this.stageKey(event);
      root.addEventListener("keydown", this.onStageKey);
      this.watchTheme();
      this.watchWidth();
      this.reset();
    }

    // Escape leaves a selected step. "?" explains what has the focus, else the first figure; in a text
    // field it is a question mark.
    key(event) {
      if (this.root.offsetParent === null) return; // in a tab that is not shown
      if (event.key === "Escape" && !event.defaultPrevented) this.deck.leaveSelections();
      if (event.key !== "?" || event.target.closest("input, textarea, [contenteditable]")) return;
      const focused = document.activeElement;
      const node = this.popover.explains(focused) ? focused : this.table.firstFigure;
      if (!node || this.board.hidden) return;
      node.focus();
      this.popover.toggle(node);
    }

    // While the focus is inside: the steps of the active lane by keyboard.
    stageKey(event) {
      const { target, key } = event;
      if (event.defaultPrevented || event.altKey || event.ctrlKey || event.metaKey || target.closest(TYPING)) return;
      if (key === " " && (!this.replayable || target.closest(PRESSED))) return;
      if (["Home", "End", " "].includes(key) && target.closest(SCROLLED)) return;
      if (["ArrowLeft", "ArrowRight"].includes(key) && target.closest("[type=range]")) return;
      const action = this.stageKeys()[key];
      if (!action) return;
      if (this.inspected && this.inspector.node.contains(target)) this.active = this.inspected.lane.name;
      if (!this.activeLane || !this.activeLane.steps.length) return;
      event.preventDefault();
      action();
    }

    stageKeys() {
      return {
        ArrowLeft: () => this.step(-1), ArrowRight: () => this.step(1), Home: () => this.goTo(0), End: () => this.goToEnd(),
        r: () => this.jump("rejection", 1), R: () => this.jump("rejection", -1),
        f: () => this.jump("full", 1), F: () => this.jump("full", -1), " ": () => this.togglePlay(),
      };
    }

    playbackActions() {
      return {
        toggle: () => this.togglePlay(),
        restart: () => this.restart(),
        speed: (speed) => this.setSpeed(speed),
        mode: (mode) => this.setMode(mode),
        seek: (at) => this.seek(at),
        step: (delta) => this.step(delta),
        first: () => this.goTo(0),
        last: () => this.goToEnd(),
        jump: (kind, direction) => this.jump(kind, direction),
        address: () => this.address.of(this.place()),
      };
    }

    deckActions() {
      return {
        again: () => this.schedule(),
        touch: (name) => this.touch(name),
        inspect: (lane, at, position) => this.inspect(lane, at, position),
        selected: () => this.readerMoves(),
      };
    }

    // They are about the lane that is looked into, whatever was touched since.
    inspectorActions() {
      const there = (act) => {
        this.active = this.inspected.lane.name;
        act();
      };
      return {
        step: (delta) => there(() => this.step(delta)),
        jump: (kind, direction) => there(() => this.jump(kind, direction)),
        select: (position) => this.inspect(this.inspected.lane, this.inspected.at, position),
        close: () => this.closeInspector(),
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
      if (below) this.inspector.node.after(this.table.node);
      else this.board.append(this.table.node);
    }

    feed(value) {
      const { fresh, lines } = this.reader.read(value || "");
      if (fresh) this.reset();
      const starved = !this.player.follows && this.player.finished;
      for (const line of lines) this.receive(line);
      if (starved && !this.player.finished) this.player.playing = true; // it only stopped for want of steps
      if (this.player.playing && DFlashViz.prefersReducedMotion() && !this.asked) this.player.finish();
      this.openAddress();
      this.schedule();
    }

    reset() {
      const focused = this.root.contains(document.activeElement);
      this.lanes = new Map();
      this.player = new DFlashViz.Player(this.lanes);
      this.active = null; // name of the lane that was touched last
      this.inspected = null; // { lane, at, position }
      this.notice = null; // { lane, at, whole, short }: of a jump that led nowhere
      this.run = null;
      this.definitions = null;
      this.keys = []; // of figures without a definition
      this.replayable = false;
      this.asked = false; // whether the reader asked for motion
      this.laneName = undefined;
      this.latest = null; // the lane that stepped last
      this.announced = null;
      this.failed = false;
      this.lastTick = null;
      this.problems = [];
      this.popover.hide();
      this.address.leave();
      this.head.clear();
      this.deck.clear();
      this.inspector.hide(); // after the cards: it gives the focus to what is left
      if (focused && !this.root.contains(document.activeElement)) this.root.focus({ preventScroll: true });
      this.charts.clear();
      this.layoutDirty = true;
      this.schedule();
    }

    receive(line) {
      if (line.type === "header") this.laneName = line.lane;
      if (["step", "steps", "figures", "end"].includes(line.type) && line.lane === undefined) line.lane = this.laneName;
      if (line.lane !== undefined) this.tell(line);
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
      if (run.origin === "live") this.address.forget(); // who asks has come for another run
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
    tell(line) {
      this.addLane({ name: line.lane }); // documents need not announce their lanes
      this.lanes.get(line.lane).take(line);
      if (line.type === "figures" && !this.definitions) this.learnKeys(Object.keys(line.values || {}));
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
      this.showLanes();
      if (this.layoutDirty) this.layOut(lanes);
      if (this.runDirty && this.run) this.head.drawRun(this.run);
      this.runDirty = false;
      if (this.problems.length) this.failed = true; // nothing is to be waited for any more
      this.problems.splice(0).forEach((line) => this.head.drawProblem(line));
      this.empty.hidden = lanes.length > 0 || this.failed;
      setText(this.empty, this.run ? WAITING : EMPTY);
      this.race.draw(lanes, this.player, this.run);
      const notice = this.noticeOf(this.activeLane);
      const hasSteps = lanes.some((lane) => !lane.countsOnly);
      this.scrubber.draw(this.player, this.activeLane, this.replayable && hasSteps, Boolean(this.runId), notice && notice.whole);
      this.table.draw(lanes);
      this.deck.mark(this.replayable && this.activeLane ? this.activeLane.name : null);
      this.deck.draw(now);
      this.drawInspector();
      this.charts.draw(lanes);
      this.announce(now);
      if (this.runId) this.address.write(this.asked ? this.place() : { run: this.runId });
    }

    // How far each lane is shown follows from the clock.
    showLanes() {
      for (const lane of this.lanes.values()) {
        const before = lane.shown;
        lane.show(this.player.shownOf(lane), this.player.finished);
        if (lane.shown !== before) this.latest = lane;
      }
      const { activeLane, player } = this;
      if (activeLane && !player.playing && !player.follows) this.latest = activeLane;
    }

    // It stays at the step that it was opened for while that is selected, else it goes along.
    drawInspector() {
      if (!this.inspected) return this.deck.markCell(null);
      const { lane } = this.inspected;
      const at = this.deck.cards.get(lane.name).at;
      if (at !== this.inspected.at) this.inspected = { lane, at, position: null };
      const notice = this.noticeOf(lane);
      this.inspector.show(lane, at, this.inspected.position, notice && notice.short);
      return this.deck.markCell(this.inspected);
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
      player.advance(seconds);
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

    restart() {
      this.readerMoves();
      this.lastTick = null;
      this.player.rewind();
      this.popover.hide();
      this.deck.leaveSelections();
      this.schedule();
    }

    // From now on the address says where the reader is, and no longer where the page was opened.
    readerMoves() {
      this.asked = true;
      this.address.forget();
    }

    get runId() {
      return this.run && this.run.id;
    }

    // The lane that was touched last, at first the document's first.
    get activeLane() {
      const lanes = Array.from(this.lanes.values());
      return this.lanes.get(this.active) || lanes.find((lane) => !lane.countsOnly) || lanes[0];
    }

    touch(name) {
      if (this.active === name) return;
      this.active = name;
      this.schedule();
    }

    // The step of the active lane that is looked at.
    get at() {
      return this.deck.cards.get(this.activeLane.name).at;
    }

    // Shows the step at index `at` of the active lane. A run that is still on the way has no clock to be set: there
    // the step is selected.
    goTo(at) {
      const lane = this.activeLane;
      const to = Math.max(0, Math.min(lane.steps.length - 1, at));
      if (!lane.steps.length) return;
      if (this.replayable) this.seek(to);
      else this.deck.cards.get(lane.name).history.select(to);
    }

    // The clock goes where the active lane's step `at` has just come; -1 is before the first.
    seek(at) {
      this.readerMoves();
      this.player.seek(this.activeLane, at);
      this.showLanes(); // the next key may come before the next frame
      this.deck.leaveSelections();
      this.charts.hurry();
      this.schedule();
    }

    step(delta) {
      const { activeLane, at } = this;
      const back = delta < 0 && this.replayable && at >= 0;
      this.goTo(back ? this.player.before(activeLane, at) : at + delta);
    }

    goToEnd() {
      if (this.replayable) this.goTo(Infinity);
      else this.deck.leaveSelections();
    }

    // To the next step of a kind, or the one before; says so when there is none.
    jump(kind, direction) {
      const { steps } = this.activeLane;
      let at = this.at + direction;
      while (at >= 0 && at < steps.length && !isKind(steps[at], kind)) at += direction;
      if (steps[at]) return this.goTo(at);
      const words = kind === "full" ? "full block" : "rejection";
      const whole = "There is no " + words + (direction > 0 ? " after" : " before") + " this step.";
      const short = "No " + (direction > 0 ? "later " : "earlier ") + words;
      this.notice = { lane: this.activeLane, at: this.at, whole, short };
      this.say(whole);
      return this.schedule();
    }

    // What is said of the step that a lane is at; it goes with the step.
    noticeOf(lane) {
      const { notice } = this;
      return notice && notice.lane === lane && notice.at === this.deck.cards.get(lane.name).at ? notice : null;
    }

    // The same words are only read again when they come anew.
    say(words) {
      clearTimeout(this.announceTimer);
      clearTimeout(this.sayTimer);
      setText(this.live, "");
      this.sayTimer = setTimeout(() => setText(this.live, words), SAY_AFTER_MS);
    }

    // Opens the inspector: the step stays selected and a replay halts.
    inspect(lane, at, position) {
      this.readerMoves();
      this.active = lane.name;
      this.player.playing = false;
      if (!this.inspected) this.say(lane.style.title + ", step inspector: " + DFlashViz.breakSentence(lane, at));
      this.inspected = { lane, at, position };
      const card = this.deck.cards.get(lane.name);
      if (card.at !== at || !this.replayable) card.history.select(at);
      this.schedule();
    }

    closeInspector() {
      this.inspected = null;
      this.inspector.hide();
      this.schedule();
    }

    // Where the reader is, for the address.
    place() {
      const lane = this.activeLane;
      const looked = this.inspected;
      if (!lane || this.at < 0) return { run: this.runId };
      const position = looked && looked.lane === lane && looked.at === this.at ? DFlashViz.positionOf(looked) : null;
      return { run: this.runId, lane: lane.name, step: this.at, position };
    }

    // Goes where the page's address points, once its run is there.
    openAddress() {
      if (!this.runId || !this.replayable) return;
      const opened = this.address.take(this.runId);
      const lane = opened && this.lanes.get(opened.lane);
      if (!lane || !lane.steps.length || opened.step === null) return;
      this.active = lane.name;
      this.goTo(opened.step);
      if (opened.position !== null) this.inspect(lane, Math.min(opened.step, lane.steps.length - 1), opened.position);
    }

    setSpeed(speed) {
      this.player.speed = speed;
      this.schedule();
    }

    // The two ways share no clock: the active lane stays where it is, and the others come to it.
    setMode(mode) {
      if (this.activeLane) this.player.setMode(mode, this.activeLane);
      this.schedule();
    }

    // Throttled: a screen reader could not keep up with every step.
    announce(now) {
      const lane = this.latest;
      const step = lane && lane.last;
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
      this.root.removeEventListener("keydown", this.onStageKey);
      this.address.destroy();
      clearTimeout(this.announceTimer);
      clearTimeout(this.sayTimer);
      this.observer.disconnect();
      this.sizes.disconnect();
      this.deck.clear();
      this.charts.destroy();
      this.inspector.destroy();
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
