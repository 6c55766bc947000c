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
    for (const each of one.band ? [at - 2, at - 1, at] : [at]) {
      on ? panel.off.delete(each) : panel.off.add(each);
      panel.plot.setSeries(each + 1, {show: on});
    }
  });
  return button;
}

const TITLES = {
  loss: "Loss", gap: "How far apart", eval_loss: "Evaluation loss", grad_norm: "Gradient norm", lr: "Learning rate", loss_scale: "Loss scale", weight_norm: "Weight norms",
};
const SCALES = {log: " (log)", log2: " (log₂)", linear: ""};

function head(panel) {
  const names = element("div", "names");
  names.append(element("h3", "", TITLES[panel.role] + SCALES[panel.scale]));
  panel.drawn.forEach((one, at) => {
    if ("name" in one) names.append(toggle(panel, one, at));
  });
  if (panel.main) names.append((panel.cursor = element("span", "figure cursor")));
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
  if (!mark || last - first < ends[1] - ends[0]) return view(first, last);
  const reach = Math.max((ends[1] - ends[0]) / 20, 4);
  return view(mark.first - reach, mark.first + reach);
}

function logarithmic(button) {
  const [panel] = panels;
  panel.scale = panel.scale === "log" ? "linear" : "log";
  button.setAttribute("aria-pressed", String(panel.scale === "log"));
  draw(panel);
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
  const positive = panels[0].drawn.some((one) => one.colour === "c0" && one.values.every((value) => value == null || value > 0));
  log.hidden = panels[0].role !== "loss" || !positive;
  log.setAttribute("aria-pressed", String(panels[0].scale === "log"));
  bar.querySelector("[data-view=event]").hidden = !event();
}

// Keys: the cursor goes from point to point of the first chart.

let cursor = null;

function place(at) {
  const {steps} = panels[0];
  cursor = Math.min(Math.max(at, 0), steps.length - 1);
  const step = steps[cursor];
  if (step < shown[0] || step > shown[1]) {
    const half = (shown[1] - shown[0]) / 2;
    view(step - half, step + half);
  }
  for (const panel of panels) panel.plot.setCursor({left: panel.plot.valToPos(step, "x"), top: 0});
  const values = panels.flatMap((panel) => {
    const index = panel.plot.valToIdx(step);
    return panel.drawn
      .filter((curve, at) => "name" in curve && !panel.off.has(at) && curve.values[index] !== undefined)
      .map((curve) => `${curve.name} ${curve.values[index] === null ? "not finite" : short(curve.values[index])}`);
  });
  document.getElementById("spoken").textContent = `Step ${step}: ${values.join(", ")}`;
}

function key(pressed) {
  if (pressed.ctrlKey || pressed.metaKey || pressed.altKey) return;
  const {steps} = panels[0];
  const far = pressed.shiftKey ? 10 : 1;
  const at = cursor ?? steps.findIndex((step) => step >= (event()?.first ?? shown[0]));
  const step = steps[Math.max(at, 0)];
  const keys = {
    ArrowLeft: () => place(at - far),
    ArrowRight: () => place(cursor === null ? at : at + far),
    Home: () => place(0),
    End: () => place(steps.length - 1),
    PageUp: () => move(-0.5),
    PageDown: () => move(0.5),
    "+": () => zoom(0.5, step),
    "=": () => zoom(0.5, step),
    "-": () => zoom(2, step),
    "0": () => view(...ends),
    e: around,
    E: around,
  };
  if (!(pressed.key in keys) || pressed.target !== plots) return;
  pressed.preventDefault();
  keys[pressed.key]();
}

function start() {
  plots.hidden = false;
  document.getElementById("keys").hidden = false;
  for (const panel of panels) {
    panel.off = new Set();
    panel.section = element("section", panel.main ? "plot main" : "plot");
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
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => panels.forEach(draw));
}

// A question in the list opens its answer below.

function open() {
  const target = document.getElementById(decodeURIComponent(location.hash.slice(1)));
  if (!(target instanceof HTMLDetailsElement)) return;
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
  if (on) closed = [...document.querySelectorAll(".answers details:not(.not-asked):not([open])")];
  for (const details of closed) details.open = on;
  for (const panel of panels) {
    draw(panel);
    if (on) panel.plot.setSize({width: PAPER, height: panel.plot.height});
  }
}

addEventListener("beforeprint", () => paper(true));
addEventListener("afterprint", () => paper(false));
