// The cards: a grid, or on a phone a row to swipe through, with a button for each lane.
(function () {
  "use strict";
  const DFlashViz = window.DFlashViz;
  const { add, button, dress, setAttribute } = DFlashViz;

  class Deck {
    constructor(parent) {
      this.node = add(parent, "div", "dv-lanes");
      this.dots = add(this.node, "div", "dv-dots");
      this.dots.setAttribute("role", "group");
      this.dots.setAttribute("aria-label", "Show a lane");
      this.box = add(this.node, "div", "dv-deck");
      this.box.addEventListener("scroll", () => this.drawDots(), { passive: true });
      this.cards = new Map();
    }

    add(lane, origin) {
      const card = new DFlashViz.Card(this.box, lane);
      card.setOrigin(origin);
      this.cards.set(lane.name, card);
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
      this.cards.forEach((card) => card.destroy());
      this.cards.clear();
    }
  }

  DFlashViz.Deck = Deck;
})();
