// The cards: a grid, or on a phone a row to swipe through, with a button for each lane.
(function () {
  "use strict";
  const DFlashViz = window.DFlashViz;
  const { add, button, dress, setAttribute } = DFlashViz;
  const UNSEEN_EVERY_MS = 500; // cards out of sight are drawn more rarely: the machine has an engine to run

  class Deck {
    // `again()` asks for another drawing.
    constructor(parent, again) {
      this.again = again;
      this.node = add(parent, "div", "dv-lanes");
      this.dots = add(this.node, "div", "dv-dots");
      this.dots.setAttribute("role", "group");
      this.dots.setAttribute("aria-label", "Show a lane");
      this.box = add(this.node, "div", "dv-deck");
      this.box.addEventListener("scroll", () => this.drawDots(), { passive: true });
      this.cards = new Map();
      this.sight = new IntersectionObserver((entries) => this.seen(entries));
    }

    seen(entries) {
      for (const entry of entries) {
        const card = Array.from(this.cards.values()).find((one) => one.node === entry.target);
        if (card) card.unseen = !entry.isIntersecting;
      }
      this.again();
    }

    add(lane, origin) {
      const card = new DFlashViz.Card(this.box, lane);
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
        this.again();
      }, UNSEEN_EVERY_MS);
    }

    // Scrolls the row of cards alone, never the page.
    show(name) {
      const card = this.cards.get(name).node;
      const left = card.offsetLeft - this.box.firstElementChild.offsetLeft;
      this.box.scrollTo({ left, behavior: DFlashViz.prefersReducedMotion() ? "auto" : "smooth" });
    }

    drawDots() {
      const room = this.box.scrollWidth - this.box.clientWidth;
      const now = room > 0 ? Math.round((this.box.scrollLeft / room) * (this.buttons.length - 1)) : 0;
      this.buttons.forEach((node, at) => setAttribute(node, "aria-pressed", at === now));
    }

    // In one go: a page that shrank in between would scroll.
    replace(lanes, origin) {
      this.clear();
      lanes.forEach((lane) => this.add(lane, origin));
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
