"""Symptoms: their declaration, the evidence that a check returns, and requirements on a log."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import field, replace
from functools import cached_property
from typing import Final
from weakref import WeakKeyDictionary

from stabdiag.model.findings import Action, Confidence, Finding, Scalar, Severity
from stabdiag.model.frozen import frozen
from stabdiag.model.text import plural
from stabdiag.tree.case import Case
from stabdiag.tree.run import MESSAGE

# Several checks ask for the evidence of another one.
_EVIDENCE_BY_CASE: Final[WeakKeyDictionary[Case, dict[Symptom, Evidence | None]]] = (
    WeakKeyDictionary()
)


@frozen
class Evidence:
    """The result of a check: a sentence with this run's numbers, and the first action.

    If set, ``next_actions``, ``title``, ``severity`` and ``confidence`` replace the values of the
    symptom. ``explains`` are prefixes of slugs of findings that the evidence accounts for; they are
    left out.
    """

    because: str
    first: Action
    next_actions: tuple[Action, ...] | None = None
    step: int | None = None
    measured: Mapping[str, Scalar] = field(default_factory=dict)
    title: str = ""
    severity: Severity | None = None
    confidence: Confidence | None = None
    explains: tuple[str, ...] = ()


@frozen
class Symptom:
    """A check outside the tree, declared as the decorator of its function.

    Attributes:
        needs: roles, manifest fields (``manifest.total_steps``) or alternatives (``mfu or
            step_time``); ``message`` means any message in the log.
        preconditions: functions that return the reason why the log is too short for the check, or
            "". If one returns a reason, the symptom is not checked.
        inconclusive_if: functions that return the reason why the symptom is not ruled out even
            though the check found nothing, or "".
        explained_by: prefixes of slugs; a finding of the tree with one of them replaces the
            symptom.
        yields_to: slugs of symptoms; if one of them is present, this symptom is left out.
        expects: prefixes of slugs of findings that a trial is meant to cause; they are left out.
        is_root_cause: the symptom causes the spikes that the tree finds, so its action comes
            first.
        is_fact: the symptom does not depend on any curve. It comes before equally severe findings,
            and is an error if the run has another error.
        next_actions: the actions after the first one.
    """

    slug: str
    severity: Severity = Severity.WARNING
    confidence: Confidence = Confidence.MEDIUM
    title: str
    needs: tuple[str, ...] = ()
    preconditions: tuple[Callable[[Case], str], ...] = ()
    inconclusive_if: tuple[Callable[[Case], str], ...] = ()
    explained_by: tuple[str, ...] = ()
    yields_to: tuple[str, ...] = ()
    expects: tuple[str, ...] = ()
    is_root_cause: bool = False
    is_fact: bool = False
    next_actions: tuple[Action, ...] = ()
    check: Callable[[Case], Evidence | None] = field(default=lambda _: None)

    def __call__(self, check: Callable[[Case], Evidence | None]) -> Symptom:
        """Return the symptom with this function as its check."""
        return replace(self, check=check)

    def missing(self, available: frozenset[str]) -> tuple[str, ...]:
        """Return the needs that are not ``available``: not logged, and not configured."""
        return tuple(
            [
                need
                for need, alternatives in self._alternatives
                if available.isdisjoint(alternatives)
            ]
        )

    @cached_property
    def _alternatives(self) -> list[tuple[str, list[str]]]:
        """Each need with its alternatives."""
        return [(need, need.split(" or ")) for need in self.needs]

    @property
    def family(self) -> str:
        """The family: the folder of the check, its limits and its text."""
        return self.check.__module__.split(".")[-2]

    @property
    def roles(self) -> tuple[str, ...]:
        """The series that the symptom needs, without fields of the manifest."""
        needs = [need for _, alternatives in self._alternatives for need in alternatives]
        return tuple(need for need in needs if "." not in need and need != MESSAGE)

    def failed_precondition(self, case: Case) -> str:
        """Return the reason why the log is too short for the check, or ""."""
        return _first(self.preconditions, case)

    def inconclusive_reason(self, case: Case) -> str:
        """Return the reason why a check without evidence does not rule the symptom out, or ""."""
        return _first(self.inconclusive_if, case)

    def evidence(self, case: Case) -> Evidence | None:
        """Run the check; return None if it cannot be made or finds nothing."""
        is_unchecked = self.missing(case.logged_or_configured) or self.failed_precondition(case)
        return None if is_unchecked else self.run_check(case)

    def run_check(self, case: Case) -> Evidence | None:
        """Run the check on a case that has what it needs; return None if it finds nothing. Cached.

        The preconditions have to be met.
        """
        results = _EVIDENCE_BY_CASE.setdefault(case, {})
        if self not in results:
            results[self] = self.check(case)
        return results[self]

    def finding(self, evidence: Evidence, unit: str) -> Finding:
        """Return the finding for a check's evidence; ``unit`` is the name of a step."""
        next_actions = self.next_actions if evidence.next_actions is None else evidence.next_actions
        return Finding(
            slug=self.slug,
            severity=evidence.severity or self.severity,
            confidence=evidence.confidence
            or (Confidence.HIGH if self.is_fact else self.confidence),
            section="symptom",
            question="",
            title=evidence.title or self.title,
            summary=evidence.because,
            actions=(evidence.first, *next_actions),
            step=evidence.step,
            evidence=evidence.measured,
            unit=unit,
            roles=self.roles,
        )


def _first(reasons: tuple[Callable[[Case], str], ...], case: Case) -> str:
    for reason in reasons:
        if why := reason(case):
            return why
    return ""


def at_least(count: int | str, *roles: str, groups: bool = False) -> Callable[[Case], str]:
    """Return a precondition: one of the roles has this many finite points.

    ``count`` may name a limit. With ``groups``, a role counts as its longest group.
    """

    def precondition(case: Case) -> str:
        needed = _number(case, count)
        if any(_finite(case, role, groups) >= needed for role in roles):
            return ""
        logged = (f"{_finite(case, role, groups)} of {role}" for role in roles)
        return too_few(needed, ", ".join(logged))

    return precondition


def too_few(needed: int, logged: object) -> str:
    """Return the reason that a check needs more points than were logged."""
    return f"needs {plural(needed, 'point')}, logged: {logged}"


def around_resumes(role: str, before: int | str, after: int | str) -> Callable[[Case], str]:
    """Return a precondition: each resume has this many points of a role on either side."""

    def precondition(case: Case) -> str:
        left, right = _number(case, before), _number(case, after)
        steps = case.history.finite(role).steps
        for step in case.history.resumes:
            at = int((steps < step).sum())
            if at < left or len(steps) - at < right:
                return (
                    f"needs {left} points of {role} before a resume and {right} after it, logged "
                    f"at {case.unit} {step}: {at} and {len(steps) - at}"
                )
        return ""

    return precondition


def _number(case: Case, count: int | str) -> int:
    return count if isinstance(count, int) else int(case.limits.named([count])[count])


def _finite(case: Case, role: str, groups: bool) -> int:
    if not groups:
        return len(case.history.finite(role))
    return max((len(series.finite()) for series in case.history.group(role).values()), default=0)
