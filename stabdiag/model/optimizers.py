"""Which learning rates are usual for an optimizer."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from stabdiag.model.limits.checks import PreflightLimits

# Optimizers whose peak learning rates are alike, by a part of their names; and their title.
_FAMILIES = (
    ("lion", re.compile(r"lion", re.IGNORECASE), "Lion"),
    ("adam", re.compile(r"adam|rmsprop|adafactor", re.IGNORECASE), "Adam and its variants"),
    ("sgd", re.compile(r"sgd|momentum|nesterov", re.IGNORECASE), "SGD"),
)


@dataclass(frozen=True, kw_only=True)
class UsualRates:
    """The lowest and the highest usual peak learning rate, and of which optimizers."""

    title: str
    low: float
    high: float


def family_of(optimizer: str | None) -> str | None:
    """Return the optimizer's family, whose usual learning rates are known."""
    return next((one for one, known, _ in _FAMILIES if known.search(optimizer or "")), None)


def usual_rates(optimizer: str | None, limits: PreflightLimits) -> UsualRates | None:
    """Return the usual peak learning rates of an optimizer, None if they are not known."""
    family = family_of(optimizer)
    if family is None:
        return None
    return UsualRates(
        title=next(title for one, _, title in _FAMILIES if one == family),
        low=getattr(limits, f"{family}_lr_low"),
        high=getattr(limits, f"{family}_lr_high"),
    )
