"""What a question of the tree is, and what it may reply."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

from stabdiag.model.findings import Scalar, Verdict
from stabdiag.texts import filled

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from stabdiag.model.limits import Limits
    from stabdiag.tree.case import Case


@dataclass(frozen=True, kw_only=True)
class Reply:
    """What a question found: the verdict, one sentence, the numbers, the steps.

    ``branch`` names the edge to take where a verdict has more than one.
    """

    verdict: Verdict
    because: str
    branch: str | None = None
    measured: Mapping[str, Scalar] = field(default_factory=dict)
    steps: tuple[int, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Question:
    """One numbered node of the tree.

    ``asks`` may name limits, ``{spike.sigma}``, as the texts do. ``needs`` names the roles without
    which the answer is unknown; the walk decides that before it asks. ``limits`` names the limits
    that the answer is held against. ``literally`` answers by the tree's original fixed rules, where
    these differ.
    """

    id: str
    asks: str
    answer: Callable[[Case], Reply]
    needs: tuple[str, ...] = ()
    limits: tuple[str, ...] = ()
    literally: Callable[[Case], Reply] | None = None

    def reply(self, case: Case) -> Reply:
        """Return the answer, by the original rules if the case is read literally."""
        answer = self.literally if case.literal and self.literally else self.answer
        return answer(case)

    def asked(self, limits: Limits) -> str:
        """Return the question with the limits in force."""
        return filled(self.asks, limits)


def _reply(
    verdict: Verdict,
    because: str,
    *steps: int,
    branch: str | None = None,
    measured: Mapping[str, Scalar] | None = None,
) -> Reply:
    return Reply(
        verdict=verdict, because=because, branch=branch, measured=measured or {}, steps=steps
    )


yes = partial(_reply, Verdict.YES)
no = partial(_reply, Verdict.NO)
unknown = partial(_reply, Verdict.UNKNOWN)
