"""What a manifest tells beside its fields, read off the keys that it keeps as unknown."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from stabdiag.manifest_keys import number, plain

if TYPE_CHECKING:
    from stabdiag.limits import Limits
    from stabdiag.manifest import Manifest

_NAMES = {
    "eval_every": (
        *("eval_every", "eval_interval", "eval_steps", "val_check_interval", "eval_freq"),
        *("validation_interval", "validate_interval_updates", "evaluation_interval"),
    ),
    "schedule_steps": (
        *("schedule_steps", "lr_decay_iters", "lr_decay_steps", "decay_steps", "t_max"),
        *("scheduler_total_steps", "scheduler_num_training_steps"),
    ),
    "warmup_share": ("warmup_ratio", "lr_warmup_fraction", "warmup_fraction", "pct_start"),
    "epochs": ("num_train_epochs", "max_epochs", "num_epochs", "epochs"),
}
_EVAL_STRATEGY = ("eval_strategy", "evaluation_strategy")


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
    def warmup(self) -> float | None:
        """The warm-up in steps: told, or as a share of the run. A share goes before 0 steps."""
        told, total = self.manifest.warmup_steps, self.manifest.total_steps
        if self.warmup_share and not told:
            return self.warmup_share * total if total else None
        return told


def launch(manifest: Manifest, limits: Limits) -> Launch:
    """Return a manifest with what it tells beside its fields."""
    kept = _kept(manifest)
    numbers: dict[str, float] = {}
    for field, names in _NAMES.items():
        value = next((number(kept[name]) for name in names if name in kept), None)
        if value is not None and value > 0:
            numbers[field] = value
    if numbers.get("warmup_share", 0.0) > 1:  # whatever it counts, it is no share
        del numbers["warmup_share"]
    strategy = next((str(kept[name]) for name in _EVAL_STRATEGY if name in kept), None)
    return Launch(manifest=manifest, limits=limits, eval_strategy=strategy, **numbers)


def _kept(manifest: Manifest) -> dict[str, object]:
    """Return the keys that were not understood by their plain names, with and without folders."""
    found: dict[str, object] = {}
    for name, value in manifest.unknown.items():
        parts = name.split(".")
        for depth in range(len(parts)):
            found.setdefault(plain("_".join(parts[depth:])), value)
    return found
