"""What drives a loss up: what learning rate, weights and gradients did, and since when."""

from __future__ import annotations

import numpy as np

from stabdiag.model.arrays import Floats, Ints
from stabdiag.model.frozen import frozen
from stabdiag.model.history import Series
from stabdiag.stats.levels import CONTEXT_POINTS
from stabdiag.stats.quantiles import RELATIVE_TOLERANCE
from stabdiag.stats.smooth import turn
from stabdiag.tree.run import Run


@frozen
class LrOver:
    """The learning rate over a range of steps: at both ends, and the highest before them.

    ``first`` is where the range begins. ``rises`` says that the rate went up all along, beyond
    where it had been.
    """

    first: int
    begin: float
    end: float
    highest_before: float
    rises: bool

    @property
    def again(self) -> bool:
        """Whether it stayed within what it had been before, when the loss was falling."""
        return self.end <= self.highest_before


def lr_over(run: Run, first: int, last: int) -> LrOver | None:
    """Return what the learning rate did over a climb, and before it where the climb is short.

    The range is no shorter than the window of §4. None if too few rates were logged in it.
    """
    lr, limits = run.history.finite("lr"), run.limits.divergence
    climbing = lr.between(first, last).values
    first = min(first, last - limits.window)
    over = lr.between(first, last)
    if len(over) < 3 or not len(climbing):
        return None
    begin, middle, end = (float(over.values[i]) for i in (0, len(over) // 2, -1))
    before = lr.values[lr.steps < first]
    highest = float(before.max(initial=-np.inf))
    # A warm-up that ends before the climb, or early in it, is no schedule that never ends.
    rises = end > begin * limits.lr_rise and begin < middle < end and float(climbing[0]) < end
    return LrOver(
        first=int(over.steps[0]),
        begin=begin,
        end=end,
        highest_before=highest,
        rises=rises and end > highest,
    )


def turned_to(
    run: Run, series: Series, first: int, last: int, *, falling: bool = False
) -> int | None:
    """Return the step at which a series began its largest rise, or fall, between two steps.

    What counts is the factor that it makes within the window of §4. The turn may lie before the
    first step. None where the series does not show one.
    """
    steps, logs = logarithms(series.finite().until(last))
    if not len(logs):
        return None
    window = run.limits.divergence.window
    found = turn(steps.astype(np.float64), -logs if falling else logs, window, first)
    return None if found is None else round(found)


def half_peak_at(series: Series) -> int | None:
    """Return the first step at which a series is at half its peak, None where it is never above 0.

    Its values are finite.
    """
    peak = float(series.values.max(initial=0.0))
    return int(series.steps[np.argmax(series.values >= peak / 2)]) if peak > 0 else None


def at_or_near(run: Run, series: Series, step: int) -> str:
    """Return ``at step 600``, or ``near step 600`` where the series has no record of that step."""
    return f"{'at' if (series.steps == step).any() else 'near'} {run.unit} {step}"


def logarithms(series: Series) -> tuple[Ints, Floats]:
    """Return the steps of positive values, and the values' logarithms."""
    good = series.values > 0
    return series.steps[good], np.log(series.values[good])


@frozen
class Surge:
    """The largest gradient norm shortly before a NaN, over the mean before it, and at which step.

    ``of`` is the gradient norm in words: that of all, or of one layer where the norm of all was not
    logged. ``since`` is the step of the first norm so large that it surged; None if none was.
    """

    ratio: float
    step: int
    since: int | None
    of: str


def surge_before(run: Run, step: int) -> Surge | None:
    """Return the largest gradient norm just before a step; None if the log does not show it.

    Where the norm of all gradients was not logged, the layer's that surged most stands for it; that
    some layers were calm does not tell of the others.
    """
    norm = run.history.get("grad_norm")
    if norm is not None:
        return None if _is_clipped(run, norm, step) else _largest(run, norm, step)
    layers = (_largest(run, one, step) for one in run.history.group("grad_norm").values())
    surged = (one for one in layers if one is not None and one.since is not None)
    return max(surged, key=lambda one: one.ratio, default=None)


def why_not_known(run: Run, step: int) -> str:
    """Return why the gradient norms do not show what led up to a NaN."""
    norm = run.history.get("grad_norm")
    if norm is None:
        layers = ", and those of layers were calm" if run.history.group("grad_norm") else ""
        return f"no {'total ' if layers else ''}gradient norm was logged{layers}"
    if _is_clipped(run, norm, step):
        return "the gradient norm was logged after clipping"
    few = len(norm.finite().until(step)) < 2 * CONTEXT_POINTS
    return "too few finite gradient norms were logged" if few else "the gradient norm was 0"


def _largest(run: Run, norm: Series, step: int) -> Surge | None:
    norm = norm.finite().until(step)
    if len(norm) < 2 * CONTEXT_POINTS:
        return None
    near = norm.values[-CONTEXT_POINTS:]
    usual = float(np.mean(norm.values[max(len(norm) - 100 - CONTEXT_POINTS, 0) : -CONTEXT_POINTS]))
    if usual <= 0:
        return None
    steps, at = norm.steps[-CONTEXT_POINTS:], int(np.argmax(near))
    surging = steps[near / usual > run.limits.nan.grad_surge]
    since = int(surging[0]) if len(surging) else None
    layer = norm.role.partition("/")[2]
    of = f"the gradient norm of {layer!r}" if layer else "the gradient norm"
    return Surge(ratio=float(near[at]) / usual, step=int(steps[at]), since=since, of=of)


def _is_clipped(run: Run, norm: Series, step: int) -> bool:
    """Tell whether norms just before a step were cut off at the threshold of clipping."""
    clip, logged = run.manifest.grad_clip, norm.finite().until(step).values
    if not clip or not len(logged):
        return False
    near = float(logged[-CONTEXT_POINTS:].max())
    return near >= clip * (1 - RELATIVE_TOLERANCE) and float(logged.max()) <= clip * (
        1 + RELATIVE_TOLERANCE
    )
