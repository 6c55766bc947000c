"use strict";

// The data of the page, and how numbers are read and formatted.

const data = JSON.parse(document.getElementById("data").textContent);
const root = document.documentElement;
const plots = document.getElementById("plots");

const colour = (name) => getComputedStyle(root).getPropertyValue(`--${name}`).trim();

function unpacked(text) {
  const bytes = Uint8Array.from(atob(text), (char) => char.charCodeAt(0));
  return new Float64Array(bytes.buffer);
}

// In a curve, NaN means "not logged" and the line continues; infinity means "not finite", a gap.
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
    return value.toExponential(Math.max(digits, 1) - 1).replace(/\.?0+e/, "e").replace("e+", "e");
  }
  for (const [unit, sign] of PREFIXES) {
    if (size >= 10 * unit || (size >= unit && unit > 1e3)) {
      return `${Number((value / unit).toPrecision(Math.max(digits, 1)))}${sign}`;
    }
  }
  return String(Number(value.toPrecision(Math.max(digits, 1))));
}

// The steps of an axis in a common unit; in full if their distance is small compared with it.
function stepLabels(splits) {
  const [unit, sign] = PREFIXES.find(([size]) => splits[splits.length - 1] >= 10 * size) ?? [1, ""];
  if (splits.length > 1 && splits[1] - splits[0] < unit / 10) return splits.map((step) => step.toLocaleString("en"));
  return splits.map((step) => step === 0 ? "0" : `${Number((step / unit).toPrecision(7))}${sign}`);
}

const SUPERSCRIPT = "⁰¹²³⁴⁵⁶⁷⁸⁹";

function power(value) {
  if (value === null || value === undefined) return "";
  const exponent = Math.log2(value);
  if (!Number.isInteger(exponent)) return short(value);
  const digits = Array.from(String(Math.abs(exponent)), (digit) => SUPERSCRIPT[digit]);
  return `2${exponent < 0 ? "⁻" : ""}${digits.join("")}`;
}

const LOGS = {log: Math.log10, log2: Math.log2};
const BASES = {log: 10, log2: 2};

// A logarithmic axis has about five labels at powers; between powers of ten, at 2 and 5 times.
function powers(scale, least, most, parts) {
  if (!(least > 0 && most < Infinity)) return [];
  const log = LOGS[scale];
  const [low, high] = [Math.ceil(log(least) - 1e-9), Math.floor(log(most) + 1e-9)];
  const apart = Math.max(Math.ceil((high - low) / parts), 1);
  const found = [];
  for (let exponent = low; exponent <= high; exponent += apart) found.push(BASES[scale] ** exponent);
  if (found.length > 2 || scale === "log2") return found;
  const between = [1, 2, 5].flatMap((digit) => [low - 1, low, high].map((exponent) => digit * 10 ** exponent));
  const inside = [...new Set(between)].filter((value) => value >= least && value <= most);
  return inside.length > 1 ? inside.sort((a, b) => a - b) : [least, most];
}

function element(tag, classes, text) {
  const made = document.createElement(tag);
  if (classes) made.className = classes;
  if (text) made.textContent = text;
  return made;
}
