"""What the log itself tells of the manifest."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from stabdiag.manifest.other import other_number, saves_by_epoch
from stabdiag.words import plural

if TYPE_CHECKING:
    from stabdiag.history import History
    from stabdiag.manifest import Manifest


def infer(manifest: Manifest, history: History) -> Manifest:
    """Fill in what the manifest does not say and the log gives away."""
    found = {"dtype": _dtype(history), "checkpoint_every": _cadence(manifest, history)}
    new = {k: v for k, v in found.items() if v is not None and getattr(manifest, k) is None}
    values: dict[str, Any] = {name: value for name, (value, _) in new.items()}
    grounds = {name: why for name, (_, why) in new.items()}
    return replace(manifest, **values, inferred={**manifest.inferred, **grounds})


def _dtype(history: History) -> tuple[str, str] | None:
    """Return the dtype that the loss scale tells, and why."""
    values = history.finite("loss_scale").values
    if len(values) < 2:
        return None
    if values.min() != values.max():
        return "fp16", "the loss scale moves, as only fp16 training makes it"
    if values[0] > 1:
        # A scale of 1 is none: some frameworks write it whatever the dtype.
        return "fp16", f"a loss scale of {values[0]:g} was used, as only fp16 training needs it"
    return None


def _cadence(manifest: Manifest, history: History) -> tuple[int, str] | None:
    """Return how many steps lie between two checkpoints that end an epoch each, and why."""
    told = manifest.others(history.config)
    if not saves_by_epoch(told):
        return None
    if history.unit == "epoch":
        return 1, "a checkpoint ends each epoch"
    epochs, total = other_number(told, "epochs"), manifest.total_steps
    # The steps of a whole number of epochs are what the HF Trainer makes of them; no others are.
    if not epochs or total is None or epochs % 1 or total % epochs:
        return None
    return int(total // epochs), f"a checkpoint ends each of {plural(int(epochs), 'epoch')}"
