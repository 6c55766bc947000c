"""What a question of the tree may reply."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial

from stabdiag.model.findings import Scalar, Verdict


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
