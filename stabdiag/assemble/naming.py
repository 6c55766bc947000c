"""Which column serves each role: by its name, by what stands in for it, and by what it holds.

Some tables hold records of several kinds, which one of their columns tells apart. A long table has
a record for each measurement, its name in one column and its value in another. A table of splits
has records of training and of evaluation in the same columns.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import reduce

import numpy as np

from stabdiag.assemble.records import ENOUGH, SHOWN, shown_name
from stabdiag.assemble.renamed import continued_columns
from stabdiag.errors import ColumnError, NoUsableRecord
from stabdiag.model.arrays import Floats, Mask
from stabdiag.model.frozen import frozen
from stabdiag.model.roles.choice import Assignment, assign, can_judge_without_loss, fallback_columns
from stabdiag.model.roles.names import (
    Split,
    flagged_split,
    is_auxiliary,
    is_evaluation,
    names_measurements,
    names_results,
    names_split,
    normal,
    split_of,
)
from stabdiag.model.text import and_more, listed
from stabdiag.readers.columns import Column, Columns


@frozen
class Named:
    """The columns of a log, and the name of the column for each role.

    ``notes`` say what was decided on the way.
    """

    columns: Columns
    names: Mapping[str, str]
    notes: tuple[str, ...] = ()

    def take(self, names: Mapping[str, str], *notes: str) -> Named:
        """Return the same columns with other names by role, and with notes on why."""
        return replace(self, names=names, notes=(*self.notes, *notes))

    def adding(self, made: Mapping[str, Column]) -> Named:
        """Return these columns with others made of them, which go before those of the same name."""
        if not made:
            return self
        columns = self.columns

        def load(name: str) -> Column:
            return made[name] if name in made else columns.load(name)

        every = tuple(dict.fromkeys((*columns.names, *made)))
        return replace(self, columns=replace(columns, names=every, load=load))


def name_columns(columns: Columns, chosen: Mapping[str, str] | None) -> Named:
    """Find the column of each role.

    Raises:
        NoUsableRecord: if the records are results of several runs, one each.
        ColumnError: if there is no loss nor anything else to go by, or a chosen column does not
            exist.
    """
    assignment = assign(columns.names, chosen, source=columns.source)
    named = _with_totals(columns, assignment)
    if "loss" not in (chosen or {}):
        _refuse_results(columns, named.names)
        named = _with_measurements(_with_a_loss(named))
        named = _with_better_loss(named, assignment.other_losses)
    if not chosen:
        made, notes = continued_columns(named.columns, named.names)
        named = named.adding(made).take(named.names, *notes)
    return _with_splits(named)


def _with_totals(columns: Columns, assignment: Assignment) -> Named:
    """Return the columns with the totals that a log lacks, and the name for each role.

    Parts that no record has together are losses of several sets of data: the first counts.
    """
    _refuse_words(columns, assignment.parts.get("loss", ()))
    roles = dict(assignment.columns)
    totals: dict[str, Column] = {}
    notes = list(assignment.notes)
    for role, names in assignment.parts.items():
        total = reduce(_sum, map(columns.load, names))
        parts = listed(names)
        if total.present.any():
            roles[role] = " + ".join(names)
            totals[roles[role]] = total
            notes.append(f"no total is logged: the sum of {parts} serves as the {role}")
        else:
            notes.append(f"took {names[0]!r} as the {role}: no record has all of {parts}")
    return Named(columns=columns, names=roles, notes=tuple(notes)).adding(totals)


def _refuse_words(columns: Columns, parts: Sequence[str]) -> None:
    """Raise an error if some parts of the loss are numbers and others are not."""
    words = [name for name in parts if columns.load(name).is_text]
    if words and len(words) < len(parts):
        shown = [*map(shown_name, parts[:SHOWN])]
        raise ColumnError(
            f"{columns.source}: {shown_name(words[0])!r} holds words, no numbers: the sum of"
            f" {listed(shown)} cannot serve as the loss; name one with --column loss=NAME"
        )


def _sum(one: Column, other: Column) -> Column:
    """Return the sum where both were logged."""
    present = one.present & other.present
    return Column(
        values=one.values + other.values,
        present=present,
        null=(one.null | other.null) & ~present,
        is_text=one.is_text or other.is_text,
        stray_rows=np.union1d(one.stray_rows, other.stray_rows),
    )


def _with_a_loss(named: Named) -> Named:
    """Find what stands in for a loss that was not logged.

    That is the evaluation loss, or a column named by what it measures. Without either, a log with
    a loss scale, norms or the largest activations is still worth reading.
    """
    columns, names = named.columns, named.names
    main = names.get("loss")
    if main is not None and not all(map(is_auxiliary, main.split(" + "))):
        return named
    if main is None and "eval_loss" in names:
        others = {role: name for role, name in names.items() if role != "eval_loss"}
        note = f"no training loss was logged: {names['eval_loss']!r} stands in for it"
        return named.take({**others, "loss": names["eval_loss"]}, note)
    for one in fallback_columns(
        columns.names, counted=not names.keys().isdisjoint(("step", "epoch"))
    ):
        column = columns.load(one.loss)
        if not column.is_text and column.present.any() and one.loss not in names.values():
            evaluation = {} if one.eval_loss is None else {"eval_loss": one.eval_loss}
            return named.take({**names, "loss": one.loss, **evaluation}, one.note)
    if main is not None:
        return named
    if can_judge_without_loss(names):
        return named.take(names, "no loss was logged: only checks that need none can run")
    shown = and_more([*map(shown_name, columns.names)], SHOWN)
    raise ColumnError(
        f"{columns.source}: no column looks like a training loss (it has "
        f"{shown}); name it with --column loss=NAME, in Python with "
        'columns={"loss": NAME}'
    )


def _refuse_results(columns: Columns, names: Mapping[str, str]) -> None:
    """Raise an error if each record is of a model, a team or a trial of its own."""
    counter = names.get("step") or names.get("epoch")
    counted = columns.load(counter).logged if counter else None
    # Steps may be infinite, and have no differences then.
    counts = counted is not None and bool((counted[1:] >= counted[:-1]).all())
    if counts or columns.rows < ENOUGH:
        return
    for name in columns.names:
        if names_results(name):
            column = columns.load(name)
            if column.present.all() and len(np.unique(column.values)) == columns.rows:
                raise NoUsableRecord(
                    f"{columns.source}: each record has a {name!r} of its own: a table of results, "
                    "not the log of a run; give the log of one of them"
                )


def _with_better_loss(named: Named, others: Sequence[str]) -> Named:
    """Replace the loss chosen by name if it holds nothing, or if another one went NaN.

    A generator's loss may be lost while the discriminator's goes on. A loss that is undefined now
    and then, or from the start, is not lost.
    """
    columns, names = named.columns, named.names
    if "loss" not in names or not others:
        return named
    name = names["loss"]
    chosen = columns.load(name)
    if _is_nothing(chosen):
        often = int(chosen.present.sum()) / 2
        found = next((one for one in others if _holds(columns.load(one), often)), None)
        why = f"{name!r} has no value other than 0"
    elif np.isfinite(chosen.logged).all():
        found = next((one for one in others if _is_lost(columns.load(one))), None)
        why = f"it went NaN, {name!r} did not"
    else:  # an average of this loss may stay NaN for longer
        return named
    if found is None:
        return named
    return named.take({**names, "loss": found}, f"took {found!r} as the loss: {why}")


def _is_nothing(loss: Column) -> bool:
    return not loss.is_text and not loss.logged.any()


def _holds(loss: Column, often: float) -> bool:
    """Tell whether a loss has values other than 0, and no fewer than this."""
    return not loss.is_text and not _is_nothing(loss) and int(loss.present.sum()) >= often


def _is_lost(loss: Column) -> bool:
    """Tell whether a loss was finite, went NaN or infinite once, and stayed so to its end."""
    finite = np.isfinite(loss.logged)
    last = int(np.count_nonzero(finite))
    return last >= ENOUGH and len(finite) - last >= ENOUGH and bool(finite[:last].all())


def _with_measurements(named: Named) -> Named:
    """Make a column of each measurement of a long table.

    ``step,metric,value`` with the metrics loss and accuracy has the columns ``loss`` and
    ``accuracy``. A table none of whose measurements is a loss stays as it is.
    """
    columns, names = named.columns, named.names
    value = names.get("loss")
    if value is None or normal(value) not in ("value", "metric_value"):
        return named
    telling = (name for name in columns.names if names_measurements(name))
    name = next((one for one in telling if "loss" in _roles(columns.load(one))), None)
    if name is None:
        return named
    metric, whole = columns.load(name), columns.load(value)
    counter = names.get("step") or names.get("epoch")
    if counter and _is_filled(metric, whole, columns.load(counter).values):
        whole = replace(whole, null=np.zeros_like(whole.null))
    made = {
        word: _only(whole, metric.present & (metric.values == code))
        for code, word in enumerate(metric.words)
    }
    own = {role: one for role, one in names.items() if one not in (value, name)}
    note = f"each record holds one measurement, which {name!r} names"
    return named.adding(made).take({**_roles(metric), **own}, note)


def _is_filled(metric: Column, whole: Column, steps: Floats) -> bool:
    """Tell whether blanks fill the gaps of other measurements, at steps that have a loss.

    So they do in a long table made of a wide one: there one more blank says nothing.
    """
    of_loss = metric.present & (metric.values == metric.words.index(_roles(metric)["loss"]))
    others = steps[metric.present & ~of_loss & whole.null]
    return bool(np.isin(others, steps[of_loss & whole.present]).any())


def _roles(metric: Column) -> Mapping[str, str]:
    """Return the measurements that a column of words names, by role."""
    return assign(metric.words).columns if metric.is_text else {}


@frozen
class _Splits:
    """The records of evaluations by split, and the word for each split that has losses."""

    column: str
    masks: Mapping[Split, Mask]
    words: Mapping[Split, str]


def _with_splits(named: Named) -> Named:
    """Put the losses of an evaluation into a column of their own.

    ``epoch,type,loss`` with the types train and validation has the columns ``loss`` and
    ``validation/loss``. Where there is a validation, the losses of a test are left out.
    """
    columns, names = named.columns, named.names
    if "loss" not in names or "eval_loss" in names or is_evaluation(names["loss"]):
        return named
    loss = columns.load(names["loss"])
    telling = [name for name in columns.names if names_split(name)]
    found = next((one for name in telling if (one := _splits(columns, name, loss))), None)
    if found is None:
        return named
    evaluated = {split: word for split, word in found.words.items() if split is not Split.TRAINING}
    apart = {
        f"{word if split_of(word) else split.value[0]}/{names['loss']}": _only(
            loss, found.masks[split]
        )
        for split, word in evaluated.items()
    }
    training = ~(found.masks[Split.VALIDATION] | found.masks[Split.TEST])
    named = named.adding({**apart, names["loss"]: _only(loss, training)})
    if not apart:
        note = f"records of an evaluation, by {found.column!r}, hold no loss of the training"
        return named.take(names, note)
    word, *left = evaluated.values()
    notes = [f"losses where {found.column!r} is {word!r} are evaluation losses"]
    notes += [f"those where it is {one!r} are left out" for one in left]
    return named.take({**names, "eval_loss": next(iter(apart))}, *notes)


def _splits(columns: Columns, name: str, loss: Column) -> _Splits | None:
    """Return the splits that a column names; None if it does not tell training from evaluation."""
    masks = {split: np.zeros(columns.rows, bool) for split in Split}
    words: dict[Split, Counter[str]] = {split: Counter() for split in Split}
    for split, word, here in _records_by_split(columns.load(name), flagged_split(name)):
        masks[split] |= here
        words[split][word] += int((here & loss.present).sum())
    # The order of the splits is that in which an evaluation is chosen.
    named = {split: words[split].most_common(1)[0][0] for split in Split if words[split].total()}
    evaluated = masks[Split.VALIDATION] | masks[Split.TEST]
    # Records of the training need not say so if those of an evaluation do.
    others = loss.present & ~columns.load(name).present
    if named and Split.TRAINING not in named and int(others.sum()) >= ENOUGH:
        return _Splits(column=name, masks=masks, words=named)
    # An evaluation that has no loss may say so by a null, which is no NaN of the training.
    if Split.TRAINING not in named or (len(named) == 1 and not (evaluated & loss.null).any()):
        return None
    return _Splits(column=name, masks=masks, words=named)


def _records_by_split(column: Column, flagged: Split | None) -> Iterator[tuple[Split, str, Mask]]:
    """Yield each split that a column names, the word for it, and its records.

    A column may say of each record whether it is of the ``flagged`` split, as ``is_train`` does.
    """
    values = column.values[column.present]
    if column.is_text:
        for code, word in enumerate(column.words):
            split = split_of(word)
            if split is not None:
                yield split, word, column.present & (column.values == code)
    elif flagged is not None and ((values == 0) | (values == 1)).all():
        other = Split.VALIDATION if flagged is Split.TRAINING else Split.TRAINING
        yield flagged, "true", column.present & (column.values == 1)
        yield other, "false", column.present & (column.values == 0)


def _only(column: Column, records: Mask) -> Column:
    """Return a column with the entries of some records alone."""
    return replace(column, present=column.present & records, null=column.null & records)
