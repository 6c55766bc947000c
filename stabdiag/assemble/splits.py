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
from stabdiag.model.roles.scores import score_direction
from stabdiag.model.unique import unique_values
from stabdiag.readers.columns import Column, Columns

# Evaluation steps take another time than training steps.
_TIME_ROLES: Final = ("step_time", "data_time", "throughput")

# In front of the name of a score, for its values in evaluation records.
_VALIDATION_SECTION: Final = "val/"

# The words of a column such as ``train``, which marks the records of this split.
_TRUE: Final = frozenset({"true", "t", "yes", "y"})
_BOOLEANS: Final = _TRUE | {"false", "f", "no", "n"}


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
    candidates = (
        _splits(columns, name, loss)
        for name in columns.names
        if names_split(name) or find_split(name) is not None
    )
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
    # Scores are of the same split as the evaluation losses.
    heldout = splits.masks[next(iter(evaluated))] if evaluated else ~training
    scores = _split_scores(columns, names, training, heldout)
    made = {**apart, **times, **scores, names["loss"]: only(loss, training)}
    if not apart:
        note = f"evaluation records, identified by {splits.column!r}, contain no training loss"
        return SplitColumns(made=made, names=names, notes=(note,))
    word, *unused = evaluated.values()
    notes = [f"losses where {splits.column!r} is {word!r} are evaluation losses"]
    notes += [f"losses where it is {other!r} are left out" for other in unused]
    names = {**names, "eval_loss": next(iter(apart))}
    evaluated_accuracy = f"{_VALIDATION_SECTION}{names.get('accuracy')}"
    if evaluated_accuracy in scores:
        names.setdefault("eval_accuracy", evaluated_accuracy)
    return SplitColumns(made=made, names=names, notes=(*notes,))


def _split_scores(
    columns: Columns, names: Mapping[str, str], training: Mask, heldout: Mask
) -> dict[str, Column]:
    """Return the scores of the training and the scores of the evaluations, with their names."""
    made: dict[str, Column] = {}
    for name in columns.names:
        if score_direction(name) is None or is_evaluation(name) or name == names["loss"]:
            continue
        score = columns.load(name)
        parts = only(score, training), only(score, heldout)
        if not score.is_text and all(part.present.any() for part in parts):
            made[name], made[f"{_VALIDATION_SECTION}{name}"] = parts
    return made


def _splits(columns: Columns, name: str, loss: Column) -> _Splits | None:
    """Return the splits in a column, or None if it does not separate training from evaluation."""
    masks = {split: np.zeros(columns.rows, bool) for split in NameParts}
    words: dict[NameParts, Counter[str]] = {split: Counter() for split in NameParts}
    for split, word, here in _records_by_split(columns.load(name), name):
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


def _records_by_split(column: Column, name: str) -> Iterator[tuple[NameParts, str, Mask]]:
    """Yield each split in a column, its word, and its records.

    A boolean column marks the records of one split, such as ``is_train`` or ``train``. Numbers
    below ``train`` may be a score, unless 0 and 1 take turns.
    """
    flagged = flagged_split(name)
    values = column.values[column.present]
    if column.is_text and names_split(name) and flagged is None:
        for code, word in enumerate(column.words):
            split = find_split(word)
            if split is not None:
                yield split, word, column.present & (column.values == code)
        return
    if column.is_text:
        words = [word.lower() for word in column.words]
        if not _BOOLEANS.issuperset(words):
            return
        flagged = flagged or find_split(name)
        marks = np.isin(column.values, [n for n, word in enumerate(words) if word in _TRUE])
    elif ((values == 0) | (values == 1)).all() and (flagged or (np.diff(values) != 0).all()):
        flagged = flagged or find_split(name)
        marks = column.values == 1
    else:
        return
    if flagged is not None:
        other = NameParts.VALIDATION if flagged is NameParts.TRAINING else NameParts.TRAINING
        yield flagged, "true", column.present & marks
        yield other, "false", column.present & ~marks


def only(column: Column, records: Mask) -> Column:
    """Return a column with only the entries of some records."""
    return replace(column, present=column.present & records, null=column.null & records)
