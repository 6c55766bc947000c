"""Are the runs configured alike, and do their learning rates agree?"""

from __future__ import annotations

from typing import TYPE_CHECKING

from stabdiag.comparison.settings import explaining, in_words
from stabdiag.comparison.study import Study, finding
from stabdiag.comparison.words import close, measured, where
from stabdiag.model.comparison import Bearing, Kind
from stabdiag.model.findings import Action, ActionKind, Severity

if TYPE_CHECKING:
    from collections.abc import Iterator

    from stabdiag.model.comparison import Difference, Parting
    from stabdiag.model.findings import Finding, Scalar

_SHOWN = 5


def config_differs(study: Study) -> Iterator[Finding]:
    """Find settings, or a learning rate in the log, that differ where they should not."""
    settings = explaining(study.differences)
    # How the learning rate goes on after a resume is asked there.
    rates = [] if study.kind is Kind.RESUME else study.unrounded("lr")
    if not settings and not rates:
        return
    losses = study.parted("loss")
    parts = [_settings(settings), _rates(rates), _effect(study, losses, rates), _idle(study)]
    unlike = bool(losses) or study.kind is not Kind.RERUNS
    yield finding(
        "config-differs",
        because=" ".join(part for part in parts if part),
        first=_first(settings, rates),
        then=(
            Action(
                ActionKind.RERUN,
                "Change one setting at a time: two that differ together cannot be told apart.",
            ),
            Action(
                ActionKind.CHECK_SETTINGS,
                "Keep the configuration as it was resolved, and the commit, beside every log.",
            ),
        ),
        step=min((one.unrounded or 0 for one in rates), default=None)
        if rates
        else min((one.step or 0 for one in losses), default=None),
        measured={**_values(settings), **(measured(losses[0]) if losses else {})},
        severity=None if unlike else Severity.NOTE,
    )


def _settings(settings: tuple[Difference, ...]) -> str:
    if not settings:
        return ""
    shown = "; ".join(map(in_words, settings[:_SHOWN]))
    more = f"; and {len(settings) - _SHOWN} more" if len(settings) > _SHOWN else ""
    unsure = all(one.bearing is Bearing.MAY for one in settings)
    tail = " (whether this matters cannot be told from its name)" if unsure else ""
    return f"The manifests differ: {shown}{more}{tail}."


def _rates(rates: list[Parting]) -> str:
    if not rates:
        return ""
    one = min(rates, key=lambda rate: rate.unrounded or 0)
    return (
        f"In the logs the learning rates of {one.runs[0]} and {one.runs[1]} part at step "
        f"{one.unrounded}: {close(one.unrounded_values)}."
    )


def _effect(study: Study, losses: list[Parting], rates: list[Parting]) -> str:
    if not losses:
        return "The losses are the same to the last bit: it had no effect."
    if study.kind is not Kind.RERUNS:
        return ""
    first = min(losses, key=lambda one: one.step or 0)
    earlier = [one for one in rates if (one.unrounded or 0) < (first.unrounded or 0)]
    cause = " The learning rate parts before the loss does: it is the cause." if earlier else ""
    batches = min((one.step or 0 for one in study.parted("batch_id")), default=None)
    data = "" if batches is None else f" The batches differ from step {batches} on."
    return f"{where(first)}{cause}{data}"


def _idle(study: Study) -> str:
    idle = [one.key for one in study.differences if one.bearing is Bearing.CANNOT]
    if not idle:
        return ""
    shown = ", ".join(idle[:_SHOWN]) + (", …" if len(idle) > _SHOWN else "")
    differ = "differs" if len(idle) == 1 else "differ"
    return f"That {shown} {differ} as well explains nothing."


def _first(settings: tuple[Difference, ...], rates: list[Parting]) -> Action:
    if settings:
        keys = ", ".join(one.key for one in settings[:_SHOWN])
        return Action(ActionKind.RERUN, f"Run again with {keys} the same, and compare.")
    step = min(one.unrounded or 0 for one in rates)
    return Action(
        ActionKind.FIX_SCHEDULE,
        "Look for what changes the schedule beside the configuration: print the learning rate at "
        f"step {step} in both runs, and compare the code that they were started from.",
        step=step,
    )


def _values(settings: tuple[Difference, ...]) -> dict[str, Scalar]:
    return {
        f"{one.key} ({label})": value
        for one in settings[:_SHOWN]
        for label, value in list(one.values.items())[:_SHOWN]
    }
