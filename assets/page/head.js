// Above the cards: what is shown, the state of the engine, problems, and the controls of a playback.
(function () {
  "use strict";
  const DFlashViz = window.DFlashViz;
  const { add, el, button, setText, setAttribute } = DFlashViz;
  const SPEEDS = [0.25, 1, 4];

  const STATES = {
    queued: ["○", "queued"],
    weights: ["◔", "preparing the weights"],
    loading: ["◑", "loading"],
    ready: ["●", "ready"],
    failed: ["✗", "failed"],
    stopped: ["■", "stopped"],
  };

  function timeLeft(seconds) {
    if (seconds === null || seconds === undefined) return "";
    return seconds < 90 ? "about " + Math.ceil(seconds) + " s left" : "about " + Math.ceil(seconds / 60) + " min left";
  }

  function percent(progress) {
    return Math.round(Math.max(0, Math.min(1, progress)) * 100);
  }

  class Engine {
    constructor(parent) {
      this.node = add(parent, "div", "dv-run-engine");
      this.chip = add(this.node, "span", "dv-chip", "engine: no news yet");
      this.words = add(this.node, "span", "dv-run-engine-words");
      this.bar = add(this.node, "div", "dv-run-bar");
      this.fill = add(this.bar, "div", "dv-run-bar-fill");
      this.node.hidden = true;
    }

    draw(line) {
      const [sign, word] = STATES[line.state] || ["○", String(line.state)];
      this.node.hidden = false;
      this.node.dataset.state = line.state;
      setText(this.chip, sign + " engine " + word);
      const known = typeof line.progress === "number";
      const share = known ? percent(line.progress) + " %" : "";
      setText(this.words, [line.message, share, timeLeft(line.seconds_left)].filter(Boolean).join(" · "));
      this.drawBar(line, known);
    }

    // The bar's place stays; with no number to show, the words beside it tell what goes on.
    drawBar(line, known) {
      this.bar.style.visibility = known ? "visible" : "hidden";
      if (!known) return this.bar.removeAttribute("role");
      const share = percent(line.progress);
      this.fill.style.width = share + "%";
      setAttribute(this.bar, "role", "progressbar");
      setAttribute(this.bar, "aria-label", "Engine start");
      setAttribute(this.bar, "aria-valuemin", 0);
      setAttribute(this.bar, "aria-valuemax", 100);
      return setAttribute(this.bar, "aria-valuenow", share);
    }
  }

  class Controls {
    constructor(parent, actions) {
      this.node = add(parent, "div", "dv-controls");
      this.node.setAttribute("role", "group");
      this.node.setAttribute("aria-label", "Playback");
      this.play = button(this.node, "dv-play", "Pause", actions.toggle);
      button(this.node, "dv-restart", "Restart", actions.restart);
      this.speeds = SPEEDS.map((speed) => [speed, button(this.node, "dv-speed", speed + "×", () => actions.speed(speed))]);
      this.speeds.forEach(([speed, node]) => node.setAttribute("aria-label", "Speed " + speed + " times"));
      this.clock = add(this.node, "span", "dv-clock");
    }

    draw(player) {
      setText(this.play, player.playing ? "Pause" : "Play");
      setText(this.clock, player.clock.toFixed(1) + " of " + player.length.toFixed(1) + " s");
      for (const [speed, node] of this.speeds) setAttribute(node, "aria-pressed", speed === player.speed);
    }
  }

  class Head {
    constructor(parent, actions) {
      this.node = add(parent, "div", "dv-head");
      const row = add(this.node, "div", "dv-head-row");
      this.origin = add(row, "span", "dv-chip dv-origin");
      this.engine = new Engine(row);
      this.prompt = add(this.node, "div", "dv-prompt");
      this.note = add(this.node, "div", "dv-note");
      this.controls = new Controls(this.node, actions);
      this.problems = add(this.node, "div", "dv-problems");
      this.clear();
    }

    clear() {
      for (const node of [this.origin, this.prompt, this.note, this.controls.node]) node.hidden = true;
      this.engine.node.hidden = true;
      this.problems.replaceChildren();
    }

    show(node, text) {
      node.hidden = !text;
      setText(node, text || "");
    }

    drawRun(run) {
      const recorded = run.origin === "recorded";
      this.show(this.origin, recorded ? "Recorded run, not live" : "Live");
      this.origin.dataset.origin = recorded ? "recorded" : "live";
      this.show(this.prompt, run.prompt ? "Prompt: " + run.prompt : "");
      this.prompt.title = run.prompt || "";
      this.show(this.note, run.note);
      this.controls.node.hidden = !run.play;
    }

    drawProblem(line) {
      const node = el("div", "dv-problem");
      node.setAttribute("role", "alert");
      add(node, "strong", "", "⚠ " + (line.message || "Something went wrong."));
      if (line.action) add(node, "span", "", " " + line.action);
      this.problems.appendChild(node);
    }
  }

  DFlashViz.Head = Head;
})();
