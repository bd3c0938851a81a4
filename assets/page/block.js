// The big block: its cells, the sentence under it and the time bar.
(function () {
  "use strict";
  const DFlashViz = window.DFlashViz;
  const { add, el, setAttribute, setText, milliseconds } = DFlashViz;
  const OWN_TOKEN_SLOTS = 2; // anchor and the target's token
  const FEWEST_COLUMNS = 6; // so that a lane without a drafter shows a token no wider than the others do

  const MEANING = {
    anchor: "anchor: the last known token",
    accepted: "accepted by the target",
    rejected: "rejected: the target wanted another token here",
    discarded: "discarded: drafted after the first rejected token",
    recovered: "recovered: the target's token at the first rejected position",
    bonus: "bonus: the target's extra token after a full block",
    plain: "plain: decoded without a draft",
  };

  function meaning(cell) {
    return cell.cut ? "accepted by the target, but cut off by a stop condition or the token limit" : MEANING[cell.kind];
  }

  // Cells that share a character close ranks, so that it reads as one.
  function isJoined(cell) {
    const first = cell.segments[0];
    return Boolean(first && first.part && !first.first);
  }

  // A cell is a button: it opens the inspector at its position. `null` stands for the break.
  function cellNode(cell) {
    const node = el("div", "dv-cell dv-" + cell.kind + (cell.cut ? " dv-cut" : "") + (isJoined(cell) ? " dv-joined" : ""));
    const box = add(node, "div", "dv-cell-box");
    add(box, "span", "dv-mark", cell.sign).setAttribute("aria-hidden", "true");
    box.append(DFlashViz.tokenNode(cell.segments));
    add(node, "span", "dv-position", cell.position);
    add(node, "span", "dv-hidden", meaning(cell));
    node.title = DFlashViz.segmentsText(cell.segments) + "\n" + meaning(cell) + "\ntoken id " + cell.id;
    node.setAttribute("role", "button");
    node.tabIndex = -1; // one cell at a time is in the tab order
    node.dataset.position = cell.at === null ? "" : cell.at;
    return node;
  }

  class Block {
    // `inspect(position)` is told which cell was chosen: a 0-based position of the block, null for the break.
    constructor(parent, inspect) {
      this.inspect = inspect;
      this.cells = [];
      this.label = add(parent, "div", "dv-block-label");
      this.row = add(parent, "div", "dv-block");
      this.row.setAttribute("role", "group");
      this.row.setAttribute("aria-label", "Draft block");
      this.row.addEventListener("click", (event) => this.choose(event.target.closest(".dv-cell")));
      this.row.addEventListener("keydown", (event) => this.key(event));
      this.row.addEventListener("focusin", (event) => this.rove(this.cells.indexOf(event.target)));
      this.caption = add(parent, "div", "dv-caption");
      this.time = new TimeBar(parent);
      this.reserve(0);
      setText(this.label, "Latest step");
    }

    // Empty slots keep the height of a whole block, whatever a step brings.
    reserve(drafted) {
      if (this.slots === drafted + OWN_TOKEN_SLOTS) return;
      this.slots = drafted + OWN_TOKEN_SLOTS;
      this.row.style.setProperty("--dv-slots", Math.max(FEWEST_COLUMNS, this.slots));
      if (!this.cells.length) this.fill([]);
    }

    choose(cell) {
      if (!cell || !this.cells.includes(cell)) return;
      this.inspect(cell.dataset.position === "" ? null : Number(cell.dataset.position));
    }

    // The arrows go from cell to cell; all else, the stage's own keys too, is left alone.
    key(event) {
      const at = this.cells.indexOf(event.target);
      if (at < 0 || event.altKey || event.ctrlKey || event.metaKey) return;
      const last = this.cells.length - 1;
      const to = { ArrowLeft: at - 1, ArrowRight: at + 1, Home: 0, End: last }[event.key];
      if (to !== undefined) this.cells[Math.max(0, Math.min(last, to))].focus();
      else if (event.key === "Enter" || event.key === " ") this.choose(event.target);
      else return;
      event.preventDefault();
    }

    rove(at) {
      if (at >= 0) this.cells.forEach((cell, i) => { cell.tabIndex = i === at ? 0 : -1; });
    }

    // Which cell the inspector looks into; undefined for none.
    mark(position) {
      for (const cell of this.cells) {
        const looked = cell.dataset.position === String(position);
        cell.classList.toggle("dv-looked-into", looked);
        setAttribute(cell, "aria-expanded", looked);
      }
    }

    // Before the first step, the words say what is waited for.
    wait(words) {
      if (this.cells.length) this.fill([]);
      this.row.classList.remove("dv-selected");
      setText(this.caption, words.charAt(0).toUpperCase() + words.slice(1).replace(/\.$/, "") + ".");
    }

    // The focus stays at its place while steps come and go.
    fill(nodes) {
      const focused = this.cells.indexOf(document.activeElement);
      const missing = Math.max(0, this.slots - nodes.length);
      this.cells = nodes;
      this.row.replaceChildren(...nodes, ...Array.from({ length: missing }, emptySlot));
      this.rove(Math.max(0, Math.min(focused, nodes.length - 1)));
      if (focused >= 0 && nodes.length) nodes[Math.min(focused, nodes.length - 1)].focus({ preventScroll: true });
    }

    draw(lane, at, selected) {
      const step = lane.steps[at];
      setText(this.label, selected ? "Selected step" : "Latest step");
      this.row.classList.toggle("dv-selected", selected);
      this.fill(DFlashViz.cells(lane, at).map(cellNode));
      setText(this.caption, DFlashViz.caption(lane, at));
      this.time.draw(step);
    }
  }

  function emptySlot() {
    const node = el("div", "dv-cell dv-empty");
    node.setAttribute("aria-hidden", "true");
    add(node, "div", "dv-cell-box");
    add(node, "span", "dv-position", "\u00a0");
    return node;
  }

  const PARTS = ["draft", "verify", "rest"];

  class TimeBar {
    constructor(parent) {
      this.node = add(parent, "div", "dv-time");
      const bar = add(this.node, "div", "dv-time-bar");
      bar.setAttribute("aria-hidden", "true");
      this.bars = PARTS.map((part) => add(bar, "div", "dv-time-" + part));
      const words = add(this.node, "div", "dv-time-words");
      this.words = PARTS.map((part) => timeWord(words, part));
      this.total = add(words, "span", "dv-time-total", "whole step –");
    }

    draw(step) {
      const whole = Math.max(0, step.end - step.start);
      const seconds = [step.draft_s, step.verify_s, Math.max(0, whole - step.draft_s - step.verify_s)];
      seconds.forEach((value, i) => {
        this.bars[i].style.flexGrow = String(value * 1000); // a sum below 1 would leave the bar unfilled
        setText(this.words[i], PARTS[i] + " " + milliseconds(value));
      });
      setText(this.total, "whole step " + milliseconds(whole));
    }
  }

  function timeWord(parent, part) {
    const item = add(parent, "span", "dv-time-word");
    add(item, "span", "dv-swatch dv-time-" + part).setAttribute("aria-hidden", "true");
    return add(item, "span", "", part + " –");
  }

  DFlashViz.Block = Block;
})();
