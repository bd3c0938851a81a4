// The controls of a run that can be shown again: a slider over the steps of one lane, and what leads through them.
(function () {
  "use strict";
  const DFlashViz = window.DFlashViz;
  const { MARKS, add, button, copyButton, dress, setAttribute, setText } = DFlashViz;
  const SPEEDS = [0.25, 0.5, 1, 2, 4];
  const MODES = [["time", "by time"], ["token", "by token"]];
  const { sign: REJECTED } = MARKS.rejected;
  const { sign: FULL } = MARKS.bonus;
  const KEYS = [
    "While the focus is in this part of the page:",
    "← →  previous, next step",
    "Space  play or pause",
    "Home, End  first, last step",
    "r, R  next, previous rejection",
    "f, F  next, previous full block",
    "Enter  on a token of a block: look into its step",
    "Escape  back to the latest step",
    "?  definition of what has the focus",
  ].join("\n");

  function clockWords(player) {
    const at = Math.min(player.finished ? player.length : player.clock, player.length);
    if (player.mode === "token") return "token " + Math.floor(at) + " of " + player.length;
    return at.toFixed(1) + " of " + player.length.toFixed(1) + " s";
  }

  // Steps are counted as everywhere: the prompt's own is step 0.
  function stepWords(lane) {
    if (lane.countsOnly) return lane.style.title + ": counts only, no steps";
    const count = lane.steps.length;
    if (!lane.shown) return lane.style.title + ": before the first of " + count + " steps";
    return lane.style.title + ": step " + lane.last.index + " of " + lane.steps[count - 1].index;
  }

  // `actions`: toggle(), restart(), speed(x), mode(name), seek(at), step(delta), first(), last(),
  // jump(kind, direction), address().
  class Scrubber {
    constructor(parent, popover, actions) {
      this.node = add(parent, "div", "dv-controls");
      this.node.setAttribute("role", "group");
      this.node.setAttribute("aria-label", "Playback");
      this.buildSlider(actions);
      this.buildSteps(this.group(), actions);
      this.buildJumps(this.group(), actions);
      this.buildRest(this.group(), popover, actions);
      this.buildSpeeds(this.group(), actions);
      this.buildModes(this.group(), actions);
    }

    // Groups stay together where there is no room for all in one row.
    group() {
      return add(this.node, "span", "dv-control-group");
    }

    buildSlider(actions) {
      this.row = add(this.node, "div", "dv-scrub");
      this.words = add(this.row, "div", "dv-scrub-words");
      this.slider = add(this.row, "input", "dv-slider");
      this.slider.type = "range";
      this.slider.min = "0";
      this.slider.setAttribute("aria-label", "Step");
      this.slider.addEventListener("input", () => actions.seek(Number(this.slider.value) - 1));
    }

    buildSteps(row, actions) {
      this.icon(row, "dv-first", "|◂", "First step", actions.first);
      this.icon(row, "dv-previous", "◂", "Previous step", () => actions.step(-1));
      this.play = button(row, "dv-play", "Replay", actions.toggle);
      this.icon(row, "dv-next", "▸", "Next step", () => actions.step(1));
      this.icon(row, "dv-latest", "▸|", "Last step", actions.last);
      button(row, "dv-restart", "Restart", actions.restart);
    }

    buildJumps(row, actions) {
      for (const [kind, sign, words] of [["rejection", REJECTED, "rejection"], ["full", FULL, "full block"]]) {
        this.icon(row, "dv-previous-" + kind, "◂" + sign, "Previous " + words, () => actions.jump(kind, -1));
        this.icon(row, "dv-next-" + kind, sign + "▸", "Next " + words, () => actions.jump(kind, 1));
      }
    }

    // Signs alone are no names.
    icon(row, className, sign, words, onClick) {
      const node = button(row, "dv-icon " + className, sign, onClick);
      node.setAttribute("aria-label", words);
      node.title = words;
      return node;
    }

    buildSpeeds(row, actions) {
      this.speeds = SPEEDS.map((speed) => [speed, button(row, "dv-speed", speed + "×", () => actions.speed(speed))]);
      this.speeds.forEach(([speed, node]) => node.setAttribute("aria-label", "Speed " + speed + " times"));
    }

    buildModes(row, actions) {
      row.setAttribute("role", "group");
      row.setAttribute("aria-label", "What the lanes have in common");
      this.modes = MODES.map(([mode, words]) => [mode, button(row, "dv-mode", words, () => actions.mode(mode))]);
      this.clock = add(row, "span", "dv-clock");
    }

    buildRest(row, popover, actions) {
      const keys = add(row, "button", "dv-button dv-keys", "Keys");
      keys.type = "button";
      popover.attach(keys, () => KEYS);
      this.link = copyButton(row, "dv-copy-link", "Copy link", actions.address);
    }

    // The controls have their place before there is anything to replay.
    // `notice`: words that stand in for the step's, even where there is nothing to scrub.
    draw(player, lane, replayable, hasAddress, notice) {
      this.node.style.visibility = replayable ? "visible" : "hidden";
      this.link.style.visibility = hasAddress ? "inherit" : "hidden";
      setText(this.play, player.playing ? "Pause" : player.finished ? "Replay" : "Play");
      setText(this.clock, clockWords(player));
      for (const [speed, node] of this.speeds) setAttribute(node, "aria-pressed", speed === player.speed);
      for (const [mode, node] of this.modes) setAttribute(node, "aria-pressed", mode === player.mode);
      if (lane) this.drawSlider(lane, notice);
    }

    drawSlider(lane, notice) {
      const words = stepWords(lane);
      if (this.row.dataset.lane !== lane.name) dress(this.row, lane.style);
      setText(this.words, notice ? lane.style.title + ": " + notice : words);
      this.words.style.visibility = notice ? "visible" : "inherit";
      setAttribute(this.slider, "max", lane.steps.length);
      setAttribute(this.slider, "aria-valuetext", words);
      if (this.slider.value !== String(lane.shown)) this.slider.value = String(lane.shown);
    }
  }

  DFlashViz.Scrubber = Scrubber;
})();
