"""What a symptom is, what its check returns, and what both need of a log."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import field, replace
from functools import cached_property

from stabdiag.model.findings import Action, Confidence, Finding, Scalar, Severity
from stabdiag.model.frozen import frozen
from stabdiag.model.text import plural
from stabdiag.tree.case import Case

_MANIFEST = "manifest."
MESSAGE = "message"

# Fewer points are no course of a run: with three in each tenth, a single one is no level.
LEAST = 30

# So many points tell a trend from noise.
MANY = 100

# What happens more often than this is how a log is kept, or how a run is.
FEW = 3

# A run this far into its planned steps is complete.
COMPLETE = 0.95


@frozen
class Evidence:
    """What a check found: one sentence with this run's numbers, and what to do first.

    ``then``, ``title``, ``severity`` and ``confidence`` replace the symptom's own where this run
    needs others.
    """

    because: str
    first: Action
    then: tuple[Action, ...] | None = None
    step: int | None = None
    measured: Mapping[str, Scalar] = field(default_factory=dict)
    title: str = ""
    severity: Severity | None = None
    confidence: Confidence | None = None


@frozen
class Symptom:
    """One check outside the tree, declared as the decorator of the function that makes it.

    ``needs`` names roles, manifest fields (``manifest.total_steps``) or alternatives (``mfu or
    step_time``); ``message`` is any message among the log's lines. ``enough`` holds functions that
    return why a log is too short to be checked, or "". Without all of these the symptom is not
    checked. ``rules_out`` holds the same for what a log needs only to rule the symptom out.
    ``then`` lists what to do after the first action. A symptom that ``yields_to`` others is left
    out where one of these is present. One that ``expects`` findings, by the beginnings of their
    slugs, is about a trial that is meant to bring them about: they are left out. A finding of the
    tree whose slug starts with one of ``explained_by`` replaces the symptom. One that ``leads`` is
    behind the spikes that the tree finds: what to do about it comes first. One that ``is_fact``
    does not depend on any curve: it comes before findings that are as severe, and is an error where
    the run has another one.
    """

    slug: str
    severity: Severity = Severity.WARNING
    confidence: Confidence = Confidence.MEDIUM
    family: str
    title: str
    needs: tuple[str, ...] = ()
    enough: tuple[Callable[[Case], str], ...] = ()
    rules_out: tuple[Callable[[Case], str], ...] = ()
    explained_by: tuple[str, ...] = ()
    yields_to: tuple[str, ...] = ()
    expects: tuple[str, ...] = ()
    leads: bool = False
    is_fact: bool = False
    then: tuple[Action, ...] = ()
    check: Callable[[Case], Evidence | None] = field(default=lambda _: None)

    def __call__(self, check: Callable[[Case], Evidence | None]) -> Symptom:
        """Return the symptom with its check."""
        return replace(self, check=check)

    def missing(self, case: Case) -> tuple[str, ...]:
        """Return what the symptom needs and this case lacks."""
        return tuple(need for need, ways in self._ways if not any(_has(case, one) for one in ways))

    @cached_property
    def _ways(self) -> list[tuple[str, list[str]]]:
        """Each need with its alternatives."""
        return [(need, need.split(" or ")) for need in self.needs]

    def too_few(self, case: Case) -> str:
        """Return why the log is too short for the check, or ""."""
        return _first(self.enough, case)

    def is_open(self, case: Case) -> str:
        """Return why the symptom is not ruled out where the check finds nothing, or ""."""
        return _first(self.rules_out, case)

    def found(self, case: Case) -> Evidence | None:
        """Return what the check finds; nothing where it cannot be made."""
        return None if self.missing(case) or self.too_few(case) else self.check(case)

    def finding(self, evidence: Evidence, unit: str) -> Finding:
        """Return the finding that a check's evidence makes; ``unit`` is what a step is called."""
        then = self.then if evidence.then is None else evidence.then
        return Finding(
            slug=self.slug,
            severity=evidence.severity or self.severity,
            confidence=Confidence.HIGH if self.is_fact else self.confidence,
            section="symptom",
            question="",
            title=evidence.title or self.title,
            summary=evidence.because,
            actions=(evidence.first, *then),
            step=evidence.step,
            evidence=evidence.measured,
            unit=unit,
        )


def _first(reasons: tuple[Callable[[Case], str], ...], case: Case) -> str:
    return next((why for reason in reasons if (why := reason(case))), "")


def at_least(wanted: int | str, *roles: str, groups: bool = False) -> Callable[[Case], str]:
    """Return an ``enough``: one of the roles needs this many finite points.

    ``wanted`` may name a limit. With ``groups``, a role counts as its longest group.
    """

    def enough(case: Case) -> str:
        needed = _number(case, wanted)
        logged = {role: _finite(case, role, groups) for role in roles}
        if max(logged.values()) >= needed:
            return ""
        return too_few(needed, ", ".join(f"{count} of {role}" for role, count in logged.items()))

    return enough


def too_few(needed: int, logged: object) -> str:
    """Say that a check needs more points than were logged."""
    return f"takes {plural(needed, 'point')}, logged: {logged}"


def around_resumes(role: str, before: int | str, after: int | str) -> Callable[[Case], str]:
    """Return an ``enough``: each resume needs this many points of a role on either side."""

    def enough(case: Case) -> str:
        left, right = _number(case, before), _number(case, after)
        steps = case.history.finite(role).steps
        for step in case.history.resumes:
            at = int((steps < step).sum())
            if at < left or len(steps) - at < right:
                return (
                    f"takes {left} points of {role} before a resume and {right} after it, logged "
                    f"at {case.unit} {step}: {at} and {len(steps) - at}"
                )
        return ""

    return enough


def _number(case: Case, wanted: int | str) -> int:
    return wanted if isinstance(wanted, int) else int(case.limits.named([wanted])[wanted])


def _finite(case: Case, role: str, groups: bool) -> int:
    if not groups:
        return len(case.history.finite(role))
    return max((len(one.finite()) for one in case.history.group(role).values()), default=0)


def _has(case: Case, need: str) -> bool:
    if need.startswith(_MANIFEST):
        return getattr(case.manifest, need.removeprefix(_MANIFEST)) is not None
    if need == MESSAGE:
        return bool(case.history.messages)
    return case.history.has(need)
