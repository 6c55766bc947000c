"""The parts of a report that every page shows: source, plot, deciding answers and numbers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from stabdiag.formats.measured import changed_limits, number
from stabdiag.model.arrays import Floats
from stabdiag.model.findings import Answer, Finding, Scalar, Severity, Verdict
from stabdiag.model.frozen import frozen
from stabdiag.model.history import History, Series
from stabdiag.model.manifest import Manifest
from stabdiag.model.report import Report, skipped
from stabdiag.model.text import and_more, plural

if TYPE_CHECKING:
    from stabdiag.model.baseline import SeriesComparison

_POINTS_AROUND, _POINTS_AFTER_NAN = 200, 40

# Series below the main curve, over the same steps: they show the cause or exclude it.
_SERIES_BELOW = {
    "nan": ("grad_norm", "loss_scale"),
    "spike": ("grad_norm", "lr"),
    "gradient-overflow": ("grad_norm",),
    "loss-scale": ("grad_norm",),
    "divergence": ("grad_norm", "lr"),
    "divergence-weight-norm": ("weight_norm", "lr"),
    # For symptoms, the series that they concern.
    "eval": ("eval_loss",),
    "overfitting": ("eval_loss",),
    "grad": ("grad_norm",),
    "lr": ("lr",),
    "weight-norm": ("weight_norm",),
    "throughput": ("tokens_per_second",),
}

# The series with the cause of an outcome of the tree, by the beginning of its slug.
_CAUSE_SERIES = {
    "spike-lr-jump": "lr",
    "divergence-lr": "lr",
    "divergence-grad-norm": "grad_norm",
    "divergence-weight-norm": "weight_norm",
    "gradient-overflow": "grad_norm",
    "loss-scale": "loss_scale",
    "nan-fp16-overflow": "loss_scale",
}

# The charts of the loss and the scores show these.
_LOSS_SERIES = ("loss", "eval_loss")
SCORE_SERIES = ("accuracy", "eval_accuracy", "score")

# The level that the loss was compared with, by its name in the evidence: a line in the plot.
_REFERENCE_LEVELS = {"spike": "base", "divergence": "best"}

# Number of references that a report names.
_MAX_NAMED_REFERENCES = 5

# The section of a finding against earlier good runs.
_BASELINE = "baseline"


@frozen
class Plot:
    """A plot: one series, its companions, the first and last step, and the event.

    ``level`` is the name and value of a reference level for the main curve. ``band`` is the band
    of earlier good runs, if the finding compares with them.
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
    """A step that a chart marks, or all steps up to ``last``; ``kind`` selects its style.

    ``level`` is the loss below which a recovery counts.
    """

    kind: str
    step: int
    label: str
    last: int | None = None
    level: float | None = None


def source_facts(report: Report) -> list[str]:
    """Return the log of the report, its size, and its manifest."""
    source, first = report.history.source, report.history.first_step
    facts = [f"{source.name} ({source.format})", plural(source.records, "record")]
    if source.unreadable:
        facts.append(f"{source.unreadable} unreadable")
    if first is not None:
        last = report.history.last_step
        span = f" {first}" if first == last else f"s {first} to {last}"
        facts.append(f"{report.history.unit}{span}")
    if source.attempts > 1:
        facts.append(f"attempt {source.attempt} of {source.attempts}")
    if report.literal:
        facts.append("original fixed rules (--literal)")
    path, folder = report.manifest.path, source.name.rpartition("/")[0]
    facts.append(path.removeprefix(f"{folder}/") if path else "no manifest")
    return facts


def notes(report: Report, *, verbose: bool = True) -> list[tuple[str, str]]:
    """Return the notes on how the input was read: the kind and the text of each.

    Unless ``verbose``, only the column of the loss is named, and unknown keys are left out.
    """
    return [
        *_columns(report, verbose=verbose),
        *(("manifest", text) for text in _manifest(report.manifest, verbose=verbose)),
        *baseline_note(report),
        *(("limit", text) for text in changed_limits(report.limits)),
        *((event.kind.value, event.message) for event in report.history.notes),
    ]


def baseline_note(report: Report) -> Iterator[tuple[str, str]]:
    """Yield a note with the earlier good runs of the comparison, and the ones left out."""
    comparison = report.baseline
    if comparison is None:
        return
    from stabdiag.model.baseline import BaselineStatus

    if comparison.status is BaselineStatus.INSIDE:
        yield "baseline", comparison.inside
    elif comparison.references:
        names = and_more(comparison.references, _MAX_NAMED_REFERENCES)
        text = f"compared with {names}. {comparison.left_out_text}"
        yield "baseline", text.rstrip()


def _columns(report: Report, *, verbose: bool) -> Iterator[tuple[str, str]]:
    for role, series in report.history.series.items():
        is_alias = series.column != role if verbose else series.column.lower() != role
        if is_alias and (verbose or role == "loss"):
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
    """Return the number of skipped checks and why; empty if the summary has it."""
    is_redundant = report.tree.outcome.severity is Severity.OK or not report.not_checked
    return "" if is_redundant else skipped(report.not_checked)


def unchecked_by_reason(report: Report) -> list[tuple[str, tuple[str, ...]]]:
    """Return each reason for skipped checks and its checks; a missing recorder comes last."""
    checks: dict[tuple[bool, str], list[str]] = {}
    for check in report.not_checked:
        checks.setdefault((check.needs_recorder, check.because), []).append(check.symptom)
    ranked = sorted(checks.items(), key=lambda item: (item[0][0], -len(item[1])))
    return [(why, tuple(symptoms)) for (_, why), symptoms in ranked]


def unchecked_count(report: Report) -> str:
    """Return the number of skipped checks; checks that need the recorder are counted apart."""
    recorded = sum(check.needs_recorder for check in report.not_checked)
    others = len(report.not_checked) - recorded
    return f"{others}, and {recorded} that need stabdiag.torch" if recorded else str(others)


def whole_loss(report: Report) -> Plot | None:
    """Return the plot of the whole loss with the step of the diagnosis, or None."""
    loss = report.history.get("loss")
    if loss is None or len(loss.finite()) < 2:
        return None
    first, last = int(loss.steps[0]), int(loss.steps[-1])
    return Plot(series=loss, companions=(), first=first, last=last, event=report.diagnosis.step)


def choose(report: Report) -> Plot | None:
    """Choose the plot for the diagnosis; None if nothing can be drawn."""
    history, finding = report.history, report.diagnosis
    series = _main(history, finding)
    if series is None:
        return None
    first, last = _shown_steps(series, report)
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


def cause_role(report: Report) -> str | None:
    """Return the role of the logged series with the cause of the diagnosis, except the loss."""
    diagnosis, history = report.diagnosis, report.history
    roles = [role for prefix, role in _CAUSE_SERIES.items() if diagnosis.slug.startswith(prefix)]
    if diagnosis.section == _BASELINE:
        roles = [str(diagnosis.evidence.get("series", ""))]
    roles += [role for role in diagnosis.roles if role not in ("epoch", "clock", "batch_id")]
    causes = [
        role.partition("/")[0] for role in roles if role.partition("/")[0] not in _LOSS_SERIES
    ]
    logged = next((role for role in causes if history.has(role)), None)
    return "score" if logged in SCORE_SERIES else logged


def is_about_baseline(report: Report) -> bool:
    """Return True if the diagnosis compares the run with earlier good runs."""
    return report.baseline is not None and report.diagnosis.section == _BASELINE


def _band(role: str, report: Report) -> SeriesComparison | None:
    """Return the comparison of a series with its baseline, if the diagnosis is about it."""
    if report.baseline is None or report.diagnosis.section != _BASELINE:
        return None
    return next((series for series in report.baseline.series if series.role == role), None)


def range_with_band(values: Floats, band: SeriesComparison) -> tuple[float, float]:
    """Return the range of a curve, extended to the nearer edge of its band where both end.

    A picture of this range shows how far the run ends from the good runs.
    """
    low, high = float(values.min()), float(values.max())
    end = int(np.searchsorted(band.band_steps, band.last_step, side="right")) - 1
    edge = float(band.band_high[end] if band.higher else band.band_low[end])
    return (min(low, edge), max(high, edge)) if np.isfinite(edge) else (low, high)


def _level(series: Series, report: Report) -> tuple[str, float] | None:
    if series.role == "loss_scale":
        return "floor", report.limits.precision.scale_floor
    name = _REFERENCE_LEVELS.get(report.diagnosis.slug.partition("-")[0], "")
    value = report.diagnosis.evidence.get(name)
    return (name, value) if isinstance(value, float) else None


def _main(history: History, finding: Finding) -> Series | None:
    """Return the loss, or for §3 the series that its questions use."""
    roles: tuple[str, ...] = ("loss",)
    if finding.section == "§3":
        roles = ("loss_scale", "grad_norm", "loss")
    elif finding.section == _BASELINE:
        roles = (str(finding.evidence.get("series", "loss")), "loss")
    logged = (history.get(role) for role in roles)
    return next((s for s in logged if s is not None and len(s.finite()) > 1), None)


def _shown_steps(series: Series, report: Report) -> tuple[int, int]:
    """Return the steps to show: about 200 points on either side of the event, or all.

    A divergence or a plateau needs the whole run because its best level is part of the evidence.
    After a NaN there is little to see.
    """
    finding, steps = report.diagnosis, series.steps
    if finding.step is None or finding.section not in ("§1", "§2"):
        return int(steps[0]), int(steps[-1])
    position = int(np.searchsorted(steps, finding.step))
    after = _POINTS_AFTER_NAN if finding.section == "§1" else _POINTS_AROUND
    low, high = max(position - _POINTS_AROUND, 0), min(position + after, len(steps) - 1)
    return int(steps[low]), int(steps[high])


def _companions(
    history: History, finding: Finding, main: str, first: int, last: int
) -> Iterator[Series]:
    # If there are many weight norms, draw the one in the evidence, else the one that changes most.
    evidence = set(finding.evidence.values())
    prefixes = [key for key in _SERIES_BELOW if finding.slug.startswith(key)]
    for role in _SERIES_BELOW[max(prefixes, key=len)] if prefixes else ():
        parts = [series.between(first, last) for series in history.group(role).values()]
        drawn = [part for part in parts if part.role != main and len(part.finite()) > 1]
        if drawn:
            yield max(drawn, key=lambda part: (group(part.role) in evidence, movement(part)))


def group(role: str) -> str:
    """Return the group of a role such as ``weight_norm/mlp``, or the role itself."""
    return role.partition("/")[2] or role


def movement(series: Series) -> float:
    """Return the logarithm of the ratio of the largest to the smallest size, ignoring zeros."""
    sizes = np.abs(series.finite().values)
    sizes = sizes[sizes > 0]
    return float(np.log(sizes.max()) - np.log(sizes.min())) if len(sizes) else 0.0


def numbers(report: Report) -> dict[str, Scalar]:
    """Return the evidence of the diagnosis, with the numbers of its question first."""
    diagnosis, deciding = report.diagnosis, decisive(report)
    answers = [a for a in deciding if a.question == diagnosis.question]
    values = diagnosis.evidence or {n: v for a in deciding for n, v in a.measured.items()}
    first = {n: v for a in answers for n, v in a.measured.items() if n in values}
    return {**first, **values}


def decisive(report: Report) -> list[Answer]:
    """Return the answers behind the diagnosis: the known answers of its section.

    A diagnosis without a section, for example healthy, depends on all answers: the list is empty.
    """
    diagnosis = report.diagnosis
    if not diagnosis.section:
        return []
    return [
        answer
        for answer in report.tree.answers
        if answer.scope is diagnosis.scope
        and answer.verdict is not Verdict.UNKNOWN
        and (
            answer.question == diagnosis.question or f"§{answer.question[1:2]}" == diagnosis.section
        )
    ]
