"""The numbers of a comparison as rows of cells, which each format lays out in its own way."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from stabdiag.formats.measured import number
from stabdiag.model.comparison import Bearing, Comparison
from stabdiag.model.text import clipped

if TYPE_CHECKING:
    from stabdiag.model.comparison import Difference, Parting, Run
    from stabdiag.model.findings import Scalar

PARTINGS = ("role", "run", "first at", "by", "> rounding", "> noise", "by")
LEVELS = ("run", "final loss", "error", "noise of one")
RUNS = ("run", "log", "steps", "losses", "seed")

# Settings that are there for completeness alone, and need no more than their names.
IDLE = {
    Bearing.CANNOT.value: "no explanation in",
    Bearing.EXPECTED.value: "as expected",
}

_MOST_RUNS = 16
_MOST_ROLES = 8


def partings(comparison: Comparison) -> list[tuple[str, ...]]:
    """Return where each role parts first, and in which run; what parts first on top.

    Of groups, such as the norms of weights, the one that parts first stands for all.
    """
    first: dict[str, Parting] = {}
    for one in comparison.partings:
        role = one.role.partition("/")[0]
        if role not in first or _order(one) < _order(first[role]):
            first[role] = one
    rows = sorted(first.values(), key=_order)
    return [_parting(one) for one in rows[:_MOST_ROLES]]


def _order(one: Parting) -> tuple[bool, int]:
    return one.step is None, one.step or 0


def _parting(one: Parting) -> tuple[str, ...]:
    if one.step is None:
        return one.role, one.runs[1], "never", "", "", "", ""
    return (
        one.role,
        one.runs[1],
        _step(one.step),
        _apart(one.values),
        _step(one.unrounded),
        _step(one.lasting),
        _apart(one.lasting_values),
    )


def _step(step: int | None) -> str:
    return "never" if step is None else f"step {step}"


def _apart(values: tuple[float, float] | None) -> str:
    """Return how far two values lie apart."""
    if values is None:
        return ""
    gap = abs(values[0] - values[1])
    return "∞" if math.isnan(gap) else number(gap, 2)


def levels(comparison: Comparison) -> list[tuple[str, ...]]:
    """Return where each run ends."""
    return [
        (one.run, number(one.value), f"± {number(one.error, 2)}", number(one.noise, 2))
        for one in comparison.levels[:_MOST_RUNS]
    ]


def runs(comparison: Comparison) -> list[tuple[str, ...]]:
    """Return which log each run is; of many the first ones."""
    shown = [_run(run) for run in comparison.runs[:_MOST_RUNS]]
    more = len(comparison.runs) - len(shown)
    return [*shown, ("…", f"and {more} more", "", "", "")] if more > 0 else shown


def _run(run: Run) -> tuple[str, ...]:
    loss = run.history.get("loss")
    if loss is None or not len(loss):
        return run.label, run.name, "", "0", ""
    seed = "" if run.manifest.seed is None else str(run.manifest.seed)
    return run.label, run.name, f"{loss.steps[0]} to {loss.steps[-1]}", str(len(loss)), seed


def settings(comparison: Comparison) -> list[tuple[str, str]]:
    """Return the settings that differ with their values, by what they can explain."""
    return [(one.bearing.value, _values(one)) for one in comparison.differences]


def _values(one: Difference) -> str:
    by_value: dict[str, list[str]] = {}
    for label, value in one.values.items():
        by_value.setdefault(_value(value), []).append(label)
    told = "; ".join(f"{value} ({', '.join(labels[:8])})" for value, labels in by_value.items())
    return f"{one.key}: {told}"


def _value(value: Scalar) -> str:
    if value is None:
        return "not told"
    return clipped(number(value, 6), 60)
