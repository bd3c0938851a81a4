// All lines of the lanes, and the clock by which they are shown again.
(function () {
  "use strict";
  const DFlashViz = window.DFlashViz;
  const MAX_TICK = 0.25; // seconds: a tab that was hidden goes on where it was left
  const TOKENS_PER_SECOND = 20; // at speed 1, when the lanes are held at the same token
  const AT_THE_END = { time: Infinity, token: Infinity };
  const SERIES = ["al", "race", "histogram", "positions", "split"];

  // What compares lanes is known when all have ended, so a replay shows it then and not before.
  function isComparison(line, ended) {
    return line.type === "text" || (line.type === "figures" && ended && !SERIES.some((key) => key in line));
  }

  // Lines that are due together keep the document's order; two infinities have no difference.
  function inOrder(a, b) {
    return a === b ? 0 : a - b;
  }

  // `mode` says what the lanes have in common while they are shown again: "time", each on its own clock
  // from zero, or "token", each at the same token of its answer. A line is due with the step before it.
  class Player {
    constructor() {
      this.items = []; // in the order of the document
      this.queue = []; // in the order in which the replay shows them
      this.next = 0;
      this.lanes = new Map();
      this.lengths = { time: 0, token: 0 };
      this.mode = "time";
      this.speed = 1;
      this.clock = 0;
      this.playing = false;
      this.follows = true; // lines are shown as they come, until the first replay
    }

    // The lines to be shown at once.
    push(line) {
      const item = { line, due: this.due(line) };
      this.items.push(item);
      if (this.follows) return [line];
      if (this.finished) this.playing = true; // it only stopped for want of lines
      this.insert(item);
      return [];
    }

    due(line) {
      const lane = this.laneOf(line.lane);
      if (line.type === "step") this.advanceLane(lane, line);
      if (line.type === "end") lane.ended = true;
      return isComparison(line, lane.ended) ? AT_THE_END : { time: lane.time, token: lane.token };
    }

    laneOf(name) {
      if (!this.lanes.has(name)) this.lanes.set(name, { start: null, time: 0, token: 0, ended: false });
      return this.lanes.get(name);
    }

    advanceLane(lane, step) {
      if (lane.start === null) lane.start = step.start || 0;
      lane.time = (step.end || 0) - lane.start;
      lane.token += (step.emitted || []).length;
      this.lengths.time = Math.max(this.lengths.time, lane.time);
      this.lengths.token = Math.max(this.lengths.token, lane.token);
    }

    insert(item) {
      let at = this.queue.length;
      while (at > this.next && this.queue[at - 1].due[this.mode] > item.due[this.mode]) at -= 1;
      this.queue.splice(at, 0, item);
    }

    get length() {
      return this.lengths[this.mode];
    }

    get finished() {
      return this.follows || this.next >= this.queue.length;
    }

    // Lines that have come due after `seconds` of real time.
    advance(seconds) {
      const rate = this.mode === "token" ? TOKENS_PER_SECOND : 1;
      if (this.playing) this.clock += Math.min(seconds, MAX_TICK) * rate * this.speed;
      return this.take();
    }

    take() {
      const lines = [];
      while (!this.finished && this.isDue(this.queue[this.next])) lines.push(this.queue[this.next++].line);
      if (this.finished) {
        this.clock = this.length;
        this.playing = false;
      }
      return lines;
    }

    isDue(item) {
      return Math.min(item.due[this.mode], this.length) <= this.clock;
    }

    finish() {
      this.clock = Infinity;
      return this.take();
    }

    rewind() {
      this.follows = false;
      this.queue = this.items.slice().sort((a, b) => inOrder(a.due[this.mode], b.due[this.mode]));
      this.next = 0;
      this.clock = 0;
      this.playing = true;
    }
  }

  DFlashViz.Player = Player;
})();
