"""The usual ranges of settings: one table for the check before a launch and for a diagnosis."""

from __future__ import annotations

from typing import Final

from stabdiag.model.frozen import frozen
from stabdiag.model.limits import Limits
from stabdiag.model.limits.checks import is_adam
from stabdiag.model.manifest import Manifest
from stabdiag.model.manifest.keys import by_spelling, is_pretrained, other_number
from stabdiag.model.text import num

# The settings in the table, with their names in a sentence.
SETTINGS: Final = {
    "peak_lr": "peak learning rate",
    "weight_decay": "weight decay",
    "momentum": "momentum",
    "epsilon": "epsilon of Adam",
    "label_smoothing": "label smoothing",
    "dropout": "dropout",
}


# The values that actions recommend: the clip threshold of Q2.4, and the first one if clipping was
# off; AdamW's default weight decay, and a usual one for Adam with L2 regularization; common
# defaults; and an epsilon that fp16 can hold.
CLIP: Final = 0.5
FIRST_CLIP: Final = 1.0
ADAMW_DECAY: Final = 0.01
L2_DECAY: Final = 1e-4
DEFAULTS: Final = {
    "weight_decay": ADAMW_DECAY,
    "momentum": 0.9,
    "epsilon": 1e-8,
    "label_smoothing": 0.1,
    "dropout": 0.1,
}
FP16_EPSILON: Final = 1e-4

# Thresholds that people clip gradient norms at.
USUAL_CLIPS: Final = (0.1, 0.25, 0.5, 1.0, 2.0, 5.0, 10.0)


@frozen(eq=True)
class UsualRange:
    """The usual range of a setting; ``text`` is the range in words."""

    low: float
    high: float
    text: str

    def holds(self, value: float) -> bool:
        """Return True if a value is usual."""
        return self.low <= value <= self.high


@frozen(eq=True)
class SettingRange:
    """A setting of a run with its usual range."""

    name: str
    value: float
    usual: UsualRange

    @property
    def is_usual(self) -> bool:
        """Whether the value is within its range."""
        return self.usual.holds(self.value)

    @property
    def is_high(self) -> bool:
        """Whether the value is above its range."""
        return self.value > self.usual.high

    @property
    def text(self) -> str:
        """The setting and its range as a sentence."""
        return f"The {SETTINGS[self.name]} is {num(self.value)}; {self.usual.text}."


def settings_with_ranges(
    manifest: Manifest,
    limits: Limits,
    *,
    peak_lr: float | None = None,
    pretrained: bool | None = None,
) -> dict[str, SettingRange]:
    """Return the known settings that have a usual range, by name.

    Args:
        manifest: the settings.
        limits: the bounds of the ranges, ``limits.preflight``.
        peak_lr: the peak learning rate, if it differs from the manifest.
        pretrained: whether the run starts from a pretrained model; by the manifest if None.
    """
    others = by_spelling(manifest.also)
    pretrained = is_pretrained(others) if pretrained is None else pretrained
    values = {
        "peak_lr": manifest.peak_lr if peak_lr is None else peak_lr,
        "weight_decay": manifest.weight_decay,
        "momentum": other_number(others, "momentum"),
        "epsilon": manifest.epsilon,
        "label_smoothing": other_number(others, "label_smoothing"),
        "dropout": other_number(others, "dropout"),
    }
    ranges = _ranges(manifest, limits, pretrained=pretrained)
    return {
        name: SettingRange(name=name, value=value, usual=ranges[name])
        for name, value in values.items()
        if value is not None and name in ranges
    }


def _ranges(
    manifest: Manifest, limits: Limits, *, pretrained: bool | None
) -> dict[str, UsualRange]:
    bounds = limits.preflight
    ranges = {
        "weight_decay": _upper_range(bounds.decay_high),
        "momentum": _upper_range(bounds.momentum_high),
        "label_smoothing": _upper_range(bounds.label_smoothing_high),
        "dropout": _upper_range(bounds.dropout_high),
    }
    if is_adam(manifest.optimizer):
        ranges["epsilon"] = _upper_range(bounds.epsilon_high)
    rates = bounds.usual_rates(manifest.optimizer, pretrained=pretrained)
    if rates is not None:
        text = f"{num(rates.low)} to {num(rates.high)} is usual for {rates.title}"
        ranges["peak_lr"] = UsualRange(low=rates.low, high=rates.high, text=text)
    return ranges


def _upper_range(highest: float) -> UsualRange:
    return UsualRange(low=0.0, high=highest, text=f"up to {num(highest)} is usual")
