"""Whether the loss rose permanently, and which norms and rates rose with it."""

from __future__ import annotations

import numpy as np
from logged import Floats, Log
from noise import level_deviation, rise, trailing, wander
from spike_labels import Trace

# Faults of the weight decay.
DECAYS = frozenset({"growing", "shrinking"})


def risen(loss: Floats, twin: Floats) -> tuple[float, float]:
    """The rise as a share of the progress, and in deviations of a smoothed level."""
    up, progress, width = rise(loss)
    noise = max(level_deviation(twin, int(width)), wander(twin, int(width)))
    return up / max(progress, 1e-12), up / (noise + 1e-12)


def above_twin(loss: Floats, twin: Floats) -> tuple[float, float]:
    """The height of the last tenth above the twin, in standard deviations of two levels.

    The first level is smoothed; from the second, the drift that both runs share through the same
    batches is removed.
    """
    width = max(5, len(loss) // 10)
    apart = float(loss[-width:].mean() - twin[len(loss) - width : len(loss)].mean())
    noise = level_deviation(twin, width) + 1e-12
    return apart / max(noise, wander(twin, width)), apart / noise


def climb_trace(log: Log, twin: Log, full: Log, fault: str, at: int) -> Trace:
    """The label of a fault that may have made the loss climb."""
    loss, other = log["loss"], twin["loss"]
    share, deviations = risen(loss, other)
    own_share, own_deviations = risen(other, other)
    if rise(loss)[1] <= 0:
        return Trace("grey", "no progress to give back", size=share)
    if own_share > 0.05 and own_deviations > 4:
        return Trace("grey", "the twin rises, too", size=share)
    apart, paired = above_twin(loss, other)
    if paired <= 2 or share - max(own_share, 0.0) <= 0.02:
        return Trace("none", size=share)
    deviations = min(deviations, apart)
    if share <= 0.10 or deviations <= 4:
        return Trace("grey", f"a rise of {share:.3f}, {deviations:.1f} deviations", size=share)
    if not carried_by_many(loss):
        return Trace("grey", f"a rise of {share:.3f} that a few losses carry", size=share)
    begin, duration = rise_time(full)
    if duration < 100 or jumps(full, at):
        return Trace("grey", f"rises within {duration} steps: a climb or a jump", size=share)
    slug, accepted = leaf(log, full, fault, at, begin)
    onset = max(at, begin)
    if fault in DECAYS and slug.startswith("divergence-weight-norm"):
        # The norms show at once what was done to them.
        onset = int(log.step[np.searchsorted(log.step, at)])
    return Trace("shown", "", slug, None, onset, share, accepted)


def carried_by_many(loss: Floats) -> bool:
    """Whether half of the rise is left when the highest of the last losses, 3 or 5 %, are cut."""
    width = max(5, len(loss) // 10)
    up = rise(loss)[0]
    last = np.sort(loss[-width:])
    count = max(3, width // 20)
    cut = np.minimum(last, last[-count - 1])
    return float(last.mean() - cut.mean()) < 0.5 * up


def rise_time(full: Log) -> tuple[int, int]:
    """When a tenth of the rise was made, and how long it took to nine tenths."""
    level = trailing(full["loss"], 20)
    end = float(full["loss"][-max(10, len(level) // 10) :].mean())
    low = 20 + int(np.argmin(level[20:]))
    best = float(level[low])
    begin = low + int(np.argmax(level[low:] > best + 0.1 * (end - best)))
    done = begin + int(np.argmax(level[begin:] > best + 0.9 * (end - best)))
    return begin, done - begin


def jumps(full: Log, at: int) -> bool:
    """Whether half of the rise was there 50 to 100 steps after the fault."""
    loss = full["loss"]
    before = float(loss[max(0, at - 100) : at + 1].mean())
    end = float(loss[-max(10, len(loss) // 10) :].mean())
    return at > 0 and float(loss[at + 50 : at + 100].mean()) - before > 0.5 * (end - before)


def leaf(log: Log, full: Log, fault: str, at: int, begin: int) -> tuple[str, tuple[str, ...]]:
    """Learning rate, weight norms, gradient norm: the first that moved with the loss."""
    if fault in ("endless", "inverse"):
        return "divergence-lr-rising", ()
    up, down = norm_changes(full, at)
    slugs = []
    if up > 1.7:
        slugs.append(("divergence-weight-norm-climbing", up > 2, up > 2.4))
    if down > 1.7:
        slugs.append(("divergence-weight-norm-collapsing", down > 2, down > 2.4))
    if fault == "shrinking":
        slugs.reverse()
    certain_slugs = [name for name, _, certain in slugs if certain]
    if certain_slugs:
        return certain_slugs[0], tuple(name for name, _, _ in slugs if name != certain_slugs[0])
    gradient_slugs = gradient_leaf(log, begin)
    all_of_them = [name for name, over, _ in slugs if over] + list(gradient_slugs)
    near_misses = [name for name, over, _ in slugs if not over]
    return all_of_them[0], (*all_of_them[1:], *near_misses)


def norm_changes(full: Log, at: int) -> tuple[float, float]:
    """The largest factors of a group's norm, up and down, within 200 steps."""
    up = down = 1.0
    for name, values in full.values.items():
        if not name.startswith("weight_norm") or not full.present[name].any():
            continue
        seen = full.present[name]
        steps, norms = full.step[seen], values[seen]
        later = np.searchsorted(steps, steps + 200, "right") - 1
        keep = (steps >= at - 20) & (norms > 0)
        ratio = norms[later][keep] / norms[keep]
        if len(ratio):
            up, down = max(up, float(ratio.max())), max(down, float(1 / ratio.min()))
    return up, down


def gradient_leaf(log: Log, begin: int) -> tuple[str, ...]:
    """Whether the mean gradient norm rose with the loss; both leaves where it is a close call."""
    rising, unexplained = "divergence-grad-norm-rising", "divergence-unexplained"
    if not log.has("grad_norm"):
        return (unexplained,)
    start = int(np.searchsorted(log.step, begin))
    norms = log["grad_norm"]
    width = max(5, round(100 / int(log.step[1] - log.step[0])))
    first = np.nanmean(norms[max(0, start - width) : start + 1])
    ratio = float(np.nanmean(norms[-max(width, len(norms) // 10) :]) / first)
    if 1.1 < ratio < 1.5:
        return (rising, unexplained) if ratio > 1.25 else (unexplained, rising)
    return (rising,) if ratio > 1.25 else (unexplained,)
