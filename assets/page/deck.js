// The cards: a grid, or on a phone a row to swipe through, with a button for each lane.
(function () {
  "use strict";
  const DFlashViz = window.DFlashViz;
  const { add, button, dress, setAttribute } = DFlashViz;
  const UNSEEN_EVERY_MS = 500; // cards out of sight are drawn more rarely: the machine has an engine to run

  class Deck {
    // `actions`: again() asks for another drawing, touch(lane) tells of a click or the focus in its card,
    // inspect(lane, at, position) of a cell that is to be looked into, selected() of a step chosen in a list.
    constructor(parent, actions) {
      this.actions = actions;
      this.node = add(parent, "div", "dv-lanes");
      this.dots = add(this.node, "div", "dv-dots");
      this.dots.setAttribute("role", "group");
      this.dots.setAttribute("aria-label", "Show a lane");
      this.box = add(this.node, "div", "dv-deck");
      this.box.addEventListener("scroll", () => this.drawDots(), { passive: true });
      for (const kind of ["pointerdown", "focusin"]) this.box.addEventListener(kind, (event) => this.touched(event));
      this.cards = new Map();
      this.sight = new IntersectionObserver((entries) => this.seen(entries));
    }

    touched(event) {
      const card = event.target.closest(".dv-card");
      if (card) this.actions.touch(card.dataset.lane);
    }

    seen(entries) {
      for (const entry of entries) {
        const card = Array.from(this.cards.values()).find((one) => one.node === entry.target);
        if (card) card.unseen = !entry.isIntersecting;
      }
      this.actions.again();
    }

    add(lane, origin) {
      const card = new DFlashViz.Card(this.box, lane, this.actions);
      card.setOrigin(origin);
      this.cards.set(lane.name, card);
      this.sight.observe(card.node);
    }

    layOut(lanes) {
      this.dots.replaceChildren();
      this.buttons = lanes.map((lane) => this.dot(lane));
      this.drawDots();
    }

    dot(lane) {
      const node = button(this.dots, "dv-dot", "", () => this.show(lane.name));
      dress(node, lane.style);
      DFlashViz.nameLane(node, lane.style);
      return node;
    }

    // All that is written comes before all that is measured: one layout instead of several a card.
    draw(now) {
      const stale = Array.from(this.cards.values()).filter((card) => card.stale);
      const due = stale.filter((card) => !card.unseen || now - card.last >= UNSEEN_EVERY_MS);
      due.forEach((card) => card.draw(now));
      due.forEach((card) => card.follow());
      due.forEach((card) => card.history.drawRows());
      if (stale.length > due.length && !this.timer) this.wait();
    }

    wait() {
      this.timer = setTimeout(() => {
        this.timer = null;
        this.actions.again();
      }, UNSEEN_EVERY_MS);
    }

    // Scrolls the row of cards alone, never the page.
    show(name) {
      this.actions.touch(name);
      const card = this.cards.get(name).node;
      const left = card.offsetLeft - this.box.firstElementChild.offsetLeft;
      this.box.scrollTo({ left, behavior: DFlashViz.prefersReducedMotion() ? "auto" : "smooth" });
    }

    drawDots() {
      const room = this.box.scrollWidth - this.box.clientWidth;
      const now = room > 0 ? Math.round((this.box.scrollLeft / room) * (this.buttons.length - 1)) : 0;
      this.buttons.forEach((node, at) => setAttribute(node, "aria-pressed", at === now));
    }

    leaveSelections() {
      this.cards.forEach((card) => card.leaveSelection());
    }

    // `inspected`: { lane, at, position } or null.
    markCell(inspected) {
      for (const card of this.cards.values()) {
        const own = inspected && inspected.lane === card.lane && inspected.at >= 0;
        card.block.mark(own ? DFlashViz.positionOf(inspected) : undefined);
      }
    }

    // Which lane the reader touched last: the one that is scrubbed through.
    mark(active) {
      this.cards.forEach((card, name) => card.setActive(this.cards.size > 1 && name === active));
    }

    clear() {
      clearTimeout(this.timer);
      this.timer = null;
      this.sight.disconnect();
      this.cards.forEach((card) => card.destroy());
      this.cards.clear();
    }
  }

  DFlashViz.Deck = Deck;
})();
