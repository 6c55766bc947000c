"""Tables with training and evaluation records in the same columns."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Final

import numpy as np

from stabdiag.assemble.records import MIN_RECORDS
from stabdiag.model.arrays import Mask
from stabdiag.model.frozen import frozen
from stabdiag.model.roles.names import (
    NameParts,
    find_split,
    flagged_split,
    is_evaluation,
    names_split,
)
from stabdiag.model.unique import unique_values
from stabdiag.readers.columns import Column, Columns

# Evaluation steps take another time than training steps.
_TIME_ROLES: Final = ("step_time", "data_time", "throughput")


@frozen
class _Splits:
    """The records of each split, and the word for each split that has losses."""

    column: str
    masks: Mapping[NameParts, Mask]
    words: Mapping[NameParts, str]


@frozen
class SplitColumns:
    """The columns made of a table of splits, the column of each role, and notes about them."""

    made: Mapping[str, Column]
    names: Mapping[str, str]
    notes: tuple[str, ...]


def split_columns(columns: Columns, names: Mapping[str, str]) -> SplitColumns | None:
    """Move evaluation losses into a separate column, or return None if there are none.

    ``epoch,type,loss`` with the types train and validation becomes the columns ``loss`` and
    ``validation/loss``. If there is a validation split, test losses are left out.
    """
    if "loss" not in names or "eval_loss" in names or is_evaluation(names["loss"]):
        return None
    loss = columns.load(names["loss"])
    candidates = (_splits(columns, name, loss) for name in columns.names if names_split(name))
    splits = next(filter(None, candidates), None)
    if splits is None:
        return None
    evaluated = {
        split: word for split, word in splits.words.items() if split is not NameParts.TRAINING
    }
    apart = {
        f"{word if find_split(word) else split.value[0]}/{names['loss']}": only(
            loss, splits.masks[split]
        )
        for split, word in evaluated.items()
    }
    training = ~(splits.masks[NameParts.VALIDATION] | splits.masks[NameParts.TEST])
    times = {
        name: only(columns.load(name), training)
        for role in _TIME_ROLES
        if (name := names.get(role))
    }
    made = {**apart, **times, names["loss"]: only(loss, training)}
    if not apart:
        note = f"evaluation records, identified by {splits.column!r}, contain no training loss"
        return SplitColumns(made=made, names=names, notes=(note,))
    word, *unused = evaluated.values()
    notes = [f"losses where {splits.column!r} is {word!r} are evaluation losses"]
    notes += [f"losses where it is {other!r} are left out" for other in unused]
    names = {**names, "eval_loss": next(iter(apart))}
    return SplitColumns(made=made, names=names, notes=(*notes,))


def _splits(columns: Columns, name: str, loss: Column) -> _Splits | None:
    """Return the splits in a column, or None if it does not separate training from evaluation."""
    masks = {split: np.zeros(columns.rows, bool) for split in NameParts}
    words: dict[NameParts, Counter[str]] = {split: Counter() for split in NameParts}
    for split, word, here in _records_by_split(columns.load(name), flagged_split(name)):
        masks[split] |= here
        words[split][word] += int((here & loss.present).sum())
    # The order of the splits is the order of preference for the evaluation.
    named = {
        split: words[split].most_common(1)[0][0] for split in NameParts if words[split].total()
    }
    evaluated = masks[NameParts.VALIDATION] | masks[NameParts.TEST]
    # If evaluation records are marked, training records may be unmarked or have any one word.
    column = columns.load(name)
    others = loss.present & ~np.logical_or.reduce([*masks.values()])
    if column.is_text and len(unique_values(column.values[others & column.present])) > 1:
        others &= ~column.present
    if named and NameParts.TRAINING not in named and int(others.sum()) >= MIN_RECORDS:
        return _Splits(column=name, masks=masks, words=named)
    # An evaluation without a loss may contain a null, which is not a NaN of the training loss.
    if NameParts.TRAINING not in named or (len(named) == 1 and not (evaluated & loss.null).any()):
        return None
    return _Splits(column=name, masks=masks, words=named)


def _records_by_split(
    column: Column, flagged: NameParts | None
) -> Iterator[tuple[NameParts, str, Mask]]:
    """Yield each split in a column, its word, and its records.

    A boolean column marks the records of the ``flagged`` split, such as ``is_train``.
    """
    values = column.values[column.present]
    if column.is_text:
        for code, word in enumerate(column.words):
            split = find_split(word)
            if split is not None:
                yield split, word, column.present & (column.values == code)
    elif flagged is not None and ((values == 0) | (values == 1)).all():
        other = NameParts.VALIDATION if flagged is NameParts.TRAINING else NameParts.TRAINING
        yield flagged, "true", column.present & (column.values == 1)
        yield other, "false", column.present & (column.values == 0)


def only(column: Column, records: Mask) -> Column:
    """Return a column with only the entries of some records."""
    return replace(column, present=column.present & records, null=column.null & records)
