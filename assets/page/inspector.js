// The step inspector: what drafter and target believed at every position of one step's block.
(function () {
  "use strict";
  const DFlashViz = window.DFlashViz;
  const { add, button, el, setAttribute, setText } = DFlashViz;
  const TERMS = {
    near: [["near miss", "Near miss: at temperature 0 the target keeps a drafted token only if it is its own first choice. Near: its probability of the drafted token is at least half of that of its own token."]],
    clear: [["clear miss", "Clear miss: at temperature 0 the target keeps a drafted token only if it is its own first choice. Clear: its probability of the drafted token is less than half of that of its own token."]],
    draw: [
      ["p", "p: the target’s probability of the drafted token, after temperature and top-p."],
      ["q", "q: the probability with which the token was drafted. It is 1 when the drafter proposes its best token without a draw, which is vLLM’s default."],
      ["draw", "Draw: a random number, uniform between 0 and 1. The drafted token is accepted when the draw is at most min(1, p/q)."],
    ],
    sampled: [["draw", "Draw: above temperature 0 a drafted token is accepted when a uniform random number is at most min(1, p/q)."]],
    full: [["bonus token", "Bonus token: the target’s extra token when every drafted token was accepted."]],
  };
  const MOVES = [
    // css class, sign, word, name, [action, arguments]
    ["dv-move-previous-step", "‹", "step", "Previous step", ["step", -1]],
    ["dv-move-next-step", "›", "step", "Next step", ["step", 1]],
    ["dv-move-previous-rejection", "‹ ✗", "rejection", "Previous rejection", ["jump", "rejection", -1]],
    ["dv-move-next-rejection", "✗ ›", "rejection", "Next rejection", ["jump", "rejection", 1]],
    ["dv-move-previous-full", "‹ ★", "full block", "Previous full block", ["jump", "full", -1]],
    ["dv-move-next-full", "★ ›", "full block", "Next full block", ["jump", "full", 1]],
  ];
  const COMPLETION = 3; // later tokens that can still finish a character of this step

  class Inspector {
    // `actions`: step(delta), jump(kind, direction), select(position), close(); positions count from 0.
    constructor(parent, popover, actions) {
      this.popover = popover;
      this.actions = actions;
      this.root = parent.closest(".dv-root");
      this.open = false;
      this.lane = null;
      this.node = add(parent, "section", "dv-inspector");
      this.node.hidden = true;
      this.node.tabIndex = -1;
      this.node.setAttribute("aria-label", "Step inspector");
      this.buildTitle();
      this.sentence = add(this.node, "div", "dv-sentence");
      this.terms = add(this.node, "div", "dv-terms");
      this.draft = add(this.node, "div", "dv-draft");
      const halves = add(this.node, "div", "dv-inspector-halves");
      this.table = new DFlashViz.PositionTable(add(halves, "div", "dv-positions-box"), popover, (i) => this.select(i));
      this.lists = add(halves, "div", "dv-lists-box");
      this.node.addEventListener("scroll", () => popover.hide(), { passive: true }); // the sheet scrolls under it
      this.onKey = (event) => this.key(event);
      document.addEventListener("keydown", this.onKey);
    }

    buildTitle() {
      const bar = add(this.node, "div", "dv-inspector-bar");
      this.title = add(bar, "div", "dv-inspector-title");
      this.title.setAttribute("role", "heading");
      this.title.setAttribute("aria-level", "2");
      this.bar = bar;
      const moves = add(bar, "div", "dv-moves");
      this.moves = MOVES.map(([className, sign, word, name, action]) => {
        const node = moveButton(moves, className, sign, word, name);
        node.addEventListener("click", () => this.actions[action[0]](...action.slice(1)));
        return node;
      });
      const close = button(moves, "dv-move dv-inspector-close", "✕", () => this.actions.close());
      close.title = "Close (Escape)";
      close.setAttribute("aria-label", "Close the step inspector");
    }

    destroy() {
      document.removeEventListener("keydown", this.onKey);
    }

    // A definition that stands open takes the first Escape, and lets it go no further.
    key(event) {
      if (event.key !== "Escape" || !this.open || !this.node.getClientRects().length) return;
      event.preventDefault();
      this.actions.close();
    }

    // `at`: index of the step, -1 before the first; `position`: index in the block, or null for the break; `notice`:
    // words that stand in for the step's number. Opening by keyboard takes the focus along.
    show(lane, at, position, notice) {
      const opens = !this.open;
      Object.assign(this, { lane, at, position, notice, open: true });
      this.node.hidden = false;
      this.draw();
      if (opens) this.opened();
      if (this.chosen) this.revealLists();
      this.chosen = false;
    }

    // What is drawn into the sheet of a phone would go unnoticed, so it always takes the focus.
    opened() {
      const from = document.activeElement;
      const byKey = from && from !== document.body && from.matches(":focus-visible");
      this.opener = byKey ? from : null;
      this.root.toggleAttribute("data-inspected", true);
      if (byKey || this.isSheet) this.node.focus({ preventScroll: true });
      this.reveal();
    }

    get isSheet() {
      return this.root.dataset.width === "narrow";
    }

    // The reader chose a position of the table.
    select(i) {
      this.chosen = true;
      this.actions.select(i);
    }

    // On a phone the lists stand below the table: the sheet moves as far as it takes to see them.
    revealLists() {
      if (!this.isSheet) return;
      const box = this.lists.getBoundingClientRect();
      const above = box.top - this.bar.getBoundingClientRect().bottom;
      const below = box.bottom - this.node.getBoundingClientRect().bottom;
      this.node.scrollTop += Math.max(0, Math.min(above, below));
    }

    // The sheet of a phone leaves the upper part of the window: the block moves there.
    reveal() {
      if (!this.isSheet) return this.node.scrollIntoView({ block: "nearest" });
      const block = this.card && this.card.querySelector(".dv-block");
      if (!block) return undefined;
      const box = block.getBoundingClientRect();
      const free = this.node.getBoundingClientRect().top;
      if (box.top < 0 || box.bottom > free) window.scrollBy(0, box.top - Math.max(0, free - box.height) / 2);
      return undefined;
    }

    get card() {
      const cards = Array.from(this.root.querySelectorAll(".dv-card"));
      return cards.find((node) => this.lane && node.dataset.lane === this.lane.name);
    }

    hide() {
      if (!this.open) return;
      const focused = this.node.contains(document.activeElement);
      this.leavePopover(this.node);
      this.open = false;
      this.node.hidden = true;
      this.root.removeAttribute("data-inspected");
      if (focused) this.giveFocusBack();
      this.letGo();
    }

    // A run that is gone is not to be kept alive.
    letGo() {
      this.lane = this.titled = this.drawn = this.opener = null;
      this.rows = [];
      this.table.clear();
    }

    // The block may have been drawn anew meanwhile: then its card's block takes the focus. With the run gone too
    // the keys stay in this part of the page.
    giveFocusBack() {
      const block = this.card && this.card.querySelector(".dv-block [tabindex='0'], .dv-block[tabindex='0']");
      const to = this.opener && this.opener.isConnected ? this.opener : block;
      if (to) to.focus();
      else this.root.focus({ preventScroll: true });
    }

    // What is drawn anew may hold the focus: then it goes to the word that stands at its place now.
    keepFocus(part, draw) {
      const words = () => Array.from(part.querySelectorAll(".dv-term"));
      const at = words().indexOf(document.activeElement);
      this.leavePopover(part);
      draw();
      if (at >= 0) (words()[at] || this.node).focus({ preventScroll: true });
    }

    // A definition must not stay open over a word that is gone.
    leavePopover(node) {
      if (this.popover.owner && node.contains(this.popover.owner)) this.popover.hide();
    }

    // Called in each frame: draws only what changed.
    draw() {
      if (!this.open) return;
      this.drawTitle();
      const step = this.lane.steps[this.at];
      const known = step ? Math.min(this.lane.output.length, step.from + step.emitted.length + COMPLETION) : -1;
      const drawn = [this.lane, this.at, known];
      const focused = this.node.contains(document.activeElement);
      if (!this.drawn || drawn.some((part, i) => part !== this.drawn[i])) this.drawStep(step);
      this.drawn = drawn;
      if (this.drawnPosition !== this.position) this.drawPosition(step);
      this.drawnPosition = this.position;
      if (focused && !this.node.contains(document.activeElement)) this.node.focus({ preventScroll: true });
    }

    drawTitle() {
      const { lane, at } = this;
      const last = lane.steps.length - 1;
      const numberOf = (i) => (lane.steps[i] ? lane.steps[i].index : i);
      const words = at < 0 ? "Before the first step" : "Step " + numberOf(at) + " of " + numberOf(last);
      if (this.titled !== lane) {
        this.title.replaceChildren();
        DFlashViz.dress(this.title, lane.style);
        DFlashViz.nameLane(this.title, lane.style);
        this.title.append(" ");
        this.stepWords = add(this.title, "span", "dv-inspector-step");
        this.titled = lane;
      }
      setText(this.stepWords, this.notice || words);
      // Not `disabled`: a button that loses its use under the finger would lose the focus too.
      setAttribute(this.moves[0], "aria-disabled", at <= 0);
      setAttribute(this.moves[1], "aria-disabled", at >= last);
    }

    drawStep(step) {
      const { lane, at } = this;
      this.kind = DFlashViz.breakKind(lane, at);
      this.node.dataset.kind = this.kind || "unknown";
      setText(this.sentence, DFlashViz.breakSentence(lane, at));
      this.keepFocus(this.terms, () => this.drawTerms());
      this.rows = step ? DFlashViz.blockRows(lane, at) : [];
      this.draft.hidden = !step;
      if (step) DFlashViz.drawDraft(this.draft, lane, at, this.rows.slice(0, step.drafted.length));
      this.table.draw(lane, at, this.rows);
      this.drawnPosition = undefined;
    }

    drawTerms() {
      this.terms.replaceChildren();
      (TERMS[this.kind] || []).forEach(([word, meaning]) => DFlashViz.term(this.terms, this.popover, word, meaning));
    }

    drawPosition(step) {
      if (!this.rows.length) return this.keepFocus(this.lists, () => this.lists.replaceChildren());
      const wanted = Number.isInteger(this.position) ? this.position : DFlashViz.breakPosition(step);
      const i = Math.max(0, Math.min(this.rows.length - 1, wanted));
      this.keepFocus(this.lists, () => DFlashViz.drawLists(this.lists, this.popover, this.lane, step, i, this.rows[i]));
      return this.table.select(i);
    }
  }

  // Words where there is room, signs on a phone; the name is always whole.
  function moveButton(parent, className, sign, word, name) {
    const node = button(parent, "dv-move " + className, "");
    const parts = [el("span", "dv-move-sign", sign), el("span", "dv-move-word", word)];
    node.append(...(name.startsWith("Next") ? parts.reverse() : parts));
    node.title = name;
    node.setAttribute("aria-label", name);
    return node;
  }

  DFlashViz.Inspector = Inspector;
})();
