"""What a symptom is, and what a check may return."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from stabdiag.model.text import plural

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from stabdiag.model.findings import Action, Scalar, Severity
    from stabdiag.tree.case import Case

_MANIFEST = "manifest."
MESSAGE = "message"


@dataclass(frozen=True, kw_only=True)
class Evidence:
    """Why a symptom holds, as a sentence with the run's numbers, and what to do: first, and then.

    ``title`` stands for the symptom's where it says more of this run.
    """

    because: str
    first: Action
    then: tuple[Action, ...]
    step: int | None = None
    measured: Mapping[str, Scalar] = field(default_factory=dict)
    title: str = ""


@dataclass(frozen=True, kw_only=True)
class Symptom:
    """One check outside the tree.

    ``needs`` names the roles, or the manifest's fields (``manifest.total_steps``), without which it
    cannot be checked; of ``mfu or step_time`` either does, and ``message`` is any message among the
    log's lines. ``limits`` names those that it is held against. A finding of the tree whose slug
    begins with one of ``explained_by`` says the same, or its cause, and goes before the symptom.
    ``enough`` tell why this case holds too little to judge by, each in words, or nothing: where one
    does, no finding is no all-clear.
    """

    slug: str
    severity: Severity
    family: str
    title: str
    check: Callable[[Case], Evidence | None]
    needs: tuple[str, ...] = ()
    limits: tuple[str, ...] = ()
    explained_by: tuple[str, ...] = ()
    enough: tuple[Callable[[Case], str], ...] = ()

    def missing(self, case: Case) -> tuple[str, ...]:
        """Return what the symptom needs and this case lacks."""
        return tuple(need for need in self.needs if not _there(case, need))

    def too_few(self, case: Case) -> str:
        """Return why there is too little to judge by, empty where there is enough."""
        return next((why for enough in self.enough if (why := enough(case))), "")


def at_least(wanted: int | str, *roles: str, groups: bool = False) -> Callable[[Case], str]:
    """Return what tells of too few finite points: of one of the roles it takes so many.

    What is ``wanted`` may be a limit by its name. Of a role with ``groups`` the longest counts.
    """

    def enough(case: Case) -> str:
        needed = wanted if isinstance(wanted, int) else int(case.limits.named([wanted])[wanted])
        logged = {role: _finite(case, role, groups) for role in roles}
        told = ", ".join(f"{count} of {role}" for role, count in logged.items())
        return "" if max(logged.values()) >= needed else too_few(needed, told)

    return enough


def too_few(needed: int, logged: object) -> str:
    """Return in words that it takes more points than were logged."""
    return f"takes {plural(needed, 'point')}, logged: {logged}"


def around_resumes(role: str, before: int | str, after: int | str) -> Callable[[Case], str]:
    """Return what tells of a resume that has too few points of a role on either side."""

    def enough(case: Case) -> str:
        left, right = (
            one if isinstance(one, int) else int(case.limits.named([one])[one])
            for one in (before, after)
        )
        steps = case.history.finite(role).steps
        for step in case.history.resumes:
            at = int((steps < step).sum())
            if at < left or len(steps) - at < right:
                return (
                    f"takes {left} points of {role} before a resume and {right} after it, logged "
                    f"at step {step}: {at} and {len(steps) - at}"
                )
        return ""

    return enough


def _finite(case: Case, role: str, groups: bool) -> int:
    if not groups:
        return len(case.history.finite(role))
    return max((len(one.finite()) for one in case.history.group(role).values()), default=0)


def _there(case: Case, needed: str) -> bool:
    return any(_has(case, need) for need in needed.split(" or "))


def _has(case: Case, need: str) -> bool:
    if need.startswith(_MANIFEST):
        return getattr(case.manifest, need.removeprefix(_MANIFEST)) is not None
    if need == MESSAGE:
        return bool(case.history.messages)
    return any(len(series) for series in case.history.group(need).values())
