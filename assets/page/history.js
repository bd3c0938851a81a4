// All steps as small rows: a listbox that only keeps the rows in view in the page.
(function () {
  "use strict";
  const DFlashViz = window.DFlashViz;
  const { MARKS, add, el, setText, setAttribute, announcement, markRuns, milliseconds, uniqueId } = DFlashViz;
  const FINE_ROW = 28;
  const TOUCH_ROW = 44;
  const OVERSCAN = 4;
  const HIGHEST = 15e6; // pixels: browsers cut higher elements off, each at a height of its own

  function rowHeight() {
    return window.matchMedia("(pointer: coarse)").matches ? TOUCH_ROW : FINE_ROW;
  }

  function markNode(run) {
    const [kind, count] = run;
    return el("span", "dv-row-mark dv-row-" + kind, MARKS[kind].sign.repeat(count));
  }

  function label(step) {
    const last = step.last ? ", then " + MARKS[step.last].word : step.drafted.length ? ", cut by a stop condition or the token limit" : "";
    return announcement(step) + last;
  }

  class History {
    // `laneId` is the id of the heading that names the lane. `onSelect(index or null)` is told which step
    // the reader wants to see; null is the latest.
    constructor(parent, laneId, onSelect) {
      this.onSelect = onSelect;
      this.id = uniqueId();
      this.rowHeight = rowHeight();
      this.rows = new Map();
      this.count = 0;
      this.range = [0, 0]; // of the rows in view
      this.selected = null;
      this.build(parent, laneId);
      this.listen();
      this.showFollow();
    }

    build(parent, laneId) {
      const bar = add(parent, "div", "dv-bar");
      const title = add(bar, "div", "dv-heading", "Steps");
      title.id = this.id + "-title";
      this.follow = DFlashViz.button(bar, "dv-follow", "Back to live", () => this.backToLive());
      this.box = add(parent, "div", "dv-history");
      this.box.tabIndex = 0;
      this.box.setAttribute("aria-labelledby", laneId + " " + title.id);
      this.box.setAttribute("role", "group");
      this.space = add(this.box, "div", "dv-history-space");
      this.space.setAttribute("role", "presentation");
      this.empty = add(this.space, "div", "dv-dim", "No steps yet.");
    }

    listen() {
      this.follower = new DFlashViz.Follower(this.box, () => this.scrolled());
      this.box.addEventListener("click", (event) => this.clicked(event));
      this.box.addEventListener("keydown", (event) => this.key(event));
    }

    setFollowText(text) {
      setText(this.follow, text);
    }

    // Makes room for the steps shown; the rows come when it is known which are in view.
    resize(lane) {
      this.lane = lane;
      this.count = lane.shown;
      if (this.selected !== null && this.selected >= this.count) this.backToLive();
      this.empty.hidden = this.count > 0;
      setAttribute(this.box, "role", this.count ? "listbox" : "group");
      this.space.style.height = this.height + "px";
    }

    get height() {
      return Math.min(HIGHEST, this.count * this.rowHeight);
    }

    // Where the rows in sight begin, in pixels of a list of any length. One that is too high for the browser
    // is drawn at a window that slides over it as fast as it must.
    get top() {
      return this.box.scrollTop * this.stretch;
    }

    get stretch() {
      const client = this.box.clientHeight;
      const room = this.height - client;
      return this.height < HIGHEST || room <= 0 ? 1 : (this.count * this.rowHeight - client) / room;
    }

    followEnd() {
      if (!this.count) return;
      if (this.selected === null) this.follower.toEnd();
      this.range = this.visibleRange();
    }

    visibleRange() {
      const first = Math.floor(this.top / this.rowHeight) - OVERSCAN;
      const shown = Math.ceil(this.box.clientHeight / this.rowHeight) + 2 * OVERSCAN;
      const last = Math.min(this.count, Math.max(0, first) + shown);
      return [Math.max(0, Math.min(first, last - 1)), last];
    }

    drawRows() {
      const [from, to] = this.count ? this.range : [0, 0];
      const slide = this.box.scrollTop - this.top;
      for (const [at, row] of this.rows) if (at < from || at >= to) this.removeRow(at, row);
      for (let at = from; at < to; at += 1) if (!this.rows.has(at)) this.addRow(at);
      for (const [at, row] of this.rows) this.markRow(at, row, slide);
    }

    removeRow(at, row) {
      row.remove();
      this.rows.delete(at);
    }

    addRow(at) {
      const step = this.lane.steps[at];
      const row = add(this.space, "div", "dv-row");
      row.id = this.id + "-" + at;
      row.setAttribute("role", "option");
      row.setAttribute("aria-label", label(step));
      row.setAttribute("aria-posinset", at + 1);
      row.style.height = this.rowHeight + "px";
      add(row, "span", "dv-row-index", String(step.index));
      const marks = add(row, "span", "dv-row-marks");
      if (step.drafted.length) markRuns(step).forEach((run) => marks.appendChild(markNode(run)));
      else marks.textContent = step.prefill ? "prefill" : "no draft";
      add(row, "span", "dv-row-time", milliseconds(step.end - step.start));
      this.rows.set(at, row);
    }

    markRow(at, row, slide) {
      row.style.transform = "translateY(" + (at * this.rowHeight + slide) + "px)";
      setAttribute(row, "aria-setsize", this.count);
      setAttribute(row, "aria-selected", at === this.selected);
    }

    scrolled() {
      if (!this.count) return;
      this.look();
      this.showFollow();
    }

    look() {
      this.range = this.visibleRange();
      this.drawRows();
    }

    // By place and not by target: rows may be exchanged between press and release.
    clicked(event) {
      const top = this.box.getBoundingClientRect().top + this.box.clientTop;
      const at = Math.floor((event.clientY - top + this.top) / this.rowHeight);
      if (at < this.count) this.select(at);
    }

    key(event) {
      if (!this.count || event.altKey || event.ctrlKey || event.metaKey) return;
      const last = this.count - 1;
      const now = this.selected === null ? last + 1 : this.selected;
      const page = Math.max(1, Math.floor(this.box.clientHeight / this.rowHeight) - 1);
      const target = {
        ArrowUp: now - 1, ArrowDown: now + 1, PageUp: now - page, PageDown: now + page, Home: 0, End: last,
      }[event.key];
      if (target === undefined) return;
      event.preventDefault();
      this.select(Math.max(0, Math.min(last, target)));
    }

    select(at) {
      this.selected = at;
      this.reveal(at);
      this.look();
      this.box.setAttribute("aria-activedescendant", this.id + "-" + at);
      this.showFollow();
      this.onSelect(at);
    }

    reveal(at) {
      const top = at * this.rowHeight;
      const bottom = top + this.rowHeight;
      const lowest = bottom - this.box.clientHeight;
      this.follower.scrollTo(Math.min(top, Math.max(lowest, this.top)) / this.stretch);
    }

    backToLive() {
      const hadFocus = document.activeElement === this.follow;
      this.selected = null;
      this.box.removeAttribute("aria-activedescendant");
      this.follower.backToEnd();
      if (this.count) this.look();
      this.showFollow();
      if (hadFocus) this.box.focus({ preventScroll: true }); // the button is about to go
      this.onSelect(null);
    }

    // Its place stays reserved, so that nothing moves when it comes.
    showFollow() {
      this.follow.style.visibility = this.selected === null && this.follower.atEnd ? "hidden" : "visible";
    }
  }

  DFlashViz.History = History;
})();
