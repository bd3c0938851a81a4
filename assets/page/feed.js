// From the growing string to lines, and the clock that plays a recorded document.
(function () {
  "use strict";
  const DFlashViz = window.DFlashViz;

  function parseLine(text, fail) {
    try {
      return JSON.parse(text);
    } catch (error) {
      return fail;
    }
  }

  // Values may be skipped but only ever grow at their end; any other value is a new document.
  class Reader {
    constructor() {
      this.consumed = "";
    }

    read(value) {
      const fresh = !value.startsWith(this.consumed) || value === "";
      if (fresh) this.consumed = "";
      const lines = this.take(value);
      return { fresh, lines };
    }

    take(value) {
      const parts = value.slice(this.consumed.length).split("\n");
      const rest = parts.pop();
      const lines = parts.filter((part) => part.trim()).map((part) => parseLine(part, { type: "unreadable" }));
      // A rest that parses is a whole line whose newline has not come yet: half an object never parses.
      const last = rest.trim() ? parseLine(rest, null) : null;
      if (last) lines.push(last);
      this.consumed = last ? value : value.slice(0, value.length - rest.length);
      return lines.filter((line) => line && typeof line === "object");
    }
  }

  const MAX_TICK = 0.25; // seconds: a tab that was hidden goes on where it was left

  // Plays the lines by each lane's own clock: a line is due when the last step before it has ended.
  class Player {
    constructor(speed) {
      this.items = [];
      this.next = 0;
      this.clock = 0;
      this.speed = speed;
      this.playing = true;
      this.laneClocks = new Map();
      this.announced = new Set(); // lanes whose figures have been laid out
    }

    push(line) {
      if (this.finished) this.playing = true; // it only stopped for want of lines
      if (line.type === "step") this.laneClocks.set(line.lane, line.end || 0);
      const due = line.lane === undefined ? 0 : this.laneClocks.get(line.lane) || 0;
      if (line.type === "figures" && !this.announced.has(line.lane)) this.announceFigures(line);
      this.insert(due, line);
    }

    // The figures have their places from the start, so that nothing moves when their values come.
    announceFigures(line) {
      this.announced.add(line.lane);
      const figures = (line.figures || []).map((figure) => Object.assign({}, figure, { value: null }));
      this.insert(0, Object.assign({}, line, { figures }));
    }

    insert(due, line) {
      let at = this.items.length;
      while (at > this.next && this.items[at - 1].due > due) at -= 1;
      this.items.splice(at, 0, { due, line });
    }

    get length() {
      return this.items.length ? this.items[this.items.length - 1].due : 0;
    }

    get finished() {
      return this.next >= this.items.length;
    }

    // Lines that have come due after `seconds` of real time.
    advance(seconds) {
      if (this.playing) this.clock += Math.min(seconds, MAX_TICK) * this.speed;
      return this.due();
    }

    due() {
      const lines = [];
      while (!this.finished && this.items[this.next].due <= this.clock) lines.push(this.items[this.next++].line);
      if (this.finished) {
        this.clock = Math.min(this.clock, this.length);
        this.playing = false;
      }
      return lines;
    }

    finish() {
      this.clock = Infinity;
      return this.due();
    }

    rewind() {
      this.next = 0;
      this.clock = 0;
      this.playing = true;
    }
  }

  Object.assign(DFlashViz, { Reader, Player });
})();
