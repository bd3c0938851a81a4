// Every position of one block as a table: drafted token, both probabilities, result, the target's choice.
(function () {
  "use strict";
  const DFlashViz = window.DFlashViz;
  const { add, el, facts, setAttribute, setText, MARKS } = DFlashViz;
  const FOLLOWED = "Had the draft been followed, ";
  const SAID = "the target would have said:";
  const LIKELY = "the target’s most probable token would have been:"; // it would have drawn
  const SAYS = "target says";
  const LIKES = "target’s best";
  const COLUMNS = [
    ["#"],
    ["drafted", "The token that was drafted for this position; positions are counted from 1, the anchor is slot 0."],
    ["drafter p", "p of the drafter: the drafter’s own probability of the token it drafted, at temperature 1."],
    ["target p", "p of the target: the target’s probability of the same token, at temperature 1, given the drafted tokens before it."],
    [SAYS, "The target’s most probable token at this position, given the drafted tokens before it. Above temperature 0 it draws its token, which need not be this one."],
    ["result", "accepted: the target keeps it. rejected: the first that it does not keep; the block ends here. discarded: drafted after that, verified in vain."],
  ];

  // A word that explains itself: hover, tap or key.
  function term(parent, popover, text, meaning) {
    const node = DFlashViz.add(parent, "button", "dv-term", text);
    node.type = "button";
    popover.attach(node, () => meaning);
    return node;
  }

  // One row a position {kind, sign, word, id, segments, follows}; the last is the target's own, after the draft.
  function blockRows(lane, at) {
    const step = lane.steps[at];
    const cells = DFlashViz.cells(lane, at).filter((cell) => cell.kind !== "anchor");
    if (!step.drafted.length) return cells.map((cell) => row(cell, "decoded"));
    const rows = cells.slice(0, step.drafted.length).map((cell, i) => {
      const cut = cell.cut ? "accepted, cut off" : MARKS[cell.kind].word;
      return Object.assign(row(cell, cut), { follows: i > step.num_accepted });
    });
    if (step.last === "bonus") rows.push(row(cells[cells.length - 1], "bonus"));
    else if (facts.topList(step, rows.length, "target").length) rows.push(unreached(step));
    return rows;
  }

  function row(cell, word) {
    return { kind: cell.kind, sign: cell.sign, word, id: cell.id, segments: cell.segments, follows: false };
  }

  function unreached(step) {
    return { kind: "discarded", sign: "", word: "not reached", id: null, segments: null, follows: step.num_accepted < step.drafted.length };
  }

  function probabilityCell(parent, p, none) {
    const node = add(parent, "td", "dv-p", p === null ? none : DFlashViz.decimals(p));
    if (p === null) node.title = none === "–" ? "there is none" : "not recorded";
  }

  function rowNode(lane, step, i, told) {
    const node = el("tr", "dv-position-row dv-position-" + told.kind);
    node.dataset.position = i;
    add(node, "th", "", String(i + 1)).setAttribute("scope", "row");
    const token = add(node, "td");
    if (told.segments) token.append(DFlashViz.tokenNode(told.segments));
    else token.textContent = "–";
    const drafted = i < step.drafted.length;
    const ask = (who) => (told.id === null ? null : facts.believed(step, i, who, told.id));
    probabilityCell(node, drafted ? ask("drafter") : null, drafted && !facts.copies(lane) ? "not recorded" : "–");
    probabilityCell(node, ask("target"), told.id === null ? "–" : "not recorded");
    const choice = add(node, "td", "dv-choice");
    const best = facts.topList(step, i, "target")[0];
    if (best) choice.append(DFlashViz.tokenNode(facts.candidate(lane, step, i, best.id)));
    else choice.textContent = "not recorded";
    const result = add(node, "td", "dv-result dv-row-" + told.kind);
    if (told.sign) add(result, "span", "dv-row-mark", told.sign + " ");
    result.append(told.word);
    return node;
  }

  class PositionTable {
    constructor(parent, popover, onSelect) {
      this.onSelect = onSelect;
      this.clear();
      const table = add(parent, "table", "dv-positions");
      setAttribute(table, "role", "grid");
      setAttribute(table, "aria-label", "Positions of the block");
      const head = add(add(table, "thead", ""), "tr", "");
      const heads = COLUMNS.map((column) => headNode(head, popover, ...column));
      this.says = heads[COLUMNS.findIndex(([name]) => name === SAYS)];
      this.body = add(table, "tbody", "");
      this.body.addEventListener("click", (event) => this.pick(event.target.closest(".dv-position-row")));
      this.body.addEventListener("keydown", (event) => this.key(event));
    }

    // A run that is gone is not to be kept alive.
    clear() {
      this.rows = [];
      this.nodes = [];
      this.selected = -1;
    }

    pick(node) {
      if (node) this.choose(Number(node.dataset.position));
    }

    // Up and down stay inside, and so do Space and Enter; left and right are the steps' keys.
    key(event) {
      const last = this.rows.length - 1;
      const { selected } = this;
      const to = {
        ArrowUp: selected - 1, ArrowDown: selected + 1, Home: 0, End: last, Enter: selected, " ": selected,
      }[event.key];
      if (to === undefined || event.altKey || event.ctrlKey || event.metaKey) return;
      event.preventDefault();
      event.stopPropagation();
      this.choose(Math.max(0, Math.min(last, to)));
    }

    // The reader's choice may move the page to its row; a step that comes by playback may not.
    choose(i) {
      this.chosen = i !== this.selected;
      this.onSelect(i);
    }

    draw(lane, at, rows) {
      const step = lane.steps[at];
      const focused = this.body.contains(document.activeElement);
      setText(this.says, facts.temperature(lane) > 0 ? LIKES : SAYS);
      this.clear();
      this.rows = rows;
      this.nodes = rows.map((told, i) => rowNode(lane, step, i, told));
      const first = rows.findIndex((told) => told.follows);
      const nodes = this.nodes.slice();
      if (first >= 0) nodes.splice(first, 0, followedNode(lane));
      this.body.replaceChildren(...nodes);
      this.takeFocus = focused;
    }

    select(i) {
      const focused = this.takeFocus || this.body.contains(document.activeElement);
      this.takeFocus = false;
      this.selected = i;
      this.nodes.forEach((node, at) => {
        setAttribute(node, "aria-selected", at === i);
        node.tabIndex = at === i ? 0 : -1;
      });
      if (focused && this.nodes[i]) this.nodes[i].focus({ preventScroll: !this.chosen });
      this.chosen = false;
    }
  }

  function headNode(parent, popover, name, meaning) {
    const node = add(parent, "th", "", meaning ? undefined : name);
    node.setAttribute("scope", "col");
    return meaning ? term(node, popover, name, meaning) : node;
  }

  function followedNode(lane) {
    const node = el("tr", "dv-followed");
    add(node, "td", "", FOLLOWED + (facts.temperature(lane) > 0 ? LIKELY : SAID)).colSpan = COLUMNS.length;
    return node;
  }

  Object.assign(DFlashViz, { PositionTable, blockRows, term });
})();
