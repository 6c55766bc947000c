"""What the advice on every leaf is made of."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from stabdiag.tree.words import num

if TYPE_CHECKING:
    from stabdiag.findings import Scalar
    from stabdiag.tree.case import Case

# What the tree lowers the clip threshold to (Q2.4).
_CLIP = 0.5


@dataclass(frozen=True, kw_only=True)
class Advice:
    """A finding's words: what happened, what to do first, what next; ``step`` is the onset."""

    summary: str
    first: str
    then: tuple[str, ...]
    step: int | None = None


def sentence(words: str) -> str:
    """Return words with a capital letter and a full stop, to stand alone."""
    return f"{words[0].upper()}{words[1:]}."


def inner(words: str) -> str:
    """Return a sentence's words with a small letter, to stand within another."""
    return words[0].lower() + words[1:]


def shown(value: Scalar) -> str:
    """Return a measured value in words; an answer that measured nothing shows a question mark."""
    return num(float(value)) if isinstance(value, int | float) else str(value or "?")


def now_lr(case: Case, step: int) -> str:
    """Return `` (now 0.003)``, the learning rate in force at a step, if it was logged."""
    lr = case.history.get("lr")
    near = lr.finite().between(int(lr.steps[0]), step) if lr is not None and len(lr) else None
    return f" (now {num(float(near.values[-1]))})" if near is not None and len(near) else ""


def clip(case: Case) -> str:
    """Return the clip threshold to restart with, and the present one if it is known."""
    now = case.manifest.grad_clip
    if now is None:
        return num(_CLIP)
    # A threshold of 0 is how clipping is turned off.
    lower = _CLIP if not now or now > _CLIP else now / 2
    return f"{num(lower)} (now {num(now) if now else 'off'})"
