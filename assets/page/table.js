// The figures of all lanes: a row per figure, a column per lane, and whether the texts agree.
(function () {
  "use strict";
  const DFlashViz = window.DFlashViz;
  const { add, dress, el, nameLane, setText } = DFlashViz;
  const NOTHING = "–";
  const TEXT_ROW = {
    key: "text",
    label: "text",
    definition: "Whether the lane's answer is token for token the one that the target writes without speculation.",
  };
  const VERDICTS = {
    reference: ["◆", "reference"],
    same: ["=", "same"],
    "near-tie": ["≈", "near-tie"],
    differs: ["≠", "differs"],
    sampled: ["~", "sampled"],
    unknown: ["?", "unknown"],
  };
  const SPELLED_OUT = ["near-tie", "differs"]; // these need a sentence in sight

  function verdictOf(text) {
    return VERDICTS[text.verdict] || VERDICTS.unknown;
  }

  class Table {
    constructor(parent, popover) {
      this.popover = popover;
      this.node = add(parent, "section", "dv-figures");
      this.node.setAttribute("aria-label", "Figures");
      add(this.node, "div", "dv-heading", "Figures");
      this.table = add(this.node, "table", "dv-table");
      this.messages = add(this.node, "div", "dv-verdicts");
      this.layOut([], []);
    }

    // The rows and columns are there before the values, so that nothing moves when these come.
    layOut(figures, lanes) {
      this.cells = new Map();
      this.drawn = new Map();
      this.table.replaceChildren();
      this.messages.replaceChildren();
      this.buildHead(lanes);
      const body = add(this.table, "tbody");
      for (const figure of figures.concat(TEXT_ROW)) this.buildRow(body, figure, lanes);
    }

    buildHead(lanes) {
      const row = add(add(this.table, "thead"), "tr");
      const corner = add(row, "th");
      corner.scope = "col";
      add(corner, "span", "dv-hidden", "Figure");
      for (const lane of lanes) {
        const cell = add(row, "th", "dv-column-name");
        cell.scope = "col";
        dress(cell, lane.style);
        nameLane(cell, lane.style);
      }
    }

    buildRow(body, figure, lanes) {
      const row = add(body, "tr");
      row.dataset.key = figure.key;
      const head = add(row, "th");
      head.scope = "row";
      const button = add(head, "button", "dv-figure");
      button.type = "button";
      add(button, "span", "dv-figure-label", figure.label || figure.key);
      if (figure.unit) add(button, "span", "dv-figure-unit", figure.unit);
      const definition = figure.definition || "No definition was given for this figure.";
      this.popover.attach(button, () => definition);
      for (const lane of lanes) this.buildCell(row, figure.key, lane.name);
    }

    buildCell(row, key, lane) {
      const cell = add(row, "td", "dv-value", NOTHING);
      Object.assign(cell.dataset, { lane, key });
      if (!this.cells.has(lane)) this.cells.set(lane, new Map());
      this.cells.get(lane).set(key, cell);
    }

    draw(lanes) {
      const changed = lanes.filter((lane) => this.drawn.get(lane.name) !== lane.figuresVersion);
      if (!changed.length) return;
      changed.forEach((lane) => this.drawLane(lane));
      this.drawMessages(lanes);
    }

    drawLane(lane) {
      this.drawn.set(lane.name, lane.figuresVersion);
      const { values } = lane;
      for (const [key, cell] of this.cells.get(lane.name)) {
        if (key === TEXT_ROW.key) this.drawVerdict(cell, lane);
        else setText(cell, values[key] === undefined || values[key] === null ? NOTHING : String(values[key]));
      }
    }

    drawVerdict(cell, lane) {
      if (!lane.text) return setText(cell, NOTHING);
      const words = verdictOf(lane.text).join(" ");
      if (cell.textContent === words) return undefined;
      const button = el("button", "dv-verdict", words);
      button.type = "button";
      button.dataset.verdict = lane.text.verdict;
      this.popover.attach(button, () => (lane.text && lane.text.message) || words);
      return cell.replaceChildren(button);
    }

    drawMessages(lanes) {
      const told = lanes.filter((lane) => lane.text && lane.text.message && SPELLED_OUT.includes(lane.text.verdict));
      this.messages.replaceChildren(...told.map((lane) => {
        const node = el("div", "dv-verdict-message");
        dress(node, lane.style);
        nameLane(node, lane.style);
        node.append(" " + verdictOf(lane.text)[0] + " " + lane.text.message);
        return node;
      }));
    }

    // The definition of the first figure, where nothing else is asked about.
    get firstFigure() {
      return this.table.querySelector(".dv-figure");
    }
  }

  Object.assign(DFlashViz, { Table, verdictOf });
})();
