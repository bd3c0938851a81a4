// Shared by all page scripts: the namespace, element functions, marks, styles of lanes and number formats.
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

  // For documents that bring no styles: by place, so that no two lanes look alike.
  const STYLES = [
    { sign: "●", marker: "circle", dash: "solid", light: "#0072b2", dark: "#4aa8e0" },
    { sign: "■", marker: "square", dash: "dash", light: "#a84a00", dark: "#ff8f3f" },
    { sign: "▲", marker: "triangle-up", dash: "dot", light: "#006b4f", dark: "#3ec79d" },
    { sign: "◆", marker: "diamond", dash: "dashdot", light: "#57606a", dark: "#a3acb8" },
  ];
  const PATTERNS = ["", "/", ".", "x"];

  // One colour, line, marker and pattern per lane, everywhere. `told` is the lane's entry in the document.
  function laneStyle(told, place) {
    const own = { title: told.name, pattern: PATTERNS[place % PATTERNS.length] };
    return Object.assign(own, STYLES[place % STYLES.length], told);
  }

  // Names are free text: they become data and never a class. Both colours go along, CSS picks by theme.
  function dress(node, style) {
    node.classList.add("dv-lane");
    node.dataset.lane = style.name;
    node.dataset.dash = style.dash;
    node.style.setProperty("--dv-lane-light", style.light);
    node.style.setProperty("--dv-lane-dark", style.dark);
  }

  // Sign and title, as they stand wherever a lane is named.
  function nameLane(node, style) {
    add(node, "span", "dv-lane-sign", style.sign).setAttribute("aria-hidden", "true");
    node.append(" ");
    add(node, "span", "dv-lane-title", style.title);
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

  function timeLeft(seconds) {
    if (seconds === null || seconds === undefined) return "";
    return seconds < 90 ? "about " + Math.ceil(seconds) + " s left" : "about " + Math.ceil(seconds / 60) + " min left";
  }

  function percent(share) {
    return Math.round(Math.max(0, Math.min(1, share)) * 100);
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

  // How many of `count` sorted things come before the first that fails `test(index)`: binary search.
  function countWhile(count, test) {
    let low = 0;
    let high = count;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (test(middle)) low = middle + 1;
      else high = middle;
    }
    return low;
  }

  // Without a secure origin browsers offer no clipboard object, only the old command.
  function copyByCommand(text) {
    const field = add(document.body, "textarea", "", text);
    const focused = document.activeElement;
    field.style.cssText = "position: fixed; top: 0; opacity: 0";
    field.select();
    const done = document.execCommand("copy");
    field.remove();
    if (focused) focused.focus({ preventScroll: true });
    return done;
  }

  async function copy(text) {
    try {
      await navigator.clipboard.writeText(text);
      return true;
    } catch (error) {
      return copyByCommand(text);
    }
  }

  const TOLD_MS = 1500;

  // A button that copies what `text()` gives, and says for a moment whether it did.
  function copyButton(parent, className, words, text) {
    const node = button(parent, className, words, async () => {
      setText(node, (await copy(text())) ? "Copied" : "Not copied");
      setTimeout(() => setText(node, words), TOLD_MS);
    });
    return node;
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
    Follower, MARKS, laneStyle, dress, nameLane, el, add, button, setText, setAttribute, milliseconds, timeLeft, percent,
    plural, uniqueId, prefersReducedMotion, countWhile, copyButton,
  });
})();
