"""What a manifest tells beside its fields."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from stabdiag.manifest.other import EVAL_STRATEGY, other_number
from stabdiag.manifest.spelling import by_spelling

if TYPE_CHECKING:
    from stabdiag.limits import Limits
    from stabdiag.manifest import Manifest

# Optimizers whose peak learning rates are alike, by a part of their names.
_FAMILIES = (
    ("lion", re.compile(r"lion", re.IGNORECASE)),
    ("adam", re.compile(r"adam|rmsprop|adafactor", re.IGNORECASE)),
    ("sgd", re.compile(r"sgd|momentum|nesterov", re.IGNORECASE)),
)

# What the checks ask for, each a field of ``Launch``.
_ASKED = ("eval_every", "schedule_steps", "warmup_share", "epochs")


@dataclass(frozen=True, kw_only=True)
class Launch:
    """What a check is asked of: the manifest, what it tells beside its fields, the limits."""

    manifest: Manifest
    limits: Limits
    eval_every: float | None = None
    eval_strategy: str | None = None
    schedule_steps: float | None = None
    warmup_share: float | None = None
    epochs: float | None = None

    @property
    def family(self) -> str | None:
        """The family of the optimizer, by which its usual learning rates are known."""
        name = self.manifest.optimizer or ""
        return next((family for family, known in _FAMILIES if known.search(name)), None)

    @property
    def warmup(self) -> float | None:
        """The warm-up in steps: told, or as a share of the run. A share goes before 0 steps."""
        told, total = self.manifest.warmup_steps, self.manifest.total_steps
        if self.warmup_share and not told:
            return self.warmup_share * total if total else None
        return told


def launch(manifest: Manifest, limits: Limits) -> Launch:
    """Return a manifest with what it tells beside its fields."""
    told = by_spelling(manifest.also)
    numbers: dict[str, float] = {}
    for field in _ASKED:
        value = other_number(told, field)
        if value is not None and value > 0:
            numbers[field] = value
    if numbers.get("warmup_share", 0.0) > 1:  # whatever it counts, it is no share
        del numbers["warmup_share"]
    strategies = (str(told[name]) for name in EVAL_STRATEGY if name in told)
    strategy = next(strategies, None)
    return Launch(manifest=manifest, limits=limits, eval_strategy=strategy, **numbers)
