// What the record of one step says at each position of its block, and why the block ended there.
// Files can be damaged or made by hand: what they lack is null or an empty list, never an error.
(function () {
  "use strict";
  const DFlashViz = window.DFlashViz;
  const { plural, tokens } = DFlashViz;
  const CONTEXT = 3; // a UTF-8 character has at most four bytes: three neighbours can share it
  const NEAR = 0.5; // a near miss has at least this share of the probability of the target's own token
  const DECIMALS = 3;
  const MOST_DECIMALS = 9;
  const ROUNDING = 1e-6; // a sum of float32 numbers may exceed 1 by this
  const LOOKUP_METHODS = ["ngram", "ngram_gpu", "suffix"]; // they copy earlier text
  const WITHOUT = "This run was recorded without probabilities: set “Recorded probabilities” above 0 under Settings and ask again.";

  function probability(value) {
    return Number.isFinite(value) && value >= 0 && value <= 1 + ROUNDING ? Math.min(1, value) : null;
  }

  function positionAt(step, i) {
    return (Array.isArray(step.positions) && step.positions[i]) || {};
  }

  // The k most probable tokens of `who` ("drafter" or "target"), as {id, p}.
  function topList(step, i, who) {
    const told = positionAt(step, i)[who];
    if (!Array.isArray(told)) return [];
    return told
      .filter((entry) => Array.isArray(entry) && Number.isInteger(entry[0]) && probability(entry[1]) !== null)
      .map((entry) => ({ id: entry[0], p: probability(entry[1]) }));
  }

  function listed(step, i, who, id) {
    const found = topList(step, i, who).find((entry) => entry.id === id);
    return found ? found.p : null;
  }

  // Probability of a token at position i: on record for the drafted one, else if it is in the list.
  function believed(step, i, who, id) {
    const told = id === step.drafted[i] ? probability(positionAt(step, i)["p_" + who + "_drafted"]) : null;
    return told === null ? listed(step, i, who, id) : told;
  }

  // The draw that decided over position i: {p, q, u, limit}, limit = min(1, p/q).
  function drawAt(step, i) {
    const told = positionAt(step, i).draw;
    if (!Array.isArray(told)) return null;
    const [p, q, u] = told.map(probability);
    if ([p, q, u].some((value) => value === null || value === undefined) || q === 0) return null;
    return { p, q, u, limit: Math.min(1, p / q) };
  }

  // Where the block ended: the first rejected position, the bonus position, or the last token before a cut.
  function breakPosition(step) {
    if (!step.drafted.length || !step.last) return Math.max(0, step.emitted.length - 1);
    return Math.min(step.num_accepted, step.drafted.length);
  }

  // Which position is looked into, of { lane, at, position }: without one of its own it is the break.
  function positionOf({ lane, at, position }) {
    return position === null ? breakPosition(lane.steps[at]) : position;
  }

  function temperature(lane) {
    return Number((lane.header && lane.header.sampling && lane.header.sampling.temperature) || 0);
  }

  function ownToken(step) {
    return step.emitted[step.emitted.length - 1];
  }

  function rejectionKind(lane, step) {
    const i = step.num_accepted;
    if (temperature(lane) > 0) return drawAt(step, i) ? "draw" : "sampled";
    const drafted = believed(step, i, "target", step.drafted[i]);
    const own = believed(step, i, "target", ownToken(step));
    if (drafted === null || own === null) return "unrecorded";
    return drafted >= NEAR * own ? "near" : "clear";
  }

  // Why the step's block ended: near, clear, draw, sampled, unrecorded; full, cut; padded, undrafted, prefill.
  function breakKind(lane, at) {
    const step = lane.steps[at];
    if (!step) return null;
    if (step.prefill) return "prefill";
    if (step.padded) return "padded";
    if (!step.drafted.length) return "undrafted";
    if (!step.last || !step.emitted.length) return "cut";
    return step.num_accepted >= step.drafted.length ? "full" : rejectionKind(lane, step);
  }

  // A token at position i as it would follow the draft before it: its character may have begun there.
  function candidate(lane, step, i, id) {
    const before = lane.output.slice(Math.max(0, step.from - CONTEXT), step.from).concat(step.drafted.slice(0, i));
    const path = before.slice(-CONTEXT).concat(id);
    return lane.segments(path)[path.length - 1];
  }

  function quoted(lane, step, i, id) {
    if (id === undefined) return "nothing";
    return "“" + candidate(lane, step, i, id).map((part) => (part.hex ? part.text : tokens.visible(part.text))).join("") + "”";
  }

  // At most three decimals, so that 0.5 stays 0.5; very small numbers keep two figures.
  function short(p) {
    return String(Number(p >= 0.001 || p === 0 ? p.toFixed(DECIMALS) : p.toPrecision(2)));
  }

  // Two numbers with as many decimals as it takes to tell them apart.
  function apart(a, b) {
    for (let digits = DECIMALS; digits < MOST_DECIMALS; digits += 1) {
      const texts = [a, b].map((value) => String(Number(value.toFixed(digits))));
      if (texts[0] !== texts[1]) return texts;
    }
    return [String(a), String(b)];
  }

  function known(p, words) {
    return p === null ? words : short(p);
  }

  function copies(lane) {
    return LOOKUP_METHODS.includes(lane.method);
  }

  // min(1, p/q) filled in, and which side of it the draw fell on: as vLLM decided, for the recorded numbers are rounded.
  function drawRule(draw, accepted) {
    const [u, limit] = apart(draw.u, draw.limit);
    const side = accepted ? "not above it" : "above it";
    return "accepted with probability min(1, p/q) = min(1, " + short(draw.p) + " / " + short(draw.q) + ") = " + limit +
      ", the draw was " + u + ", which is " + side;
  }

  function said(lane, step, i) {
    const words = quoted(lane, step, i, step.drafted[i]);
    if (copies(lane)) return "the copied text said " + words;
    return "the drafter said " + words + " (" + known(believed(step, i, "drafter", step.drafted[i]), "not recorded") + ")";
  }

  function rejection(lane, step, kind) {
    const i = step.num_accepted;
    const own = quoted(lane, step, i, ownToken(step));
    const given = known(believed(step, i, "target", step.drafted[i]), "a probability that was not recorded");
    const ownP = believed(step, i, "target", ownToken(step));
    const place = " at position " + (i + 1) + ": " + said(lane, step, i);
    const recovered = " The recovered token, drawn from the rest of the target’s distribution, is " + own + ".";
    if (kind === "draw") return "Rejected by the draw" + place + "; " + drawRule(drawAt(step, i), false) + "." + recovered;
    if (kind === "sampled") {
      return "Rejected" + place + "; at temperature 1 the target gives it " + given + "." + recovered + " The draw was not recorded.";
    }
    if (kind === "unrecorded") return "Rejected" + place + "; the target prefers " + own + ". Their probabilities were not recorded.";
    const word = kind === "near" ? "Near miss" : "Clear miss";
    return word + place + "; the target gives it " + given + " and prefers " + own + " with " + short(ownP) + ".";
  }

  // In prefill, and where nothing was drafted, the target's token is all that there is.
  function alone(lane, step) {
    if (!step.emitted.length) return "nothing was emitted.";
    const p = believed(step, 0, "target", step.emitted[0]);
    return "the target’s token is " + quoted(lane, step, 0, step.emitted[0]) + (p === null ? "." : " with " + short(p) + ".");
  }

  function full(lane, step) {
    const i = step.drafted.length;
    const p = believed(step, i, "target", ownToken(step));
    return "Full block: " + (i === 1 ? "the one drafted token was" : "all " + i + " drafted tokens were") + " accepted; the target adds the bonus token " +
      quoted(lane, step, i, ownToken(step)) + (p === null ? "." : " with " + short(p) + ".");
  }

  function accepted(step) {
    return step.num_accepted + " of " + plural(step.drafted.length, "drafted token") + " accepted";
  }

  const SENTENCES = {
    prefill: (lane, step) => "Prefill, not a draft: " + alone(lane, step),
    undrafted: (lane, step) => "No draft in this step: " + alone(lane, step),
    padded: (lane, step) => "No draft so near the end of the context: vLLM verified placeholders, " + step.num_accepted + " accepted.",
    cut: (lane, step) =>
      "Cut block: a stop condition or the token limit ended the answer after " + plural(step.emitted.length, "emitted token") +
      " of this step; " + accepted(step) + ".",
    full,
  };

  // One plain sentence (a pure function): why the block of the step at index `at` ended where it did.
  function breakSentence(lane, at) {
    const kind = breakKind(lane, at);
    if (at < 0) return "Before the first step: nothing is shown yet.";
    if (kind === null) return "This step is not known.";
    const step = lane.steps[at];
    const recorded = Array.isArray(step.positions) && step.positions.length > 0;
    if (kind === "unrecorded" && !recorded) {
      const i = step.num_accepted;
      const words = quoted(lane, step, i, ownToken(step)) + " to the drafted " + quoted(lane, step, i, step.drafted[i]);
      return "Rejected at position " + (i + 1) + ": the target prefers " + words + ". " + WITHOUT;
    }
    const text = SENTENCES[kind] ? SENTENCES[kind](lane, step) : rejection(lane, step, kind);
    return recorded ? text : text + " " + WITHOUT;
  }

  Object.assign(DFlashViz, { breakKind, breakPosition, breakSentence, positionOf });
  DFlashViz.facts = { believed, candidate, copies, drawAt, drawRule, positionAt, temperature, topList };
})();
