"""What the numbers of answers and findings are called on a page for people; the JSON has keys."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from stabdiag.formats.terminal.page import number

if TYPE_CHECKING:
    from collections.abc import Mapping

    from stabdiag.findings import Scalar

_LABELS: Final[Mapping[str, str]] = {
    "after": "mean after",
    "bar": "a rise counts from",
    "base": "level before",
    "before": "mean before",
    "best": "best level",
    "bound": "recovered below",
    "checkpoint": "checkpoint to reload",
    "family_limit": "own noise reaches (σ)",
    "family_size": "losses the noise is from",
    "first_bad": "first step not finite",
    "first_series": "first to go NaN or inf",
    "first_step": "at step",
    "grad_ratio": "gradient norm / its mean",
    "grad_surge": "gradient norm / its mean",
    "groups": "groups logged",
    "largest_score": "largest deviation (σ)",
    "last": "level at the end",
    "last_good": "last finite step",
    "later": "overflows after that",
    "lead_steps": "steps ahead of the loss",
    "logged": "losses logged",
    "lr_ratio": "lr after / before",
    "not_finite": "losses not finite",
    "p_value": "p value of the trend",
    "progress": "fall so far",
    "recent_p_value": "p value at the end",
    "rise": "rise above the best",
    "spike_score": "height of the spike (σ)",
    "tested": "losses tested",
    "turned": "turned at step",
    "window_points": "points in the window",
}

# Below this a probability is as good as none, and what a computer makes of it is no number.
_NO_CHANCE: Final = 1e-12


def label(name: str) -> str:
    """Return what a measured value is called."""
    return _LABELS.get(name, name.replace("_", " "))


def in_words(name: str, measured: Scalar) -> str:
    """Return a measured value in words."""
    if name.endswith("p_value") and isinstance(measured, float) and measured < _NO_CHANCE:
        return f"below {_NO_CHANCE:g}"
    return "not known" if measured is None else number(measured)
