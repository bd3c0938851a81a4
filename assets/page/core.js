// Shared by all page scripts: the namespace, element functions, marks, lanes and number formats.
(function () {
  "use strict";
  const DFlashViz = (window.DFlashViz = window.DFlashViz || {});

  // One form, one sign and one word per origin of a token: never colour alone.
  const MARKS = {
    anchor: { sign: "⚓", word: "anchor" },
    accepted: { sign: "✓", word: "accepted" },
    rejected: { sign: "✗", word: "rejected" },
    discarded: { sign: "·", word: "discarded" },
    recovered: { sign: "↻", word: "recovered" },
    bonus: { sign: "★", word: "bonus" },
    plain: { sign: "", word: "plain" },
  };

  const LANES = {
    dflash: { name: "DFlash", dash: "solid", marker: "circle", sign: "●" },
    eagle3: { name: "EAGLE-3", dash: "dash", marker: "square", sign: "■" },
    ngram: { name: "n-gram", dash: "dot", marker: "triangle-up", sign: "▲" },
    none: { name: "no speculation", dash: "dashdot", marker: "diamond", sign: "◆" },
  };

  function laneStyle(name) {
    return LANES[name] || { name: name, dash: "solid", marker: "circle", sign: "●" };
  }

  // Text only ever enters the page as a text node: prompts and answers may contain markup.
  function el(tag, className, text) {
    const node = document.createElement(tag);
    if (className) node.className = className;
    if (text !== undefined) node.textContent = text;
    return node;
  }

  function add(parent, tag, className, text) {
    return parent.appendChild(el(tag, className, text));
  }

  function button(parent, className, text, onClick) {
    const node = add(parent, "button", "dv-button " + className, text);
    node.type = "button";
    node.addEventListener("click", onClick);
    return node;
  }

  // Writing an unchanged text would still cost a layout and could repeat a live announcement.
  function setText(node, text) {
    if (node.textContent !== text) node.textContent = text;
  }

  function setAttribute(node, name, value) {
    if (node.getAttribute(name) !== String(value)) node.setAttribute(name, value);
  }

  function milliseconds(seconds) {
    const ms = seconds * 1000;
    return (ms < 10 ? ms.toFixed(1) : ms.toFixed(0)) + " ms";
  }

  function plural(count, word) {
    return count + " " + word + (count === 1 ? "" : "s");
  }

  let lastId = 0;
  function uniqueId() {
    lastId += 1;
    return "dv-" + lastId;
  }

  function prefersReducedMotion() {
    return window.matchMedia("(prefers-reduced-motion: reduce)").matches;
  }

  const END_SLACK = 8; // pixels from the end that still count as reading at the end
  const SETTLE_MS = 300;

  // Keeps a scrolling box at its end while it grows, but never while someone reads above the end.
  class Follower {
    constructor(box, onScroll) {
      this.box = box;
      this.atEnd = true;
      this.settled = 0;
      box.addEventListener("scroll", () => {
        this.scrolled();
        if (onScroll) onScroll();
      }, { passive: true });
    }

    // The browser may clamp the offset while a layout changes: such a scroll is not the reader's.
    scrolled() {
      if (this.atEnd && performance.now() < this.settled) this.toEnd();
      else this.atEnd = this.box.scrollTop + this.box.clientHeight >= this.box.scrollHeight - END_SLACK;
    }

    toEnd() {
      if (this.atEnd) this.box.scrollTop = this.box.scrollHeight;
    }

    scrollTo(top) {
      this.atEnd = false;
      this.box.scrollTop = top;
    }

    backToEnd() {
      this.atEnd = true;
      this.toEnd();
    }

    resized() {
      this.settled = performance.now() + SETTLE_MS;
      this.toEnd();
    }
  }

  Object.assign(DFlashViz, {
    Follower, MARKS, laneStyle, el, add, button, setText, setAttribute, milliseconds, plural, uniqueId, prefersReducedMotion,
  });
})();
