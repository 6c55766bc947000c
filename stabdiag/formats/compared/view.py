"""What is drawn of a comparison: runs around where they part, in the role that tells it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from stabdiag.model.comparison import Comparison, Kind
from stabdiag.model.findings import Severity

if TYPE_CHECKING:
    from stabdiag.model.comparison import Run
    from stabdiag.model.history import Series

# What words tell, and no curve.
_TOLD = ("not-comparable",)

# So many points before and after where the runs part, and so many runs.
_BEFORE, _AFTER = 60, 140
_MOST = 5

# More points than this to a picture are averaged, so that curves can be told apart.
_POINTS = 130


@dataclass(frozen=True, kw_only=True, eq=False)
class Overlay:
    """Curves of a role on the same steps, the reference first, each with its mark.

    ``gap`` is how far the first two lie apart where they do, ``event`` the step where they part.
    """

    role: str
    curves: tuple[tuple[str, Series], ...]
    gap: Series | None
    first: int
    last: int
    event: int | None
    averaged: int


def overlay(comparison: Comparison) -> Overlay | None:
    """Choose what to draw, or None where nothing parts or nothing was logged."""
    if comparison.diagnosis.severity is Severity.OK or comparison.diagnosis.slug in _TOLD:
        return None
    chosen = _chosen(comparison)
    role = str(comparison.diagnosis.evidence.get("role", "loss"))
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
    event = comparison.diagnosis.step
    return Overlay(
        role=role,
        curves=tuple((run.label[-1], _averaged(one, size)) for run, one in kept),
        gap=_gap(kept[0][1], kept[1][1]) if len(kept) == 2 else None,
        first=first,
        last=last,
        event=event if event is not None and first <= event <= last else None,
        averaged=size,
    )


def _points(run: Run, role: str) -> int:
    series = run.history.get(role)
    return 0 if series is None else len(series.finite())


def _chosen(comparison: Comparison) -> list[Run]:
    """Return the reference and the runs to draw beside it: all seeds, else what parts most."""
    reference = comparison.run(comparison.reference)
    others = [run for run in comparison.runs if run is not reference]
    dead = comparison.diagnosis.evidence.get("rank")
    parted = {
        one.runs[1]: one.largest
        for one in comparison.partings
        if one.role == "loss" and one.step is not None
    }
    others.sort(key=lambda run: -parted.get(run.label, -1.0))
    if comparison.diagnosis.slug == "rank-died":
        stopped = next((run for run in comparison.runs if run.rank == dead), others[0])
        living = next(run for run in comparison.runs if run is not stopped)
        return [living, stopped]
    if comparison.kind is Kind.SEEDS:
        return [reference, *others][:_MOST]
    return [reference, *others[:1]]


def _between(comparison: Comparison, drawn: list[Run], role: str) -> tuple[int, int]:
    """Return the steps to draw: those around the step of the finding, or all of them."""
    logged = [run.history.series[role].steps for run in drawn]
    first, last = min(int(s[0]) for s in logged), max(int(s[-1]) for s in logged)
    at = comparison.diagnosis.step
    if at is None or comparison.kind is Kind.SEEDS:
        return first, last
    places = [(steps, int(np.searchsorted(steps, at))) for steps in logged]
    low = min(int(steps[min(max(at - _BEFORE, 0), len(steps) - 1)]) for steps, at in places)
    if comparison.diagnosis.slug == "nondeterminism":  # how it grows is told by the rest of the run
        return low, last
    return low, max(int(steps[min(at + _AFTER, len(steps) - 1)]) for steps, at in places)


def _averaged(series: Series, size: int) -> Series:
    """Return the means of every so many points; one that is not finite makes its mean so."""
    size = min(size, len(series))
    if size == 1:
        return series
    whole = len(series) // size * size
    with np.errstate(invalid="ignore"):
        values = series.values[:whole].reshape(-1, size).mean(axis=1)
    return replace(series, steps=series.steps[:whole:size], values=values)


def _gap(one: Series, other: Series) -> Series | None:
    steps, here, there = np.intersect1d(one.steps, other.steps, True, True)
    with np.errstate(invalid="ignore"):
        size = np.abs(one.values[here] - other.values[there])
    apart = np.isfinite(size) & (size > 0)
    if apart.sum() < 2:
        return None
    return replace(one, role="gap", steps=steps[apart], values=size[apart])
