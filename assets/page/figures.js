// The row of figures, and the popover that holds their definitions.
(function () {
  "use strict";
  const DFlashViz = window.DFlashViz;
  const { add, setText, uniqueId } = DFlashViz;
  const GAP = 6;
  const HIDE_AFTER_MS = 150; // time to move the pointer from a figure onto its definition

  // One popover per page part, outside the cards: those are contained and would clip it.
  class Popover {
    constructor(root) {
      this.root = root;
      this.node = add(root, "div", "dv-popover");
      this.node.id = uniqueId();
      this.node.setAttribute("role", "tooltip");
      this.node.hidden = true;
      this.owner = null;
      this.pinned = false;
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

    show(owner, text, pinned) {
      clearTimeout(this.timer);
      if (this.owner !== owner) this.hide();
      this.owner = owner;
      this.pinned = this.pinned || pinned;
      this.node.textContent = text;
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

    toggle(owner, text) {
      if (this.owner === owner && this.pinned) this.hide();
      else this.show(owner, text, true);
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

  class Figures {
    constructor(parent, popover) {
      this.node = add(parent, "div", "dv-figures");
      this.node.setAttribute("role", "group");
      this.node.setAttribute("aria-label", "Figures");
      this.node.addEventListener("scroll", () => popover.hide(), { passive: true }); // it would stay behind
      this.popover = popover;
      this.byKey = new Map();
    }

    draw(figures) {
      for (const figure of figures) this.update(this.byKey.get(figure.key) || this.create(figure.key), figure);
    }

    create(key) {
      const node = add(this.node, "button", "dv-figure");
      node.type = "button";
      node.setAttribute("aria-expanded", "false");
      const entry = {
        node, definition: "", length: 0,
        label: add(node, "span", "dv-figure-label"),
      };
      const line = add(node, "span", "dv-figure-line");
      entry.value = add(line, "span", "dv-figure-value");
      entry.unit = add(line, "span", "dv-figure-unit");
      this.listen(entry);
      this.byKey.set(key, entry);
      return entry;
    }

    listen(entry) {
      const { node } = entry;
      node.addEventListener("click", () => this.popover.toggle(node, entry.definition));
      node.addEventListener("pointerenter", (event) => {
        if (event.pointerType === "mouse" && !this.popover.pinned) this.popover.show(node, entry.definition, false);
      });
      node.addEventListener("pointerleave", () => this.popover.owner === node && this.popover.hideSoon());
      node.addEventListener("blur", () => this.popover.owner === node && this.popover.hide());
    }

    update(entry, figure) {
      entry.definition = figure.definition || "No definition was given for this figure.";
      setText(entry.label, figure.label || figure.key);
      const value = figure.value === undefined || figure.value === null ? "–" : String(figure.value);
      setText(entry.value, value);
      this.reserve(entry, value.length);
      setText(entry.unit, figure.unit || "");
    }

    // The room a value once took stays its own, so that the row does not shift to and fro.
    reserve(entry, length) {
      if (length <= entry.length) return;
      entry.length = length;
      entry.value.style.minWidth = length + "ch";
    }

    // The `?` key: the definition of the focused figure, else of the first one.
    explain() {
      const entries = Array.from(this.byKey.values());
      const entry = entries.find((one) => one.node === document.activeElement) || entries[0];
      if (!entry) return;
      entry.node.focus();
      this.popover.toggle(entry.node, entry.definition);
    }
  }

  Object.assign(DFlashViz, { Popover, Figures });
})();
