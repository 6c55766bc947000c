"""Training and evaluation records in the same columns, told apart by another column."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from stabdiag.assemble.due import Due
from stabdiag.model.roles import Split, flagged_split, is_evaluation, split_of, tells_split

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from stabdiag.assemble.named import Named
    from stabdiag.model.arrays import Mask
    from stabdiag.readers.columns import Column, Columns

# An epoch has one record of each split if so many of its numbers differ from record to record.
_ONE_EACH = 0.9


@dataclass(frozen=True, kw_only=True, eq=False)
class _Splits:
    """The records of each split, and the word that tells of each split that has losses.

    ``others`` are those of no evaluation.
    """

    column: str
    masks: Mapping[Split, Mask]
    others: Mask
    words: Mapping[Split, str]


def with_splits(named: Named) -> Named:
    """Put the losses of an evaluation into a column of their own.

    ``epoch,type,loss`` with the types train and validation has the columns ``loss`` and
    ``validation/loss``. Where there is a validation, the losses of a test are left out.
    """
    columns, names = named.columns, named.names
    if "loss" not in names or "eval_loss" in names or is_evaluation(names["loss"]):
        return named
    loss = columns.load(names["loss"])
    telling = [name for name in columns.names if tells_split(name)]
    found = next((one for name in telling if (one := _splits(columns, name, loss))), None)
    if found is None:
        return named
    said = {split: word for split, word in found.words.items() if split is not Split.TRAINING}
    apart = {
        f"{word if split_of(word) else split.value[0]}/{names['loss']}": found.masks[split]
        for split, word in said.items()
    }
    others = found.others
    due = Due(records=found.masks[Split.TRAINING], named=False).both(named.due)

    def load(name: str) -> Column:
        if name in apart:
            return _only(loss, apart[name])
        return _only(loss, others) if name == names["loss"] else columns.load(name)

    whole = replace(columns, names=(*columns.names, *apart), load=load)
    roles = dict(names)
    if apart:
        word, *left = said.values()
        notes = [f"the losses where {found.column!r} is {word!r} are those of an evaluation"]
        notes += [f"those where it is {one!r} are left out" for one in left]
        roles["eval_loss"] = next(iter(apart))
    else:
        notes = [f"records of an evaluation, by {found.column!r}, hold no loss of the training"]
    epoch = names.get("epoch")
    if (
        "step" not in names
        and epoch
        and _one_record_each(columns.load(epoch), others & loss.present)
    ):
        # Each epoch stands there once more for the evaluation.
        roles["step"] = roles.pop("epoch")
        notes.append(f"no step was logged: {epoch!r} serves as the step")
    return replace(named, columns=whole, due=due).take(roles, *notes)


def _splits(columns: Columns, name: str, loss: Column) -> _Splits | None:
    """Return the splits that a column tells; None if it does not tell training from evaluation."""
    masks = {split: np.zeros(columns.rows, bool) for split in Split}
    words: dict[Split, Counter[str]] = {split: Counter() for split in Split}
    for split, word, here in _told(columns.load(name), flagged_split(name)):
        masks[split] |= here
        words[split][word] += int((here & loss.present).sum())
    # The order of the splits is that in which an evaluation is chosen.
    told = {split: words[split].most_common(1)[0][0] for split in Split if words[split].total()}
    evaluated = masks[Split.VALIDATION] | masks[Split.TEST]
    # An evaluation that has no loss may say so by a null, which is no NaN of the training.
    if Split.TRAINING not in told or (len(told) == 1 and not (evaluated & loss.null).any()):
        return None
    return _Splits(column=name, masks=masks, others=~evaluated, words=told)


def _told(column: Column, asked: Split | None) -> Iterator[tuple[Split, str, Mask]]:
    """Yield what a column says: a split, in which word, and of which records.

    A column may ask of each record whether it is of one split, as ``is_train`` does.
    """
    values = column.values[column.present]
    if column.is_text:
        for code, word in enumerate(column.words):
            split = split_of(word)
            if split is not None:
                yield split, word, column.present & (column.values == code)
    elif asked is not None and ((values == 0) | (values == 1)).all():
        other = Split.VALIDATION if asked is Split.TRAINING else Split.TRAINING
        yield asked, "true", column.present & (column.values == 1)
        yield other, "false", column.present & (column.values == 0)


def _only(column: Column, records: Mask) -> Column:
    present = column.present & records
    return replace(column, present=present, null=column.null & records)


def _one_record_each(epochs: Column, records: Mask) -> bool:
    """Tell whether the records of training have an epoch each."""
    values = epochs.values[epochs.present & records]
    return len(values) > 0 and len(np.unique(values)) >= _ONE_EACH * len(values)
