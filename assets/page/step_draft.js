// How the block of one step was drafted: in one pass, pass by pass, or copied from earlier text.
(function () {
  "use strict";
  const DFlashViz = window.DFlashViz;
  const { add, el, setText, tokens } = DFlashViz;
  const AROUND = 12; // tokens of context shown on each side of what was copied

  function segmentNode(segment) {
    const node = el("span", segment.hex ? "dv-hex" : segment.part ? "dv-part" : "");
    node.textContent = segment.hex ? segment.text : tokens.visible(segment.text);
    if (segment.part) add(node, "sub", "", segment.part);
    return node;
  }

  // The text of one token, with what is invisible in it made visible.
  function tokenNode(segments, className) {
    const node = el("bdi", "dv-token " + (className || ""));
    for (const segment of segments) node.append(segmentNode(segment));
    if (tokens.isSpecial(DFlashViz.segmentsText(segments))) node.classList.add("dv-special");
    return node;
  }

  function slot(parent, segments, label, className) {
    const node = add(parent, "div", "dv-slot " + (className || ""));
    node.append(tokenNode(segments));
    add(node, "span", "dv-slot-label", label);
    return node;
  }

  function anchorSlot(parent, lane, step) {
    if (!step.from) return;
    const from = Math.max(0, step.from - AROUND);
    const segments = lane.segments(lane.output.slice(from, step.from));
    slot(parent, segments[segments.length - 1], "⚓ anchor", "dv-slot-anchor");
  }

  // Anchor and mask slots go through the drafter together: one frame, no order among the slots.
  function onePass(parent, lane, step, drafted) {
    const frame = add(parent, "div", "dv-pass");
    add(frame, "div", "dv-pass-label", "one pass");
    const slots = add(frame, "div", "dv-slots");
    anchorSlot(slots, lane, step);
    drafted.forEach((cell, i) => slot(slots, cell.segments, "slot " + (i + 1)));
    return "One pass of the drafter fills all slots at once: none of them sees what another slot says.";
  }

  function chain(parent, lane, step, drafted) {
    const slots = add(parent, "div", "dv-slots dv-chain");
    anchorSlot(slots, lane, step);
    drafted.forEach((cell, i) => {
      if (i || step.from) add(slots, "span", "dv-arrow", "→").setAttribute("aria-hidden", "true");
      slot(slots, cell.segments, "pass " + (i + 1));
    });
    return "One pass of the drafter for each token: every pass builds on the token of the pass before it.";
  }

  function promptOf(lane) {
    const ids = lane.header && lane.header.prompt_token_ids;
    return Array.isArray(ids) ? ids : [];
  }

  // What was copied: {ids, at, n, prompt, end}; null when not recorded, or when it does not fit the draft.
  function copied(lane, step) {
    const [at, n] = Array.isArray(step.source) ? step.source : [];
    const prompt = promptOf(lane).length;
    const end = prompt + step.from; // where the block begins
    if (![at, n].every(Number.isInteger) || n < 1 || at < n || at >= end) return null;
    const idAt = (i) => (i < prompt ? lane.header.prompt_token_ids[i] : lane.output[i - prompt]);
    const fits = step.drafted.every((id, i) => idAt(at + i) === id);
    return fits ? { at, n, prompt, end, idAt } : null;
  }

  function place(source, i) {
    return i < source.prompt ? "prompt, token " + (i + 1) : "answer, token " + (i - source.prompt + 1);
  }

  // The tokens from `from` up to `to`, as pieces {kind, nodes} of equal kind.
  function snippet(parent, lane, source, from, to, kindAt) {
    const ids = [];
    for (let i = from; i < to; i += 1) ids.push(source.idAt(i));
    const box = add(parent, "div", "dv-snippet");
    let group = null;
    lane.segments(ids).forEach((segments, i) => {
      const kind = kindAt(from + i);
      if (!group || group.kind !== kind) group = openGroup(box, kind);
      if (group.node.hasChildNodes()) add(group.node, "wbr"); // lines break between tokens
      group.node.append(tokenNode(segments));
    });
    return box;
  }

  function openGroup(box, kind) {
    if (box.hasChildNodes()) add(box, "wbr"); // a label stays with its text
    const outer = add(box, kind ? "mark" : "span", "dv-quote" + (kind ? " dv-quote-" + kind : ""));
    const group = { kind, node: add(outer, "span", "dv-quote-text") };
    if (kind) add(outer, "span", "dv-quote-label", kind);
    return group;
  }

  function copy(parent, lane, step) {
    const source = copied(lane, step);
    if (!source) return "Copied from earlier text; where it stands was not recorded.";
    const { at, n, end } = source;
    const last = at + step.drafted.length;
    const from = Math.max(0, at - n - AROUND);
    const to = Math.min(end, last + AROUND);
    add(parent, "div", "dv-dim", "Copied from: " + place(source, at));
    const kindAt = (i) => (i < at - n || i >= last ? "" : i < at ? "matched" : "copied");
    const box = snippet(parent, lane, source, from, to, kindAt);
    if (from > 0) box.prepend("… ");
    if (to < end) box.append(" …");
    add(parent, "div", "dv-dim", "Before the block: " + place(source, end - n));
    snippet(parent, lane, source, end - n, end, () => "matched");
    return "No drafter ran: the last " + DFlashViz.plural(n, "token") + " stood earlier in the text too; what followed there was copied.";
  }

  function wholeNumber(value) {
    return Number.isInteger(value) && value > 0 ? value : null;
  }

  // Whether the `n` tokens before the block of a step stand earlier in the text; null when that is not known.
  function standsEarlier(lane, step, n) {
    const prompt = promptOf(lane);
    if (!prompt.length) return null;
    const text = prompt.concat(lane.output.slice(0, step.from));
    const last = text.length - n;
    for (let at = 0; at < last; at += 1) {
      let same = 0;
      while (same < n && text[at + same] === text[last + same]) same += 1;
      if (same === n) return true;
    }
    return false;
  }

  function nothingFound(lane, step) {
    const least = wholeNumber(lane.fingerprint.prompt_lookup_min);
    if (standsEarlier(lane, step, least || 1) !== false) return ALONE;
    const most = wholeNumber(lane.fingerprint.prompt_lookup_max);
    const window = least && most ? " (" + (least === most ? least : least + " to " + most) + " are compared)" : "";
    return "Nothing to copy: the last tokens" + window + " do not stand anywhere earlier in the text.";
  }

  const ALONE = "No draft in this step; the target decoded alone.";
  const WITHOUT = {
    prefill: () => "The target read the prompt in this step; there was nothing to draft from yet.",
    padded: () => "So near the end of the context no drafter runs: vLLM fills the block with placeholders.",
    undrafted: (lane, step) => {
      if (lane.method === "none") return "This lane drafts nothing: the target decodes one token a step.";
      return ["ngram", "ngram_gpu"].includes(lane.method) ? nothingFound(lane, step) : ALONE;
    },
  };
  const CHAINS = ["eagle", "eagle3", "mtp", "draft_model"]; // a pass for each token

  // Of other methods it is not known whether one pass sees the token of another.
  function wayOf(lane) {
    if (lane.method === "dflash") return onePass;
    if (DFlashViz.facts.copies(lane)) return copy;
    return CHAINS.includes(lane.method) ? chain : () => "How this method drafts is not drawn here.";
  }

  // Draws into `parent`, for the step at index `at`; `drafted`: the cells of its drafted tokens.
  function drawDraft(parent, lane, at, drafted) {
    const step = lane.steps[at];
    const without = WITHOUT[DFlashViz.breakKind(lane, at)];
    parent.replaceChildren();
    add(parent, "div", "dv-heading", "How it was drafted");
    const picture = el("div", "dv-picture");
    const words = without ? without(lane, step) : wayOf(lane)(picture, lane, step, drafted);
    if (picture.hasChildNodes()) parent.append(picture);
    setText(add(parent, "div", "dv-draft-words"), words);
  }

  Object.assign(DFlashViz, { drawDraft, tokenNode });
})();
