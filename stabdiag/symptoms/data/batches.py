"""The order of the data: jumps of the loss at epochs, batches that repeat."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from stabdiag.model.arrays import Floats, Ints
from stabdiag.model.findings import Action, Confidence, Severity
from stabdiag.model.findings import ActionKind as Do
from stabdiag.model.history import Series
from stabdiag.model.text import num, plural, whole
from stabdiag.model.unique import unique_values
from stabdiag.stats.coincidence import FREQUENT_RATE, max_chance_repeats
from stabdiag.stats.course import end_level
from stabdiag.stats.levels import levels
from stabdiag.stats.period import find_period
from stabdiag.stats.quantiles import distinct, median, medians, robust_sigma, usual_gap
from stabdiag.stats.shape import Spike, late_recovery
from stabdiag.stats.standards import (
    CONTEXT_POINTS,
    FEW_EVENTS,
    FIFTH,
    HUNDREDFOLD,
    LEAST,
    MAJORITY,
    MIN_CONSECUTIVE,
    NEARLY_ALL,
    NEGLIGIBLE,
    RELATIVE_TOLERANCE,
    SUBSAMPLE_SIZE,
    TENTH,
    THIRDS,
    TWENTIETHS,
    TWICE,
)
from stabdiag.symptoms.symptom import Evidence, Symptom, at_least
from stabdiag.tree.case import Case
from stabdiag.tree.rises import is_clear

# A jump at each epoch explains spikes that begin there and recover.
_SPIKES = ("spike-recovered", "spike-persistent", "frequent-spikes")


def _few_epochs(case: Case) -> str:
    count = len(_boundaries(case))
    if count >= FEW_EVENTS:
        return ""
    return f"needs the beginnings of {FEW_EVENTS} epochs, logged: {count}"


@Symptom(
    slug="epoch-boundary-jump",
    title="The loss jumps when an epoch begins",
    needs=("loss", "epoch"),
    explained_by=("nan",),
    preconditions=(at_least(FEW_EVENTS * LEAST, "loss"), _few_epochs),
    next_actions=(
        Action(Do.INSPECT_DATA, "Look for an order by length, class or source in the batches."),
        Action(Do.CHECK_MODEL, "Check what is reset: hidden states, averages, augmentation."),
    ),
)
def epoch_boundary_jump(case: Case) -> Evidence | None:
    """Does the loss jump up at the start of every epoch?"""
    loss, limits = case.loss, case.limits.data
    at = _boundaries(case)
    steps = loss.steps[at]
    if usual_gap(at) < LEAST or _rate_restarts(case, steps):
        return None
    elsewhere = np.arange(
        CONTEXT_POINTS, len(loss) - CONTEXT_POINTS, -(-len(loss) // SUBSAMPLE_SIZE)
    )
    noise = robust_sigma(_changes(loss.values, elsewhere))
    usual = median(_changes(loss.values, at))
    least = limits.epoch_jump_fraction * abs(median(loss.values))
    if usual <= max(limits.epoch_jump_sigma * noise, least):
        return None
    length = int(usual_gap(steps))
    return Evidence(
        because=f"The loss jumps up by {num(usual)} at the beginning of {len(at)} epochs of "
        f"{length} {case.unit}s each; elsewhere it changes by {num(noise)} over as many points.",
        step=int(steps[0]),
        measured={"jump": usual, "noise": noise, "boundaries": len(at), "epoch_steps": length},
        first=Action(
            Do.SHUFFLE_DATA,
            "Check that the data is reshuffled every epoch: shuffle=True, and "
            "sampler.set_epoch(epoch) with a distributed sampler.",
        ),
        explains=_SPIKES if _are_of_epochs(case, at) else (),
    )


def _are_of_epochs(case: Case, boundaries: Ints) -> bool:
    """Return True if all spikes, recurring ones as well, begin where an epoch does."""
    peaks = () if case.recurring is None else case.recurring.positions
    return all(_begins_epoch(peak, boundaries) for peak in peaks) and all(
        _is_of_epoch(case, spike, boundaries) for spike in case.spikes
    )


def _begins_epoch(position: int, boundaries: Ints) -> bool:
    after = position - boundaries
    return bool(((after >= -1) & (after <= 2 * CONTEXT_POINTS)).any())


def _is_of_epoch(case: Case, spike: Spike, boundaries: Ints) -> bool:
    """Return True if a spike begins where an epoch does, or just after, and recovers."""
    sigma = case.limits.spike.recovery_sigma
    return _begins_epoch(spike.onset, boundaries) and bool(
        spike.recovered or late_recovery(case.loss.values, spike, sigma) is not None
    )


def _boundaries(case: Case) -> Ints:
    """Return the positions of the first losses of each epoch."""
    epoch, steps = case.history.finite("epoch"), case.loss.steps
    turns = epoch.steps[1:][np.diff(np.floor(epoch.values)) == 1]
    starts: Ints = np.searchsorted(steps, turns)
    return starts[(starts >= CONTEXT_POINTS) & (starts <= len(steps) - CONTEXT_POINTS)]


def _starts(case: Case) -> Ints:
    """Return the positions of the first losses of each epoch, or of each period of the loss.

    If no epoch was logged, the loss may still show its length. A learning rate that rises again,
    and the loss of a policy or of two opponents, have periods of their own.
    """
    history = case.history
    if history.has("epoch"):
        return _boundaries(case)
    rates = history.finite("lr").values
    late = rates[len(rates) // THIRDS :]
    has_cycles = bool((np.diff(late) > RELATIVE_TOLERANCE * late[:-1]).any())
    is_other = history.counts_epochs or history.loss_kind is not None or history.has("reward")
    # If even the spread of all losses is small, the period, which takes longer to find, does not
    # matter.
    losses = case.loss.values
    is_narrow = losses[len(losses) // THIRDS :].std() < FIFTH * abs(median(losses))
    period = None if has_cycles or is_other or is_narrow else find_period(losses, LEAST)
    return np.arange(period or len(case.loss), len(case.loss), period or 1)


def _no_period(case: Case) -> str:
    """Return the reason that no course of an epoch is known, or ""."""
    if case.history.has("epoch"):
        return _few_epochs(case)
    return "" if len(_starts(case)) >= FEW_EVENTS else "needs the epoch, or a period of the loss"


def _period_name(case: Case) -> str:
    return "epochs" if case.history.has("epoch") else "periods (epochs were not logged)"


def _changes(x: Floats, positions: Ints) -> Floats:
    """Return the median after each position minus the median before it."""
    windows = np.lib.stride_tricks.sliding_window_view(x, CONTEXT_POINTS)
    return medians(windows[positions]) - medians(windows[positions - CONTEXT_POINTS])


def _rate_restarts(case: Case, steps: Ints) -> bool:
    """Return True if the learning rate jumps up at most of these steps, as in warm restarts."""
    lr = case.history.finite("lr")
    if not len(lr):
        return False
    margin = 2 * case.stride
    before, after = (np.interp(steps + way, lr.steps, lr.values) for way in (-margin, margin))
    return bool(np.mean(after > case.limits.spike.lr_jump * before) > 0.5)


@Symptom(
    slug="epoch-pattern",
    title="The loss takes the same course in every epoch",
    needs=("loss",),
    explained_by=("nan",),
    yields_to=("epoch-boundary-jump",),
    preconditions=(at_least(FEW_EVENTS * LEAST, "loss"), _no_period),
    next_actions=(
        Action(
            Do.CHECK_LABELS,
            "Count the labels of 20 consecutive batches: each batch needs a mix of the classes.",
        ),
        Action(
            Do.SHUFFLE_DATA,
            "If the data cannot be shuffled, as in a stream, mix it in a large buffer.",
        ),
    ),
)
def epoch_pattern(case: Case) -> Evidence | None:
    """Does the loss rise and fall by large amounts at the same positions of every epoch?"""
    epochs, starts = _losses_of_epochs(case), _starts(case)
    if epochs is None or _rate_restarts(case, case.loss.steps[starts]):
        return None
    # The first epoch has its own course: the model learns most there.
    later = epochs[1:]
    pattern = _twentieths(later)
    level = abs(float(pattern.mean()))
    line = np.polyval(np.polyfit(np.arange(len(pattern)), pattern, 1), np.arange(len(pattern)))
    # A loss that falls or rises throughout each epoch is a running mean, or memorization. Batches
    # in a fixed order differ as well, which does no harm: small differences are a note.
    remaining = float((pattern - line).std())
    # A period alone may have another reason than the order of the data, such as a hard batch in
    # each: without it, the rest of the course has to differ by as much.
    is_inferred = not case.history.has("epoch")
    least = (FIFTH if is_inferred else TENTH) * level
    if is_inferred:
        remaining = min(remaining, robust_sigma(pattern - line))
    if remaining <= least or not _is_same_course(later[::2], later[1::2]):
        return None
    low, high = float(pattern.min()), float(pattern.max())
    length = int(usual_gap(case.loss.steps[starts]))
    climbs = _climbs_into_pattern(case, starts, high)
    explains_spikes = all(_is_of_pattern(spike, starts, high) for spike in case.spikes)
    lasts = explains_spikes and any(spike.recovered is False for spike in case.spikes)
    is_worse = level > (1 + TENTH) * median(case.loss.values[:MIN_CONSECUTIVE])
    is_harmless = not (climbs or lasts or is_worse) and remaining < FIFTH * level
    return Evidence(
        because=f"In each of {len(epochs)} {_period_name(case)} of {length} {case.unit}s, the loss "
        f"rises and falls at the same positions, between {num(low)} and {num(high)} (medians of a "
        "twentieth of an epoch after the first one): the data has the same order in every epoch, "
        "and its parts differ.",
        step=int(case.loss.steps[starts[0]]),
        measured={"low": low, "high": high, "deviation": remaining, "epochs": len(epochs)},
        first=Action(
            Do.SHUFFLE_DATA,
            "Shuffle the training data (shuffle=True), and train again from the start: sorted by "
            "class or source, the model forgets each part during the next one.",
        ),
        severity=Severity.NOTE if is_harmless or is_inferred else None,
        explains=()
        if is_inferred
        else (
            *(_SPIKES if explains_spikes else ()),
            *(("divergence-unexplained",) if climbs else ()),
        ),
    )


def _losses_of_epochs(case: Case) -> Floats | None:
    """Return the losses of complete epochs, shape (epochs, losses), or None if there are few.

    Epochs are cut to the length of the shortest.
    """
    loss, epoch = case.loss, case.history.finite("epoch")
    turns = epoch.steps[1:][np.diff(np.floor(epoch.values)) == 1]
    inner = np.searchsorted(loss.steps, turns) if len(epoch) else _starts(case)
    cuts = unique_values(np.concatenate([[0], inner, [len(loss)]]))
    parts = [loss.values[a:b] for a, b in pairwise(cuts.tolist())]
    usual = median(np.array([len(part) for part in parts], dtype=np.float64))
    whole_epochs = [part for part in parts if abs(len(part) - usual) <= NEGLIGIBLE * usual]
    if usual < LEAST or len(whole_epochs) < FEW_EVENTS + 1:
        return None
    shortest = min(map(len, whole_epochs))
    return np.array([part[:shortest] for part in whole_epochs])


def _twentieths(epochs: Floats) -> Floats:
    """Return the usual course of an epoch: medians of its twentieths, over the epochs."""
    return medians(np.array([levels(epoch, TWENTIETHS) for epoch in epochs]).T)


def _is_same_course(some: Floats, others: Floats) -> bool:
    """Return True if the course of some epochs agrees with that of the others.

    Classes of another length than a twentieth show only at single positions. There the ranks are
    compared: the first batch of a class has a loss far above the rest. Single losses are noisier,
    so a lower correlation is enough.
    """
    rank, other_rank = (medians(part.T).argsort().argsort() for part in (some, others))
    by_part = np.corrcoef(_twentieths(some), _twentieths(others))[0, 1]
    return bool(by_part >= NEARLY_ALL or np.corrcoef(rank, other_rank)[0, 1] >= MAJORITY)


def _climbs_into_pattern(case: Case, boundaries: Ints, high: float) -> bool:
    """Return True if the loss rises in the first two epochs, and not beyond the pattern."""
    rise = case.rise
    return (
        rise is not None
        and is_clear(case, rise)
        and rise.onset <= int(boundaries[min(1, len(boundaries) - 1)])
        and rise.last_level <= TWICE * high
    )


def _is_of_pattern(spike: Spike, boundaries: Ints, high: float) -> bool:
    """Return True if a spike begins in the first two epochs or is not above the pattern."""
    return spike.onset <= int(boundaries[min(1, len(boundaries) - 1)]) or (
        spike.base + spike.height <= TWICE * high
    )


@Symptom(
    slug="batch-repeats",
    confidence=Confidence.HIGH,
    title="Batches repeat within an epoch",
    needs=("batch_id",),
    explained_by=("spike-duplicate-batch",),
    preconditions=(at_least(LEAST, "batch_id"),),
    next_actions=(
        Action(Do.FIX_LOADER, "Look for reused buffers, and an iterator recreated in mid-epoch."),
        Action(Do.FIX_LOADER, "Check that each rank gets its own shard (sampler.set_epoch)."),
    ),
)
def batch_repeats(case: Case) -> Evidence | None:
    """Do a few batches, or a part of a fixed order, repeat long before the epoch ends?"""
    batches = case.history.series["batch_id"]
    replay = _replay(case, batches)
    if replay is not None:
        return replay
    repeats, ids = case.causes.repeats_batch, batches.values
    count = int(repeats.sum())
    if count < case.limits.data.repeated_batches:
        return None
    repeated, different = distinct(ids[repeats]), distinct(ids)
    # A stuck loader repeats one batch often; an id that never changes may be a placeholder.
    is_single_batch = repeated == different == 1 and _is_memorized(case)
    is_usual = repeated > FREQUENT_RATE * different
    lookback = float(case.limits.spike.batch_lookback)
    (by_chance,) = max_chance_repeats(ids, case.causes.since_seen, lookback, np.array([lookback]))
    if (is_usual or count <= by_chance) and not is_single_batch:
        return None
    at = int(np.argmax(repeats))
    step = int(batches.steps[at])
    return Evidence(
        because=f"{plural(repeated, 'batch', 'batches')} repeated within "
        f"{case.limits.spike.batch_lookback} {case.unit}s, at {count} of {len(ids)} records; the "
        f"first is batch {whole(float(ids[at]))} at {case.unit} {step}.",
        step=step,
        measured={"repeats": count, "batches": repeated},
        first=_check_loader(case, step),
    )


def _replay(case: Case, batches: Series) -> Evidence | None:
    """Report a part of a fixed order that is trained on again, in the middle of the data.

    An epoch begins with the lowest ids, and a random order falls at every second record.
    """
    ids = batches.values
    falls = np.flatnonzero(np.diff(ids) < 0) + 1
    rises = ids[1:] > ids[:-1]
    if not 0 < len(falls) <= FEW_EVENTS or rises.mean() < NEARLY_ALL:
        return None
    lowest = float(ids.min()) + TWICE * median(np.diff(ids)[rises])
    for at, until in pairwise([*falls.tolist(), len(ids)]):
        again = np.append(np.isin(ids[at:until], ids[:at]), False)
        count, step = int(again.argmin()), int(batches.steps[at])
        if ids[at] <= lowest or count < case.limits.data.repeated_batches:
            continue
        before, first = (whole(float(ids[position])) for position in (at - 1, at))
        return Evidence(
            because=f"{plural(count, 'batch', 'batches')} came again from {case.unit} {step} on: "
            f"batch {first} follows batch {before}.",
            step=step,
            measured={"repeats": count, "batches": count},
            first=_check_loader(case, step),
        )
    return None


def _check_loader(case: Case, step: int) -> Action:
    text = (
        f"Check the loader and the sampler around {case.unit} {step}: log the sample indices and "
        "find out why they occur twice."
    )
    return Action(Do.FIX_LOADER, text, step=step)


def _is_memorized(case: Case) -> bool:
    """Return True if the loss ends at a hundredth of the final evaluation loss.

    A run that simply has little data ends low on both.
    """
    x, heldout = case.loss.values, case.history.finite("eval_loss").values
    return len(x) > LEAST and len(heldout) > 0 and HUNDREDFOLD * end_level(x) < float(heldout[-1])
