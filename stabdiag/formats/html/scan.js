// The runs of a scan: a table that sorts, filters and opens. On a phone, each row is a card.

const SETTINGS_SHOWN = 5;

const count = data.run.length;
const all = Array.from({length: count}, (_, row) => row);
const get = (id) => document.getElementById(id);
const coded = (column, row) => column.codes[row] < 0 ? null : column.values[column.codes[row]];
const setting = (name, row) => coded(data.settings[name], row);
const severity = (row) => coded(data.severity, row) ?? "unread";
const title = (row) => data.titles[data.outcome.codes[row]];
const path = (row) => data.root + data.path[row];
const write = (value) => value === null ? "" : typeof value === "number" ? short(value) : value;

// ``rows`` are the runs that match. ``selection`` is a set of runs chosen in a chart, or null.
const state = {sort: null, descending: false, page: 0, size: 10, rows: all, open: null, severity: null, selection: null};

const RANK = {error: 0, warning: 1, note: 2, ok: 3, unread: 4};
const WORDS = {error: "failed", warning: "warning", note: "note", ok: "healthy", unread: "not read"};

const settingNames = Object.keys(data.settings);
const isNumeric = (name) => typeof data.settings[name].values[0] === "number";
const FIXED = [
  {name: "Severity", value: (row) => WORDS[severity(row)], key: (row) => RANK[severity(row)], cell: "level"},
  {name: "Run", value: (row) => data.run[row]},
  {name: "Loss", cell: "loss"},
  {name: "Finding", value: title, cell: "finding"},
  {name: "First action", value: (row) => coded(data.action, row), cell: "todo"},
  {name: "Steps lost", value: (row) => data.lost_steps[row], isNumber: true},
  {name: "Step", value: (row) => data.step[row], isNumber: true, isExtra: true},
  {name: "Best loss", value: (row) => data.loss_best[row], isNumber: true, isExtra: true},
  {name: "Last loss", value: (row) => data.loss_last[row], isNumber: true, isExtra: true},
];
const SETTINGS = settingNames.map((name) => ({
  name, value: (row) => setting(name, row), isNumber: isNumeric(name), isExtra: true, isSetting: true,
}));
// The settings that failed runs share are visible without scrolling: they come before steps and losses.
const SHARED_SHOWN = 2;
const shared = new Set(data.common.map((common) => common.setting));
const isFirst = (column) => shared.has(column.name) && SETTINGS.indexOf(column) < SHARED_SHOWN;

function arranged(settings) {
  const at = FIXED.findIndex((column) => column.name === "Step");
  const others = settings.filter((column) => !isFirst(column));
  return [...FIXED.slice(0, at), ...settings.filter(isFirst), ...FIXED.slice(at), ...others];
}

let columns = arranged(SETTINGS.slice(0, SETTINGS_SHOWN));
const sortable = [...FIXED, ...SETTINGS].filter((column) => column.value);

// Sorting: unknown values come last in both directions.

const collator = new Intl.Collator("en", {numeric: true});

function compare(a, b) {
  if (a === null || b === null) return (a === null) - (b === null);
  const order = typeof a === "number" && typeof b === "number" ? a - b : collator.compare(a, b);
  return state.descending ? -order : order;
}

function sorted(rows) {
  if (state.sort === null) return state.descending ? [...rows].reverse() : rows;
  const key = state.sort.key ?? state.sort.value;
  return rows.map((row) => [key(row), row]).sort((a, b) => compare(a[0], b[0]) || a[1] - b[1]).map(([, row]) => row);
}

function sortBy(column, descending) {
  state.sort = column;
  state.descending = descending;
  get("sort").value = column === null ? "" : sortable.indexOf(column);
  get("reverse").setAttribute("aria-pressed", String(descending));
  markSorted();
  filter();
}

function markSorted() {
  for (const cell of document.querySelectorAll(".runs thead th")) cell.removeAttribute("aria-sort");
  if (columns.includes(state.sort)) state.sort.head.setAttribute("aria-sort", state.descending ? "descending" : "ascending");
}

// Filtering: each word is searched in the texts of a run.

const texts = new Array(count);

function text(row) {
  const settings = () => settingNames.map((name) => `${name}=${setting(name, row)}`);
  texts[row] ??= [
    data.run[row], severity(row), WORDS[severity(row)], coded(data.outcome, row), coded(data.headline, row), ...settings(),
  ].join("\n").toLowerCase();
  return texts[row];
}

function filter() {
  const words = get("find").value.toLowerCase().split(/\s+/).filter(Boolean);
  const outcome = get("outcome").value;
  state.rows = sorted(all.filter((row) =>
    (outcome === "" || data.outcome.codes[row] === Number(outcome)) &&
    (state.severity === null || severity(row) === state.severity) &&
    (state.selection === null || state.selection.has(row)) && words.every((word) => text(row).includes(word))));
  state.page = 0;
  show();
}

// Show only some runs; ``label`` says which.
function select(rows, label) {
  state.selection = rows === null ? null : new Set(rows);
  get("chosen").hidden = rows === null;
  get("chosen").textContent = `${label} ✕`;
  get("chosen").setAttribute("aria-label", `Show all runs again, not only ${label}`);
  for (const button of document.querySelectorAll("[data-pick]")) button.setAttribute("aria-pressed", "false");
  filter();
}

// A button that selects its runs, and releases them if it is pressed again.
function picker(button, rows, label) {
  button.dataset.pick = "";
  button.setAttribute("aria-pressed", "false");
  button.addEventListener("click", () => {
    const isOn = button.getAttribute("aria-pressed") !== "true";
    select(isOn ? rows() : null, label);
    button.setAttribute("aria-pressed", String(isOn));
  });
}

// The cells of a row.

function curve_of(row) {
  const letters = data.curve[row];
  if (letters.length < 2) return element("span");
  const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  svg.setAttribute("class", "curve");
  svg.setAttribute("viewBox", `0 -1 ${letters.length - 1} 54`);
  svg.setAttribute("preserveAspectRatio", "none");
  svg.setAttribute("role", "img");
  svg.setAttribute("aria-label", `loss from ${write(data.loss_first[row])} to ${write(data.loss_last[row])}, at best ${write(data.loss_best[row])}`);
  const line = document.createElementNS("http://www.w3.org/2000/svg", "path");
  const height = (letter) => letter <= "Z" ? letter.charCodeAt(0) - 65 : letter.charCodeAt(0) - 71;
  line.setAttribute("d", Array.from(letters, (letter, at) => `${at ? "L" : "M"}${at} ${51 - height(letter)}`).join(""));
  svg.append(line);
  return svg;
}

function opener(row) {
  const button = element("button", "open");
  button.type = "button";
  button.setAttribute("aria-expanded", String(state.open === row));
  button.append(element("bdi", "", data.run[row]));
  button.addEventListener("click", () => open(row));
  return button;
}

const CONTENTS = {
  Run: (row) => [opener(row)],
  Loss: (row) => [curve_of(row)],
  Finding: (row) => [title(row), " ", element("code", "slug", coded(data.outcome, row))],
  "First action": (row) => [element("span", "clamp", coded(data.action, row) ?? "")],
};

function line(row) {
  const made = element("tr", severity(row));
  for (const column of columns) {
    const cell = element(column.name === "Run" ? "th" : "td", column.isNumber ? "number" : column.cell ?? "");
    if (column.name === "Run") cell.scope = "row";
    if (column.isExtra) cell.classList.add("extra");
    const contents = column.isSetting ? undefined : CONTENTS[column.name];
    cell.append(...(contents ? contents(row) : [String(write(column.value(row)))]));
    if (column.isNumber && column.value(row) !== null) cell.dataset.label = column.name;
    made.append(cell);
  }
  return made;
}

// A path quoted for a shell.
const quoted = (path) => /^[\w@%+=:,./][\w@%+=:,./-]*$/.test(path) ? path : `'${(path.startsWith("-") ? `./${path}` : path).replaceAll("'", `'"'"'`)}'`;

function about(row) {
  const made = element("tr", `about ${severity(row)}`);
  const cell = element("td");
  cell.colSpan = columns.length;
  for (const [name, column] of [["h3", "headline"], ["p", "action"], ["p", "reason"]]) {
    const content = coded(data[column], row);
    if (content) cell.append(element(name, "", content));
  }
  const again = element("p", "again");
  const code = element("code", "", `stabdiag diagnose ${quoted(path(row))}`);
  code.id = "whole";
  const button = element("button", "copy", "Copy");
  button.type = "button";
  button.dataset.copy = "whole";
  button.append(element("span", "hidden", " the command for the whole report"));
  again.append(code, button);
  const list = element("dl");
  const facts = {format: coded(data.format, row), "last step": data.last_step[row], "evaluation loss": data.eval_loss[row]};
  for (const name of settingNames) facts[name] = setting(name, row);
  for (const [name, value] of Object.entries(facts)) {
    if (value !== null && value !== "") list.append(element("dt", "", name), element("dd", "figure", String(value)));
  }
  cell.append(element("p", "quiet", "The whole report:"), again, list);
  made.append(cell);
  return made;
}

function open(row) {
  state.open = state.open === row ? null : row;
  show();
  const at = state.rows.slice(state.page * state.size).indexOf(row);
  document.querySelectorAll(".runs .open")[at]?.focus();
}

// The table, one page at a time.

const lastPage = () => Math.max(Math.ceil(state.rows.length / state.size) - 1, 0);

function show() {
  const first = state.page * state.size;
  const rows = state.rows.slice(first, first + state.size);
  document.querySelector(".runs tbody").replaceChildren(
    ...rows.flatMap((row) => row === state.open ? [line(row), about(row)] : [line(row)]));
  const total = state.rows.length === count ? "" : `, of ${count} in all`;
  get("range").textContent = rows.length
    ? `Runs ${first + 1} to ${first + rows.length} of ${state.rows.length}${total}` : `No run matches${total}`;
  const pages = document.querySelector(".pages");
  pages.hidden = state.rows.length <= 10;
  for (const button of pages.querySelectorAll("button")) {
    const isBack = ["first", "back"].includes(button.dataset.page);
    button.setAttribute("aria-disabled", String(isBack ? state.page === 0 : state.page === lastPage()));
  }
}

function turn(page) {
  const pages = {first: 0, back: state.page - 1, on: state.page + 1, last: lastPage()};
  state.page = Math.min(Math.max(pages[page], 0), lastPage());
  show();
}

function head() {
  const made = element("tr");
  for (const column of columns) {
    const cell = element("th", column.isNumber ? "number" : "");
    cell.scope = "col";
    column.head = cell;
    if (column.value) {
      const button = element("button", "", column.name);
      button.type = "button";
      button.addEventListener("click", () => sortBy(column, state.sort === column && !state.descending));
      cell.append(button);
    } else {
      cell.textContent = column.name;
    }
    made.append(cell);
  }
  document.querySelector(".runs thead").replaceChildren(made);
  markSorted();
}

// Any setting can be a column.
function columnChoice() {
  const list = document.querySelector(".choice ul");
  document.querySelector(".choice").hidden = !SETTINGS.length;
  for (const column of SETTINGS) {
    const item = element("li"), label = element("label"), box = element("input");
    box.type = "checkbox";
    box.checked = columns.includes(column);
    box.addEventListener("change", () => {
      const chosen = SETTINGS.filter((other) => other === column ? box.checked : columns.includes(other));
      columns = arranged(chosen);
      head();
      show();
    });
    label.append(box, element("bdi", "", column.name));
    item.append(label);
    list.append(item);
  }
}

function option(value, label) {
  const made = element("option", "", label);
  made.value = value;
  return made;
}

// The legend of the bar filters by severity.
function legendButtons() {
  for (const item of document.querySelectorAll(".severities li")) {
    const button = element("button", "");
    button.type = "button";
    button.setAttribute("aria-pressed", "false");
    button.append(...item.childNodes);
    button.addEventListener("click", () => {
      const isOn = button.getAttribute("aria-pressed") !== "true";
      for (const other of document.querySelectorAll(".severities button")) other.setAttribute("aria-pressed", "false");
      button.setAttribute("aria-pressed", String(isOn));
      state.severity = isOn ? item.dataset.severity : null;
      filter();
    });
    item.append(button);
  }
}

function kindButtons() {
  for (const button of document.querySelectorAll(".kind button")) {
    const {outcome, kind, title} = button.dataset;
    const rows = () => all.filter((row) => coded(data.outcome, row) === outcome && (coded(data.action_kind, row) ?? "") === kind);
    button.hidden = false;
    picker(button, rows, title);
    button.addEventListener("click", () => get("runs").scrollIntoView());
  }
}

if (count) {
  document.querySelector("#runs .fields").hidden = false;
  const order = data.titles.map((label, at) => [label, at]).sort((a, b) => collator.compare(a[0], b[0]));
  get("outcome").append(option("", "all"), ...order.map(([label, at]) => option(at, label)));
  get("outcome").addEventListener("change", filter);
  get("sort").append(option("", "worst first"), ...sortable.map((column, at) => option(at, column.name)));
  get("sort").addEventListener("change", () => sortBy(get("sort").value === "" ? null : sortable[get("sort").value], false));
  get("reverse").addEventListener("click", () => sortBy(state.sort, !state.descending));
  get("find").addEventListener("input", filter);
  get("chosen").addEventListener("click", () => {
    select(null, "");
    get("find").focus();
  });
  get("size").addEventListener("change", () => {
    state.size = Number(get("size").value);
    state.page = 0;
    show();
  });
  for (const button of document.querySelectorAll(".pages button")) button.addEventListener("click", () => turn(button.dataset.page));
  legendButtons();
  columnChoice();
  head();
  filter();
  kindButtons();
}
