// The data of one lane, and pure functions from it to cells and words.
(function () {
  "use strict";
  const DFlashViz = window.DFlashViz;
  const { MARKS, plural, tokens } = DFlashViz;
  const CONTEXT = 3; // a UTF-8 character has at most four bytes: three neighbours can share it

  const STEP_DEFAULTS = {
    draft_s: 0, verify_s: 0, drafted: [], emitted: [], num_accepted: 0, last: null, prefill: false, batch_size: 1,
  };

  const GROWING = ["al", "race"]; // only their new points come
  const ENDED = { abort: "stopped", error: "failed" };
  let lastId = 0;

  class Lane {
    constructor(style) {
      lastId += 1;
      this.id = lastId; // a replay starts with new lanes of the same names
      this.style = style;
      this.header = null;
      this.steps = [];
      this.output = []; // the answer's token ids
      this.bytes = new Map();
      this.end = null;
      this.turn = null;
      this.text = null; // whether the answer equals the one without speculation
      this.problems = [];
      this.values = {};
      this.series = { al: [], race: [], histogram: [], positions: { unconditional: [], conditional: [] }, split: null };
      this.revisions = { al: 0, race: 0, histogram: 0, positions: 0, split: 0 };
      this.version = 0;
      this.figuresVersion = 0;
    }

    // Data only; drawing waits for the frame.
    take(line) {
      this.version += 1;
      if (line.type === "header") this.setHeader(line);
      else if (line.type === "step") this.addStep(line);
      else if (line.type === "figures") this.addFigures(line);
      else if (line.type === "text") this.setText(line);
      else if (line.type === "problem") this.problems.push(line);
      else if (line.type === "turn") this.turn = line;
      else if (line.type === "end") this.end = line;
    }

    addFigures(line) {
      this.figuresVersion += 1;
      Object.assign(this.values, line.values);
      for (const key of Object.keys(this.series)) {
        if (!line[key]) continue;
        this.revisions[key] += 1;
        if (GROWING.includes(key)) this.series[key].push(...line[key]);
        else this.series[key] = line[key];
      }
    }

    setText(line) {
      this.figuresVersion += 1;
      this.text = line;
    }

    setHeader(header) {
      this.header = header;
      this.learn(header.tokens);
    }

    learn(texts) {
      for (const id of Object.keys(texts || {})) this.bytes.set(Number(id), tokens.fromLatin1(texts[id]));
    }

    addStep(line) {
      const step = Object.assign({}, STEP_DEFAULTS, line);
      step.drafted = step.drafted.filter((id) => id >= 0); // -1 is a placeholder, no token
      step.from = this.output.length;
      this.learn(step.tokens);
      this.output.push(...step.emitted);
      this.steps.push(step);
    }

    // Ids nobody told the bytes of still get a text of their own.
    tokenBytes(id) {
      return this.bytes.get(id) || new TextEncoder().encode("⟨#" + id + "⟩");
    }

    segments(ids) {
      return tokens.pieces(ids.map((id) => this.tokenBytes(id)));
    }

    get fingerprint() {
      return (this.header && this.header.fingerprint) || {};
    }

    get name() {
      return this.style.name;
    }

    get method() {
      return this.fingerprint.method || this.style.method || this.name;
    }

    // Documents that tell no turns still tell where a lane stands.
    get state() {
      if (this.turn) return this.turn.state;
      if (this.end) return ENDED[this.end.finish_reason] || "done";
      return this.steps.length ? "running" : "waiting";
    }

    // On the lane's own clock, which starts with its prompt.
    get seconds() {
      if (!this.steps.length) return 0;
      return (this.steps[this.steps.length - 1].end || 0) - (this.steps[0].start || 0);
    }

    get numSpeculative() {
      return this.fingerprint.num_speculative_tokens || this.style.k || 0;
    }
  }

  function cell(kind, id, segments, position, extra) {
    return Object.assign({ kind, sign: MARKS[kind].sign, id, segments, position }, extra);
  }

  // The tokens around a step as they went into the answer; `at(i)` counts from the step's first emitted token.
  function answerPath(lane, step) {
    const from = Math.max(0, step.from - 1 - CONTEXT);
    const segments = lane.segments(lane.output.slice(from, step.from + step.emitted.length + CONTEXT));
    return (i) => segments[step.from + i - from];
  }

  // The same with the drafted tokens in place of the emitted ones.
  function draftPath(lane, step) {
    const from = Math.max(0, step.from - 1 - CONTEXT);
    const segments = lane.segments(lane.output.slice(from, step.from).concat(step.drafted));
    return (i) => segments[step.from + i - from];
  }

  function draftedKind(step, i) {
    if (i < step.num_accepted) return "accepted";
    return i === step.num_accepted ? "rejected" : "discarded";
  }

  // An accepted token's character may be finished by the target's token or by the draft: prefer what happened.
  function draftedCell(step, i, inAnswer, inDraft) {
    const kind = draftedKind(step, i);
    const emitted = i < Math.min(step.num_accepted, step.emitted.length);
    const real = emitted ? inAnswer(i) : null;
    const segments = real && tokens.isWhole(real) ? real : inDraft(i);
    return cell(kind, step.drafted[i], segments, String(i + 1), { cut: kind === "accepted" && !emitted });
  }

  function hasOwnToken(step) {
    return step.last !== null && step.emitted.length > 0;
  }

  function draftCells(lane, step) {
    const inAnswer = answerPath(lane, step);
    const inDraft = draftPath(lane, step);
    const cells = [];
    if (step.from > 0) cells.push(cell("anchor", lane.output[step.from - 1], inAnswer(-1), "0"));
    step.drafted.forEach((id, i) => cells.push(draftedCell(step, i, inAnswer, inDraft)));
    if (hasOwnToken(step)) {
      const at = step.emitted.length - 1;
      cells.push(cell(step.last, step.emitted[at], inAnswer(at), "→ " + (step.num_accepted + 1)));
    }
    return cells;
  }

  // What the block of the step at index `at` shows, in order.
  function cells(lane, at) {
    const step = lane.steps[at];
    if (step.drafted.length) return draftCells(lane, step);
    const inAnswer = answerPath(lane, step);
    return step.emitted.map((id, i) => cell("plain", id, inAnswer(i), String(i + 1)));
  }

  function segmentsText(segments) {
    return segments.map((segment) => segment.text).join("");
  }

  function quoted(lane, step, i) {
    return "“" + tokens.visible(segmentsText(answerPath(lane, step)(i))).replace(/␣/g, " ") + "”";
  }

  function undraftedCaption(lane, step) {
    if (!step.emitted.length) return step.prefill ? "read the prompt." : "nothing drafted, nothing emitted.";
    const token = quoted(lane, step, step.emitted.length - 1);
    return step.prefill
      ? "prefill: the target read the prompt and emitted the first token " + token + "."
      : "no draft; the target emitted " + token + ".";
  }

  function ending(lane, step) {
    if (!hasOwnToken(step)) {
      return "; a stop condition or the token limit cut the step after " + plural(step.emitted.length, "emitted token") + ".";
    }
    const token = MARKS[step.last].sign + " " + quoted(lane, step, step.emitted.length - 1);
    if (step.last === "bonus") return ", then " + token + ", the bonus token from the target.";
    const discarded = Math.max(0, step.drafted.length - step.num_accepted - 1);
    return ", then " + token.trim() + " from the target; " + discarded + " discarded.";
  }

  // DFlash drafts its whole block in one forward pass; the other methods do not, so only it says so.
  function caption(lane, at) {
    const step = lane.steps[at];
    const start = "Step " + step.index + ": ";
    if (!step.drafted.length) return start + undraftedCaption(lane, step);
    const all = step.num_accepted === step.drafted.length;
    const how = lane.method === "dflash" ? " in one pass, " : ", ";
    const accepted = (all ? "all " : "") + step.num_accepted + " accepted";
    if (step.padded) return start + "no draft so near the end of the context; vLLM verified placeholders" + ending(lane, step);
    return start + "drafted " + step.drafted.length + how + accepted + ending(lane, step);
  }

  function announcement(step) {
    if (!step.drafted.length) return "step " + step.index + ": " + (step.prefill ? "prefill" : "no draft");
    return "step " + step.index + ": " + step.num_accepted + " of " + step.drafted.length + " accepted";
  }

  // The origin of each emitted token of a step, in order.
  function origins(step) {
    const last = hasOwnToken(step) ? step.emitted.length - 1 : -1;
    return step.emitted.map((id, i) => (i === last ? step.last : step.drafted.length ? "accepted" : "plain"));
  }

  // A step as runs of equal marks, for the small rows of the history: [["accepted", 4], ["rejected", 1], ...].
  function markRuns(step) {
    const rejected = step.num_accepted < step.drafted.length ? 1 : 0;
    const runs = [
      ["accepted", step.num_accepted],
      ["rejected", rejected],
      ["discarded", step.drafted.length - step.num_accepted - rejected],
    ];
    if (hasOwnToken(step) && step.last !== "plain") runs.push([step.last, 1]);
    return runs.filter((run) => run[1] > 0);
  }

  Object.assign(DFlashViz, { Lane, cells, caption, announcement, origins, markRuns, segmentsText });
})();
