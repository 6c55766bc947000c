"use strict";

// The charts: one uPlot for each panel, all on the same steps. Log text is written as text alone.

const data = JSON.parse(document.getElementById("data").textContent);
const root = document.documentElement;
const plots = document.getElementById("plots");
const AXIS = 66;
const COLOURS = 10;
const HEIGHTS = {main: 340, other: 130};

const colour = (name) => getComputedStyle(root).getPropertyValue(`--${name}`).trim();

function unpacked(text) {
  const bytes = Uint8Array.from(atob(text), (char) => char.charCodeAt(0));
  return new Float64Array(bytes.buffer);
}

// In a curve NaN is "not logged", which a line passes over; infinity is "not finite", a gap.
function curve(text, positive) {
  return Array.from(unpacked(text), (value) => {
    if (Number.isNaN(value)) return undefined;
    return Number.isFinite(value) && !(positive && value <= 0) ? value : null;
  });
}

const PREFIXES = [[1e12, "T"], [1e9, "G"], [1e6, "M"], [1e3, "k"]];

function short(value, digits = 4) {
  if (value === null || value === undefined) return "–";
  const size = Math.abs(value);
  if (size >= 1e15 || (size > 0 && size < 1e-3)) {
    return value.toExponential(digits - 2).replace(/\.?0+e/, "e").replace("e+", "e");
  }
  for (const [unit, sign] of PREFIXES) {
    if (size >= 10 * unit || (size >= unit && unit > 1e3)) {
      return `${Number((value / unit).toPrecision(digits))}${sign}`;
    }
  }
  return String(Number(value.toPrecision(digits)));
}

const SUPERSCRIPT = "⁰¹²³⁴⁵⁶⁷⁸⁹";

function power(value) {
  if (value === null || value === undefined) return "";
  const exponent = Math.log2(value);
  if (!Number.isInteger(exponent)) return short(value);
  const digits = Array.from(String(Math.abs(exponent)), (digit) => SUPERSCRIPT[digit]);
  return `2${exponent < 0 ? "⁻" : ""}${digits.join("")}`;
}

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

// What is drawn in a panel: name, colour, values; a mean has a band about it.
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
    found.push({name: "μ+σ", hidden: true, values: edge(1), options: {...quiet, width: 0}});
    found.push({name: "μ−σ", hidden: true, values: edge(-1), options: {...quiet, width: 0}});
    const dashed = {...quiet, width: 1.5, dash: [6, 4]};
    found.push({name: `mean ± ${data.sigma}σ of the ${panel.window} before`, colour: "mean", values: mean, options: dashed, band: true});
  }
  panel.lines.forEach((line, i) => {
    const values = curve(line.values, positive);
    const width = panel.main && i === 0 ? 1.4 : 1.2;
    found.push({name: line.name, colour: `c${i % COLOURS}`, values, options: {width}});
  });
  if (panel.above) {
    const loss = found.find((one) => one.name === panel.lines[0].name).values;
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
  drawn.forEach((one, i) => {
    if (panel.off.has(one.name)) panel.plot.setSeries(i + 1, {show: false});
  });
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

// Marks: shades and levels behind the curves, lines and their labels before them.

const MARKS = {
  checkpoint: "checkpoint",
  recovery: "recovery window",
  reload: "checkpoint to reload",
  rewind: "the log goes back",
  attempt: "attempt begins",
  bad: "loss not finite",
  infinite: "value not finite",
  finding: "also found",
  event: "event",
};

function across(u, step) {
  return Math.round(u.valToPos(step, "x", true));
}

function shade(u, mark, fill) {
  const {left, width, top, height} = u.bbox;
  const from = Math.max(across(u, mark.first), left);
  const to = Math.min(Math.max(across(u, mark.last), across(u, mark.first) + 2), left + width);
  if (to <= from) return;
  u.ctx.fillStyle = fill;
  u.ctx.fillRect(from, top, to - from, height);
}

function behind(u, panel) {
  const {ctx} = u;
  ctx.save();
  for (const mark of data.marks) {
    if (mark.kind === "bad") shade(u, mark, colour("bad"));
    if (mark.kind === "recovery") {
      shade(u, mark, colour("recovery"));
      if (panel.role === "loss" && mark.level !== null) level(u, mark);
    }
  }
  if (data.cadence) checkpoints(u);
  if (panel.role !== "loss") infinite(u, panel);
  ctx.restore();
}

// Ticks at the head of a chart, where one of its values is not finite.
function infinite(u, panel) {
  const {left, top, width} = u.bbox;
  u.ctx.fillStyle = colour("infinite");
  for (const step of panel.bad) {
    const x = across(u, step);
    if (x >= left && x <= left + width) u.ctx.fillRect(x - devicePixelRatio, top, 2 * devicePixelRatio, 8 * devicePixelRatio);
  }
}

function level(u, mark) {
  const y = Math.round(u.valToPos(mark.level, "y", true));
  if (y < u.bbox.top || y > u.bbox.top + u.bbox.height) return;
  u.ctx.strokeStyle = colour("recovery-line");
  u.ctx.lineWidth = devicePixelRatio;
  line(u, Math.max(across(u, mark.first), u.bbox.left), y, Math.min(across(u, mark.last), u.bbox.left + u.bbox.width), y);
}

function line(u, fromX, fromY, toX, toY) {
  if (toX < fromX) return;
  u.ctx.beginPath();
  u.ctx.moveTo(fromX, fromY);
  u.ctx.lineTo(toX, toY);
  u.ctx.stroke();
}

// Ticks at the foot of each chart; where they would run together, none.
function checkpoints(u) {
  const {left, top, width, height} = u.bbox;
  const apart = data.cadence / (shown[1] - shown[0]) * width;
  if (apart < 3 * devicePixelRatio) return;
  u.ctx.strokeStyle = colour("checkpoint");
  u.ctx.lineWidth = 1.5 * devicePixelRatio;
  const bottom = top + height;
  for (let step = Math.max(Math.ceil(shown[0] / data.cadence), 1) * data.cadence; step <= shown[1]; step += data.cadence) {
    const x = across(u, step);
    if (x >= left) line(u, x, bottom - 7 * devicePixelRatio, x, bottom);
  }
}

const LINES = {
  rewind: {name: "rewind", dash: [5, 4]},
  attempt: {name: "attempt", dash: [2, 3]},
  reload: {name: "checkpoint", dash: []},
  finding: {name: "finding", dash: [4, 4]},
  event: {name: "severity", dash: []},
};

function before(u, panel) {
  const {ctx} = u;
  const {left, top, width, height} = u.bbox;
  const inside = data.marks
    .map((mark) => ({mark, style: LINES[mark.kind], x: across(u, mark.first)}))
    .filter(({style, x}) => style && x >= left && x <= left + width);
  ctx.save();
  for (const {mark, style, x} of inside) {
    ctx.strokeStyle = colour(style.name);
    ctx.lineWidth = (mark.kind === "event" ? 2 : 1.2) * devicePixelRatio;
    ctx.setLineDash(style.dash.map((length) => length * devicePixelRatio));
    line(u, x, top, x, top + height);
  }
  const rows = [];
  if (panel.main) for (const {mark, style, x} of inside.reverse()) flag(u, mark, x, colour(style.name), rows);
  ctx.restore();
}

const FLAGS = {rewind: "back to", attempt: "attempt", reload: "checkpoint", finding: "also", event: "▼"};
const ROWS = 4;

// A label at the top of a line, in the first row where it has room; without room it has none.
function flag(u, mark, x, fill, rows) {
  const {ctx} = u;
  const unit = devicePixelRatio;
  const text = `${FLAGS[mark.kind]} ${mark.first.toLocaleString("en")}`;
  ctx.font = `${mark.kind === "event" ? 600 : 400} ${11 * unit}px ${getComputedStyle(document.body).fontFamily}`;
  const width = ctx.measureText(text).width + 8 * unit;
  const right = u.bbox.left + u.bbox.width;
  const from = x + width > right ? x - width : x;
  const row = [...Array(ROWS).keys()].find((at) => !(rows[at] ?? []).some(([a, b]) => from < b && a < from + width));
  if (row === undefined) return;
  (rows[row] ??= []).push([from, from + width]);
  const y = u.bbox.top + row * 17 * unit;
  ctx.fillStyle = fill;
  ctx.fillRect(from, y, width, 16 * unit);
  ctx.fillStyle = colour("surface");
  ctx.textAlign = "left";
  ctx.textBaseline = "middle";
  ctx.fillText(text, from + 4 * unit, y + 8.5 * unit);
}
