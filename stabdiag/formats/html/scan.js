// The runs of a scan: a table that sorts, filters and opens, and a matrix of outcomes by setting.

const PAGE = 50;
const SHOWN = 5;
const BINS = 6;
const NUMERIC = {step: "Step", lost_steps: "Steps lost", loss_best: "Best loss", loss_last: "Last loss"};

const count = data.run.length;
const all = Array.from({length: count}, (_, row) => row);
const get = (id) => document.getElementById(id);
const coded = (column, row) => column.codes[row] < 0 ? null : column.values[column.codes[row]];
const setting = (name, row) => coded(data.settings[name], row);
const severity = (row) => coded(data.severity, row) ?? "unread";
const write = (value) => value === null ? "" : typeof value === "number" ? short(value) : value;

const state = {sort: null, down: false, page: 0, rows: all, open: null, cell: null};

// Sorting: unknown values come last in both directions.

const collator = new Intl.Collator("en", {numeric: true});
const RANK = {error: 0, warning: 1, note: 2, ok: 3, unread: 4};

const named = Object.keys(data.settings).slice(0, SHOWN);
const columns = [
  {name: "Severity", of: severity, key: (row) => RANK[severity(row)]},
  {name: "Run", of: (row) => data.run[row]},
  {name: "Outcome", of: (row) => coded(data.outcome, row)},
  ...Object.entries(NUMERIC).map(([key, name]) => ({name, of: (row) => data[key][row], number: true})),
  {name: "Loss"},
  ...named.map((key) => ({name: key, of: (row) => setting(key, row), number: typeof data.settings[key].values[0] === "number"})),
];

function compared(a, b) {
  if (a === null || b === null) return (a === null) - (b === null);
  const order = typeof a === "number" && typeof b === "number" ? a - b : collator.compare(a, b);
  return state.down ? -order : order;
}

function sorted(rows) {
  if (state.sort === null) return rows;
  const key = state.sort.key ?? state.sort.of;
  return rows.map((row) => [key(row), row]).sort((a, b) => compared(a[0], b[0]) || a[1] - b[1]).map(([, row]) => row);
}

// Filtering: each word is searched in the texts of a run.

const texts = new Array(count);

function text(row) {
  const settings = Object.keys(data.settings).map((name) => `${name}=${setting(name, row)}`);
  texts[row] ??= [data.run[row], severity(row), coded(data.outcome, row), coded(data.headline, row), ...settings].join("\n").toLowerCase();
  return texts[row];
}

function filter() {
  const words = get("find").value.toLowerCase().split(/\s+/).filter(Boolean);
  const outcome = get("outcome").value;
  state.rows = sorted(all.filter((row) =>
    (outcome === "" || coded(data.outcome, row) === data.outcome.values[outcome]) &&
    (state.cell === null || state.cell.has(row)) && words.every((word) => text(row).includes(word))));
  state.page = 0;
  show();
}

// The table, one page at a time.

function curve(row) {
  const letters = data.curve[row];
  const cell = element("td");
  if (letters.length < 2) return cell;
  const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  svg.setAttribute("class", "curve");
  svg.setAttribute("viewBox", `0 -1 ${letters.length - 1} 54`);
  svg.setAttribute("preserveAspectRatio", "none");
  svg.setAttribute("role", "img");
  svg.setAttribute("aria-label", `loss from ${write(data.loss_first[row])} to ${write(data.loss_last[row])}, at best ${write(data.loss_best[row])}`);
  const path = document.createElementNS("http://www.w3.org/2000/svg", "path");
  const height = (letter) => letter <= "Z" ? letter.charCodeAt(0) - 65 : letter.charCodeAt(0) - 71;
  path.setAttribute("d", Array.from(letters, (letter, at) => `${at ? "L" : "M"}${at} ${51 - height(letter)}`).join(""));
  svg.append(path);
  cell.append(svg);
  return cell;
}

function line(row) {
  const made = element("tr", severity(row));
  for (const column of columns) {
    if (column.name === "Run") {
      const cell = element("th");
      cell.scope = "row";
      const button = element("button", "open");
      button.type = "button";
      button.setAttribute("aria-expanded", String(state.open === row));
      button.append(element("bdi", "", data.run[row]));
      button.addEventListener("click", () => open(row));
      cell.append(button);
      made.append(cell);
    } else if (!column.of) {
      made.append(curve(row));
    } else {
      const cell = element("td", column.number ? "number" : "", String(write(column.of(row))));
      if (column.of === severity) cell.className = "level";
      made.append(cell);
    }
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
  const code = element("code", "", `stabdiag diagnose ${quoted(data.path[row])}`);
  code.id = "whole";
  const button = element("button", "copy", "Copy");
  button.type = "button";
  button.dataset.copy = "whole";
  button.append(element("span", "hidden", " the command for the whole report"));
  again.append(code, button);
  const list = element("dl");
  const facts = {format: coded(data.format, row), "last step": data.last_step[row], "evaluation loss": data.eval_loss[row]};
  for (const name of Object.keys(data.settings)) facts[name] = setting(name, row);
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
  const at = state.rows.slice(state.page * PAGE).indexOf(row);
  document.querySelectorAll(".runs .open")[at]?.focus();
}

function show() {
  const first = state.page * PAGE;
  const rows = state.rows.slice(first, first + PAGE);
  document.querySelector(".runs tbody").replaceChildren(
    ...rows.flatMap((row) => row === state.open ? [line(row), about(row)] : [line(row)]));
  const of = state.rows.length === count ? "" : `, of ${count} in all`;
  get("range").textContent = rows.length
    ? `Runs ${first + 1} to ${first + rows.length} of ${state.rows.length}${of}` : `No run fits${of}`;
  const last = Math.max(Math.ceil(state.rows.length / PAGE) - 1, 0);
  const pages = document.querySelector(".pages");
  pages.hidden = last === 0;
  for (const button of pages.querySelectorAll("button")) {
    const back = ["first", "back"].includes(button.dataset.page);
    button.setAttribute("aria-disabled", String(back ? state.page === 0 : state.page === last));
  }
}

function turn(to) {
  const last = Math.max(Math.ceil(state.rows.length / PAGE) - 1, 0);
  const pages = {first: 0, back: state.page - 1, on: state.page + 1, last};
  state.page = Math.min(Math.max(pages[to], 0), last);
  show();
}

function head() {
  const made = element("tr");
  for (const column of columns) {
    const cell = element("th", column.number ? "number" : "");
    cell.scope = "col";
    if (column.of) {
      const button = element("button", "", column.name);
      button.type = "button";
      button.addEventListener("click", () => {
        state.down = state.sort === column && !state.down;
        state.sort = column;
        for (const other of made.children) other.removeAttribute("aria-sort");
        cell.setAttribute("aria-sort", state.down ? "descending" : "ascending");
        filter();
      });
      cell.append(button);
    } else {
      cell.textContent = column.name;
    }
    made.append(cell);
  }
  document.querySelector(".runs thead").append(made);
}

// The matrix: the values of a setting as columns; many numbers are binned into equal numbers of runs.

function bins(name) {
  const {values, codes} = data.settings[name];
  const sizes = new Array(values.length).fill(0);
  for (const code of codes) if (code >= 0) sizes[code] += 1;
  const numbers = values.map(Number);
  const order = values.map((_, at) => at);
  if (values.every((value) => value !== "" && Number.isFinite(Number(value)))) {
    order.sort((a, b) => numbers[a] - numbers[b]);
    if (values.length <= BINS + 2) return order.map((at) => ({name: write(values[at]), codes: new Set([at])}));
    const each = sizes.reduce((sum, size) => sum + size, 0) / BINS;
    const made = [];
    let sum = 0;
    for (const at of order) {
      const bin = Math.min(Math.floor(sum / each), BINS - 1);
      (made[bin] ??= []).push(at);
      sum += sizes[at];
    }
    return made.filter(Boolean).map((bin) => ({
      name: bin.length > 1 ? `${short(numbers[bin[0]], 3)} to ${short(numbers[bin[bin.length - 1]], 3)}` : short(numbers[bin[0]], 3),
      codes: new Set(bin),
    }));
  }
  order.sort((a, b) => sizes[b] - sizes[a]);
  const made = order.slice(0, BINS).map((at) => ({name: String(values[at]), codes: new Set([at])}));
  if (order.length > BINS) made.push({name: `${order.length - BINS} others`, codes: new Set(order.slice(BINS))});
  return made;
}

function choose(button, rows, label) {
  const on = button.getAttribute("aria-pressed") !== "true";
  for (const other of document.querySelectorAll(".matrix button")) other.setAttribute("aria-pressed", "false");
  button.setAttribute("aria-pressed", String(on));
  state.cell = on ? new Set(rows) : null;
  get("chosen").hidden = !on;
  get("chosen").textContent = `${label} ✕`;
  get("chosen").setAttribute("aria-label", `Show all runs again, not only ${label}`);
  filter();
}

function matrix() {
  const name = get("setting").value;
  const {codes} = data.settings[name];
  const made = bins(name);
  if (codes.includes(-1)) made.push({name: "not recorded", codes: new Set([-1])});
  const top = element("tr");
  for (const title of ["Outcome", ...made.map((bin) => bin.name)]) {
    const cell = element("th");
    cell.scope = "col";
    cell.append(element("bdi", "", title));
    top.append(cell);
  }
  const inside = made.map((bin) => all.filter((row) => bin.codes.has(codes[row])));
  const order = [...new Set(data.outcome.codes)];
  const body = order.map((outcome) => {
    const row = element("tr", severity(data.outcome.codes.indexOf(outcome)));
    const title = element("th", "level", data.outcome.values[outcome]);
    title.scope = "row";
    row.append(title);
    inside.forEach((rows, at) => {
      const cell = element("td");
      const hits = rows.filter((run) => data.outcome.codes[run] === outcome);
      if (hits.length) {
        const share = hits.length / rows.length;
        const button = element("button", `tint-${Math.ceil(4 * share)}`, `${hits.length} · ${Math.round(100 * share)}%`);
        button.type = "button";
        const label = `${data.outcome.values[outcome]}, ${name} ${made[at].name}`;
        button.setAttribute("aria-label", `${hits.length} runs, ${Math.round(100 * share)}%: ${label}`);
        button.setAttribute("aria-pressed", "false");
        button.addEventListener("click", () => choose(button, hits, label));
        cell.append(button);
      }
      row.append(cell);
    });
    return row;
  });
  document.querySelector(".matrix thead").replaceChildren(top);
  document.querySelector(".matrix tbody").replaceChildren(...body);
}

function option(value, label) {
  const made = element("option", "", label);
  made.value = value;
  return made;
}

function all_again() {
  for (const button of document.querySelectorAll(".matrix button")) button.setAttribute("aria-pressed", "false");
  state.cell = null;
  get("chosen").hidden = true;
  filter();
}

if (count) {
  document.querySelector("#runs .fields").hidden = false;
  get("outcome").append(option("", "all"), ...data.outcome.values.map((outcome, at) => option(at, outcome)));
  get("outcome").addEventListener("change", filter);
  get("find").addEventListener("input", filter);
  get("chosen").addEventListener("click", () => {
    all_again();
    get("find").focus();
  });
  for (const button of document.querySelectorAll(".pages button")) button.addEventListener("click", () => turn(button.dataset.page));
  head();
  filter();
  if (named.length) {
    get("matrix").hidden = false;
    get("setting").append(...Object.keys(data.settings).map((name) => option(name, name)));
    get("setting").addEventListener("change", () => {
      all_again();
      matrix();
    });
    matrix();
  }
}
