// What each chart shows of a lane. Every lane has its own marker, dash and pattern beside its colour.
(function () {
  "use strict";
  const DFlashViz = window.DFlashViz;
  const { plainText, plural } = DFlashViz;
  const FEWEST_STEPS = 10; // the axis starts with room for these, so that the first steps do not rescale it
  const RACE_MARKERS = 10; // markers on a line of any length
  const PARTS = ["draft", "verify", "rest"];
  const PART_PATTERNS = { draft: "", verify: "/", rest: "." };

  function column(points, at) {
    return points.map((point) => point[at]);
  }

  function lastOf(points) {
    return points[points.length - 1];
  }

  function line(lane, theme, width) {
    return { color: theme.lane(lane), dash: lane.style.dash, width };
  }

  function marker(lane, theme, own) {
    return Object.assign({ symbol: lane.style.marker, color: theme.lane(lane), size: 7 }, own);
  }

  function pattern(shape, colour, theme, solidity) {
    return { shape, fillmode: "replace", fgcolor: colour, bgcolor: theme.bg, size: 6, solidity };
  }

  function open(lane) {
    return lane.style.marker + "-open";
  }

  const al = {
    key: "al",
    binned: ", and their mean AL",
    lacks: "step with a draft",
    shows: (lane) => lane.series.al.length > 0,
    words: (lane) => lastOf(lane.series.al)[2].toFixed(2) + " tokens up to step " + lastOf(lane.series.al)[0],
    xaxis: () => ({ title: "step", autorangeoptions: { include: [0, FEWEST_STEPS] } }),
    yaxis: () => ({ title: "acceptance length (tokens)", autorangeoptions: { include: [0, 2] } }),
    traces: (lanes, theme) => lanes.flatMap((lane) => [
      {
        x: column(lane.series.al, 0), y: column(lane.series.al, 1), type: "scatter", mode: "markers",
        name: plainText(lane.style.title), legendgroup: lane.name, showlegend: false, opacity: 0.6,
        marker: marker(lane, theme, { symbol: open(lane), size: 6 }),
      },
      {
        x: column(lane.series.al, 0), y: column(lane.series.al, 2), type: "scatter", mode: "lines+markers",
        name: plainText(lane.style.title), legendgroup: lane.name, line: line(lane, theme, 2.5),
        marker: marker(lane, theme, { maxdisplayed: RACE_MARKERS }),
      },
    ]),
  };

  function shares(counts) {
    const all = counts.reduce((sum, count) => sum + count, 0);
    return counts.map((count) => (all ? count / all : 0));
  }

  function percentages(values) {
    return values.map((value) => (value === null ? "–" : Math.round(value * 100) + " %")).join(", ");
  }

  const histogram = {
    key: "histogram",
    lacks: "step with a draft",
    shows: (lane) => lane.series.histogram.length > 0,
    words: (lane) => "shares from AL 1 on " + percentages(shares(lane.series.histogram)),
    xaxis: () => ({ title: "acceptance length (tokens)", dtick: 1 }),
    yaxis: () => ({ title: "share of steps", tickformat: ".0%", rangemode: "tozero" }),
    layout: { barmode: "group", bargap: 0.25 },
    traces: (lanes, theme) => lanes.map((lane) => ({
      x: lane.series.histogram.map((count, i) => i + 1), y: shares(lane.series.histogram), type: "bar",
      name: plainText(lane.style.title), hovertemplate: "%{y:.1%}",
      marker: {
        color: theme.lane(lane), line: { color: theme.lane(lane), width: 1 },
        pattern: pattern(lane.style.pattern, theme.lane(lane), theme, 0.45),
      },
    })),
  };

  // One entry explains the open markers of all lanes: an entry for each would fill a phone.
  function positionTrace(lane, theme, key, own) {
    const values = lane.series.positions[key] || [];
    return Object.assign({
      x: values.map((value, i) => i + 1), y: values, type: "scatter", mode: "lines+markers", name: plainText(lane.style.title),
    }, own);
  }

  const positions = {
    key: "positions",
    counted: true, // by servers that tell no steps, too
    lacks: "step with a draft",
    shows: (lane) => (lane.series.positions.unconditional || []).length > 0,
    words: (lane) => "from position 1 on " + percentages(lane.series.positions.unconditional),
    xaxis: () => ({ title: "drafted position", dtick: 1 }),
    yaxis: () => ({ title: "acceptance", tickformat: ".0%", range: [0, 1.03] }),
    traces: (lanes, theme) => [
      ...lanes.map((lane) => positionTrace(lane, theme, "unconditional", {
        line: line(lane, theme, 2.5), marker: marker(lane, theme, { size: 8 }),
      })),
      ...lanes.map((lane, i) => positionTrace(lane, theme, "conditional", {
        name: "open: conditional", showlegend: i === 0,
        line: line(lane, theme, 1), marker: marker(lane, theme, { symbol: open(lane), size: 8 }),
      })),
    ],
  };

  const race = {
    key: "race",
    binned: "",
    lacks: "step with a token",
    shows: (lane) => lane.series.race.length > 0,
    words: (lane) => plural(lastOf(lane.series.race)[1], "token") + " in " + lastOf(lane.series.race)[0].toFixed(2) + " s",
    xaxis: () => ({ title: "time since the lane's prompt (s)", rangemode: "tozero" }),
    yaxis: () => ({ title: "tokens", rangemode: "tozero" }),
    traces: (lanes, theme) => lanes.map((lane) => ({
      x: column(lane.series.race, 0), y: column(lane.series.race, 1), type: "scatter", mode: "lines+markers",
      name: plainText(lane.style.title), line: Object.assign(line(lane, theme, 2), { shape: "hv" }),
      marker: marker(lane, theme, { maxdisplayed: RACE_MARKERS }),
    })),
  };

  // By place and not by title: two lanes may be called alike.
  const split = {
    key: "split",
    lacks: "decode step",
    shows: (lane) => Boolean(lane.series.split),
    words: (lane) => PARTS.map((part) => part + " " + (lane.series.split[part] || 0).toFixed(2) + " s").join(", "),
    xaxis: () => ({ title: "time of decode steps (s)", rangemode: "tozero" }),
    yaxis: (lanes) => Object.assign({ autorange: "reversed", fixedrange: true }, split.ticks(lanes)),
    ticks: (lanes) => ({
      tickvals: lanes.map((lane, i) => i),
      ticktext: lanes.map((lane) => plainText(lane.style.sign + " " + lane.style.title) + " "),
    }),
    layout: {
      barmode: "stack", bargap: 0.35, uniformtext: { minsize: 10, mode: "hide" },
      legend: { orientation: "h", x: 0, y: 1.02, yanchor: "bottom", traceorder: "normal" },
    },
    traces: (lanes, theme) => PARTS.map((part) => {
      const seconds = lanes.map((lane) => lane.series.split[part] || 0);
      const isDraft = part === "draft";
      const colours = lanes.map((lane) => (isDraft ? theme.lane(lane) : theme.border)); // faint: texts stand on them
      return {
        y: lanes.map((lane, i) => i), x: seconds, type: "bar", orientation: "h", name: part,
        text: seconds.map((value) => part + " " + value.toFixed(2) + " s"), textposition: "inside", insidetextanchor: "middle",
        textangle: 0, insidetextfont: { color: isDraft ? theme.bg : theme.text }, hovertemplate: "%{text}<extra></extra>",
        marker: {
          color: colours, line: { color: theme.dim, width: 1 },
          pattern: pattern(PART_PATTERNS[part], colours, theme, 0.3),
        },
      };
    }),
  };

  DFlashViz.CHARTS = [al, histogram, positions, race, split];
})();
