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

  // As the page was opened: later the views write their own.
  const OPENED = read();

  class Address {
    constructor(root) {
      this.root = root;
      this.opened = OPENED; // until it is used, or the reader goes elsewhere
      this.last = -Infinity;
    }

    // What the page was opened with, once, if it is about this run.
    take(run) {
      if (!this.opened || this.opened.run !== run) return null;
      const { opened } = this;
      this.opened = null;
      return opened;
    }

    forget() {
      this.opened = null;
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
      if (this.timer || this.opened) return;
      this.timer = setTimeout(() => this.flush(), Math.max(0, this.last + EVERY_MS - performance.now()));
    }

    // Of several views in a page only the one in sight has a say.
    flush() {
      this.timer = null;
      this.last = performance.now();
      const href = this.of(this.place);
      if (this.root.offsetParent === null || href === window.location.href) return;
      window.history.replaceState(window.history.state, "", href);
    }

    destroy() {
      clearTimeout(this.timer);
    }
  }

  DFlashViz.Address = Address;
})();
