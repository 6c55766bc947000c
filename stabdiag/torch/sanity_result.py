"""What the sanity checks return: a table in the terminal, and ``sanity.json``."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from stabdiag.torch.lr_range import draw_range_test

# The version of the file.
_VERSION = 1


class CheckState(StrEnum):
    """How a check came out."""

    PASSED = "passed"
    FAILED = "failed"
    UNKNOWN = "unknown"


@dataclass(frozen=True, kw_only=True)
class SanityCheck:
    """One check: ``detail`` is a sentence with the numbers."""

    slug: str
    title: str
    state: CheckState
    detail: str


@dataclass(frozen=True, kw_only=True)
class SanityResult:
    """All checks, in order. ``rates`` and ``losses`` come from the learning-rate range test."""

    checks: tuple[SanityCheck, ...]
    rates: tuple[float, ...] = field(default=())
    losses: tuple[float, ...] = field(default=())

    @property
    def ok(self) -> bool:
        """Whether no check failed."""
        return all(check.state is not CheckState.FAILED for check in self.checks)

    def to_dict(self) -> dict[str, Any]:
        """Return the content of ``sanity.json``."""
        checks = [{**vars(check), "state": check.state.value} for check in self.checks]
        curve = [list(pair) for pair in zip(self.rates, self.losses, strict=True)]
        return {"sanity": _VERSION, "checks": checks, "lr_range": curve}

    def __str__(self) -> str:
        width = max(len(check.title) for check in self.checks)
        lines = [
            f"{check.state.value:8} {check.title:{width}}  {check.detail}" for check in self.checks
        ]
        return "\n".join([*lines, *draw_range_test(self.rates, self.losses)])
