"""What every page shows of a report: its source, its plot, the answers and numbers that decided."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from stabdiag.formats.measured import changed_limits, number
from stabdiag.model.baseline import BaselineStatus, SeriesComparison
from stabdiag.model.findings import Answer, Finding, Scalar, Severity, Verdict
from stabdiag.model.frozen import frozen
from stabdiag.model.history import History, Series
from stabdiag.model.manifest import Manifest
from stabdiag.model.report import Report, skipped
from stabdiag.model.text import and_more, plural

_POINTS_AROUND, _POINTS_AFTER_NAN = 200, 40

# The series below the main curve, on the same steps: they point to the cause or rule it out.
_COMPANIONS = {
    "nan": ("grad_norm", "loss_scale"),
    "spike": ("grad_norm", "lr"),
    "gradient-overflow": ("grad_norm",),
    "loss-scale": ("grad_norm",),
    "divergence": ("grad_norm", "lr"),
    "divergence-weight-norm": ("weight_norm", "lr"),
    # Of symptoms, the series that they are about.
    "eval": ("eval_loss",),
    "overfitting": ("eval_loss",),
    "grad": ("grad_norm",),
    "lr": ("lr",),
    "weight-norm": ("weight_norm",),
    "throughput": ("tokens_per_second",),
}

# What the loss was compared with, by its name in the evidence: a line across the plot.
_LEVELS = {"spike": "base", "divergence": "best"}

# References that a report names.
_MOST_NAMED = 5

# The section of a finding against earlier good runs.
_BASELINE = "baseline"


@frozen
class Plot:
    """What is drawn: one series, its companions, the first and last step, and the event.

    ``level`` is a value to compare the main curve with, and its name. ``band`` is the band of
    earlier good runs, if the finding is about that.
    """

    series: Series
    companions: tuple[Series, ...]
    first: int
    last: int
    event: int | None
    level: tuple[str, float] | None = None
    band: SeriesComparison | None = None


@frozen
class Mark:
    """A step that a chart marks, or all steps up to ``last``; ``kind`` decides how it looks.

    ``level`` is the loss that a recovery had to come below.
    """

    kind: str
    step: int
    label: str
    last: int | None = None
    level: float | None = None


def source_facts(report: Report) -> list[str]:
    """Return which log the report is about, how much of it there is, and its manifest."""
    source, first = report.history.source, report.history.first_step
    told = [f"{source.name} ({source.format})", plural(source.records, "record")]
    if source.unreadable:
        told.append(f"{source.unreadable} unreadable")
    if first is not None:
        told.append(f"{report.history.unit}s {first} to {report.history.last_step}")
    if source.attempts > 1:
        told.append(f"attempt {source.attempt} of {source.attempts}")
    if report.literal:
        told.append("original fixed rules (--literal)")
    path, folder = report.manifest.path, source.name.rpartition("/")[0]
    told.append(path.removeprefix(f"{folder}/") if path else "no manifest")
    return told


def notes(report: Report, *, verbose: bool = True) -> list[tuple[str, str]]:
    """Return what a reader could dispute about the input: the kind of each note and its text.

    Unless ``verbose``, only the column of the loss is named, and no key that was not understood.
    """
    return [
        *_columns(report, verbose=verbose),
        *(("manifest", told) for told in _manifest(report.manifest, verbose=verbose)),
        *compared_with(report),
        *(("limit", told) for told in changed_limits(report.limits)),
        *((event.kind.value, event.message) for event in report.history.notes),
    ]


def compared_with(report: Report) -> Iterator[tuple[str, str]]:
    """Yield with which earlier good runs a run was compared, and which were left out."""
    comparison = report.baseline
    if comparison is None:
        return
    if comparison.status is BaselineStatus.INSIDE:
        yield "baseline", comparison.inside
    elif comparison.references:
        named = and_more(comparison.references, _MOST_NAMED)
        told = f"compared with {named}. {comparison.left_out_in_words}"
        yield "baseline", told.rstrip()


def _columns(report: Report, *, verbose: bool) -> Iterator[tuple[str, str]]:
    for role, series in report.history.series.items():
        if series.column != role and (verbose or role == "loss"):
            yield "column", f"{role} is read from {series.column}"


def _manifest(manifest: Manifest, *, verbose: bool) -> Iterator[str]:
    if manifest.overridden:
        yield f"set by a flag: {_fields(manifest, manifest.overridden)}"
    if manifest.logged:
        yield f"from the log: {_fields(manifest, manifest.logged)}"
    for name, why in manifest.inferred.items():
        yield f"inferred: {_fields(manifest, (name,))} ({why})"
    if manifest.unknown and verbose:
        yield f"not understood: {', '.join(str(key) for key in manifest.unknown)}"


def _fields(manifest: Manifest, names: tuple[str, ...]) -> str:
    return ", ".join(f"{name} {number(getattr(manifest, name, None))}" for name in names)


def unchecked(report: Report) -> str:
    """Return how many checks were skipped for want of what; nothing where the summary tells it."""
    told = report.tree.outcome.severity is Severity.OK or not report.not_checked
    return "" if told else skipped(report.not_checked)


def whole_loss(report: Report) -> Plot | None:
    """Return the loss of the whole run with the step of the diagnosis, if there is enough of it."""
    loss = report.history.get("loss")
    if loss is None or len(loss.finite()) < 2:
        return None
    first, last = int(loss.steps[0]), int(loss.steps[-1])
    return Plot(series=loss, companions=(), first=first, last=last, event=report.diagnosis.step)


def choose(report: Report) -> Plot | None:
    """Choose what to draw for a report's diagnosis; None if nothing can be drawn."""
    history, finding = report.history, report.diagnosis
    series = _main(history, finding)
    if series is None:
        return None
    first, last = _around(series, report)
    inside = finding.step is not None and first <= finding.step <= last
    return Plot(
        series=series.between(first, last),
        companions=tuple(_companions(history, finding, series.role, first, last)),
        first=first,
        last=last,
        event=finding.step if inside else None,
        level=_level(series, report),
        band=_band(series.role, report),
    )


def _band(role: str, report: Report) -> SeriesComparison | None:
    """Return the series against its baseline, if the diagnosis is about that."""
    if report.baseline is None or report.diagnosis.section != _BASELINE:
        return None
    return next((one for one in report.baseline.series if one.role == role), None)


def _level(series: Series, report: Report) -> tuple[str, float] | None:
    if series.role == "loss_scale":
        return "floor", report.limits.precision.scale_floor
    name = _LEVELS.get(report.diagnosis.slug.partition("-")[0], "")
    value = report.diagnosis.evidence.get(name)
    return (name, value) if isinstance(value, float) else None


def _main(history: History, finding: Finding) -> Series | None:
    """Return the loss, or for §3 the series that its questions read."""
    roles: tuple[str, ...] = ("loss",)
    if finding.section == "§3":
        roles = ("loss_scale", "grad_norm", "loss")
    elif finding.section == _BASELINE:
        roles = (str(finding.evidence.get("series", "loss")), "loss")
    logged = (history.get(role) for role in roles)
    return next((s for s in logged if s is not None and len(s.finite()) > 1), None)


def _around(series: Series, report: Report) -> tuple[int, int]:
    """Return the steps to show: some hundred points about the event, or all of them.

    A divergence or a plateau needs the whole run: its best level is part of the evidence. After a
    NaN there is little to see.
    """
    finding, steps = report.diagnosis, series.steps
    if finding.step is None or finding.section not in ("§1", "§2"):
        return int(steps[0]), int(steps[-1])
    at = int(np.searchsorted(steps, finding.step))
    after = _POINTS_AFTER_NAN if finding.section == "§1" else _POINTS_AROUND
    low, high = max(at - _POINTS_AROUND, 0), min(at + after, len(steps) - 1)
    return int(steps[low]), int(steps[high])


def _companions(
    history: History, finding: Finding, main: str, first: int, last: int
) -> Iterator[Series]:
    # Of many weight norms the one that the finding names is drawn, else the one that moves most.
    named = set(finding.evidence.values())
    fitting = [key for key in _COMPANIONS if finding.slug.startswith(key)]
    for role in _COMPANIONS[max(fitting, key=len)] if fitting else ():
        parts = [series.between(first, last) for series in history.group(role).values()]
        drawn = [part for part in parts if part.role != main and len(part.finite()) > 1]
        if drawn:
            yield max(drawn, key=lambda part: (group(part.role) in named, movement(part)))


def group(role: str) -> str:
    """Return the group of a role such as ``weight_norm/mlp``, or the role itself."""
    return role.partition("/")[2] or role


def movement(series: Series) -> float:
    """Return how far a series moves, highest to lowest, on a logarithmic scale without zeros."""
    sizes = np.abs(series.finite().values)
    sizes = sizes[sizes > 0]
    return float(np.log(sizes.max()) - np.log(sizes.min())) if len(sizes) else 0.0


def numbers(report: Report) -> dict[str, Scalar]:
    """Return the finding's numbers, those of the answer that led to it first."""
    found, deciding = report.diagnosis, decisive(report)
    last = [a for a in deciding if a.question == found.question]
    told = found.evidence or {n: v for a in deciding for n, v in a.measured.items()}
    first = {n: v for a in last for n, v in a.measured.items() if n in told}
    return {**first, **told}


def decisive(report: Report) -> list[Answer]:
    """Return the answers behind the diagnosis: those of its section that are known.

    A diagnosis without a section, such as healthy, rests on all of them: the list is empty.
    """
    found = report.diagnosis
    if not found.section:
        return []
    return [
        answer
        for answer in report.tree.answers
        if answer.asked_of is found.asked_of
        and answer.verdict is not Verdict.UNKNOWN
        and (answer.question == found.question or f"§{answer.question[1:2]}" == found.section)
    ]
