// From the growing string to lines.
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

  DFlashViz.Reader = Reader;
})();
