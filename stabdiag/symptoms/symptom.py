"""What a symptom is, and what a check may return."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from stabdiag.findings import Action, Scalar, Severity
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
    """

    slug: str
    severity: Severity
    family: str
    title: str
    check: Callable[[Case], Evidence | None]
    needs: tuple[str, ...] = ()
    limits: tuple[str, ...] = ()
    explained_by: tuple[str, ...] = ()

    def missing(self, case: Case) -> tuple[str, ...]:
        """Return what the symptom needs and this case lacks."""
        return tuple(need for need in self.needs if not _there(case, need))


def _there(case: Case, needed: str) -> bool:
    return any(_has(case, need) for need in needed.split(" or "))


def _has(case: Case, need: str) -> bool:
    if need.startswith(_MANIFEST):
        return getattr(case.manifest, need.removeprefix(_MANIFEST)) is not None
    if need == MESSAGE:
        return bool(case.history.messages)
    return any(len(series) for series in case.history.group(need).values())
