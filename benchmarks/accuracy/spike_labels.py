"""Whether a fault left a spike in the log, whether the run came back, and what it is called."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from logged import Log
from noise import excess, residual_deviation, trailing


@dataclass(frozen=True)
class Trace:
    """The visible effect of a fault. `verdict`: shown, none, or grey with the reason in `why`."""

    verdict: str
    why: str = ""
    slug: str = ""
    recovered: bool | None = None
    onset: int | None = None
    size: float = 0.0
    also_ok: tuple[str, ...] = ()


def before(log: Log, at: int) -> slice:
    """The points of the 100 steps before a step, or the 20 points before it."""
    end = int(np.searchsorted(log.step, at))
    start = int(np.searchsorted(log.step, at - 100))
    return slice(max(0, min(start, end - 20)), end)


def visible(log: Log, twin: Log, at: int, struck: int) -> tuple[float, float, bool]:
    """The peak in deviations of its past and of the twin, and whether it exceeds the noise."""
    stride = int(log.step[1] - log.step[0])
    loss, other = log["loss"], twin["loss"]
    past = before(log, struck)
    mean, spread = float(loss[past].mean()), float(loss[past].std()) + 1e-12
    start = int(np.searchsorted(log.step, at))
    window = slice(start, start + max(8, 50 // stride))
    spread = max(spread, float(other[window].std()))
    smoothing = max(1, round(5 / stride))
    width = min(len(loss), len(other))
    apart = trailing(loss[:width] - other[:width], smoothing)[window]
    around = slice(max(0, past.start), window.stop)
    noise = residual_deviation(other, around, smoothing) + 1e-12
    peak = float((loss[window] - mean).max() / spread)
    span = max(20, 100 // stride)
    smooth = float((trailing(loss, 10)[window] - mean).max() / spread)
    twin_peak = float(excess(other, span).max())
    smooth_twin_peak = float(excess(other, span, smooth=10).max())
    return peak, float(apart.max() / noise), peak > twin_peak or smooth > smooth_twin_peak


def return_time(full: Log, twin: Log, at: int, struck: int) -> tuple[int | None, bool]:
    """Steps from the onset until the smoothed loss is back, and whether it stays there.

    If a run has not recovered, the second value says whether its last five losses have.
    """
    loss, other = full["loss"], twin["loss"]
    past = loss[max(0, struck - 100) : struck]
    mean, spread = float(past.mean()), float(past.std()) + 1e-12
    spread = max(spread, float(other[at : at + 50].std()))
    width = min(len(loss), len(other))
    apart = loss[:width] - other[:width]
    peak = at + int(np.argmax(loss[at : at + 50]))
    back = (trailing(loss, 10)[:width] <= mean + 0.5 * spread) | (
        trailing(apart, 10) <= 0.5 * spread
    )
    later = np.flatnonzero(back[peak + 1 :])
    if not len(later):
        return None, bool(loss[-5:].mean() <= mean + 0.5 * spread)
    moment = peak + 1 + int(later[0])
    after = slice(moment, moment + 50)
    stays = loss[:width][after].mean() <= mean + spread or apart[after].mean() <= spread
    return moment - at, bool(stays)


def outcome(time: int | None, left: int, *, stays: bool) -> tuple[str, bool | None]:
    """`recovered`, `spike-persistent`, `spike-unresolved` or grey, from the time of return."""
    if time is not None and time <= 40:
        return ("recovered", True) if stays else ("grey", None)
    if left < 46 and time is None and not stays:
        return "spike-unresolved", None
    if left > 60 and (time is None or time > 70):
        return "spike-persistent", False
    return "grey", None


def cause(log: Log, fault: str, at: int, struck: int) -> tuple[str, tuple[str, ...]]:
    """The leaf of a recovered spike, by what was done and by what the log shows of it."""
    past = before(log, struck)
    start = int(np.searchsorted(log.step, struck))
    end = int(np.searchsorted(log.step, at)) + 3
    rates = log["lr"][max(0, past.stop - 3) : past.stop]
    if fault in ("jump", "long-jump") and log["lr"][start:end].max() > 1.5 * rates.max():
        return "spike-lr-jump", ()
    if fault in ("stale", "stuck") and log.has("batch_id"):
        seen = log["batch_id"][past.start : end]
        if len(set(seen[-(end - start + 3) :])) < len(seen[-(end - start + 3) :]):
            return "spike-duplicate-batch", ()
    if not log.has("grad_norm"):
        return "spike-recovered", ()
    norms = log["grad_norm"]
    ratio = float(np.nanmax(norms[start:end]) / np.nanmean(norms[past]))
    if not np.isfinite(ratio):
        return "spike-long-tail-batch", ("spike-recovered",)
    close_slugs = ("spike-long-tail-batch", "spike-recovered") if 20 < ratio < 45 else ()
    slug = "spike-long-tail-batch" if ratio > 30 else "spike-recovered"
    return slug, tuple(name for name in close_slugs if name != slug)


def spike_trace(
    log: Log, twin: Log, full: Log, full_twin: Log, fault: str, at: int, struck: int
) -> Trace:
    """The label of one fault that may have made a spike."""
    past = before(log, struck)
    left = int(full.step[-1]) + 1 - at
    if past.stop - past.start < 10 or log.step[-1] < at + 1:
        return Trace("grey", "too few points before or after it")
    peak, apart, is_prominent = visible(log, twin, at, struck)
    share = min(peak / 3, apart / 3)
    if share < 0.5 and apart < 3:
        if fault == "stuck":
            return Trace("grey", "memorized, and recovered: no leaf covers it", size=peak)
        return Trace("none", size=peak)
    if share < 1:
        return Trace("grey", f"half visible: {peak:.1f}σ, {apart:.1f}", size=peak)
    if not is_prominent:
        return Trace("grey", f"no higher than the twin's own noise: {peak:.1f}σ", size=peak)
    time, stays = return_time(full, full_twin, at, struck)
    kind, recovered = outcome(time, left, stays=stays)
    if kind == "grey":
        return Trace("grey", f"back after {time} steps, {left} left, stays: {stays}", size=peak)
    if int((log.step >= at).sum()) < (5 if recovered else 3):
        return Trace("grey", "too few points after it to tell", size=peak)
    slug, accepted = cause(log, fault, at, struck) if kind == "recovered" else (kind, ())
    start = int(np.searchsorted(log.step, at))
    return Trace("shown", "", slug, recovered, int(log.step[start]), peak, accepted)
