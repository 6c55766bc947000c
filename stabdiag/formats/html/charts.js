// The charts: one uPlot per panel, over the same steps. Log text is written as text only.

const AXIS = 66;
const COLOURS = 10;
const HEIGHTS = {main: 340, other: 130};

const panels = data.panels.map((panel, index) => ({
  ...panel,
  main: index === 0,
  last: index === data.panels.length - 1,
  steps: Array.from(unpacked(panel.steps)),
  bad: panel.lines.map((line) => unpacked(line.values)),
}));
for (const panel of panels) {
  panel.bad = panel.steps.filter((_, i) => panel.bad.some((values) => values[i] === Infinity));
}

const ends = [
  Math.min(...panels.map((panel) => panel.steps[0])),
  Math.max(...panels.map((panel) => panel.steps[panel.steps.length - 1])),
];
if (ends[0] === ends[1]) ends[1] += 1;
let shown = [...ends];

// The curves of a panel: name, color, values. A mean has a band with two unnamed edges.
function curves(panel) {
  const positive = panel.scale !== "linear";
  const found = [];
  panel.fills = [];
  if (panel.mean) {
    const mean = curve(panel.mean, positive);
    const sigma = unpacked(panel.deviation);
    const edge = (sign) => mean.map((value, i) => {
      const at = value === undefined || value === null ? value : value + sign * data.sigma * sigma[i];
      return positive && at <= 0 ? null : at;
    });
    const quiet = {auto: false, spanGaps: true, points: {show: false}};
    found.push({values: edge(1), options: {...quiet, width: 0}});
    found.push({values: edge(-1), options: {...quiet, width: 0}});
    const dashed = {...quiet, width: 1.5, dash: [6, 4]};
    found.push({name: `mean ± ${data.sigma}σ of the ${panel.window} before`, colour: "mean", values: mean, options: dashed, band: true});
  }
  if (panel.mean) panel.fills.push({series: [1, 2], fill: colour("band")});
  // The bands of earlier good runs: two edges each; one of them has the name.
  for (const band of panel.bands ?? []) {
    const edge = {spanGaps: true, points: {show: false}, width: 1, dash: [2, 3]};
    found.push({colour: "good", values: curve(band.high, positive), options: edge});
    found.push({name: band.name, colour: "good", values: curve(band.low, positive), options: edge, band: true});
    panel.fills.push({series: [found.length - 1, found.length], fill: colour("goodband")});
  }
  panel.lines.forEach((line, i) => {
    const values = curve(line.values, positive);
    const width = panel.main && i === 0 ? 1.4 : 1.2;
    found.push({name: line.name, colour: `c${i % COLOURS}`, values, options: {width}});
  });
  if (panel.above) {
    const loss = found[found.length - panel.lines.length].values;
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
  const inside = panel.drawn[at].places.filter((i) => panel.steps[i] >= shown[0] && panel.steps[i] <= shown[1]);
  const many = inside.length > 300;
  Object.assign(u.series[at + 1].points, {size: many ? 3 : 6, width: many ? 1 : 1.5});
}

// The value of a curve at a step between two points, or null if it is not drawn.
function between(panel, values, step) {
  let right = panel.steps.findIndex((other) => other >= step);
  let left = right - 1;
  while (right < values.length && values[right] === undefined) right += 1;
  while (left >= 0 && values[left] === undefined) left -= 1;
  if (left < 0 || typeof values[left] !== "number" || typeof values[right] !== "number") return null;
  const share = (step - panel.steps[left]) / (panel.steps[right] - panel.steps[left]);
  return values[left] + share * (values[right] - values[left]);
}

// The visible values: points, and where curves enter and leave.
function extent(u, panel, least, most) {
  const found = [least, most];
  panel.drawn.forEach((one, at) => {
    if (one.options.auto !== false && !one.places && !panel.off.has(at)) {
      found.push(between(panel, one.values, shown[0]), between(panel, one.values, shown[1]));
    }
  });
  const good = found.filter((value) => value !== null && value !== undefined);
  if (!good.length) return [null, null];
  const range = [Math.min(...good), Math.max(...good)];
  return panel.scale === "linear" ? uPlot.rangeNum(...range, 0.1, true) : uPlot.rangeLog(...range, BASES[panel.scale], false);
}

function axes(panel, width) {
  const quiet = colour("quiet");
  const grid = {stroke: colour("grid"), width: 1};
  const font = `11px ${getComputedStyle(document.body).fontFamily}`;
  const numbers = panel.main || panel.last;
  const x = {
    stroke: quiet, grid, font, ticks: {...grid, size: 4}, gap: 4, size: numbers ? 28 : 8,
    space: Math.max(70, width / 12),
    values: (u, splits) => numbers ? stepLabels(splits) : splits.map(() => ""),
  };
  const y = {
    stroke: quiet, grid, font, ticks: {...grid, size: 4}, gap: 6, size: AXIS, space: panel.main ? 36 : 26,
    values: (u, splits, axis, space, apart) => {
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
    height: panel.main ? HEIGHTS.main : HEIGHTS.other,
    padding: [panel.main ? 6 : 10, 14, 0, 0],
    legend: {show: false},
    scales: {x: {time: false, range: () => shown}, y: {...log, range: (u, least, most) => extent(u, panel, least, most)}},
    axes: axes(panel, width),
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
    [panel.steps, ...drawn.map((one) => one.values)],
    panel.place,
  );
  for (const at of panel.off) panel.plot.setSeries(at + 1, {show: false});
}

// The view: the steps that all charts show.

function view(first, last) {
  const least = Math.min(4, ends[1] - ends[0]);
  const width = Math.min(Math.max(last - first, least), ends[1] - ends[0]);
  const begin = Math.min(Math.max(first, ends[0]), ends[1] - width);
  shown = [begin, begin + width];
  for (const panel of panels) panel.plot.setScale("x", {min: shown[0], max: shown[1]});
  const text = [Math.ceil(shown[0]), Math.floor(shown[1])].map((step) => step.toLocaleString("en"));
  document.getElementById("range").textContent = `steps ${text[0]} to ${text[1]}`;
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

// The values at the cursor, next to the names of the curves.

function values(panel, at) {
  panel.drawn.forEach((one) => {
    if (!one.output) return;
    const value = at === null || at === undefined ? undefined : one.values[at];
    one.output.textContent = at === null || at === undefined ? "" : value === null ? "not finite" : short(value);
  });
  if (panel.main) {
    const step = at === null || at === undefined ? "" : `step ${panel.steps[at].toLocaleString("en")}`;
    panel.cursor.textContent = step;
  }
}
