"""The symptoms of data: what the order of the batches does to the loss."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from stabdiag.model.findings import Action, ActionKind, Severity
from stabdiag.model.text import num, plural, whole
from stabdiag.stats.quantiles import median, medians, robust_sigma, usual_gap
from stabdiag.symptoms.symptom import Evidence, Symptom, at_least
from stabdiag.tree.causes import USUAL_REPEATS

if TYPE_CHECKING:
    from stabdiag.model.arrays import Floats, Ints
    from stabdiag.model.history import Series
    from stabdiag.tree.case import Case

# The loss before and after a boundary is a median of so many points, and so many boundaries and
# points an epoch are needed.
_BESIDE = 5
_LEAST_BOUNDARIES = 3
_LEAST_EPOCH = 20

# What the loss does elsewhere is taken from about so many places.
_ENOUGH = 10_000


def epoch_boundary_jump(case: Case) -> Evidence | None:
    """Does the loss jump up whenever an epoch begins?"""
    loss, epoch = case.loss, case.history.series["epoch"]
    if len(loss) < _LEAST_BOUNDARIES * _LEAST_EPOCH:
        return None
    at = _boundaries(loss.steps, epoch.steps, epoch.values)
    lengths = np.diff(at)
    if len(at) < _LEAST_BOUNDARIES or median(lengths.astype(np.float64)) < _LEAST_EPOCH:
        return None
    elsewhere = np.arange(_BESIDE, len(loss) - _BESIDE, -(-len(loss) // _ENOUGH))
    near = np.searchsorted(at, elsewhere + _BESIDE) > np.searchsorted(at, elsewhere - _BESIDE)
    jumps, others = _changes(loss.values, at), _changes(loss.values, elsewhere[~near])
    noise = robust_sigma(others)
    usual, level = median(jumps), abs(median(loss.values))
    limits = case.limits.data
    least = max(limits.epoch_jump_sigma * noise, limits.epoch_jump_share * level)
    if usual <= least or np.mean(jumps > least / 2) < 0.8 or _lr_jumps(case, loss.steps[at]):
        return None
    length = int(usual_gap(loss.steps[at]))
    return Evidence(
        because=f"The loss jumps up by {num(usual)} at the beginning of epochs, {len(at)} of them, "
        f"one every {length} steps; elsewhere it changes by {num(noise)} within as many points.",
        step=int(loss.steps[at[0]]),
        measured={"jump": usual, "noise": noise, "boundaries": len(at), "epoch_steps": length},
        first=Action(
            ActionKind.SHUFFLE_DATA,
            "Check that the data is reshuffled every epoch (shuffle=True, and "
            "sampler.set_epoch(epoch) with a distributed sampler).",
        ),
        then=(
            Action(
                ActionKind.INSPECT_DATA,
                "Look at what the first batches of an epoch hold: an order by length, class or "
                "source makes some stretches harder.",
            ),
            Action(
                ActionKind.CHECK_MODEL,
                "Check what is reset at the boundary: hidden states, running averages, "
                "augmentation.",
            ),
        ),
    )


def _boundaries(steps: Ints, at: Ints, epochs: Floats) -> Ints:
    """Return the positions of the losses, steps (n,), with which a new epoch begins."""
    good = np.isfinite(epochs)
    if not good.all():
        epochs, at = epochs[good], at[good]
    whole = np.floor(epochs)
    turns = at[1:][whole[1:] - whole[:-1] == 1]
    # The record that completes an epoch is the last of it where the count is a fraction.
    fractions = not np.array_equal(epochs, whole)
    found: Ints = np.searchsorted(steps, turns, side="right" if fractions else "left")
    return found[(found >= _BESIDE) & (found <= len(steps) - _BESIDE)]


def _changes(x: Floats, places: Ints) -> Floats:
    """Return how far the median from each place on lies above that of the points before it."""
    windows = np.lib.stride_tricks.sliding_window_view(x, _BESIDE)
    return medians(windows[places]) - medians(windows[places - _BESIDE])


def _lr_jumps(case: Case, steps: Ints) -> bool:
    """Tell whether the learning rate jumps up at most of these steps, as warm restarts make it."""
    lr = case.history.get("lr")
    if lr is None or len(lr) < 2:
        return False
    up = lr.steps[1:][lr.values[1:] > case.limits.spike.lr_jump * lr.values[:-1]]
    margin = 2 * case.stride
    near = np.searchsorted(up, steps + margin) > np.searchsorted(up, steps - margin)
    return bool(np.mean(near) > 0.5)


def batch_repeats(case: Case) -> Evidence | None:
    """Do batches come again long before the epoch is over?"""
    batches = case.history.series["batch_id"]
    if len(batches) < _LEAST_EPOCH:
        return None
    return _stuck(case, batches) or _again(case, batches)


def _stuck(case: Case, batches: Series) -> Evidence | None:
    """Find the longest stretch of one batch, where that is not how ids are counted."""
    steps, ids = batches.steps, batches.values
    starts = np.append(0, np.flatnonzero(ids[1:] != ids[:-1]) + 1)
    lengths = np.diff(np.append(starts, len(ids)))
    longest = int(np.argmax(lengths))
    count = int(lengths[longest])
    if len(starts) < 3 or count < case.limits.data.stuck_batches:
        return None
    if count < 5 * median(lengths.astype(np.float64)):
        return None
    at = int(starts[longest])
    return _repeats(
        f"Batch {whole(float(ids[at]))} was trained on {count} times in a row, from step "
        f"{int(steps[at])} to {int(steps[at + count - 1])}.",
        int(steps[at]),
        count,
    )


def _again(case: Case, batches: Series) -> Evidence | None:
    """Find batches that were seen a short while before, unless ids come back all along."""
    steps, ids = batches.steps, batches.values
    within = case.limits.spike.batch_lookback
    if not case.causes.batches_repeat:
        return None
    soon = case.causes.seen_again
    count = int(soon.sum())
    if not case.limits.data.repeated_batches <= count <= USUAL_REPEATS * len(ids):
        return None
    at = int(np.argmax(soon))
    return _repeats(
        f"{plural(count, 'batch', 'batches')} of {len(ids)} had been seen within {within} steps, "
        f"the first at step {int(steps[at])}: batch {whole(float(ids[at]))}, "
        f"{plural(int(case.causes.since_seen[at]), 'step')} after the last time.",
        int(steps[at]),
        count,
    )


def _repeats(because: str, step: int, count: int) -> Evidence:
    return Evidence(
        because=because,
        step=step,
        measured={"repeats": count},
        first=Action(
            ActionKind.FIX_LOADER,
            f"Check the loader and the sampler around step {step}: log the indices of the "
            "samples and see where they come from twice.",
            step=step,
        ),
        then=(
            Action(
                ActionKind.FIX_LOADER,
                "Look for buffers that workers reuse, and for an iterator recreated in mid-epoch.",
            ),
            Action(
                ActionKind.FIX_LOADER,
                "With several ranks, check that each gets its own shard (sampler.set_epoch).",
            ),
        ),
    )


def _few_epochs(case: Case) -> str:
    epoch = case.history.series["epoch"]
    count = len(_boundaries(case.loss.steps, epoch.steps, epoch.values))
    if count >= _LEAST_BOUNDARIES:
        return ""
    return f"takes the beginnings of {_LEAST_BOUNDARIES} epochs, logged: {count}"


SYMPTOMS: tuple[Symptom, ...] = (
    Symptom(
        slug="epoch-boundary-jump",
        severity=Severity.WARNING,
        family="data",
        title="The loss jumps when an epoch begins",
        check=epoch_boundary_jump,
        needs=("loss", "epoch"),
        limits=("data.epoch_jump_sigma", "data.epoch_jump_share"),
        explained_by=("nan",),
        enough=(
            at_least(_LEAST_BOUNDARIES * _LEAST_EPOCH, "loss"),
            _few_epochs,
        ),
    ),
    Symptom(
        slug="batch-repeats",
        severity=Severity.WARNING,
        family="data",
        title="Batches repeat within an epoch",
        check=batch_repeats,
        needs=("batch_id",),
        limits=("data.stuck_batches", "data.repeated_batches", "spike.batch_lookback"),
        explained_by=("spike-duplicate-batch",),
        enough=(at_least(_LEAST_EPOCH, "batch_id"),),
    ),
)
