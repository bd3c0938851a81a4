// From the document's lines to steps: one line a step while a run is live, one line in columns for a whole one.
(function () {
  "use strict";
  const DFlashViz = window.DFlashViz;
  const LAST = { r: "recovered", b: "bonus", p: "plain" };

  const DEFAULTS = {
    draft_s: 0, verify_s: 0, drafted: [], emitted: [], num_accepted: 0, last: null, prefill: false, padded: false,
    batch_size: 1, positions: [], source: null,
  };

  // -1 is a placeholder, no token. Most drafts have none and stay the array that they are.
  function real(ids) {
    return ids.some((id) => id < 0) ? ids.filter((id) => id >= 0) : ids;
  }

  // `from` is the offset of the step's first emitted token in the answer.
  function stepOf(line, from) {
    const step = Object.assign({}, DEFAULTS, line, { from });
    step.drafted = real(step.drafted);
    return step;
  }

  // All steps of a `steps` line, the first of them at `from`.
  function stepsOf(line, from) {
    const prefill = new Set(line.prefill);
    const padded = new Set(line.padded);
    const positions = line.positions || {};
    const source = line.source || {};
    const steps = new Array(line.count);
    const gapless = line.start.length < line.count; // every step begins where the one before ends
    let read = 0;
    let offset = from;
    for (let at = 0; at < line.count; at += 1) {
      const drafted = line.drafted.slice(read, read + line.num_drafted[at]);
      const last = LAST[line.last[at]] || null;
      const emitted = drafted.slice(0, last ? line.num_accepted[at] : line.cut[at]);
      if (last) emitted.push(line.own[at]);
      steps[at] = {
        index: at, start: gapless && at ? line.end[at - 1] : line.start[at], end: line.end[at],
        draft_s: line.draft_s[at], verify_s: line.verify_s[at],
        drafted: real(drafted), emitted, num_accepted: line.num_accepted[at], last,
        prefill: prefill.has(at), padded: padded.has(at), batch_size: line.batch_size.length ? line.batch_size[at] : 1,
        positions: positions[at] || [], source: source[at] || null, from: offset,
      };
      read += drafted.length;
      offset += emitted.length;
    }
    return steps;
  }

  Object.assign(DFlashViz, { stepOf, stepsOf });
})();
