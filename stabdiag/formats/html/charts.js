// The charts: one uPlot per panel, over the same steps. Log text is written as text only.

const AXIS = 66;
const COLOURS = 10;
const HEIGHTS = {main: 320, first: 200, other: 130};

const panels = data.panels.map((panel, index) => ({
  ...panel,
  first: index === 0,
  last: index === data.panels.length - 1,
  steps: Array.from(unpacked(panel.steps)),
  raw: panel.lines.map((line) => unpacked(line.values)),
}));
for (const panel of panels) {
  panel.bad = panel.steps.filter((_, i) => panel.raw.some((values) => values[i] === Infinity));
}
const main = panels.find((panel) => panel.main) ?? panels[0];
let smoothing = data.smoothing ?? 0;

// In a comparison, a run has the same color in all charts.
const colours = new Map((data.comparison ? main?.lines ?? [] : []).map((line, i) => [line.name, i]));
const colourOf = (name, i) => (colours.get(name) ?? i) % COLOURS;

// Learning rates and loss scales are set by the program: they have no noise to smooth.
// A logarithmic axis spans at least this factor.
const LEAST_SPAN = 4;
const isSmoothed = (panel) => smoothing > 0 && !["lr", "loss_scale"].includes(panel.role);

const endSteps = [
  Math.min(...panels.map((panel) => panel.steps[0])),
  Math.max(...panels.map((panel) => panel.steps[panel.steps.length - 1])),
];
const ends = [];
let shown = [];

function setAxis(name) {
  axisName = name;
  ends.splice(0, 2, toX(endSteps[0]), toX(endSteps[1]));
  if (ends[0] === ends[1]) ends[1] += 1;
  for (const panel of panels) panel.x = name === "step" ? panel.steps : panel.steps.map((step) => toX(step));
  shown = [...ends];
}
setAxis("step");

// The curves of a panel: name, color, values. ``parts`` counts the curves that a name switches on
// and off: a mean comes after the two edges of its band, a smoothed curve after the raw one.
function curves(panel) {
  const positive = panel.scale !== "linear";
  const found = [];
  panel.fills = [];
  if (panel.mean) {
    const mean = curve(panel.mean, positive);
    const sigma = unpacked(panel.deviation);
    // On a logarithmic axis, a lower edge below zero is below the chart.
    const lowest = positive ? Math.min(...panel.raw[0].filter((value) => value > 0)) / 1e3 : -Infinity;
    const edge = (sign) => mean.map((value, i) => (
      value === undefined || value === null ? value : Math.max(value + sign * data.sigma * sigma[i], lowest)
    ));
    const quiet = {auto: false, spanGaps: true, points: {show: false}};
    found.push({values: edge(1), options: {...quiet, width: 0}});
    found.push({values: edge(-1), options: {...quiet, width: 0}});
    const dashed = {...quiet, width: 1.5, dash: [6, 4]};
    found.push({name: `mean ± ${data.sigma}σ of the ${panel.window} before`, colour: "mean", values: mean, options: dashed, isBand: true, parts: 3});
  }
  if (panel.mean) panel.fills.push({series: [1, 2], fill: colour("band")});
  // The bands of earlier good runs: two edges each; one of them has the name.
  for (const band of panel.bands ?? []) {
    const edge = {spanGaps: true, points: {show: false}, width: 1, dash: [2, 3]};
    found.push({colour: "good", values: curve(band.high, positive), options: edge});
    found.push({name: band.name, colour: "good", values: curve(band.low, positive), options: edge, isBand: true, parts: 2});
    panel.fills.push({series: [found.length - 1, found.length], fill: colour("goodband")});
  }
  panel.lines.forEach((line, i) => {
    const values = curve(line.values, positive);
    const width = panel.main && i === 0 ? 1.4 : 1.2;
    const drawn = {colour: `c${colourOf(line.name, i)}`, raw: panel.raw[i]};
    if (isSmoothed(panel)) {
      found.push({...drawn, values, options: {width: 1, alpha: 0.3, points: {show: false}}});
      found.push({...drawn, name: line.name, values: smoothed(values, smoothing), options: {width: width + 0.4}, parts: 2});
    } else {
      found.push({...drawn, name: line.name, values, options: {width}});
    }
  });
  if (panel.above) {
    const loss = curve(panel.lines[0].values, positive);
    const values = new Array(panel.steps.length).fill(undefined);
    const places = unpacked(panel.above);
    for (const at of places) values[at] = loss[at];
    const options = {paths: () => null, points: {show: true, size: 6, width: 1.5}};
    found.push({name: "outliers", colour: "above", values, options, places});
  }
  return found;
}

// Many outliers would hide the loss, so they become small.
function sized(u, panel) {
  const at = panel.drawn.findIndex((one) => one.places);
  if (at < 0) return;
  const inside = panel.drawn[at].places.filter((i) => panel.x[i] >= shown[0] && panel.x[i] <= shown[1]);
  const many = inside.length > 300;
  Object.assign(u.series[at + 1].points, {size: many ? 3 : 6, width: many ? 1 : 1.5});
}

// The value of a curve at a position between two points, or null if it is not drawn.
function between(panel, values, x) {
  let right = panel.x.findIndex((other) => other >= x);
  let left = right - 1;
  while (right < values.length && values[right] === undefined) right += 1;
  while (left >= 0 && values[left] === undefined) left -= 1;
  if (left < 0 || typeof values[left] !== "number" || typeof values[right] !== "number") return null;
  const share = (x - panel.x[left]) / (panel.x[right] - panel.x[left]);
  return values[left] + share * (values[right] - values[left]);
}

// The visible values: points, and where curves enter and leave.
function extent(u, panel, least, most) {
  const found = [least, most];
  panel.drawn.forEach((one, at) => {
    if (one.options.auto !== false && !one.isBand && !one.places && !panel.off.has(at)) {
      found.push(between(panel, one.values, shown[0]), between(panel, one.values, shown[1]));
    }
  });
  const good = found.filter((value) => value !== null && value !== undefined);
  // Without a finite value, the chart still has an axis, so that it lines up with the others.
  panel.isEmpty = !good.length;
  if (panel.isEmpty) return panel.scale === "linear" ? [0, 1] : [1, BASES[panel.scale]];
  const range = [Math.min(...good), Math.max(...good)];
  if (panel.ceiling && panel.scale === "log") range[1] = Math.max(Math.min(range[1], panel.ceiling), range[0] * 2);
  if (panel.floor && panel.scale === "log") range[0] = Math.min(Math.max(range[0], panel.floor / 2), range[1] / 2);
  // Round ends would leave half of the chart empty if the values span less than two decades. The
  // noise of a flat curve does not fill the chart.
  if (panel.scale === "log" && range[1] < 100 * range[0]) {
    const margin = Math.max((range[1] / range[0]) ** 0.05, Math.sqrt(LEAST_SPAN * range[0] / range[1]));
    return [range[0] / margin, range[1] * margin];
  }
  return panel.scale === "linear" ? uPlot.rangeNum(...range, 0.1, true) : uPlot.rangeLog(...range, BASES[panel.scale], false);
}

function axisOptions(panel, width) {
  const quiet = colour("quiet");
  const grid = {stroke: colour("grid"), width: 1};
  const font = `11px ${getComputedStyle(document.body).fontFamily}`;
  const numbers = panel.first || panel.main || panel.last;
  const x = {
    stroke: quiet, grid, font, ticks: {...grid, size: 4}, gap: 4, size: numbers ? 28 : 8,
    space: Math.max(70, width / 12),
    values: (u, splits) => numbers ? axisLabels(splits) : splits.map(() => ""),
    incrs: axisName === "time" ? SECONDS : undefined,
  };
  const y = {
    stroke: quiet, grid, font, ticks: {...grid, size: 4}, gap: 6, size: AXIS, space: panel.main ? 36 : 26,
    values: (u, splits, axis, space, apart) => {
      if (panel.isEmpty) return splits.map(() => "");
      if (panel.scale === "log2") return splits.map(power);
      const size = Math.max(...splits.map(Math.abs));
      const digits = panel.scale === "log" ? 4 : Math.min(Math.ceil(Math.log10(size / apart)) + 1, 12);
      return splits.map((value) => short(value, digits));
    },
  };
  if (panel.scale !== "linear") {
    y.splits = (u, axis, least, most) => powers(panel.scale, least, most, panel.main ? 6 : 4);
    y.filter = (u, splits) => splits;
  }
  return [x, y];
}

function options(panel, drawn, width) {
  const log = panel.scale === "linear" ? {distr: 1} : {distr: 3, log: BASES[panel.scale]};
  return {
    width,
    height: panel.main ? HEIGHTS.main : panel.first ? HEIGHTS.first : HEIGHTS.other,
    padding: [panel.first ? flagRows(width - AXIS) * FLAG_HEIGHT + 6 : 10, 14, 0, 0],
    legend: {show: false},
    scales: {x: {time: false, range: () => shown}, y: {...log, range: (u, least, most) => extent(u, panel, least, most)}},
    axes: axisOptions(panel, width),
    series: [{}, ...drawn.map((one) => ({
      ...one.options,
      stroke: one.colour ? colour(one.colour) : "transparent",
      points: {fill: colour("surface"), ...one.options.points},
    }))],
    bands: panel.fills,
    cursor: {
      y: false,
      points: {size: 7, fill: (u, i) => u.series[i].stroke(u, i)},
      drag: {x: true, y: false, setScale: false},
      sync: {key: "steps", scales: ["x", null], filters: {pub: (type) => type === "mousemove"}},
      bind: {dblclick: () => () => view(...ends)},
    },
    hooks: {
      setSelect: [(u) => selected(u)],
      ready: [(u) => tip(u, panel)],
      setCursor: [(u) => values(panel, u.cursor.idx)],
      drawClear: [(u) => sized(u, panel)],
      drawAxes: [(u) => behind(u, panel)],
      draw: [(u) => before(u, panel)],
    },
  };
}

function build(panel) {
  const drawn = curves(panel);
  panel.plot?.destroy();
  panel.drawn = drawn;
  panel.plot = new uPlot(
    options(panel, drawn, plots.clientWidth),
    [panel.x, ...drawn.map((one) => one.values)],
    panel.place,
  );
  for (const at of panel.off) panel.plot.setSeries(at + 1, {show: false});
}

// The view: the part of the axis that all charts show.

function view(first, last) {
  const least = axisName === "step" ? Math.min(4, ends[1] - ends[0]) : (ends[1] - ends[0]) / 1e4;
  const width = Math.min(Math.max(last - first, least), ends[1] - ends[0]);
  const begin = Math.min(Math.max(first, ends[0]), ends[1] - width);
  shown = [begin, begin + width];
  for (const panel of panels) panel.plot.setScale("x", {min: shown[0], max: shown[1]});
  document.getElementById("range").textContent = rangeText(shown);
}

function zoom(factor, centre = (shown[0] + shown[1]) / 2) {
  view(centre - (centre - shown[0]) * factor, centre + (shown[1] - centre) * factor);
}

function move(share) {
  const by = (shown[1] - shown[0]) * share;
  view(shown[0] + by, shown[1] + by);
}

function selected(u) {
  const {left, width} = u.select;
  if (width < 3) return;
  u.setSelect({left: 0, top: 0, width: 0, height: 0}, false);
  view(u.posToVal(left, "x"), u.posToVal(left + width, "x"));
}

// The values at the cursor: next to the names of the curves, and in a box next to the pointer.

function valueText(curve, at) {
  const raw = (curve.raw ?? curve.values)[at];
  if (raw === undefined || Number.isNaN(raw)) return "";
  if (raw === null || raw === Infinity) return "not finite";
  const value = curve.parts === 2 && curve.raw ? curve.values[at] : null;
  return typeof value === "number" ? `${short(raw)} (smoothed ${short(value)})` : short(raw);
}

function values(panel, at) {
  const isOutside = at === null || at === undefined;
  const lines = [];
  panel.drawn.forEach((curve, index) => {
    if (!curve.output) return;
    curve.output.textContent = isOutside ? "" : valueText(curve, at);
    if (!panel.off.has(index) && curve.output.textContent && !curve.places) lines.push(curve);
  });
  if (panel.first) panel.cursor.textContent = isOutside ? "" : position(panel.steps[at]);
  if (panel.tip) showTip(panel, isOutside || !panel.isHovered ? null : at, lines);
}

const MAX_TIP_LINES = 8;

function tip(u, panel) {
  panel.tip = element("div", "tip");
  panel.tip.hidden = true;
  u.over.append(panel.tip);
  u.over.addEventListener("mouseenter", () => panel.isHovered = true);
  u.over.addEventListener("mouseleave", () => {
    panel.isHovered = false;
    panel.tip.hidden = true;
  });
}

function showTip(panel, at, lines) {
  panel.tip.hidden = at === null;
  if (at === null) return;
  const rows = lines.slice(0, MAX_TIP_LINES).map((curve) => {
    const row = element("p", "");
    row.append(element("span", `swatch ${curve.colour}`), element("bdi", "", curve.name), element("b", "figure", curve.output.textContent));
    return row;
  });
  panel.tip.replaceChildren(element("p", "quiet", position(panel.steps[at])), ...rows);
  const {left, top} = panel.plot.cursor;
  const isRight = left > panel.plot.over.clientWidth / 2;
  panel.tip.style.left = isRight ? "" : `${left + 14}px`;
  panel.tip.style.right = isRight ? `${panel.plot.over.clientWidth - left + 14}px` : "";
  panel.tip.style.top = `${Math.max(Math.min(top, panel.plot.over.clientHeight - panel.tip.offsetHeight), 0)}px`;
}
