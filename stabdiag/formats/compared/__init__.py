"""The parts of a comparison that every format shows: curves to draw, and numbers as table rows."""

from __future__ import annotations

import math
import re
from dataclasses import replace
from typing import Final

import numpy as np

from stabdiag.formats.measured import changed_limits, number
from stabdiag.model.comparison import (
    ComparedRun,
    Comparison,
    ComparisonKind,
    Difference,
    Divergence,
    Relevance,
)
from stabdiag.model.findings import Severity
from stabdiag.model.frozen import frozen
from stabdiag.model.history import Series
from stabdiag.model.text import plural

DIVERGENCES: Final = ("series", "run", "first at", "by", "> rounding", "> noise", "by")
LEVEL_HEADINGS: Final = ("run", "final loss", "error", "noise of a loss")
FIRST_HEADINGS: Final = ("series", "run", "first difference", "beyond the noise", "largest")
RUNS: Final = ("run", "log", "steps", "losses", "seed")

# Settings without an effect; only their names are shown.
IDLE: Final = {Relevance.CANNOT: "explains nothing", Relevance.EXPECTED: "expected"}

# The settings that name a run, best first, and their number.
_NAMING_RELEVANCE: Final = (Relevance.EXPLAINS, Relevance.MAY, Relevance.EXPECTED, Relevance.CANNOT)
_MAX_NAMING: Final = 2

# The length of a run does not say what it is.
_LENGTHS: Final = ("total_steps", "max_steps", "epochs")

_MAX_RUNS: Final = 16
_MAX_ROLES: Final = 8
_MAX_FIRST: Final = 3

# Number of points drawn before and after the divergence, and number of curves.
_BEFORE, _AFTER = 60, 140
_MAX_OVERLAID_CURVES: Final = 5

# Curves with more points are averaged; otherwise they hide each other.
_MAX_OVERLAID_POINTS: Final = 130


@frozen
class Overlay:
    """Curves of a role over the same steps, the reference first, each with the label of its run.

    ``gap`` is the distance between the first two where they differ, ``event`` the step of the
    finding.
    """

    role: str
    curves: tuple[tuple[str, Series], ...]
    gap: Series | None
    first: int
    last: int
    event: int | None
    averaged: int


def overlay(comparison: Comparison) -> Overlay | None:
    """Return the curves to draw, or None if no series differs or too little was logged."""
    diagnosis = comparison.diagnosis
    if diagnosis.severity is Severity.OK or diagnosis.slug == "not-comparable":
        return None
    chosen = _chosen(comparison)
    role = str(diagnosis.evidence.get("role", "loss"))
    if any(_points(run, role) < 2 for run in chosen):
        role = "loss"
    drawn = [run for run in chosen if _points(run, role) > 1]
    if len(drawn) < 2:
        return None
    first, last = _drawn_steps(comparison, drawn, role)
    curves = [run.history.series[role].between(first, last) for run in drawn]
    kept = [(run, curve) for run, curve in zip(drawn, curves, strict=True) if len(curve)]
    if len(kept) < 2:
        return None
    size = max(1, -(-max(len(curve) for _, curve in kept) // _MAX_OVERLAID_POINTS))
    return Overlay(
        role=role,
        curves=tuple((run.label, _averaged(curve, size)) for run, curve in kept),
        gap=gap(kept[0][1], kept[1][1]) if len(kept) == 2 else None,
        first=first,
        last=last,
        event=diagnosis.step
        if diagnosis.step is not None and first <= diagnosis.step <= last
        else None,
        averaged=size,
    )


def _points(run: ComparedRun, role: str) -> int:
    series = run.history.get(role)
    return 0 if series is None else len(series.finite())


def _chosen(comparison: Comparison) -> list[ComparedRun]:
    """Return the runs to draw: the reference with all seeds, or with the most different run."""
    largest = {
        divergence.runs[1]: divergence.largest for divergence in comparison.find_divergences("loss")
    }
    others = sorted(comparison.others, key=lambda run: -largest.get(run.label, -1.0))
    if comparison.diagnosis.slug == "rank-died":
        dead = comparison.diagnosis.evidence.get("rank")
        stopped = next((run for run in comparison.runs if run.rank == dead), others[0])
        living = next(run for run in comparison.runs if run is not stopped)
        return [living, stopped]
    max_count = _MAX_OVERLAID_CURVES if comparison.kind is ComparisonKind.SEEDS else 2
    return [comparison.against, *others][:max_count]


def _drawn_steps(comparison: Comparison, drawn: list[ComparedRun], role: str) -> tuple[int, int]:
    """Return the first and last step to draw: around the step of the finding, or all steps."""
    logged = [run.history.series[role].steps for run in drawn]
    first, last = min(int(s[0]) for s in logged), max(int(s[-1]) for s in logged)
    event = comparison.diagnosis.step
    is_whole_run = (
        comparison.kind is ComparisonKind.SEEDS or comparison.diagnosis.slug == "run-fails"
    )
    if event is None or is_whole_run:
        return first, last
    positions = [(steps, int(np.searchsorted(steps, event))) for steps in logged]
    low = min(int(steps[min(max(i - _BEFORE, 0), len(steps) - 1)]) for steps, i in positions)
    if comparison.diagnosis.slug == "nondeterminism":  # the rest of the run shows how it grows
        return low, last
    return low, max(int(steps[min(i + _AFTER, len(steps) - 1)]) for steps, i in positions)


def _averaged(series: Series, size: int) -> Series:
    """Return the means of every ``size`` points; a non-finite point makes its mean non-finite."""
    size = min(size, len(series))
    length = len(series) // size * size
    with np.errstate(invalid="ignore"):
        values = series.values[:length].reshape(-1, size).mean(axis=1)
    return replace(series, steps=series.steps[:length:size], values=values)


def gap(series: Series, other: Series) -> Series | None:
    """Return the distance of two series where they differ; None for fewer than 2 steps."""
    steps, left, right = np.intersect1d(series.steps, other.steps, True, True)
    with np.errstate(invalid="ignore"):
        size = np.abs(series.values[left] - other.values[right])
    is_different = np.isfinite(size) & (size > 0)
    if is_different.sum() < 2:
        return None
    return replace(series, role="gap", steps=steps[is_different], values=size[is_different])


def run_names(comparison: Comparison) -> dict[str, str]:
    """Return a name for each run by the settings that differ: ``peak_lr 0.003 (run-a)``.

    Settings that may explain a difference come first; a setting that tells no more runs apart is
    left out. A run keeps its label alone if no setting differs.
    """
    order = list(_NAMING_RELEVANCE)
    candidates = [
        difference
        for difference in comparison.differences
        if len(difference.by_value) > 1
        and not difference.in_name
        and difference.key not in _LENGTHS
    ]
    parts: dict[str, tuple[str, ...]] = {run.label: () for run in comparison.runs}
    for difference in sorted(candidates, key=lambda item: order.index(item.relevance)):
        value_by_label = {label: value for value, labels in difference.by_value for label in labels}
        longer = {
            label: (*part, f"{difference.key} {value_by_label.get(label, 'not recorded')}")
            for label, part in parts.items()
        }
        if len(set(longer.values())) > len(set(parts.values())):
            parts = longer
        if max(map(len, parts.values())) == _MAX_NAMING:
            break
    return {label: _run_name(label, part) for label, part in parts.items()}


def _run_name(label: str, settings: tuple[str, ...]) -> str:
    """Return the name of a run; a label that contains its settings is enough (``seed1``)."""
    unsaid = [text for text in settings if not _contains(label, text)]
    return f"{', '.join(unsaid)} ({label})" if unsaid else label


def _contains(label: str, setting: str) -> bool:
    """Return True if a label has a setting and its whole value, with any separator or none.

    >>> _contains("run_seed-1", "seed 1"), _contains("seed12", "seed 1")
    (True, False)
    """
    key, _, value = setting.partition(" ")
    pattern = rf"{re.escape(key)}[\W_]?{re.escape(value)}(?![\w.])"
    return re.search(pattern, label, re.IGNORECASE) is not None


def divergence_rows(comparison: Comparison) -> list[tuple[str, ...]]:
    """Return the first difference of each role and its run, the earliest on top.

    For groups, such as weight norms, the group that differs first is shown.
    """
    rows = _first_divergences(comparison)
    return [
        (
            divergence.role,
            divergence.runs[1],
            _step(divergence.step),
            _apart(divergence.values),
            "" if divergence.step is None else _step(divergence.unrounded),
            "" if divergence.step is None else _step(divergence.lasting),
            _apart(divergence.lasting_values),
        )
        for divergence in rows[:_MAX_ROLES]
    ]


def _first_divergences(comparison: Comparison) -> list[Divergence]:
    """Return the first divergence of each role, the earliest on top."""
    first: dict[str, Divergence] = {}
    for divergence in comparison.divergences:
        role = divergence.role.partition("/")[0]
        if role not in first or _order(divergence) < _order(first[role]):
            first[role] = divergence
    return sorted(first.values(), key=_order)


def first_differences(comparison: Comparison) -> list[tuple[str, ...]]:
    """Return the first divergences: where, and by how much.

    Two runs have a row for each of the first roles; more runs have one for the loss of each. A row
    has the role, the run that differs from the reference, the first difference, the first lasting
    one beyond the noise, and the largest.
    """
    names = run_names(comparison)
    if len(comparison.others) > 1 and comparison.find_divergences("loss"):
        divergences = sorted(comparison.find_divergences("loss"), key=_order)[:_MAX_ROLES]
    else:
        divergences = _first_divergences(comparison)[:_MAX_FIRST]
    return [
        (
            divergence.role,
            names[divergence.runs[1]],
            _difference_text(divergence.step, divergence.values),
            _difference_text(divergence.lasting, divergence.lasting_values),
            f"step {divergence.largest_step}, by {number(divergence.largest, 2)}"
            if divergence.largest_step is not None
            else "",
        )
        for divergence in divergences
        if divergence.step is not None
    ]


def _difference_text(step: int | None, values: tuple[float, float] | None) -> str:
    """Return a step and the difference of two values there."""
    return _step(step) if values is None else f"{_step(step)}, by {_apart(values)}"


def _order(divergence: Divergence) -> tuple[bool, int]:
    return divergence.step is None, divergence.step or 0


def _step(step: int | None) -> str:
    return "never" if step is None else f"step {step}"


def _apart(values: tuple[float, float] | None) -> str:
    if values is None:
        return ""
    gap = abs(values[0] - values[1])
    return "∞" if math.isnan(gap) else number(gap, 2)


def facts(comparison: Comparison) -> list[str]:
    """Return facts about the input: common losses, notes, unreadable lines, changed limits."""
    unreadable = [(run.label, run.history.source.unreadable) for run in comparison.runs]
    return [
        plural(comparison.common, "loss at a common step", "losses at common steps"),
        *comparison.notes,
        *(f"{run} has {plural(count, 'unreadable line')}" for run, count in unreadable if count),
        *changed_limits(comparison.limits),
    ]


def levels(comparison: Comparison) -> list[tuple[str, ...]]:
    """Return the final level of each run."""
    return [
        (level.run, number(level.value), f"± {number(level.error, 2)}", number(level.noise, 2))
        for level in comparison.levels[:_MAX_RUNS]
    ]


def runs(comparison: Comparison) -> list[tuple[str, ...]]:
    """Return a row for each run, cut after the first runs."""
    rows: list[tuple[str, ...]] = []
    for run in comparison.runs[:_MAX_RUNS]:
        loss, seed = run.history.get("loss"), run.manifest.seed
        steps = "" if loss is None or not len(loss) else f"{loss.steps[0]} to {loss.steps[-1]}"
        count = 0 if loss is None else len(loss)
        rows.append((run.label, run.name, steps, str(count), "" if seed is None else str(seed)))
    hidden = len(comparison.runs) - len(rows)
    return [*rows, ("…", f"and {hidden} more", "", "", "")] if hidden > 0 else rows


def setting(difference: Difference) -> str:
    """Return a setting with its values: ``peak_lr: 0.003 (base, long); 0.001 (low)``."""
    parts = [f"{value} ({', '.join(labels[:8])})" for value, labels in difference.by_value]
    return f"{difference.key}: {'; '.join(parts)}"
