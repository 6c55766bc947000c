"""How a limit is declared."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

TREE = "decision tree"
OURS = "own calibration"


@dataclass(frozen=True, kw_only=True)
class About:
    """What a limit is: its unit, its bounds (inclusive), where its default comes from, and why."""

    unit: str
    at_least: float
    at_most: float
    source: str
    why: str


def limit(
    default: float,
    *,
    unit: str,
    at_least: float = 0.0,
    at_most: float = math.inf,
    source: str = OURS,
    why: str,
) -> Any:
    """Declare one limit as a dataclass field.

    Where it names no ``source``, its default is our own calibration.
    """
    about = About(unit=unit, at_least=at_least, at_most=at_most, source=source, why=why)
    return field(default=default, metadata={"about": about})
