// Definitions and messages, one hover, tap or key away.
(function () {
  "use strict";
  const DFlashViz = window.DFlashViz;
  const { add, uniqueId } = DFlashViz;
  const GAP = 6;
  const HIDE_AFTER_MS = 150; // time to move the pointer from a button onto its definition

  // One popover for all, outside the cards: those are contained and would clip it.
  class Popover {
    constructor(root) {
      this.root = root;
      this.node = add(root, "div", "dv-popover");
      this.node.id = uniqueId();
      this.node.setAttribute("role", "tooltip");
      this.node.hidden = true;
      this.owner = null;
      this.pinned = false;
      this.texts = new WeakMap();
      this.node.addEventListener("pointerenter", () => clearTimeout(this.timer));
      this.node.addEventListener("pointerleave", () => this.hideSoon());
      this.onOutside = (event) => this.closeOutside(event);
      this.onKey = (event) => event.key === "Escape" && this.escape(event);
      this.onScroll = () => this.hide();
      document.addEventListener("pointerdown", this.onOutside);
      document.addEventListener("keydown", this.onKey, true);
      window.addEventListener("resize", this.onScroll);
      window.addEventListener("scroll", this.onScroll, { passive: true });
    }

    // `text()` is asked each time: it may change while the page stands.
    attach(node, text) {
      this.texts.set(node, text);
      node.setAttribute("aria-expanded", "false");
      node.addEventListener("click", () => this.toggle(node));
      node.addEventListener("pointerenter", (event) => {
        if (event.pointerType === "mouse" && !this.pinned) this.show(node, false);
      });
      node.addEventListener("pointerleave", () => this.owner === node && this.hideSoon());
      node.addEventListener("blur", () => this.owner === node && this.hide());
    }

    explains(node) {
      return this.texts.has(node);
    }

    show(owner, pinned) {
      clearTimeout(this.timer);
      if (this.owner !== owner) this.hide();
      this.owner = owner;
      this.pinned = this.pinned || pinned;
      this.node.textContent = this.texts.get(owner)();
      this.node.hidden = false;
      owner.setAttribute("aria-expanded", "true");
      owner.setAttribute("aria-describedby", this.node.id);
      this.place();
    }

    place() {
      const box = this.owner.getBoundingClientRect();
      const own = this.node.getBoundingClientRect();
      const width = document.documentElement.clientWidth;
      const below = box.bottom + GAP + own.height <= window.innerHeight;
      this.move(
        Math.max(GAP, Math.min(box.left, width - own.width - GAP)),
        below ? box.bottom + GAP : Math.max(GAP, box.top - GAP - own.height)
      );
    }

    // An ancestor with a transform or containment moves the origin of fixed boxes: measure and correct.
    move(left, top) {
      Object.assign(this.node.style, { left: "0px", top: "0px" });
      const origin = this.node.getBoundingClientRect();
      Object.assign(this.node.style, { left: left - origin.left + "px", top: top - origin.top + "px" });
    }

    hideSoon() {
      if (this.pinned) return;
      clearTimeout(this.timer);
      this.timer = setTimeout(() => this.hide(), HIDE_AFTER_MS);
    }

    hide() {
      clearTimeout(this.timer);
      if (this.owner) {
        this.owner.setAttribute("aria-expanded", "false");
        this.owner.removeAttribute("aria-describedby");
      }
      this.owner = null;
      this.pinned = false;
      this.node.hidden = true;
    }

    toggle(owner) {
      if (this.owner === owner && this.pinned) this.hide();
      else this.show(owner, true);
    }

    closeOutside(event) {
      if (!this.owner || this.node.contains(event.target) || this.owner.contains(event.target)) return;
      this.hide();
    }

    // Closing the definition is all that this Escape does: a selected step stays selected.
    escape(event) {
      if (!this.owner) return;
      event.stopPropagation();
      this.hide();
    }

    destroy() {
      this.hide();
      document.removeEventListener("pointerdown", this.onOutside);
      document.removeEventListener("keydown", this.onKey, true);
      window.removeEventListener("resize", this.onScroll);
      window.removeEventListener("scroll", this.onScroll);
      this.node.remove();
    }
  }

  DFlashViz.Popover = Popover;
})();
