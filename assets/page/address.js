// The page's address: which run, lane, step and position are looked at.
(function () {
  "use strict";
  const DFlashViz = window.DFlashViz;
  const EVERY_MS = 350; // browsers refuse to change the address much more often
  const KEYS = ["run", "lane", "step", "position"];

  function whole(text) {
    return /^\d{1,9}$/.test(text || "") ? Number(text) : null;
  }

  function read() {
    const asked = new URLSearchParams(window.location.search);
    const run = asked.get("run");
    return run && { run, lane: asked.get("lane"), step: whole(asked.get("step")), position: whole(asked.get("position")) };
  }

  // As the page was opened, for all its views: until one of them uses it, or the reader goes elsewhere.
  let opened = read();

  class Address {
    constructor(root) {
      this.root = root;
      this.last = -Infinity;
      this.wrote = null; // the run that is in the address by this view
    }

    // What the page was opened with, once, if it is about this run.
    take(run) {
      if (!opened || opened.run !== run) return null;
      const taken = opened;
      opened = null;
      return taken;
    }

    forget() {
      opened = null;
    }

    // The address of a place; others' parameters stay.
    of(place) {
      const url = new URL(window.location.href);
      for (const key of KEYS) {
        if (place[key] === null || place[key] === undefined) url.searchParams.delete(key);
        else url.searchParams.set(key, place[key]);
      }
      return url.href;
    }

    // Shows a place in the address, soon.
    write(place) {
      this.place = place;
      if (this.timer || opened) return;
      this.timer = setTimeout(() => this.flush(), Math.max(0, this.last + EVERY_MS - performance.now()));
    }

    // Of several views in a page only the one in sight has a say.
    flush() {
      this.timer = null;
      this.last = performance.now();
      if (this.root.offsetParent === null) return;
      const href = this.of(this.place);
      this.wrote = this.place.run || null;
      if (href !== window.location.href) window.history.replaceState(window.history.state, "", href);
    }

    // The run is gone: its address goes too, unless another view has written its own.
    leave() {
      this.destroy();
      this.timer = null;
      const { run } = read() || {};
      if (run && run === this.wrote) this.write({});
      this.wrote = null;
    }

    destroy() {
      clearTimeout(this.timer);
    }
  }

  DFlashViz.Address = Address;
})();
