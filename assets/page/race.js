// The race: a row per lane on a common clock.
(function () {
  "use strict";
  const DFlashViz = window.DFlashViz;
  const { add, dress, nameLane, percent, plural, setText, setAttribute, timeLeft } = DFlashViz;
  const SERIAL = "Lanes share this machine: each runs alone, then the race is replayed on a common clock.";
  const APART = "Each server answered alone, one after another. Whether their machines are equal the app cannot know.";
  const CONTENDED = "All lanes ran at the same time and took time from each other.";

  function loadingWords(turn) {
    const share = typeof turn.progress === "number" ? percent(turn.progress) + " %" : "";
    return [turn.message || "loading", share, timeLeft(turn.seconds_left)].filter(Boolean).join(" · ");
  }

  // Where a lane stands, in words.
  function turnWords(lane) {
    const turn = lane.turn || {};
    const tokens = plural(lane.tokens, "token");
    const seconds = lane.seconds.toFixed(2) + " s";
    switch (lane.state) {
      case "waiting": return turn.message || "waits for its turn";
      case "loading": return loadingWords(turn);
      case "running": return (turn.message || "running") + (lane.shown ? " · " + seconds : "");
      case "done": return tokens + " in " + seconds;
      case "stopped": return lane.tokens ? "stopped after " + tokens : turn.message || "stopped";
      case "failed": return turn.message ? "failed: " + turn.message : "failed";
      default: return turn.message || lane.state;
    }
  }

  class Row {
    constructor(parent, style) {
      this.node = add(parent, "div", "dv-race-row");
      this.node.setAttribute("role", "listitem");
      dress(this.node, style);
      nameLane(add(this.node, "div", "dv-race-name"), style);
      this.words = add(this.node, "div", "dv-race-words");
      const track = add(this.node, "div", "dv-race-track");
      this.bar = add(track, "div", "dv-race-bar");
      this.tip = add(track, "div", "dv-race-tip", style.sign);
      this.tip.setAttribute("aria-hidden", "true");
      this.tokens = add(track, "div", "dv-race-tokens");
      this.load = add(track, "div", "dv-load");
      this.loaded = add(this.load, "div", "dv-load-fill");
    }

    draw(lane, goal) {
      const words = turnWords(lane);
      setAttribute(this.node, "data-state", lane.state);
      setText(this.words, words);
      setAttribute(this.words, "title", words);
      setText(this.tokens, plural(lane.tokens, "token"));
      const place = (goal.whole ? (100 * goal.reached(lane)) / goal.whole : 0) + "%";
      this.bar.style.width = place;
      this.tip.style.left = place;
      this.tokens.style.left = place;
      this.tip.hidden = this.tokens.hidden = !lane.tokens;
      this.drawLoad(lane);
    }

    // With no number to show, the words above tell what goes on.
    drawLoad(lane) {
      const known = lane.state === "loading" && typeof lane.turn.progress === "number";
      this.load.hidden = !known;
      if (!known) return this.load.removeAttribute("role");
      const share = percent(lane.turn.progress);
      this.loaded.style.width = share + "%";
      setAttribute(this.load, "role", "progressbar");
      setAttribute(this.load, "aria-label", "Start of " + lane.style.title);
      setAttribute(this.load, "aria-valuemin", 0);
      setAttribute(this.load, "aria-valuemax", 100);
      return setAttribute(this.load, "aria-valuenow", share);
    }
  }

  // What a bar's length means. Lanes that run in turn, and results, show time: the shorter, the faster.
  // While a replay has all of them on the way at once it is tokens, as in a race: the further, the faster.
  function goalOf(player, lanes) {
    const longest = Math.max(player.lengthIn("time"), ...lanes.map((lane) => lane.seconds)); // with those without steps
    if (player.finished) return { reached: (lane) => lane.seconds, whole: longest, unit: "s", digits: 2 };
    return { reached: (lane) => lane.tokens, whole: player.lengthIn("token"), unit: "tokens", digits: 0 };
  }

  class Race {
    constructor(parent) {
      this.node = add(parent, "section", "dv-race");
      this.node.setAttribute("aria-label", "Race");
      add(this.node, "div", "dv-heading", "Race");
      this.list = add(this.node, "div", "dv-race-rows");
      this.list.setAttribute("role", "list");
      const axis = add(this.node, "div", "dv-race-axis");
      this.zero = add(axis, "span", "");
      this.whole = add(axis, "span", "");
      this.why = add(this.node, "div", "dv-race-why dv-dim");
    }

    layOut(lanes) {
      this.list.replaceChildren();
      this.rows = new Map(lanes.map((lane) => [lane.name, new Row(this.list, lane.style)]));
    }

    draw(lanes, player, run) {
      const goal = goalOf(player, lanes);
      const alone = run && run.apart ? APART : SERIAL;
      lanes.forEach((lane) => this.rows.get(lane.name).draw(lane, goal));
      setText(this.zero, "0 " + goal.unit);
      setText(this.whole, goal.whole ? goal.whole.toFixed(goal.digits) + " " + goal.unit : "");
      setText(this.why, lanes.length < 2 ? "" : run && run.contended ? CONTENDED : alone);
    }
  }

  Object.assign(DFlashViz, { Race, turnWords });
})();
