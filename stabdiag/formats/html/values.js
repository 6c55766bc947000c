"use strict";

// What the page was given, and how its numbers are read and written.

const data = JSON.parse(document.getElementById("data").textContent);
const root = document.documentElement;
const plots = document.getElementById("plots");

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
