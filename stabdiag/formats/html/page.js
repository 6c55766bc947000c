// The page around the charts: names, buttons, keys, printing.

function toggle(panel, one, at) {
  const button = element("button", "series");
  button.type = "button";
  button.setAttribute("aria-pressed", String(!panel.off.has(at)));
  const swatch = element("span", `swatch ${one.colour}`);
  button.append(swatch, element("bdi", "", one.name));
  one.output = element("span", "figure");
  button.append(one.output);
  button.addEventListener("click", () => {
    const on = panel.off.has(at);
    button.setAttribute("aria-pressed", String(on));
    for (let each = at - (one.parts ?? 1) + 1; each <= at; each += 1) {
      on ? panel.off.delete(each) : panel.off.add(each);
      panel.plot.setSeries(each + 1, {show: on});
    }
  });
  return button;
}

const SCALES = {log: " (log)", log2: " (log₂)", linear: ""};

function head(panel) {
  const names = element("div", "names");
  names.append(element("h3", "", panel.title + SCALES[panel.scale]));
  if (panel.ceiling && panel.scale === "log") names.append(element("span", "quiet", "the highest losses are cut off"));
  panel.drawn.forEach((one, at) => {
    if ("name" in one) names.append(toggle(panel, one, at));
  });
  if (panel.first) names.append((panel.cursor = element("span", "figure cursor")));
  panel.names?.replaceWith(names);
  panel.names = names;
}

function draw(panel) {
  build(panel);
  head(panel);
  values(panel, null);
}

function legend() {
  const kinds = new Set(data.marks.map((mark) => mark.kind));
  if (data.cadence) kinds.add("checkpoint");
  if (panels.some((panel) => panel.role !== "loss" && panel.bad.length)) kinds.add("infinite");
  const list = document.getElementById("marks-legend");
  for (const [kind, text] of Object.entries(MARKS)) {
    if (!kinds.has(kind)) continue;
    const item = element("li", "", "");
    item.append(element("span", `mark ${kind}`), text);
    list.append(item);
  }
  list.hidden = !list.children.length;
}

function event() {
  return data.marks.find((mark) => mark.kind === "event");
}

function around() {
  const mark = event();
  if (!data.focus) return view(...ends);
  const [first, last] = data.focus;
  if (!mark || last - first < endSteps[1] - endSteps[0]) return view(toX(first), toX(last));
  const reach = Math.max((endSteps[1] - endSteps[0]) / 20, 4);
  return view(toX(mark.first - reach), toX(mark.first + reach));
}

function logarithmic(button) {
  main.scale = main.scale === "log" ? "linear" : "log";
  button.setAttribute("aria-pressed", String(main.scale === "log"));
  redraw(main);
}

const VIEWS = {
  all: () => view(...ends),
  event: around,
  in: () => zoom(0.5),
  out: () => zoom(2),
  back: () => move(-0.5),
  on: () => move(0.5),
  log: logarithmic,
};

function tools() {
  const bar = document.querySelector(".tools");
  bar.hidden = false;
  for (const button of bar.querySelectorAll("button")) {
    button.addEventListener("click", () => VIEWS[button.dataset.view](button));
  }
  const log = bar.querySelector("[data-view=log]");
  const isPositive = main.raw.length > 0 && main.raw[0].every((value) => Number.isNaN(value) || value > 0);
  log.hidden = !["loss", "eval_loss"].includes(main.role) || !isPositive;
  log.setAttribute("aria-pressed", String(main.scale === "log"));
  bar.querySelector("[data-view=event]").hidden = !event();
  axisChoice();
  smoothingSlider();
}

function axisChoice() {
  const select = document.getElementById("axis");
  const titles = {step: "step", epoch: "epoch", time: "time"};
  for (const name of ["step", ...Object.keys(axes)]) {
    const option = element("option", "", titles[name]);
    option.value = name;
    select.append(option);
  }
  select.parentElement.hidden = select.options.length < 2;
  select.addEventListener("change", () => {
    setAxis(select.value);
    panels.forEach(draw);
    view(...ends);
  });
}

function smoothingSlider() {
  const slider = document.getElementById("smoothing");
  slider.value = smoothing;
  const label = () => document.getElementById("smoothing-value").textContent = Number(slider.value).toFixed(2);
  label();
  slider.addEventListener("input", () => {
    smoothing = Number(slider.value);
    label();
    panels.forEach(redraw);
  });
}

// Draw a chart again without a change of the view.
function redraw(panel) {
  draw(panel);
  panel.plot.setScale("x", {min: shown[0], max: shown[1]});
}

// Keys: the cursor goes from point to point of the main chart.

let cursor = null;

function place(at) {
  const {steps} = main;
  cursor = Math.min(Math.max(at, 0), steps.length - 1);
  const step = steps[cursor];
  const x = toX(step);
  if (x < shown[0] || x > shown[1]) {
    const half = (shown[1] - shown[0]) / 2;
    view(x - half, x + half);
  }
  for (const panel of panels) panel.plot.setCursor({left: panel.plot.valToPos(x, "x"), top: 0});
  const values = panels.flatMap((panel) => {
    const index = panel.plot.valToIdx(x);
    return panel.drawn
      .filter((curve, at) => "name" in curve && !panel.off.has(at) && valueText(curve, index) !== "")
      .map((curve) => `${curve.name} ${valueText(curve, index)}`);
  });
  document.getElementById("spoken").textContent = `Step ${step}: ${values.join(", ")}`;
}

function key(pressed) {
  if (pressed.ctrlKey || pressed.metaKey || pressed.altKey) return;
  const {steps} = main;
  const far = pressed.shiftKey ? 10 : 1;
  const at = cursor ?? Math.max(main.x.findIndex((x) => x >= (event() ? toX(event().first) : shown[0])), 0);
  const x = toX(steps[Math.max(at, 0)]);
  const keys = {
    ArrowLeft: () => place(at - far),
    ArrowRight: () => place(cursor === null ? at : at + far),
    Home: () => place(0),
    End: () => place(steps.length - 1),
    PageUp: () => move(-0.5),
    PageDown: () => move(0.5),
    "+": () => zoom(0.5, x),
    "=": () => zoom(0.5, x),
    "-": () => zoom(2, x),
    "0": () => view(...ends),
    e: around,
    E: around,
  };
  if (!(pressed.key in keys) || pressed.target !== plots) return;
  pressed.preventDefault();
  keys[pressed.key]();
}

function start() {
  plots.classList.toggle("shared", data.comparison === true);
  plots.hidden = false;
  document.getElementById("keys").hidden = false;
  for (const panel of panels) {
    panel.off = new Set();
    panel.section = element("section", panel.main ? "plot main" : panel.first ? "plot first" : "plot");
    panel.place = element("div", "canvas");
    plots.append(panel.section);
    panel.section.append(panel.place);
    draw(panel);
    panel.section.prepend(panel.names);
  }
  tools();
  legend();
  data.marks.some((mark) => mark.kind === "bad") ? around() : view(...ends);
  plots.addEventListener("keydown", key);
  let width = plots.clientWidth;
  new ResizeObserver(() => {
    if (plots.clientWidth === width || root.classList.contains("paper")) return;
    width = plots.clientWidth;
    for (const panel of panels) panel.plot.setSize({width, height: panel.plot.height});
  }).observe(plots);
}

if (panels.length) {
  start();
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => panels.forEach(redraw));
}

// A question in the list opens its answer below.

function open() {
  const target = document.getElementById(decodeURIComponent(location.hash.slice(1)));
  if (!(target instanceof HTMLDetailsElement)) return;
  const all = target.closest(".answers");
  if (all) all.open = true;
  target.open = true;
  target.querySelector("summary").focus();
}

for (const node of document.querySelectorAll(".asked a")) {
  node.addEventListener("click", () => setTimeout(open));
}
addEventListener("hashchange", open);
open();

// In print all answers are open, and the charts have the width of the page.

const PAPER = 690;
let closed = [];

function paper(on) {
  root.classList.toggle("paper", on);
  if (on) closed = [...document.querySelectorAll(".answers:not([open]), .answers details:not(.not-asked):not([open])")];
  for (const details of closed) details.open = on;
  for (const panel of panels) {
    redraw(panel);
    if (on) panel.plot.setSize({width: PAPER, height: panel.plot.height});
  }
}

addEventListener("beforeprint", () => paper(true));
addEventListener("afterprint", () => paper(false));
