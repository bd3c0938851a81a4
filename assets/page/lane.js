// The data of one lane with a cursor in it, and pure functions from it to cells and words.
(function () {
  "use strict";
  const DFlashViz = window.DFlashViz;
  const { MARKS, countWhile, plural, tokens } = DFlashViz;
  const CONTEXT = 3; // a UTF-8 character has at most four bytes: three neighbours can share it

  const COURSES = ["al", "race"]; // only their new points come
  const WHOLES = ["histogram", "positions", "split"]; // these come anew with every line
  const NO_REPORT = { values: {}, histogram: [], positions: { unconditional: [], conditional: [] }, split: null };
  const ENDED = { abort: "stopped", error: "failed" };
  const OVER = ["done", "stopped", "failed"];

  // Arrays may be too long to be spread into a call's arguments.
  function extend(array, more) {
    for (const one of more) array.push(one);
  }

  // What compares lanes covers no steps of its own and holds no course: it is about the whole run.
  function isComparison(line) {
    return line.after === undefined && ![...COURSES, ...WHOLES].some((key) => key in line);
  }

  // `steps` are all that is known; `shown` is how many of them are shown now. Whatever else was told is kept
  // with the number of steps that it came after, so that it is shown with these and goes with them.
  class Lane {
    constructor(style) {
      this.style = style;
      this.header = null;
      this.steps = [];
      this.output = []; // all token ids of the answer
      this.bytes = new Map();
      this.special = new Set(); // ids of tokens that are no text
      this.shown = 0;
      this.whole = false; // whether all of the run is shown, of every lane
      this.turns = [];
      this.reports = []; // figures, by the number of steps that they cover
      this.courses = { al: [], race: [] };
      this.bin = 1; // steps that one point of a course stands for
      this.troubles = [];
      this.ended = null;
      this.words = ""; // the answer so far, where no steps bring it
      this.comparison = {};
      this.verdict = null; // whether the answer equals the one without speculation
      this.version = 0;
      this.figuresVersion = 0;
    }

    // Data only; drawing waits for the frame.
    take(line) {
      this.version += 1;
      const stamped = { line, after: this.steps.length };
      if (line.type === "header") this.setHeader(line);
      else if (line.type === "step") this.addStep(line);
      else if (line.type === "steps") this.addSteps(line);
      else if (line.type === "figures") this.addFigures(line);
      else if (line.type === "text") this.setVerdict(line);
      else if (line.type === "problem") this.troubles.push(stamped);
      else if (line.type === "turn") this.turns.push(stamped);
      else if (line.type === "answer") this.words += line.text;
      else if (line.type === "end") this.ended = stamped;
    }

    addFigures(line) {
      this.figuresVersion += 1;
      if (isComparison(line)) return Object.assign(this.comparison, line.values);
      COURSES.forEach((key) => extend(this.courses[key], line[key] || []));
      this.bin = Math.max(this.bin, line.bin || 1);
      return this.reports.push(this.report(line));
    }

    // A line need not repeat what has not changed.
    report(line) {
      const before = this.reports[this.reports.length - 1] || NO_REPORT;
      const told = { after: line.after === undefined ? this.steps.length : line.after };
      for (const key of WHOLES) told[key] = line[key] || before[key];
      told.values = Object.assign({}, before.values, line.values);
      return told;
    }

    setVerdict(line) {
      this.figuresVersion += 1;
      this.verdict = line;
    }

    setHeader(header) {
      this.header = header;
      this.learn(header.tokens);
    }

    learn(texts) {
      for (const id of Object.keys(texts || {})) {
        this.bytes.set(Number(id), tokens.fromLatin1(texts[id]));
        if (tokens.isSpecial(texts[id])) this.special.add(Number(id));
      }
    }

    addStep(line) {
      this.learn(line.tokens);
      const step = DFlashViz.stepOf(line, this.output.length);
      this.steps.push(step);
      extend(this.output, step.emitted);
    }

    addSteps(line) {
      this.learn(line.tokens);
      const steps = DFlashViz.stepsOf(line, this.output.length);
      extend(this.steps, steps);
      for (const step of steps) extend(this.output, step.emitted);
    }

    // On the clock that lanes have in common: seconds since the lane's prompt, or tokens of its answer, at
    // which the step at index `at` is there. It is a step's end that brings its tokens.
    due(at, mode) {
      const step = this.steps[at];
      return mode === "token" ? step.from + step.emitted.length : (step.end || 0) - (this.steps[0].start || 0);
    }

    // Why there are no steps, where there are none. Such an answer is shown when the whole run is.
    get countsOnly() {
      return (this.header && this.header.counts_only) || "";
    }

    // Its text.
    get written() {
      if (!this.whole) return "";
      return this.end ? this.end.text : this.words;
    }

    length(mode) {
      return this.steps.length ? this.due(this.steps.length - 1, mode) : 0;
    }

    // Puts the cursor behind the first `shown` steps.
    show(shown, whole) {
      if (shown === this.shown && whole === this.whole) return;
      const before = this.reportAt;
      this.shown = shown;
      this.version += 1;
      if (whole !== this.whole || before !== this.reportAt) this.figuresVersion += 1;
      this.whole = whole;
    }

    // How many of things that came `after` so many steps are shown.
    countTold(things) {
      return countWhile(things.length, (at) => things[at].after <= this.shown);
    }

    get reportAt() {
      if (this.countsOnly && !this.whole) return -1;
      return this.countTold(this.reports) - 1;
    }

    get values() {
      const { values } = this.reports[this.reportAt] || NO_REPORT;
      return this.whole ? Object.assign({}, values, this.comparison) : values;
    }

    get turn() {
      const count = this.countTold(this.turns);
      return count ? this.turns[count - 1].line : null;
    }

    get problems() {
      return this.troubles.slice(0, this.countTold(this.troubles)).map((trouble) => trouble.line);
    }

    get end() {
      const there = this.countsOnly ? this.whole : this.ended && this.ended.after <= this.shown;
      return this.ended && there ? this.ended.line : null;
    }

    get text() {
      return this.whole ? this.verdict : null;
    }

    // How many points of a course are shown: those of the steps up to the cursor.
    coursePoints(key) {
      const points = this.courses[key];
      if (this.shown === this.steps.length) return points.length;
      if (!this.shown) return 0;
      const { tokens: reached } = this;
      const { index } = this.last;
      return countWhile(points.length, (at) => (key === "al" ? points[at][0] <= index : points[at][1] <= reached));
    }

    // Which data a chart of this key would show: equal numbers, equal data.
    revision(key) {
      return COURSES.includes(key) ? this.coursePoints(key) : this.reportAt;
    }

    // The data of the charts, as far as it is shown.
    get series() {
      const key = COURSES.map((course) => this.coursePoints(course)) + "/" + this.reportAt;
      if (!this.drawnSeries || this.drawnSeries.key !== key) this.drawnSeries = { key, ...this.makeSeries() };
      return this.drawnSeries;
    }

    makeSeries() {
      const made = Object.assign({}, this.reports[this.reportAt] || NO_REPORT);
      for (const key of COURSES) made[key] = this.courses[key].slice(0, this.coursePoints(key));
      return made;
    }

    // The latest step shown.
    get last() {
      return this.shown ? this.steps[this.shown - 1] : null;
    }

    // Tokens of the answer that are shown.
    get tokens() {
      if (this.countsOnly) return this.end ? this.end.num_output_tokens : 0;
      return this.shown ? this.due(this.shown - 1, "token") : 0;
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
      return this.shown ? "running" : "waiting";
    }

    // On the lane's own clock, which starts with its prompt; without steps on the app's, since it asked.
    get seconds() {
      const window = this.countsOnly && this.end && this.end.window;
      if (window) return (window.first_token_s || 0) + (window.decode_s || 0);
      return this.shown ? this.due(this.shown - 1, "time") : 0;
    }

    // Whether the answer has ended, one way or another.
    get over() {
      return OVER.includes(this.state);
    }

    get numSpeculative() {
      return this.fingerprint.num_speculative_tokens || this.style.k || 0;
    }
  }

  // `at` is the 0-based position in the block, null for the anchor; `position` what is written under the cell.
  function cell(kind, id, segments, at, position, extra) {
    return Object.assign({ kind, sign: MARKS[kind].sign, id, segments, at, position }, extra);
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
    return cell(kind, step.drafted[i], segments, i, String(i + 1), { cut: kind === "accepted" && !emitted });
  }

  function hasOwnToken(step) {
    return step.last !== null && step.emitted.length > 0;
  }

  function draftCells(lane, step) {
    const inAnswer = answerPath(lane, step);
    const inDraft = draftPath(lane, step);
    const cells = [];
    if (step.from > 0) cells.push(cell("anchor", lane.output[step.from - 1], inAnswer(-1), null, "0"));
    step.drafted.forEach((id, i) => cells.push(draftedCell(step, i, inAnswer, inDraft)));
    if (hasOwnToken(step)) {
      const at = step.emitted.length - 1;
      cells.push(cell(step.last, step.emitted[at], inAnswer(at), step.num_accepted, "→ " + (step.num_accepted + 1)));
    }
    return cells;
  }

  // What the block of the step at index `at` shows, in order.
  function cells(lane, at) {
    const step = lane.steps[at];
    if (step.drafted.length) return draftCells(lane, step);
    const inAnswer = answerPath(lane, step);
    return step.emitted.map((id, i) => cell("plain", id, inAnswer(i), i, String(i + 1)));
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

  // The target's probability of the emitted token `i` of a step; null where none was recorded.
  function confidence(step, i) {
    const position = step.positions[i];
    if (!position) return null;
    if (i < step.num_accepted && typeof position.p_target_drafted === "number") return position.p_target_drafted;
    const found = (position.target || []).find((one) => one[0] === step.emitted[i]);
    return found ? found[1] : null;
  }

  // Whether a step is one that a reader looks for: a block with a "rejection" in it, or a "full" one.
  function isKind(step, kind) {
    if (!step.drafted.length || step.padded) return false;
    return (step.num_accepted === step.drafted.length) === (kind === "full");
  }

  Object.assign(DFlashViz, {
    Lane, cells, caption, announcement, origins, markRuns, segmentsText, confidence, isKind,
  });
})();
