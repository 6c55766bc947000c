// Marks: shades, levels and lines behind the curves; labels in front of them.

const MARKS = {
  checkpoint: "checkpoint",
  recovery: "recovery window",
  reload: "checkpoint to reload",
  rewind: "the log goes back",
  attempt: "attempt begins",
  bad: "loss not finite",
  infinite: "value not finite",
  finding: "also found",
  event: "diagnosis",
};

function across(u, step) {
  return Math.round(u.valToPos(toX(step), "x", true));
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
  for (const {mark, style, x} of visible(u)) stem(u, mark, style, x);
  ctx.restore();
}

const TICK = 9;

// A mark must not hide a curve, not even a peak of one step: a faint dotted line behind the curves,
// and solid ticks at both ends of the chart.
function stem(u, mark, style, x) {
  const {ctx} = u;
  const {top, height} = u.bbox;
  const tick = TICK * devicePixelRatio;
  ctx.strokeStyle = colour(style.name);
  ctx.lineWidth = devicePixelRatio;
  ctx.globalAlpha = 0.45;
  ctx.setLineDash([2, 4].map((length) => length * devicePixelRatio));
  line(u, x, top, x, top + height);
  ctx.globalAlpha = 1;
  ctx.lineWidth = (mark.kind === "event" ? 2.5 : 1.5) * devicePixelRatio;
  ctx.setLineDash([]);
  line(u, x, top - tick / 2, x, top + tick / 2);
  line(u, x, top + height - tick, x, top + height);
}

// Ticks at the top of a chart for values that are not finite.
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

// Ticks at the bottom of each chart; none if they would overlap.
function checkpoints(u) {
  const {left, top, width, height} = u.bbox;
  const cadence = data.cadence * (ends[1] - ends[0]) / Math.max(endSteps[1] - endSteps[0], 1);
  if (cadence / (shown[1] - shown[0]) * width < 3 * devicePixelRatio) return;
  u.ctx.strokeStyle = colour("checkpoint");
  u.ctx.lineWidth = 1.5 * devicePixelRatio;
  const bottom = top + height;
  for (let step = Math.max(Math.ceil(endSteps[0] / data.cadence), 1) * data.cadence; step <= endSteps[1]; step += data.cadence) {
    const x = across(u, step);
    if (x >= left && x <= left + width) line(u, x, bottom - 7 * devicePixelRatio, x, bottom);
  }
}

// The color of each kind of mark.
const LINES = {
  rewind: {name: "rewind"},
  attempt: {name: "attempt"},
  reload: {name: "checkpoint"},
  finding: {name: "finding"},
  event: {name: "severity"},
};

// The marks with a line: another finding at the step of the diagnosis needs no second one.
const diagnosed = data.marks.find((mark) => mark.kind === "event");
const marked = data.marks.filter((mark) => LINES[mark.kind] && !(mark.kind === "finding" && mark.first === diagnosed?.first));

function visible(u) {
  const {left, width} = u.bbox;
  return marked
    .map((mark) => ({mark, style: LINES[mark.kind], x: across(u, mark.first)}))
    .filter(({x}) => x >= left && x <= left + width);
}

function before(u, panel) {
  if (!panel.first) return;
  const rows = [];
  const count = flagRows(u.bbox.width / devicePixelRatio);
  u.ctx.save();
  for (const {mark, style, x} of visible(u).reverse()) flag(u, mark, x, colour(style.name), rows, count);
  u.ctx.restore();
}

const FLAGS = {rewind: "back to", attempt: "attempt", reload: "checkpoint", finding: "also", event: "▼"};
const ROWS = 3;
const FLAG_HEIGHT = 17;

const flagText = (mark) => `${FLAGS[mark.kind]} ${mark.first.toLocaleString("en")}`;

// The rows of labels that the first chart needs, if it shows the whole run.
function flagRows(width) {
  const rows = [];
  for (const mark of marked) {
    const from = (toX(mark.first) - ends[0]) / (ends[1] - ends[0]) * width;
    const to = from + 7 * flagText(mark).length + 8;
    const row = rows.find((taken) => !taken.some(([a, b]) => from < b && a < to));
    row ? row.push([from, to]) : rows.push([[from, to]]);
  }
  return Math.min(rows.length, ROWS);
}

// A label above a line, in the lowest row with room; without room there is none.
function flag(u, mark, x, fill, rows, count) {
  const {ctx} = u;
  const unit = devicePixelRatio;
  const text = flagText(mark);
  ctx.font = `${mark.kind === "event" ? 600 : 400} ${11 * unit}px ${getComputedStyle(document.body).fontFamily}`;
  const width = ctx.measureText(text).width + 8 * unit;
  const right = u.bbox.left + u.bbox.width;
  const from = x + width > right ? x - width : x;
  const row = [...Array(count).keys()].find((at) => !(rows[at] ?? []).some(([a, b]) => from < b && a < from + width));
  if (row === undefined) return;
  (rows[row] ??= []).push([from, from + width]);
  const y = u.bbox.top - 5 * unit - (row + 1) * FLAG_HEIGHT * unit;
  ctx.fillStyle = fill;
  ctx.fillRect(from, y, width, 16 * unit);
  ctx.fillStyle = colour("surface");
  ctx.textAlign = "left";
  ctx.textBaseline = "middle";
  ctx.fillText(text, from + 4 * unit, y + 8.5 * unit);
}
