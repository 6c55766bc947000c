"""The finding of a comparison with a baseline: its sentences and its numbers."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Final

from stabdiag.model.baseline import (
    BaselineComparison,
    BaselineStatus,
    SeriesComparison,
    SettingDifference,
    Unusable,
)
from stabdiag.model.findings import Confidence, Finding, Scalar, Severity
from stabdiag.model.text import ROUGH_FIGURES, SHOWN_NAMES, and_more, listed, num
from stabdiag.stats.standards import FEW_EVENTS, TENFOLD, TWICE
from stabdiag.symptoms.baseline.advice import baseline_actions, format_value
from stabdiag.symptoms.baseline.outcomes import BY_STATUS, UNLIKE, WORSE

# Outcomes of the tree that make a run worse beyond a warning.
_DIVERGED: Final = ("nan-", "divergence-")

# Findings this close to the step of the verdict, as a ratio of steps, are named with it.
_NEAR: Final = 1.25

# From this ratio on, times are easier to read than a percentage.
_TIMES: Final = TWICE

# Levels that differ by more than this factor are named themselves.
_FACTOR: Final = TENFOLD

# A deviation is clear if it exceeds the bar this many times, against this many references.
_CLEAR: Final = TWICE
_SEVERAL: Final = FEW_EVENTS

# A run may go on for this much longer than its references before the report says so.
_LONGER: Final = 1.1


def baseline_finding(
    comparison: BaselineComparison, findings: Sequence[Finding] = ()
) -> Finding | None:
    """Return the finding of a comparison, or None if the run is within the band.

    ``findings`` are the findings of the run alone: the related ones are named.
    """
    outcome = BY_STATUS.get(comparison.status)
    if outcome is None:
        return None
    diverged = any(
        finding.severity is Severity.ERROR and finding.slug.startswith(_DIVERGED)
        for finding in findings
    )
    is_error = comparison.non_finite or (outcome in (WORSE, UNLIKE) and diverged)
    severity = Severity.WARNING if comparison.is_unexplained else outcome.severity
    related = [finding for finding in findings if _is_related(finding, comparison)]
    summary = {
        BaselineStatus.WORSE: _worse,
        BaselineStatus.UNLIKE: _unlike,
        BaselineStatus.BETTER: _better,
        BaselineStatus.LEFT: _left,
        BaselineStatus.UNUSABLE: _unusable,
    }[comparison.status]
    return Finding(
        slug=outcome.slug,
        severity=Severity.ERROR if is_error else severity,
        section="baseline",
        question="",
        title=outcome.title,
        summary=" ".join(filter(None, [*summary(comparison), *_describe_related(related)])),
        actions=tuple(baseline_actions(comparison, related)),
        step=comparison.step,
        evidence=dict(_measured(comparison)),
        unit=comparison.unit,
        confidence=_confidence(comparison),
    )


def _confidence(comparison: BaselineComparison) -> Confidence:
    """Return the confidence: high if several references agree on a large deviation."""
    series = comparison.deciding
    if comparison.non_finite or series is None:
        return Confidence.HIGH
    if comparison.status is BaselineStatus.UNLIKE:
        return Confidence.MEDIUM  # the finding is ambiguous
    clear = series.peak > _CLEAR * series.bar and len(comparison.references) >= _SEVERAL
    return Confidence.HIGH if clear else Confidence.MEDIUM


def _worse(comparison: BaselineComparison) -> Iterator[str]:
    runs, at = comparison.runs, f"{comparison.unit} {comparison.step}"
    if comparison.non_finite:
        yield f"The loss is NaN or infinite from {at} on, unlike in {runs}."
    else:
        yield f"{comparison.subject} is worse than {runs} from {at} on: {_ends(comparison)}."
    yield from _context(comparison)


def _better(comparison: BaselineComparison) -> Iterator[str]:
    at = f"{comparison.unit} {comparison.step}"
    subject, runs = comparison.subject, comparison.runs
    yield f"{subject} is better than {runs} from {at} on: {_ends(comparison)}."
    if comparison.is_unexplained:
        yield (
            "No setting that is known explains it, and no evaluation confirms it: the model may "
            "see its targets, or learn the same few examples."
        )
    yield from _context(comparison)


def _unlike(comparison: BaselineComparison) -> Iterator[str]:
    subject, runs, unit = comparison.subject, comparison.runs, comparison.unit
    yield f"{subject} is unlike {runs} from its first {unit} to its last: {_ends(comparison)}."
    yield (
        "Either it is a run of something else, another task, dataset or model, or it was set up "
        "differently from the start."
    )
    yield from _context(comparison)


def _left(comparison: BaselineComparison) -> Iterator[str]:
    series = comparison.deciding
    if series is None:
        return
    name, unit = series.name, comparison.unit
    back = (
        f" and came back at {unit} {series.back}"
        if series.back is not None
        else ", and was not logged to the end"
    )
    yield (
        f"The {name} left the band of {comparison.runs} at {unit} {series.step}{back}. At most, "
        f"it was {_away(series, comparison)}."
    )
    yield from _context(comparison)


def _unusable(comparison: BaselineComparison) -> Iterator[str]:
    number, odd_one = len(comparison.references), comparison.odd_one
    too_different = f"the {number} references differ too much among themselves"
    shared = f"the run and {comparison.runs} share"
    if comparison.unusable is Unusable.NONE_LEFT:
        reason = "no reference can be used"
    elif comparison.unusable is Unusable.FEW_BINS:
        reason = f"{shared} too few {comparison.unit}s of a loss or a score"
    elif comparison.unusable is Unusable.NO_SERIES:
        reason = f"{shared} no loss and no score"
    elif odd_one is not None:
        reason = f"{too_different} ({odd_one.name} from {comparison.unit} {odd_one.step})"
    elif number == 1:
        reason = "the reference cannot be compared with this run"
    else:
        reason = f"{too_different}, like runs of different tasks or settings"
    yield f"Nothing to say: {reason}."
    if odd_one is not None:
        yield f"Give at least 4, or leave {odd_one.name} out."
    yield comparison.left_out_text


def _reference_pronoun(comparison: BaselineComparison) -> str:
    return "the good run's" if len(comparison.references) == 1 else "theirs"


def _their(comparison: BaselineComparison) -> str:
    return "its" if len(comparison.references) == 1 else "their"


def _ends(comparison: BaselineComparison) -> str:
    """Describe the end of the deciding series: ``its evaluation loss ends 37% above theirs, …``."""
    series = comparison.deciding
    if series is None:
        return ""
    close = ""
    if len(comparison.references) > 1:
        spread = (
            _percent(series.closeness) if series.ratio is not None else num(series.closeness, 2)
        )
        close = f", which differ by at most {spread}"
    verb = "is on average" if series.averaged else "ends"
    return f"its {series.name} {verb} {_away(series, comparison)}{close}"


def _away(series: SeriesComparison, comparison: BaselineComparison) -> str:
    """Describe the distance of a series from the references: ``37% above theirs``."""
    references, where = _reference_pronoun(comparison), "above" if series.higher else "below"
    if series.ratio is None or not 1 / _FACTOR <= series.ratio <= _FACTOR:
        level, reference = (num(at, ROUGH_FIGURES) for at in (series.level, series.reference))
        return f"at {level}, far {where} {references} at {reference}"
    if series.ratio >= _TIMES:
        return f"at {num(series.ratio, 2)} times {references}"
    return f"{_percent(abs(series.ratio - 1))} {where} {references}"


def _percent(fraction: float) -> str:
    """Return a fraction in percent, with two figures at most."""
    percent = 100 * fraction
    return f"{percent:.0f}%" if percent >= 1 else f"{percent:.1g}%"


def _context(comparison: BaselineComparison) -> Iterator[str]:
    """Yield what left first, the settings that differ, and what was not compared."""
    first, deciding = comparison.first_to_leave, comparison.deciding
    decided = comparison.step if comparison.step is not None else math.inf
    if first is not None and first.step is not None and first.step < decided:
        is_same = deciding is not None and first.role == deciding.role
        name = "It first" if is_same else f"The {first.name}"
        yield f"{name} left {_their(comparison)} band at {comparison.unit} {first.step}."
    if _may_be_another_task(comparison):
        yield "The run may also have another task: no manifest names its task, data or model."
    if comparison.settings:
        named = [_setting(difference) for difference in comparison.settings[:SHOWN_NAMES]]
        omitted = len(comparison.settings) - SHOWN_NAMES
        suffix = [f"{omitted} more"] if omitted > 0 else []
        yield f"Settings that differ: {listed([*named, *suffix])}. Begin there."
    elif comparison.learning_rate is not None:
        at = f"{comparison.unit} {comparison.learning_rate.step}"
        yield f"The learning rate differs from {at} on: begin there."
    yield comparison.too_different_text
    yield comparison.left_out_text
    until = comparison.references_until
    if deciding is not None and comparison.last_step > _LONGER * until:
        yield f"The references end at {comparison.unit} {until}; later steps were not compared."


def _may_be_another_task(comparison: BaselineComparison) -> bool:
    """Return True if the run may have another task: it differs from the start without a cause."""
    first = comparison.first_to_leave
    is_verdict = comparison.status in (BaselineStatus.WORSE, BaselineStatus.BETTER)
    differs_from_start = first is not None and first.step == first.first_step
    is_explained = comparison.task_known or bool(comparison.settings)
    return is_verdict and differs_from_start and not is_explained


def _setting(difference: SettingDifference) -> str:
    value, reference = map(format_value, (difference.value, difference.reference))
    return f"{difference.key} {value} (theirs {reference})"


def _is_related(finding: Finding, comparison: BaselineComparison) -> bool:
    """Return True if a finding is near a departure, or warns of the run as a whole."""
    if finding.step is None:
        return finding.severity in (Severity.ERROR, Severity.WARNING)
    first = comparison.first_to_leave
    departures = {comparison.step, None if first is None else first.step} - {None}
    return finding.severity is not Severity.OK and any(
        _is_near(finding.step, step) for step in departures if step is not None
    )


def _is_near(step: int, other: int) -> bool:
    low, high = sorted((max(step, 1), max(other, 1)))
    return high <= _NEAR * low


def _describe_related(related: Sequence[Finding]) -> Iterator[str]:
    for where, findings in (
        ("Around that step", [finding for finding in related if finding.step is not None]),
        ("In the run as a whole", [finding for finding in related if finding.step is None]),
    ):
        if findings:
            named = [f"{finding.headline} ({finding.slug})" for finding in findings]
            yield f"{where}: {and_more(named, SHOWN_NAMES)}."


def _measured(comparison: BaselineComparison) -> Iterator[tuple[str, Scalar]]:
    yield "references", len(comparison.references)
    if comparison.left_out:
        yield "left_out", len(comparison.left_out)
    series = comparison.deciding
    if series is None:
        return
    yield "series", series.role
    yield "level", series.level
    yield "reference_level", series.reference
    if series.ratio is not None:
        yield "ratio", series.ratio
    if len(comparison.references) > 1:
        yield "closeness", series.closeness
    yield "deviation", series.peak
    yield "allowed", series.bar
    first = comparison.first_to_leave
    if first is not None and first.step is not None:
        yield "first_series", first.role
        yield "first_step", first.step
