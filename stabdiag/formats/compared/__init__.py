"""The parts of a comparison that every format shows: curves to draw, and numbers as table rows."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Final

import numpy as np

from stabdiag.formats.measured import changed_limits, number
from stabdiag.model.comparison import Comparison, Difference, Divergence, Kind, Relevance, Run
from stabdiag.model.findings import Severity
from stabdiag.model.frozen import frozen
from stabdiag.model.history import Series
from stabdiag.model.text import plural

DIVERGENCES: Final = ("role", "run", "first at", "by", "> rounding", "> noise", "by")
LEVELS: Final = ("run", "final loss", "error", "noise of one")
RUNS: Final = ("run", "log", "steps", "losses", "seed")

# Settings listed for completeness alone; their names are enough.
IDLE: Final = {Relevance.CANNOT: "explains nothing", Relevance.EXPECTED: "expected"}

_MOST_RUNS: Final = 16
_MOST_ROLES: Final = 8

# So many points before and after where the runs part, and so many runs, are drawn.
_BEFORE, _AFTER = 60, 140
_MOST_CURVES: Final = 5

# Curves with more points than this are averaged: otherwise they hide each other.
_POINTS: Final = 130


@frozen
class Overlay:
    """Curves of a role on the same steps, the reference first, each with the label of its run.

    ``gap`` is the distance of the first two where they differ, ``event`` the step of the finding.
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
    found = comparison.diagnosis
    if found.severity is Severity.OK or found.slug == "not-comparable":
        return None
    chosen = _chosen(comparison)
    role = str(found.evidence.get("role", "loss"))
    if any(_points(run, role) < 2 for run in chosen):
        role = "loss"
    drawn = [run for run in chosen if _points(run, role) > 1]
    if len(drawn) < 2:
        return None
    first, last = _between(comparison, drawn, role)
    curves = [run.history.series[role].between(first, last) for run in drawn]
    kept = [(run, one) for run, one in zip(drawn, curves, strict=True) if len(one)]
    if len(kept) < 2:
        return None
    size = max(1, -(-max(len(one) for _, one in kept) // _POINTS))
    return Overlay(
        role=role,
        curves=tuple((run.label, _averaged(one, size)) for run, one in kept),
        gap=gap(kept[0][1], kept[1][1]) if len(kept) == 2 else None,
        first=first,
        last=last,
        event=found.step if found.step is not None and first <= found.step <= last else None,
        averaged=size,
    )


def _points(run: Run, role: str) -> int:
    series = run.history.get(role)
    return 0 if series is None else len(series.finite())


def _chosen(comparison: Comparison) -> list[Run]:
    """Return the reference and the runs to draw with it: seeds, or the run that differs most."""
    parted = {one.runs[1]: one.largest for one in comparison.divergences("loss")}
    others = sorted(comparison.others, key=lambda run: -parted.get(run.label, -1.0))
    if comparison.diagnosis.slug == "rank-died":
        dead = comparison.diagnosis.evidence.get("rank")
        stopped = next((run for run in comparison.runs if run.rank == dead), others[0])
        living = next(run for run in comparison.runs if run is not stopped)
        return [living, stopped]
    most = _MOST_CURVES if comparison.kind is Kind.SEEDS else 2
    return [comparison.against, *others][:most]


def _between(comparison: Comparison, drawn: list[Run], role: str) -> tuple[int, int]:
    """Return the first and last step to draw: around the step of the finding, or all steps."""
    logged = [run.history.series[role].steps for run in drawn]
    first, last = min(int(s[0]) for s in logged), max(int(s[-1]) for s in logged)
    at = comparison.diagnosis.step
    whole = comparison.kind is Kind.SEEDS or comparison.diagnosis.slug == "run-fails"
    if at is None or whole:
        return first, last
    places = [(steps, int(np.searchsorted(steps, at))) for steps in logged]
    low = min(int(steps[min(max(at - _BEFORE, 0), len(steps) - 1)]) for steps, at in places)
    if comparison.diagnosis.slug == "nondeterminism":  # the rest of the run shows how it grows
        return low, last
    return low, max(int(steps[min(at + _AFTER, len(steps) - 1)]) for steps, at in places)


def _averaged(series: Series, size: int) -> Series:
    """Return the means of every so many points; one that is not finite makes its mean so."""
    size = min(size, len(series))
    whole = len(series) // size * size
    with np.errstate(invalid="ignore"):
        values = series.values[:whole].reshape(-1, size).mean(axis=1)
    return replace(series, steps=series.steps[:whole:size], values=values)


def gap(one: Series, other: Series) -> Series | None:
    """Return the distance of two series where they differ, None if at fewer than 2 steps."""
    steps, here, there = np.intersect1d(one.steps, other.steps, True, True)
    with np.errstate(invalid="ignore"):
        size = np.abs(one.values[here] - other.values[there])
    apart = np.isfinite(size) & (size > 0)
    if apart.sum() < 2:
        return None
    return replace(one, role="gap", steps=steps[apart], values=size[apart])


def divergence_rows(comparison: Comparison) -> list[tuple[str, ...]]:
    """Return the first difference of each role and its run, the earliest on top.

    For groups, such as weight norms, the group that differs first is shown.
    """
    first: dict[str, Divergence] = {}
    for one in comparison.partings:
        role = one.role.partition("/")[0]
        if role not in first or _order(one) < _order(first[role]):
            first[role] = one
    rows = sorted(first.values(), key=_order)
    return [
        (
            one.role,
            one.runs[1],
            _step(one.step),
            _apart(one.values),
            "" if one.step is None else _step(one.unrounded),
            "" if one.step is None else _step(one.lasting),
            _apart(one.lasting_values),
        )
        for one in rows[:_MOST_ROLES]
    ]


def _order(one: Divergence) -> tuple[bool, int]:
    return one.step is None, one.step or 0


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
        plural(comparison.common, "common loss", "common losses"),
        *comparison.notes,
        *(f"{run} has {plural(count, 'unreadable line')}" for run, count in unreadable if count),
        *changed_limits(comparison.limits),
    ]


def levels(comparison: Comparison) -> list[tuple[str, ...]]:
    """Return the final level of each run."""
    return [
        (one.run, number(one.value), f"± {number(one.error, 2)}", number(one.noise, 2))
        for one in comparison.levels[:_MOST_RUNS]
    ]


def runs(comparison: Comparison) -> list[tuple[str, ...]]:
    """Return the log of each run, cut after the first runs."""
    rows: list[tuple[str, ...]] = []
    for run in comparison.runs[:_MOST_RUNS]:
        loss, seed = run.history.get("loss"), run.manifest.seed
        steps = "" if loss is None or not len(loss) else f"{loss.steps[0]} to {loss.steps[-1]}"
        count = 0 if loss is None else len(loss)
        rows.append((run.label, run.name, steps, str(count), "" if seed is None else str(seed)))
    more = len(comparison.runs) - len(rows)
    return [*rows, ("…", f"and {more} more", "", "", "")] if more > 0 else rows


def setting(one: Difference) -> str:
    """Return a setting with its values: ``peak_lr: 0.003 (base, long); 0.001 (low)``."""
    parts = [f"{value} ({', '.join(labels[:8])})" for value, labels in one.by_value]
    return f"{one.key}: {'; '.join(parts)}"
