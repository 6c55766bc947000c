// The horizontal axis: steps, epochs or time. Positions on it are called x; the data are in steps.

const axes = Object.fromEntries(Object.entries(data.axes ?? {}).map(([name, axis]) => (
  [name, {steps: Array.from(unpacked(axis.steps)), values: Array.from(unpacked(axis.values))}]
)));
let axisName = "step";

// Interpolate, and continue the first and the last segment outside.
function interpolate(from, to, value) {
  let low = 0, high = from.length - 1;
  while (high - low > 1) {
    const middle = (low + high) >> 1;
    from[middle] <= value ? low = middle : high = middle;
  }
  const slope = (to[high] - to[low]) / (from[high] - from[low]);
  return to[low] + (value - from[low]) * slope;
}

const toX = (step, name = axisName) => name === "step" ? step : interpolate(axes[name].steps, axes[name].values, step);

function duration(seconds) {
  const whole = Math.round(Math.max(seconds, 0));
  const [days, hours, minutes] = [Math.floor(whole / 86400), Math.floor(whole / 3600) % 24, Math.floor(whole / 60) % 60];
  if (days) return hours ? `${days}d ${hours}h` : `${days}d`;
  if (hours) return minutes ? `${hours}h ${minutes}m` : `${hours}h`;
  if (minutes) return whole % 60 ? `${minutes}m ${whole % 60}s` : `${minutes}m`;
  return `${whole}s`;
}

// A step with its epoch and its time, if they are known.
function position(step) {
  const parts = [`step ${step.toLocaleString("en")}`];
  if (axes.epoch) parts.push(`epoch ${Number(toX(step, "epoch").toFixed(2))}`);
  if (axes.time) parts.push(duration(toX(step, "time")));
  return parts.join(", ");
}

// Time has ticks at round numbers of seconds, minutes, hours or days.
const SECONDS = [1, 2, 5, 10, 30, 60, 120, 300, 600, 1800, 3600, 7200, 14400, 21600, 43200, 86400, 172800, 432000, 864000, 2592000];

function axisLabels(splits) {
  return axisName === "time" ? splits.map(duration) : stepLabels(splits);
}

function rangeText([first, last]) {
  if (axisName === "time") return `${duration(first)} to ${duration(last)}`;
  if (axisName === "epoch") return `epochs ${short(first)} to ${short(last)}`;
  const [low, high] = [Math.ceil(first), Math.floor(last)].map((step) => step.toLocaleString("en"));
  return `steps ${low} to ${high}`;
}

// Smoothing: an exponential moving average, corrected for its start as in TensorBoard.
function smoothed(values, weight) {
  let last = 0, count = 0;
  return values.map((value) => {
    if (typeof value !== "number") return value;
    last = last * weight + (1 - weight) * value;
    count += 1;
    return last / (1 - weight ** count);
  });
}
