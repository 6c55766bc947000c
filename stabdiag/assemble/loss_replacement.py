"""Replace a loss that was chosen by its name if the values of another column suit better."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np

from stabdiag.assemble.named_columns import NamedColumns
from stabdiag.assemble.records import MIN_RECORDS
from stabdiag.model.roles.loss_kinds import find_discriminator_loss, is_policy_loss
from stabdiag.model.roles.name_patterns import LOSS_NAMES
from stabdiag.model.roles.names import is_auxiliary, name_words, normal
from stabdiag.readers.columns import Column

# Words of the loss that balances experts, which has a role of its own.
_WORDS_OF_EXPERTS: Final = frozenset({"aux", "auxiliary", "load", "router"})

# The words that a mean has and its sum lacks.
_MEANS = ({"avg"}, {"mean"}, {"average"})


def with_sum(named: NamedColumns, others: Sequence[str]) -> NamedColumns:
    """Replace a loss chosen by its name by another one that is the sum of it and of all others.

    SiamMask logs rpn_cls_loss, rpn_loc_loss and siamrpn_loss.
    """
    name = named.names.get("loss", "")
    if name not in named.columns.names or normal(name) in LOSS_NAMES:
        return named
    total = find_sum({other: named.columns.load(other) for other in (name, *others)})
    if total is None or total == name:
        return named
    note = f"took {total!r} as the loss: it is the sum of {name!r} and the others"
    return named.take({**named.names, "loss": total}, note)


def find_sum(losses: Mapping[str, Column]) -> str | None:
    """Return the loss that is the sum of all others, at least two, or None."""
    if len(losses) < MIN_RECORDS or any(loss.is_text for loss in losses.values()):
        return None
    return next(
        (
            name
            for name, total in losses.items()
            if _is_sum(total, [loss for other, loss in losses.items() if other != name])
        ),
        None,
    )


def _is_sum(total: Column, parts: Sequence[Column]) -> bool:
    """Return True if each value of a column is the sum of the others, apart from rounding."""
    rows = np.flatnonzero(total.present & np.isfinite(total.values))
    if len(rows) < 2 or not all(part.present[rows].all() for part in parts):
        return False
    rounding = np.finfo(np.float16).eps
    # Most columns differ in their first values.
    for some in (rows[:2], rows):
        values = np.array([part.values[some] for part in parts])
        if not np.allclose(values.sum(axis=0), total.values[some], rtol=rounding, atol=0):
            return False
    return bool((values > 0).any(axis=1).all())


def with_better_loss(named: NamedColumns, others: Sequence[str]) -> NamedColumns:
    """Replace the loss chosen by name if it is always 0, ends early, or if another one went NaN.

    The pretraining of a generator ends before the losses of both networks begin. A generator's loss
    may go NaN while the discriminator's continues. A loss that is occasionally undefined, or
    undefined from the start, does not count, unless it is the mean of the chosen one.
    """
    columns, names = named.columns, named.names
    if "loss" not in names or not others:
        return named
    name = names["loss"]
    chosen = columns.load(name)
    if _is_all_zero(chosen):
        min_count = int(chosen.present.sum()) / 2
        candidates = (
            other
            for other in others
            # The loss of a policy is 0 before its second update on the same data.
            if not (is_policy_loss(name) and is_policy_loss(other))
            and _has_values(columns.load(other), min_count)
        )
        reason = f"{name!r} has no value other than 0"
    elif later := [other for other in others if _begins_after(named, columns.load(other), chosen)]:
        first = find_discriminator_loss(later) or later[0]
        candidates = (other for other in later if other == first)
        reason = f"it begins after the end of {name!r}, which stays finite"
    elif np.isfinite(chosen.logged).all():
        is_short = len(chosen.logged) < 2 * MIN_RECORDS
        counted = columns.load(names["step"]).present if "step" in names else np.True_
        losses = ((other, columns.load(other)) for other in others)
        candidates = (
            other
            for other, loss in losses
            if not _has_expert_penalty(name, other)
            and (_is_lost(loss, of_few=is_short) or _is_lost_mean(other, loss, name))
            and (loss.present & counted).any()
        )
        reason = f"it went NaN and {name!r} did not"
    else:  # an average of this loss may stay NaN for longer
        return named
    replacement = next(candidates, None)
    if replacement is None:
        return named
    note = f"took {replacement!r} as the loss: {reason}"
    return named.take({**names, "loss": replacement}, note)


def with_means(named: NamedColumns) -> NamedColumns:
    """Replace a loss that is the sum of a fixed number of losses by its mean, if both are logged.

    FederatedScope logs train_loss and train_avg_loss.
    """
    for role in sorted({"loss", "eval_loss"} & named.names.keys()):
        name = named.names[role]
        total = named.columns.load(name)
        for other in named.columns.names:
            if not _names_mean(other, name):
                continue
            if _is_multiple(total, named.columns.load(other)):
                note = f"took {other!r} as the {role}: {name!r} is a multiple of it"
                named = named.take({**named.names, role: other}, note)
                break
    return named


def _names_mean(other: str, name: str) -> bool:
    """Return True if a column has the name of the mean of another one."""
    return {*name_words(other)} - {*name_words(name)} in _MEANS


def _is_lost_mean(other: str, mean: Column, name: str) -> bool:
    """Return True if a column is the mean of a loss and never finite: the loss was not, either."""
    return _names_mean(other, name) and not (mean.is_text or np.isfinite(mean.logged).any())


def _is_multiple(total: Column, mean: Column) -> bool:
    """Return True if a column is another column times a nearly constant count."""
    if total.is_text or mean.is_text or not np.array_equal(total.present, mean.present):
        return False
    sums, means = total.logged, mean.logged
    if len(sums) < 2 or not (np.isfinite(sums).all() and (means > 0).all()):
        return False
    ratios = sums / means
    return bool(ratios.min() >= 2 and np.ptp(ratios) < 1)


def _begins_after(named: NamedColumns, loss: Column, before: Column) -> bool:
    """Return True if a loss begins below the end of a finite one, and its counter begins again."""
    first, rows = np.flatnonzero(before.present), np.flatnonzero(loss.present)
    counter = named.names.get("step") or named.names.get("epoch")
    if loss.is_text or not counter or not len(first) or len(rows) < MIN_RECORDS:
        return False
    counts = named.columns.load(counter).values
    return (
        bool(rows[0] > first[-1] and counts[rows[0]] < counts[first[-1]])
        and bool((np.diff(counts[rows]) > 0).all())
        and bool(np.isfinite(before.logged).all())
    )


def _has_expert_penalty(name: str, other: str) -> bool:
    """Return True if another loss balances experts and this one does not: train/aux_loss.

    Other terms, such as kl_loss, are judged with the loss that they are added to.
    """
    words = {*name_words(other)} - {*name_words(name)}
    is_of_experts = not words.isdisjoint(_WORDS_OF_EXPERTS)
    return is_of_experts and is_auxiliary("_".join(words)) and not is_auxiliary(name)


def _is_all_zero(loss: Column) -> bool:
    return not loss.is_text and not loss.logged.any()


def _has_values(loss: Column, min_count: float) -> bool:
    """Return True if a loss has values other than 0, and at least this many values."""
    return not loss.is_text and not _is_all_zero(loss) and int(loss.present.sum()) >= min_count


def _is_lost(loss: Column, *, of_few: bool) -> bool:
    """Return True if a loss was finite, went NaN or infinite once, and never recovered.

    In a log ``of_few`` records, a single value at the end is enough.
    """
    finite = np.isfinite(loss.logged)
    last = int(np.count_nonzero(finite))
    if of_few:
        # One or two records do not show whether a loss was ever finite.
        begins = last > 0 or len(finite) < MIN_RECORDS
        return begins and last < len(finite) and bool(finite[:last].all())
    return last >= MIN_RECORDS and len(finite) - last >= MIN_RECORDS and bool(finite[:last].all())
