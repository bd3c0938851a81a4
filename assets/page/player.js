// The clock by which the steps of all lanes are shown.
(function () {
  "use strict";
  const DFlashViz = window.DFlashViz;
  const { countWhile } = DFlashViz;
  const MAX_TICK = 0.25; // seconds: a tab that was hidden goes on where it was left
  const TOKENS_PER_SECOND = 20; // at speed 1, when the lanes are held at the same token

  // `mode` says what the lanes have in common while they are shown again: "time", each on its own clock
  // from zero, or "token", each at the same token of its answer. What is shown follows from the clock alone.
  class Player {
    constructor(lanes) {
      this.lanes = lanes; // by name
      this.mode = "time";
      this.speed = 1;
      this.clock = 0;
      this.playing = false;
      this.follows = true; // steps are shown as they come, until the first replay
    }

    lengthIn(mode) {
      return Math.max(0, ...Array.from(this.lanes.values(), (lane) => lane.length(mode)));
    }

    get length() {
      return this.lengthIn(this.mode);
    }

    get finished() {
      return this.follows || this.clock >= this.length;
    }

    // `seconds` of real time have passed.
    advance(seconds) {
      const rate = this.mode === "token" ? TOKENS_PER_SECOND : 1;
      if (this.playing) this.clock += Math.min(seconds, MAX_TICK) * rate * this.speed;
      if (this.finished && !this.follows) this.finish();
    }

    finish() {
      this.clock = this.length;
      this.playing = false;
    }

    // How many steps of a lane are shown.
    shownOf(lane) {
      return this.follows ? lane.steps.length : this.stepsUntil(lane, this.clock);
    }

    stepsUntil(lane, clock) {
      return countWhile(lane.steps.length, (at) => lane.due(at, this.mode) <= clock);
    }

    rewind() {
      this.follows = false;
      this.clock = 0;
      this.playing = true;
    }

    // Halts where the step at index `at` of a lane has just come; -1 is before the first.
    seek(lane, at) {
      this.follows = false;
      this.playing = false;
      this.clock = at < 0 ? 0 : lane.due(at, this.mode);
    }

    // The step before: steps that bring no token are due together by token, and go together.
    before(lane, at) {
      const due = lane.due(at, this.mode);
      return countWhile(lane.steps.length, (one) => lane.due(one, this.mode) < due) - 1;
    }

    // Another clock, at the same step of a lane.
    setMode(mode, lane) {
      const { finished } = this;
      this.mode = mode;
      if (finished) this.clock = this.length;
      else this.clock = lane.shown ? lane.due(lane.shown - 1, mode) : 0;
    }
  }

  DFlashViz.Player = Player;
})();
