"""What a finding says of the settings that changed where it began."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from stabdiag.model.findings import RATE, ActionKind, Severity
from stabdiag.model.text import listed, plural
from stabdiag.tree.advice.climb_facts import near_climb
from stabdiag.tree.advice.words import going_on
from stabdiag.tree.changes import MOST, changes_near, near_spike, went

if TYPE_CHECKING:
    from collections.abc import Sequence

    from stabdiag.model.findings import Action, Finding, Scalar
    from stabdiag.tree.case import Case
    from stabdiag.tree.changes import Change

# The log shows another cause of these.
_EXPLAINED: Final = ("spike-lr-jump", "spike-duplicate-batch", "divergence-lr-rising", "plateau")


def with_changes(case: Case, findings: tuple[Finding, ...]) -> tuple[Finding, ...]:
    """Return the findings, each with the settings that changed where it began."""
    return tuple(_with_changes(case, finding) for finding in findings)


def changes_at(case: Case, finding: Finding) -> tuple[tuple[Change, ...], int]:
    """Return the settings that changed where a finding began, and the step that is meant by that.

    A NaN began at the first loss that is one, or with what led up to it.
    """
    if finding.step is None or finding.severity is Severity.OK:
        return (), 0
    began = finding.step if finding.began is None else finding.began
    if finding.section == "§4":
        return near_climb(case, began, finding.step), finding.step
    if finding.section == "§2":
        found = (near_spike(case, one) for one in case.spikes if case.at(one.onset) == finding.step)
        return next(found, ()), finding.step
    near = changes_near(case, finding.step, finding.step)
    return (near, finding.step) if near else (changes_near(case, began, began), began)


def with_changes_at(
    case: Case, step: int | None, because: str, first: Action
) -> tuple[str, Action, dict[str, Scalar]]:
    """Return why something holds from a step on, the first action, and evidence of what changed."""
    changes = () if step is None else changes_near(case, step, step)
    if step is None or not changes:
        return because, first, {}
    sentence = f"{went(changes)}, {_distance(step, changes[0])}."
    return f"{because} {sentence}", _look_first(first, changes), _evidence(changes)


def _with_changes(case: Case, finding: Finding) -> Finding:
    changes, step = changes_at(case, finding)
    if not changes:
        return finding
    return replace(
        finding,
        summary=f"{finding.summary} {went(changes)}, {_where(step, finding, changes[0])}.",
        actions=_look_there(finding, changes),
        evidence={**finding.evidence, **_evidence(changes)},
    )


def _evidence(changes: Sequence[Change]) -> dict[str, Scalar]:
    return {"changed": went(changes), "changed_step": changes[0].step}


def _where(step: int, finding: Finding, change: Change) -> str:
    """Return where a change lies, as seen from the step at which a finding began."""
    if step != finding.step:
        return _distance(step, change, "the trouble", f"the trouble began at {step}")
    if finding.section == "§4" and change.since > step:
        return "just after it seems to begin"
    if finding.section == "§4" and change.step < step:
        return f"{plural(step - change.step, 'step')} before it begins to show"
    return _distance(step, change)


def _distance(step: int, change: Change, it: str = "it", began: str = "it") -> str:
    """Return how far a change is off from a step at which something began."""
    if change.since <= step <= change.step:
        return f"right where {it} began"
    if step > change.step:
        return f"{plural(step - change.step, 'step')} before {began}"
    return f"{plural(change.since - step, 'step')} after {began}"


def _look_there(finding: Finding, changes: Sequence[Change]) -> tuple[Action, ...]:
    """Return the actions, with a look at the change first unless the log shows another cause."""
    first = finding.actions[0]
    rate = RATE.intersection(first.kinds) and finding.section == "§2"
    if rate or finding.slug in _EXPLAINED:
        return finding.actions
    return (_look_first(first, changes), *finding.actions[1:])


def _look_first(act: Action, changes: Sequence[Change]) -> Action:
    """Return an action that begins with a look at the change, but for letting the run go on."""
    if act.kind is ActionKind.KEEP_GOING and act.alone:
        return going_on(_look_first(act.by_itself(), changes))
    names = listed([one.name for one in changes[:MOST]])
    look = f"Look first at the change of {names} at step {changes[0].step}; then"
    return replace(
        act.after(look),
        kind=ActionKind.CHECK_SETTINGS,
        also=act.kinds,
        step=changes[0].step,
    )
