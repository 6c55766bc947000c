"""Label a run with the faults that its log shows, without any use of stabdiag."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np
from climb_labels import above_twin, climb_trace, risen
from logged import Floats, Log
from noise import excess, level_deviation, rise, trailing
from spike_labels import Trace, spike_trace

SPIKES = frozenset(
    {
        *("outlier", "labels", "jump", "long-jump", "stuck", "stale", "noise", "lost"),
        *("moments", "stays", "activations", "log0", "blow-up", "unguarded", "empty"),
    }
)
CLIMBS = frozenset({"growing", "shrinking", "rot", "harder", "endless", "inverse"})
SCALES = frozenset({"overflow", "collapse", "static"})
# Other correct answers for a run that a lost scale has ruined: its loss rises.
RUINED = (
    "spike-persistent",
    "divergence-unexplained",
    "divergence-grad-norm-rising",
    "divergence-weight-norm-climbing",
    "divergence-weight-norm-collapsing",
)
FREQUENT = 4  # spikes
GUESS = 0.98  # of the logarithm of the number of classes
WARNINGS = frozenset(
    {
        *("spike-long-tail-batch", "spike-lr-jump", "spike-duplicate-batch", "spike-recovered"),
        "gradient-overflow",
    }
)


@dataclass(frozen=True)
class Seen:
    """A run and its twin, each as it was logged and in full; the classes if it is a classifier."""

    log: Log
    full: Log
    twin: Log
    full_twin: Log
    dtype: str
    logs_dtype: bool
    growth: int
    static: bool
    restless: bool = False
    classes: int | None = None


@dataclass(frozen=True)
class Label:
    """The expected diagnosis of a run; `expect` is empty if it is dropped, for the reason `why`."""

    expect: str
    why: str = ""
    onset: int | None = None
    recovered: bool | None = None
    size: float = 0.0
    also_ok: tuple[str, ...] = ()
    also: tuple[str, ...] = field(default=())


def section(slug: str) -> str:
    """The section of the tree that a slug belongs to; healthy belongs to none."""
    starts = {"nan": "§1", "spike": "§2", "gradient": "§3", "loss": "§3", "divergence": "§4"}
    return starts.get(slug.partition("-")[0], "")


def nan_label(seen: Seen) -> Label | None:
    """A loss that is not finite at a logged step."""
    bad = ~np.isfinite(seen.log["loss"])
    if not bad.any():
        hidden = not np.isfinite(seen.full["loss"]).all()
        return Label("", "a NaN between two logged steps") if hidden else None
    onset = int(seen.log.step[int(np.argmax(bad))])
    names = {"fp32": "nan-fp32", "bf16": "nan-bf16", "fp16": "nan-fp16-overflow"}
    moving = seen.log.has("loss_scale") and len(np.unique(seen.log["loss_scale"])) > 1
    if seen.logs_dtype or (seen.dtype == "fp16" and moving):
        return Label(names[seen.dtype], "", onset, None, float(bad.sum()))
    accepted = (names["fp16"],) if seen.dtype == "fp16" else ()
    return Label("nan-dtype-unknown", "", onset, None, float(bad.sum()), accepted)


def overflows(log: Log, first: int = 30) -> tuple[int, int]:
    """Logged overflows from a step on, and the step of the first of them."""
    count = np.zeros(len(log.step), bool)
    if log.has("grad_norm"):
        count |= ~np.isfinite(log["grad_norm"])
    if log.has("loss_scale"):
        scale = log["loss_scale"]
        count[1:] |= scale[1:] < scale[:-1]
    count &= log.step >= first
    return int(count.sum()), int(log.step[int(np.argmax(count))]) if count.any() else 0


def scale_trace(seen: Seen, at: int = 30) -> Trace:
    """The overflowing gradients that the log shows from the fault on."""
    count, since = overflows(seen.log, 0 if seen.static else max(at, 30))
    first = since if seen.static or at >= 30 else None
    if seen.static:
        if count >= 3:
            return Trace("shown", "", "loss-scale-static", None, first, count)
        return Trace("none" if count == 0 else "grey", f"{count} overflows", size=count)
    if seen.dtype == "fp16":
        scale = seen.log["loss_scale"]
        if scale.min() < 1:
            return Trace("shown", "", "loss-scale-collapsed", None, first, -np.log2(scale.min()))
        if scale.min() < 4:
            return Trace("grey", f"a loss scale of {scale.min():g}")
        usual = len(seen.full.step) / seen.growth
        if count <= 1.5 * usual + 1:
            return Trace("none", size=count)
        is_overflowing = count >= 5 and count >= 5 * usual
    else:
        is_overflowing = count >= 3
        if count == 0:
            return Trace("none")
    if not is_overflowing:
        return Trace("grey", f"{count} overflows", size=count)
    if seen.dtype != "fp16" and not seen.logs_dtype:
        return Trace("grey", "overflows in an unknown dtype", size=count)
    return Trace("shown", "", "gradient-overflow", None, first, count)


def calm(seen: Seen) -> bool:
    """Whether gradients overflow no more than the scaler's probing and calibration explain."""
    if scale_trace(seen).verdict == "none":
        return True
    usual = len(seen.full.step) / seen.growth
    low = seen.log.has("loss_scale") and seen.log["loss_scale"].min() < 4
    adapts = seen.dtype == "fp16" and not seen.static and not low
    return adapts and overflows(seen.log)[0] <= 1.5 * usual + 3


def peaks(loss: Floats, span: int, *, smooth: int, gap: int) -> tuple[float, float]:
    """The largest exceedance of a run, and the largest that is `gap` points or more away."""
    height = excess(loss, span, smooth=smooth)
    top = int(np.argmax(height))
    other_heights = np.concatenate([height[: max(0, top - gap)], height[top + gap :]])
    return float(height[top]), float(other_heights.max()) if len(other_heights) else 0.0


def hump(loss: Floats) -> float:
    """The height of the level above the start, in deviations; 0 below 10 % of the progress."""
    _, progress, _ = rise(loss)
    width = max(5, len(loss) // 20)
    above = float(trailing(loss, width)[width - 1 :].max()) - float(loss[:width].mean())
    return above / (level_deviation(loss, width) + 1e-12) if above > 0.1 * progress else 0.0


def guesses(seen: Seen) -> bool:
    """Whether a classifier ends within 2 % of the loss of random guessing."""
    last = seen.log["loss"][-max(len(seen.log.step) // 10, 5) :]
    return seen.classes is not None and float(last.mean()) > GUESS * math.log(seen.classes)


def healthy_label(seen: Seen) -> Label:
    """A run without a fault, or whose fault left no trace: dropped if it looks ill all the same."""
    log = seen.log
    _, progress, width = rise(log["loss"])
    share, deviations = risen(log["loss"], log["loss"])
    if progress <= 0 or progress < 3 * float(np.std(log["loss"][-int(width) :])) / width**0.5:
        return Label("", "learned nothing")
    if guesses(seen):
        return Label("", "ends no better than a guess")
    if np.ptp(log["loss"][len(log["loss"]) // 2 :]) == 0:
        return Label("", "exactly constant")
    if deviations > (2 if share > 0.2 else 3) and share > 0.05:
        return Label("", f"rises by {share:.3f} of its progress without a fault")
    if hump(log["loss"]) > 4:
        return Label("", "rises above its start without a fault")
    if seen.dtype != "fp32" and not calm(seen):
        return Label("", "overflows without a fault")
    span = max(20, 100 // int(log.step[1] - log.step[0]))
    jump, precedent = peaks(log["loss"], span, smooth=10, gap=span)
    if jump > 6 and (not seen.restless or jump > 2 * precedent):
        return Label("", f"jumps by {jump:.1f} deviations without a fault or a precedent")
    first, second = peaks(log["loss"], span, smooth=1, gap=10)
    if first > 6 and first > 2 * second:
        return Label("", f"one loss of {first:.1f} deviations, the next {second:.1f}: an outlier")
    return Label("healthy", size=share)


def traces(seen: Seen, faults: list[tuple[str, int, int]]) -> list[Trace]:
    """The trace of each fault, given its name, the step of its effect and the step it struck."""
    result = []
    for name, at, struck in faults:
        if name in SPIKES:
            result.append(
                spike_trace(seen.log, seen.twin, seen.full, seen.full_twin, name, at, struck)
            )
        elif name in CLIMBS:
            result.append(climb_trace(seen.log, seen.twin, seen.full, name, at))
        else:
            result.append(scale_trace(seen, at))
    return result


def left_behind(seen: Seen, shown: list[Trace]) -> float:
    """The rise of a run with recovered spikes, without the spikes themselves."""
    loss = seen.log["loss"].copy()
    twin = seen.twin["loss"][: len(loss)]
    for trace in shown:
        steps = seen.log.step
        spike = (steps >= (trace.onset or 0)) & (steps < (trace.onset or 0) + 60)
        loss[spike] = twin[spike]
    share, deviations = risen(loss, twin)
    return share if deviations > 2 and above_twin(loss, twin)[1] > 2 else 0.0


def recurring_label(all_traces: list[Trace]) -> Label:
    """The label of a run that was hit by one kind of fault several times.

    Faults that are half visible do not count. Four or more visible spikes are frequent; of fewer,
    each may be named.
    """
    shown = [trace for trace in all_traces if trace.verdict == "shown"]
    if len(shown) < 2:
        return Label("", f"{len(shown)} of {len(all_traces)} spikes are visible")
    if not all(trace.recovered for trace in shown):
        return Label("", "recurring spikes, and the run did not recover from one")
    slugs = tuple(slug for slug in WARNINGS if slug.startswith("spike"))
    frequent = len(shown) >= FREQUENT
    expect = "frequent-spikes" if frequent else shown[0].slug
    also_ok = tuple(sorted({*slugs, "frequent-spikes"} - {expect}))
    size = min(trace.size for trace in shown)
    return Label(expect, "", shown[0].onset, True, size, also_ok)


def label(seen: Seen, faults: list[tuple[str, int, int]]) -> Label:
    """The label of a run with `faults`."""
    if len(seen.log.step) < 10:
        return Label("", "fewer than 10 rows")
    nan = nan_label(seen)
    if nan is not None:
        return nan
    if not faults:
        return healthy_label(seen)
    all_traces = traces(seen, faults)
    if len(faults) > 2 and len({name for name, _, _ in faults}) == 1:
        return recurring_label(all_traces)
    grey = next((trace for trace in all_traces if trace.verdict == "grey"), None)
    if grey is not None:
        return Label("", grey.why, size=grey.size)
    shown = [trace for trace in all_traces if trace.verdict == "shown"]
    if not shown:
        return healthy_label(seen)
    if all(name in SPIKES for name, _, _ in faults) and shown[-1].recovered:
        share = left_behind(seen, shown)
        if share > 0.05:
            return Label("", f"recovered, and risen by {share:.3f}")
    shown.sort(key=lambda trace: (trace.slug in WARNINGS, section(trace.slug)))
    worst = shown[0]
    other_slugs = tuple(trace.slug for trace in shown[1:] if trace.slug != worst.slug)
    also_ok = worst.also_ok
    if worst.slug == "loss-scale-collapsed" and left_behind(seen, []) > 0.1:
        also_ok = RUINED
    return Label(worst.slug, "", worst.onset, worst.recovered, worst.size, also_ok, other_slugs)
