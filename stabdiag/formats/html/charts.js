// The charts: one uPlot for each panel, all on the same steps. Log text is written as text alone.

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

// What is drawn in a panel: name, colour, values. A mean comes with its band, two nameless edges.
function curves(panel) {
  const positive = panel.scale !== "linear";
  const found = [];
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
    // Many of them would hide the loss: they are small then, and behind it.
    const many = places.length > 500;
    const points = {show: true, size: many ? 3 : 6, width: many ? 1 : 1.5};
    const one = {name: "exceedances", colour: "above", values, options: {paths: () => null, points}};
    many ? found.splice(found.length - panel.lines.length, 0, one) : found.push(one);
  }
  return found;
}

const LOGS = {log: Math.log10, log2: Math.log2};
const BASES = {log: 10, log2: 2};

// A logarithmic axis is labelled at some five powers; between two of ten, at their double and fivefold.
function powers(panel, least, most) {
  if (!(least > 0 && most < Infinity)) return [];
  const log = LOGS[panel.scale];
  const [low, high] = [Math.ceil(log(least) - 1e-9), Math.floor(log(most) + 1e-9)];
  const apart = Math.max(Math.ceil((high - low) / (panel.main ? 6 : 4)), 1);
  const found = [];
  for (let exponent = low; exponent <= high; exponent += apart) found.push(BASES[panel.scale] ** exponent);
  if (found.length > 2 || panel.scale === "log2") return found;
  const between = [1, 2, 5].flatMap((digit) => [low - 1, low, high].map((exponent) => digit * 10 ** exponent));
  return [...new Set(between)].filter((value) => value >= least && value <= most).sort((a, b) => a - b);
}

function axes(panel, width) {
  const quiet = colour("quiet");
  const grid = {stroke: colour("grid"), width: 1};
  const font = `11px ${getComputedStyle(document.body).fontFamily}`;
  const numbers = panel.main || panel.last;
  const x = {
    stroke: quiet, grid, font, ticks: {...grid, size: 4}, gap: 4, size: numbers ? 28 : 8,
    space: Math.max(70, width / 12),
    values: (u, splits) => splits.map((step) => numbers ? short(step, 7) : ""),
  };
  const y = {
    stroke: quiet, grid, font, ticks: {...grid, size: 4}, gap: 6, size: AXIS, space: panel.main ? 36 : 26,
    values: (u, splits) => splits.map((value) => value === null ? "" : panel.scale === "log2" ? power(value) : short(value)),
  };
  if (panel.scale !== "linear") {
    y.splits = (u, axis, least, most) => powers(panel, least, most);
    y.filter = (u, splits) => splits;
  }
  return [x, y];
}

function options(panel, drawn, width) {
  const log = panel.scale === "linear" ? {distr: 1} : {distr: 3, log: panel.scale === "log2" ? 2 : 10};
  return {
    width,
    height: panel.main ? HEIGHTS.main : HEIGHTS.other,
    padding: [panel.main ? 6 : 10, 14, 0, 0],
    legend: {show: false},
    scales: {x: {time: false, range: () => shown}, y: log},
    axes: axes(panel, width),
    series: [{}, ...drawn.map((one) => ({
      ...one.options,
      stroke: one.colour ? colour(one.colour) : "transparent",
      points: {fill: colour("surface"), ...one.options.points},
    }))],
    bands: panel.mean ? [{series: [1, 2], fill: colour("band")}] : [],
    cursor: {
      y: false,
      drag: {x: true, y: false, setScale: false},
      sync: {key: "steps", scales: ["x", null], filters: {pub: (type) => type === "mousemove"}},
      bind: {dblclick: () => () => view(...ends)},
    },
    hooks: {
      setSelect: [(u) => selected(u)],
      setCursor: [(u) => values(panel, u.cursor.idx)],
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

// The view: which steps all charts show.

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

// The values at the cursor, beside the names of the curves.

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
