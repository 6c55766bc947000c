"""What the log itself tells of the manifest."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from stabdiag.model.history import Event, EventKind
from stabdiag.model.manifest.other import other_number, saves_by_epoch
from stabdiag.model.text import plural

if TYPE_CHECKING:
    from stabdiag.model.history import History
    from stabdiag.model.manifest import Manifest


# Counts of a manifest, and how many times as many epochs as were logged they may be if they are of
# epochs: a run may break off early.
_COUNTS = {"warmup_steps": 1, "total_steps": 10, "checkpoint_every": 1}


def infer(manifest: Manifest, history: History) -> Manifest:
    """Fill in what the manifest does not say and the log gives away."""
    found = {"dtype": _dtype(history), "checkpoint_every": _cadence(manifest, history)}
    new = {k: v for k, v in found.items() if v is not None and getattr(manifest, k) is None}
    values: dict[str, Any] = {name: value for name, (value, _) in new.items()}
    grounds = {name: why for name, (_, why) in new.items()}
    return replace(manifest, **values, inferred={**manifest.inferred, **grounds})


def in_its_steps(manifest: Manifest, history: History) -> tuple[Manifest, History]:
    """Leave out what a manifest counts in steps where the log counts epochs, and tell of it.

    A warm-up of 500 is none of 500 epochs in a log of 60: all of the counts are in steps then. What
    is given by hand is in the log's own steps, and so is what was read off the log.
    """
    kept = {*manifest.overridden, *manifest.inferred}
    told = {name: getattr(manifest, name) for name in _COUNTS if name not in kept}
    counts = {name: count for name, count in told.items() if count is not None}
    logged = history.last_step
    if history.unit != "epoch" or logged is None:
        return manifest, history
    if all(count <= _COUNTS[name] * (logged + 1) for name, count in counts.items()):
        return manifest, history
    event = Event(
        kind=EventKind.STEPS,
        message="the log counts epochs and the manifest steps: what it says of "
        f"{', '.join(counts)} is left out (--set gives it in epochs)",
    )
    left: dict[str, Any] = dict.fromkeys(counts)
    return replace(manifest, **left), replace(history, events=(*history.events, event))


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
