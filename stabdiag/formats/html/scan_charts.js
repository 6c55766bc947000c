// Settings against outcomes: a small chart for each property in common, and a matrix.

const BINS = 6;
const MAX_OUTCOMES = 8;
const LEAST_HEIGHT = 3;

const isNumber = (value) => value !== "" && Number.isFinite(Number(value));

// Bins with about the same number of runs, from values in order.
function equalBins(order, sizes, numbers, bins) {
  const each = order.reduce((sum, at) => sum + sizes[at], 0) / bins;
  const made = [];
  let sum = 0;
  for (const at of order) {
    const bin = Math.min(Math.floor(sum / each), bins - 1);
    (made[bin] ??= []).push(at);
    sum += sizes[at];
  }
  return made.filter(Boolean).map((bin) => ({
    name: bin.length > 1 ? `${short(numbers[bin[0]], 3)} to ${short(numbers[bin[bin.length - 1]], 3)}` : short(numbers[bin[0]], 3),
    codes: new Set(bin),
  }));
}

// The values of a setting in at most a few bins. A bin ends at ``cut``, if it is given.
function bins(name, cut = null) {
  const {values, codes} = data.settings[name];
  const sizes = new Array(values.length).fill(0);
  for (const code of codes) if (code >= 0) sizes[code] += 1;
  const order = values.map((_, at) => at);
  if (values.every(isNumber)) {
    const numbers = values.map(Number);
    order.sort((a, b) => numbers[a] - numbers[b]);
    if (values.length <= BINS + 2) return order.map((at) => ({name: String(write(values[at])), codes: new Set([at])}));
    if (cut === null) return equalBins(order, sizes, numbers, BINS);
    const sides = [order.filter((at) => numbers[at] < cut), order.filter((at) => numbers[at] >= cut)];
    return sides.flatMap((side) => equalBins(side, sizes, numbers, Math.min(BINS / 2, side.length)));
  }
  order.sort((a, b) => sizes[b] - sizes[a]);
  const made = order.slice(0, BINS).map((at) => ({name: String(values[at]), codes: new Set([at])}));
  if (order.length > BINS) made.push({name: `${order.length - BINS} others`, codes: new Set(order.slice(BINS))});
  return made;
}

// The runs of each part, by their codes; the parts have no code in common.
function runsByPart(parts, codes, runs = all) {
  const partOf = new Map(parts.flatMap((part, at) => [...part.codes].map((code) => [code, at])));
  const made = parts.map(() => []);
  for (const row of runs) {
    const at = partOf.get(codes[row]);
    if (at !== undefined) made[at].push(row);
  }
  return made;
}

function percent(hits, rows) {
  const rounded = Math.round(100 * hits.length / rows.length);
  return rounded === 0 && hits.length ? "<1%" : rounded === 100 && hits.length < rows.length ? ">99%" : `${rounded}%`;
}

// A bar for each bin: the fraction of its runs that have the outcome; a full chart is all of them.
function bars(common) {
  const {codes} = data.settings[common.setting];
  const hasOutcome = (row) => common.outcome === "error" ? severity(row) === "error" : coded(data.outcome, row) === common.outcome;
  const ending = common.outcome === "error" ? "failed" : common.title;
  const kind = common.outcome === "error" ? "error" : severity(all.find(hasOutcome));
  const made = element("ul", `bars ${kind}`);
  const ranges = bins(common.setting, common.cut);
  const parts = runsByPart(ranges, codes).map((rows, at) => ({bin: ranges[at], rows, hits: rows.filter(hasOutcome)}));
  for (const {bin, rows, hits} of parts) {
    const label = `${common.setting} ${bin.name}, ${ending}`;
    const button = element("button", "bar");
    button.type = "button";
    button.setAttribute("aria-label", `${common.setting} ${bin.name}: ${hits.length} of ${rows.length} runs, ${percent(hits, rows)}`);
    const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
    svg.setAttribute("viewBox", "0 0 10 100");
    svg.setAttribute("preserveAspectRatio", "none");
    const bar = document.createElementNS("http://www.w3.org/2000/svg", "rect");
    const height = hits.length ? Math.max(100 * hits.length / rows.length, LEAST_HEIGHT) : 0;
    for (const [key, value] of Object.entries({x: 0, width: 10, y: 100 - height, height})) bar.setAttribute(key, value);
    svg.append(bar);
    button.append(element("b", "figure", percent(hits, rows)), svg, element("bdi", "", bin.name), element("span", "quiet", `${hits.length} of ${rows.length}`));
    picker(button, () => hits, label);
    const item = element("li");
    item.append(button);
    made.append(item);
  }
  return made;
}

// The charts of a folded list are drawn when it opens.
function commonCharts() {
  document.querySelectorAll(".common > li").forEach((item, at) => {
    const common = data.common[at];
    if (!common || !data.settings[common.setting]) return;
    const draw = () => item.append(bars(common));
    const folded = item.closest("details");
    if (folded) folded.addEventListener("toggle", draw, {once: true});
    else draw();
  });
}

// The matrix: the values of a setting as columns, the most frequent outcomes as rows.

function outcomeRows() {
  const sizes = new Map();
  for (const code of data.outcome.codes) sizes.set(code, (sizes.get(code) ?? 0) + 1);
  const frequent = [...sizes.keys()].sort((a, b) => sizes.get(b) - sizes.get(a)).slice(0, MAX_OUTCOMES);
  const made = [...sizes.keys()].filter((code) => frequent.includes(code)).map((code) => ({
    name: data.titles[code], codes: new Set([code]), severity: severity(data.outcome.codes.indexOf(code)),
  }));
  const others = [...sizes.keys()].filter((code) => !frequent.includes(code));
  if (others.length) made.push({name: `${others.length} other findings`, codes: new Set(others), severity: "unread"});
  return made;
}

function matrix() {
  const name = get("setting").value;
  const {codes} = data.settings[name];
  const made = bins(name);
  if (codes.includes(-1)) made.push({name: "not recorded", codes: new Set([-1])});
  const top = element("tr");
  for (const label of ["Finding", ...made.map((bin) => bin.name)]) {
    const cell = element("th");
    cell.scope = "col";
    cell.append(element("bdi", "", label));
    top.append(cell);
  }
  const outcomes = outcomeRows();
  const inside = runsByPart(made, codes);
  const hitsInside = inside.map((rows) => runsByPart(outcomes, data.outcome.codes, rows));
  const body = outcomes.map((outcome, line) => {
    const row = element("tr", outcome.severity);
    const head = element("th", "level", outcome.name);
    head.scope = "row";
    row.append(head);
    inside.forEach((rows, at) => {
      const cell = element("td");
      const hits = hitsInside[at][line];
      if (hits.length) {
        const button = element("button", `tint-${Math.ceil(4 * hits.length / rows.length)}`, `${hits.length} · ${percent(hits, rows)}`);
        button.type = "button";
        const label = `${outcome.name}, ${name} ${made[at].name}`;
        button.setAttribute("aria-label", `${hits.length} runs, ${percent(hits, rows)}: ${label}`);
        picker(button, () => hits, label);
        cell.append(button);
      }
      row.append(cell);
    });
    return row;
  });
  document.querySelector(".matrix thead").replaceChildren(top);
  document.querySelector(".matrix tbody").replaceChildren(...body);
}

if (count) {
  commonCharts();
  if (settingNames.length) {
    get("matrix").hidden = false;
    get("setting").append(...settingNames.map((name) => option(name, name)));
    get("setting").addEventListener("change", () => {
      select(null, "");
      matrix();
    });
    matrix();
  }
}
