// What drafter and target believed at one position: both lists of most probable tokens, side by side.
(function () {
  "use strict";
  const DFlashViz = window.DFlashViz;
  const { add, el, facts } = DFlashViz;
  const DECIMALS = 3;
  const TAGS = { drafted: "▸ drafted", emitted: "● emitted" };

  const TOP_K =
    "Top-k: the k most probable tokens at this position, best first, at temperature 1 and before top-p, given the text so far";
  const IN_ORDER = " and the drafted tokens before this position.";
  const IN_ONE_PASS = "; in one pass, without the other slots’ tokens.";

  // What a list is conditioned on: no slot of DFlash's one pass sees the token of another.
  function topMeaning(lane, who) {
    return TOP_K + (who === "drafter" && lane.method === "dflash" ? IN_ONE_PASS : IN_ORDER);
  }

  function decimals(p) {
    return p > 0 && p < 0.0005 ? "<0.001" : p.toFixed(DECIMALS);
  }

  // Drafted or emitted tokens that are not in the list still show, with their probability if it is known.
  function entries(step, i, who) {
    const list = facts.topList(step, i, who);
    const marked = [step.drafted[i], step.emitted[i]].filter((id) => id !== undefined);
    for (const id of new Set(marked)) {
      if (list.length && !list.some((entry) => entry.id === id)) {
        list.push({ id, p: facts.believed(step, i, who, id), beyond: true });
      }
    }
    return list;
  }

  function missing(lane, step, i, who) {
    if (who === "drafter" && facts.copies(lane)) return "A copied token has no probability.";
    if (who === "drafter" && !step.drafted.length) return "Nothing was drafted here.";
    if (who === "drafter" && i >= step.drafted.length) return "No token is drafted here: the target alone speaks.";
    return "not recorded";
  }

  function entryNode(lane, step, i, entry) {
    const tags = [entry.id === step.drafted[i] && "drafted", entry.id === step.emitted[i] && "emitted"].filter(Boolean);
    const node = el("li", ["dv-entry", entry.beyond ? "dv-beyond" : "", ...tags.map((tag) => "dv-is-" + tag)].join(" "));
    const line = add(node, "div", "dv-entry-line");
    line.append(DFlashViz.tokenNode(facts.candidate(lane, step, i, entry.id)));
    add(line, "span", "dv-entry-tags", tags.map((tag) => TAGS[tag]).join(" "));
    add(line, "span", "dv-entry-p", entry.p === null ? "not among them" : decimals(entry.p));
    const bar = add(node, "div", "dv-entry-bar");
    bar.setAttribute("aria-hidden", "true");
    add(bar, "div", "dv-entry-fill").style.width = 100 * (entry.p || 0) + "%";
    node.title = "token id " + entry.id + (entry.beyond ? ", not among the most probable" : "");
    return node;
  }

  function drawList(parent, popover, lane, step, i, who) {
    const part = add(parent, "div", "dv-list dv-list-" + who);
    const count = facts.topList(step, i, who).length;
    const owner = who === "drafter" ? "Drafter’s" : "Target’s";
    const title = DFlashViz.term(part, popover, owner + (count ? " top-" + count : " top-k"), topMeaning(lane, who));
    const list = entries(step, i, who);
    if (!list.length) return add(part, "div", "dv-dim", missing(lane, step, i, who));
    const node = add(part, "ol", "dv-entries");
    node.setAttribute("aria-label", title.textContent);
    node.setAttribute("role", "list"); // list-style: none would take the role away
    return list.forEach((entry) => node.append(entryNode(lane, step, i, entry)));
  }

  // Above temperature 0 the target draws: nobody knows which token it would have been.
  function followedWords(lane) {
    const words = "Had the draft been followed up to here, ";
    return words + (facts.temperature(lane) > 0
      ? "the target’s most probable token would have been the first of its list."
      : "the target would have said this.");
  }

  const DRAW_NOTE = " p and q are after temperature and top-p; the lists are at temperature 1.";

  // The draw over this position. vLLM draws for the whole block, but stops at the first rejected position.
  function drawWords(lane, step, i) {
    const draw = facts.drawAt(step, i);
    if (i >= step.drafted.length) return "";
    if (!draw) return facts.temperature(lane) > 0 ? "The draw at this position was not recorded." : "";
    if (i > step.num_accepted) return "The draw decided nothing here: the block had ended before." + DRAW_NOTE;
    const rule = facts.drawRule(draw, i < step.num_accepted);
    return rule.charAt(0).toUpperCase() + rule.slice(1) + "." + DRAW_NOTE;
  }

  // Draws into `parent` what is known of position `i`; `row` is the position's row of the table.
  function drawLists(parent, popover, lane, step, i, row) {
    parent.replaceChildren();
    const heading = add(parent, "div", "dv-heading dv-lists-title", "Position " + (i + 1) + ": ");
    if (row.segments) heading.append(DFlashViz.tokenNode(row.segments), " ");
    add(heading, "span", "dv-result dv-row-" + row.kind, row.sign + " " + row.word);
    const lists = add(parent, "div", "dv-lists");
    drawList(lists, popover, lane, step, i, "drafter");
    drawList(lists, popover, lane, step, i, "target");
    if (row.follows) add(parent, "div", "dv-dim", followedWords(lane));
    const words = drawWords(lane, step, i);
    if (words) add(parent, "div", "dv-draw", words);
  }

  Object.assign(DFlashViz, { drawLists, decimals });
})();
