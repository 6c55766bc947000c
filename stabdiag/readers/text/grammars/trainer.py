"""The HF Trainer on standard output: ``{'loss': 2.05, 'grad_norm': 0.5, …, 'epoch': 0.28}``.

The line has no step, but the progress bar right after it does. Without bars, the step follows from
the epoch and the number of steps that the Trainer announced. Without either, the training records
are counted.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Final

import numpy as np

from stabdiag.model.arrays import Mask
from stabdiag.model.events import Event, EventCode, EventKind
from stabdiag.model.patterns import lazy_pattern
from stabdiag.model.roles.names import is_evaluation
from stabdiag.readers.columns import Column, Columns
from stabdiag.readers.source import Stream
from stabdiag.readers.text.grammars.records import Record, Records
from stabdiag.readers.text.lines.grammar import (
    NUMBER_PATTERN,
    QUOTED,
    Grammar,
    Line,
    Step,
    is_a_loss,
)
from stabdiag.readers.text.log import read_log
from stabdiag.readers.text.messages.status_lines import SCALE
from stabdiag.readers.text.steps import (
    TOTAL,
    announced_number,
    are_rounded,
    are_shared,
    estimate_steps,
)

# Its summaries, which are often all that a post has:
#
# ***** eval metrics *****
#   epoch                   =        3.0
#   eval_loss               =     0.4512
#   eval_runtime            = 0:00:04.20
_HEADING_END: Final = b" metrics *****"
_SUMMARY_HEADING: Final = lazy_pattern(
    rb"\*{5} (?:train|eval|test|predict) metrics \*{5}[ \t\r]{0,40}\n"
)
_SUMMARY_ROW: Final = lazy_pattern(
    rb"[ \t]{0,20}([A-Za-z][\w/.-]{0,80})[ \t]{1,80}=[ \t]{1,80}(?:(%b)|[^\n]{0,80}?)"
    rb"[ \t\r]{0,40}(?:\n|\Z)" % NUMBER_PATTERN
)
_MAX_SUMMARY_ROWS: Final = 100
_EPOCH_ROW: Final = "epoch"
# Numbers of samples, times and speeds.
_OTHER_ROW: Final = lazy_pattern(r"_(?:runtime|samples?|flos|per_second)$")
# The losses of a training are printed above its summary.
_TRAINING_RECORD: Final = lazy_pattern(rb"\{'[^\n{}]{0,2000}?loss': ")


def _summaries(data: bytes) -> Iterator[Record]:
    """Yield the summaries; a training and its evaluation are one record.

    An evaluation before the training has no epoch. Their order counts then.
    """
    records: list[tuple[int, dict[str, bytes]]] = []
    for heading in _SUMMARY_HEADING.finditer(data) if _has_summaries(data) else ():
        cells = _rows(data, heading.end())
        last = records[-1][1] if records else {}
        is_new = last.get(_EPOCH_ROW) != cells.get(_EPOCH_ROW) or last.keys() & cells.keys() - {
            _EPOCH_ROW
        }
        if is_new or not last:
            records.append((heading.start(), cells))
        else:
            last.update(cells)
    is_counted = all(_EPOCH_ROW in cells for _, cells in records)
    for begin, cells in records:
        yield begin, {name: cells[name] for name in cells if is_counted or name != _EPOCH_ROW}


def _rows(data: bytes, place: int) -> dict[str, bytes]:
    """Return the names and numbers on the consecutive rows from a position on."""
    cells: dict[str, bytes] = {}
    for _ in range(_MAX_SUMMARY_ROWS):
        row = _SUMMARY_ROW.match(data, place)
        if row is None:
            break
        name, place = row[1].decode(), row.end()
        if row[2] is not None and not _OTHER_ROW.search(name):
            cells[name] = row[2]
    return cells


def _has_summaries(data: bytes) -> bool:
    return (
        _HEADING_END in data
        and _SUMMARY_HEADING.search(data) is not None
        and not _TRAINING_RECORD.search(data)
    )


_LOSS_ENTRY = (
    rb"'(?:eval_(?:[^'\n]{1,60}_)?|[^'\n]{1,60}/)?loss(?:/[^'\n]{1,40})?': '?[-+.\w]{1,40}'?[,}]"
)
# Other programs print evaluation losses on lines of this form, and training losses in words.
_IDENTIFYING_LOSS = _LOSS_ENTRY.replace(rb"|[^'", rb"|(?!(?:val|valid|test)/)[^'", 1)
# train: {'epoch': 0, 'loss': 2.05} is one of several lines in other programs, one per split.
_WITHOUT_SPLIT = rb"(?<!train: \{)(?<!val: \{)(?<!test: \{)"
# … - INFO - llmtuner.extras.callbacks - {'loss': 2.05, …} above the line of the Trainer itself.
_NO_ECHO = rb"(?!(?<= - \{|>> \{)[^\n{}]{1,4000}\}[ \t\r]{0,400}\n\{'loss': )"
_STEP_NAMES = ("step", "global_steps", "global_step/max_steps")
_STEP_ENTRY = rb"'(?:epoch|step|global_steps?|learning_rate)': "
_COUNTER_ENTRY = rb"'(?:epoch|step|global_steps?)': "
_RATE_ENTRY = rb"'(?:grad_norm|learning_rate|lr)': "

# {'embedding_loss': 0.21, 'learning_rate': 2e-05, 'epoch': 0.29}: the loss of a subclass. The
# summary of a training has one as well.
_OTHER_LOSS_ENTRY = rb"'(?!eval_)[^'\n]{1,60}_loss': '?[-+.\w]{1,40}'?[,}]"
_SUBCLASS = rb"(?!'train_runtime)(?=[^\n{}]{0,2000}?%b)(?=[^\n{}]{0,2000}?%b)" % (
    _OTHER_LOSS_ENTRY,
    _STEP_ENTRY,
)

_EPISODE_COLUMN = "episode"

_TOTAL_STEPS_LINE = "Total optimization steps"
_EPOCHS_LINE = "Num Epochs"
_AN_EPOCH = "Num update steps per epoch"
_EXAMPLES_LINE = "Num examples"
_BATCH_SIZE_LINE = "Total train batch size"
_ANNOUNCED = "|".join(
    (_TOTAL_STEPS_LINE, _EPOCHS_LINE, _AN_EPOCH, _EXAMPLES_LINE, _BATCH_SIZE_LINE)
).encode()

# Bars are used if at most this fraction of losses share a step: a bar may be cut in two.
_MAX_SHARED = 0.1
_ESTIMATED = "no record has a step: steps are estimated from epochs, which records share"
# Steps are not counted for fewer records than this.
_COUNTABLE = 3
# Epochs are printed with two decimals.
_EPOCH_ROUNDING = 0.01
_TOO_FEW_BARS = "the progress bar is not drawn often enough to give all records a step"


def _column_name(name: str) -> str:
    return "global_step" if name in _STEP_NAMES else name


GRAMMAR = Grammar(
    step="global_step",
    kinds=(
        Line(
            pattern=rb"\{%b(?:(?=[^\n{}]{0,2000}?%b)|%b)('[^\n{}]{1,4000}\})"
            % (_NO_ECHO, _LOSS_ENTRY, _SUBCLASS),
            pairs=QUOTED,
            named=_column_name,
            signature=(
                rb"\{%b(?='[^\n{}]{0,2000}?)(?=[^\n{}]{0,2000}?%b)(?=[^\n{}]{0,2000}?%b)"
                % (_WITHOUT_SPLIT, _IDENTIFYING_LOSS, _STEP_ENTRY)
            ),
            step=Step.COMING,
        ),
        # A record that lost its loss: other values of a record next to a counter.
        Line(
            pattern=rb"\{%b(?![^\n{}]{0,4000}?loss)(?=[^\n{}]{0,2000}?%b)(?=[^\n{}]{0,2000}?%b)"
            rb"('[^\n{}]{1,4000}\})" % (_NO_ECHO, _RATE_ENTRY, _COUNTER_ENTRY),
            pairs=QUOTED,
            named=_column_name,
            step=Step.COMING,
            identifies_format=False,
        ),
        # An evaluation without a loss, which the Trainer leaves out for unknown label names.
        Line(
            pattern=rb"\{%b(?='eval_)(?![^\n{}]{0,4000}?loss)(?=[^\n{}]{0,2000}?%b)"
            rb"('[^\n{}]{1,4000}\})" % (_NO_ECHO, _COUNTER_ENTRY),
            pairs=QUOTED,
            named=_column_name,
            step=Step.COMING,
            identifies_format=False,
        ),
        #  10%|█         | 500/5000 [01:00<08:59, 8.34it/s]
        Line(
            pattern=rb"%\|[^|\n]{0,400}\| (\d{1,12})/(\d{1,12}) \[",
            names=("global_step", TOTAL),
            is_record=False,
            identifies_format=False,
        ),
        Records(find_records=_summaries, signature=_has_summaries),
        *SCALE,
    ),
    total=_TOTAL_STEPS_LINE,
    ended=rb"\{'train_runtime': '?\d",
    config=rb"(%b)(?: \([^)\n]{1,80}\))? = ([\d,]{1,20})" % _ANNOUNCED,
)


def read(stream: Stream) -> Columns:
    """Read the output of the HF Trainer."""
    columns = read_log(stream, "hf-trainer-stdout", GRAMMAR)
    without = replace(columns, names=tuple(name for name in columns.names if name != GRAMMAR.step))
    is_sparse = False
    loss_name = _loss_name(columns)
    if {GRAMMAR.step, loss_name} <= set(columns.names):
        loss, step = columns.load(loss_name).present, columns.load(GRAMMAR.step)
        steps = step.values[loss & step.present]
        if loss.any() and not len(steps):
            # Only overflows of DeepSpeed have steps, counted from an arbitrary start.
            return without
        # The bar may belong to the loading of the model rather than to training.
        is_constant = len(steps) > 1 and not np.ptp(steps)
        is_sparse = not is_constant and _share_steps(columns, loss & step.present)
        columns = without if is_constant or is_sparse else columns
    if GRAMMAR.step in columns.names or "epoch" not in columns.names or _counts_episodes(columns):
        return columns
    an_epoch = _steps_of_an_epoch(columns.config)
    if an_epoch:
        return _with_steps(columns, an_epoch)
    return _counted(
        replace(columns, notes=(*columns.notes, _TOO_FEW_BARS)) if is_sparse else columns
    )


def _counts_episodes(columns: Columns) -> bool:
    """Return True if records count episodes, like the records of policies in TRL."""
    if _EPISODE_COLUMN not in columns.names:
        return False
    moves = np.diff(columns.load(_EPISODE_COLUMN).values[_training_records(columns)])
    return len(moves) > 0 and bool((moves > 0).all())


def _steps_of_an_epoch(config: Mapping[str, object]) -> float | None:
    """Return the number of steps in an epoch, from the announcement of the Trainer.

    The number of epochs is rounded up for a run that ends within one. Recent versions announce the
    steps of an epoch; for others they follow from the examples and the size of a batch.
    """
    total, epochs, steps, examples, batch = (
        announced_number(config, name)
        for name in (_TOTAL_STEPS_LINE, _EPOCHS_LINE, _AN_EPOCH, _EXAMPLES_LINE, _BATCH_SIZE_LINE)
    )
    if steps or not (total and epochs):
        return steps
    mean = total / epochs
    if not (examples and batch) or mean >= examples // batch:
        return mean
    return float(np.ceil(examples / batch))


def _share_steps(columns: Columns, losses: Mask) -> bool:
    """Return True if different losses share a step, as the bar was rarely drawn or cut.

    Two lines with the same epoch, or without one and with the same loss, are the same record.
    """
    clock = "epoch" if "epoch" in columns.names else "loss"
    step, values = columns.load(GRAMMAR.step).values, columns.load(clock).values
    rows = np.flatnonzero(losses if clock == "loss" else losses & np.isfinite(values))
    changes = np.diff(values[rows]) > 0 if clock == "epoch" else np.diff(values[rows]) != 0
    return int(((np.diff(step[rows]) == 0) & changes).sum()) > _MAX_SHARED * len(rows)


def _loss_name(columns: Columns) -> str:
    """Return the name of the training loss, which a subclass may choose."""
    names = (name for name in columns.names if is_a_loss(name) and not is_evaluation(name))
    return "loss" if "loss" in columns.names else next(names, "loss")


def _training_records(columns: Columns) -> Mask:
    """Return the records of training: those with a loss, or with the gradient norm next to it."""
    loss_name = _loss_name(columns)
    if loss_name not in columns.names:
        return np.ones(columns.rows, dtype=bool)
    loss = columns.load(loss_name).present
    return loss | columns.load("grad_norm").present if "grad_norm" in columns.names else loss


def _counted(columns: Columns) -> Columns:
    """Return the columns with training records counted from 0, and evaluations between them.

    If the epochs go back, the count does as well: to a checkpoint, or to the start of another run.
    """
    if not {_loss_name(columns), "epoch"} <= set(columns.names):
        return columns
    epoch = columns.load("epoch")
    rows = np.flatnonzero(_training_records(columns) & np.isfinite(epoch.values))
    epochs = epoch.values[rows]
    gaps = np.diff(epochs)
    # A record begins a run if its epoch is one stride from 0, and other records came before.
    first = (gaps > 3 * _EPOCH_ROUNDING) & (np.abs(gaps - epochs[:-1]) < 1.6 * _EPOCH_ROUNDING)
    run_starts = [place for place in np.flatnonzero(first).tolist() if place >= _COUNTABLE]
    begins = sorted({*run_starts, *(np.flatnonzero(gaps < 0) + 1).tolist()})
    last = epochs[begins[-1] :] if len(begins) else epochs
    if len(last) < _COUNTABLE or last[-1] <= last[0]:
        return columns
    counted = _with_steps(columns, (len(last) - 1) / float(last[-1] - last[0]), from_zero=True)
    numbers = counted.load(GRAMMAR.step).values[rows]
    if not (np.diff(numbers[-len(last) :]) == 1).all():
        return columns
    message = (
        "no step was logged: records are numbered from 0 (logging_steps in a manifest gives the "
        "real steps)"
    )
    event = Event(kind=EventKind.STEPS, code=EventCode.COUNTED, message=message)
    ends = rows[run_starts].tolist()
    # The epochs of a run do not continue the epochs of the run before, if they are higher.
    above = rows[[place for place in run_starts if gaps[place - 1] > 0]].tolist()
    is_last_run = np.arange(len(epoch.values)) >= max(above, default=0)
    epoch = replace(epoch, values=np.where(is_last_run, epoch.values, np.nan))
    return replace(
        counted.with_columns({"epoch": epoch}),
        notes=columns.notes,
        events=(*counted.events, event),
        ends=(*columns.ends, *ends),
    )


def _with_steps(columns: Columns, an_epoch: float, *, from_zero: bool = False) -> Columns:
    """Add the steps that follow from the epochs; ``an_epoch`` is the number of steps in one.

    Steps begin with 1, unless they are only counted. Other records get the step of the last
    training record, or a later one by their epoch.
    """
    epoch = columns.load("epoch")
    good = epoch.present & np.isfinite(epoch.values)
    values = np.where(good, np.round(np.where(good, epoch.values, 0.0) * an_epoch), np.nan)
    rows = np.flatnonzero(good & _training_records(columns))
    notes = columns.notes
    shared = are_shared(epoch.values[rows])
    if len(rows) and (shared or are_rounded(epoch.values[rows])):
        values[rows] = estimate_steps(epoch.values[rows], an_epoch)
        last = np.searchsorted(rows, np.arange(len(values)), side="right") - 1
        after = good & (last >= 0)
        trained = values[rows[last[after]]]
        values[after] = trained if shared else np.maximum(values[after], trained)
    if shared:
        notes = (*notes, _ESTIMATED)
    if "loss" in columns.names:
        # A loss without an epoch comes from a message: it belongs to the step after the last. The
        # messages about skipped steps at the end follow each other.
        loss = columns.load("loss").present
        last = np.maximum.accumulate(np.where(good, values, -np.inf))
        at_end = np.arange(len(good)) > np.max(np.flatnonzero(good), initial=-1)
        reported = ~good & np.isfinite(last) & (loss | at_end)
        after = np.where(at_end, np.cumsum(reported & at_end), 1)
        values = np.where(reported, last + after, values)
        good = good | reported
    if from_zero:
        values = np.maximum(values - min(float(values[rows].min()), 1.0), 0.0)
    steps = Column(values=values, present=good, null=np.zeros_like(good))

    return replace(
        columns.with_columns({GRAMMAR.step: steps}),
        names=(GRAMMAR.step, *columns.names),
        notes=notes,
        events=tuple(_at_its_step(event, steps) for event in columns.events),
    )


def _at_its_step(event: Event, steps: Column) -> Event:
    """Return an event with the step of its record if its step is a record number."""
    if event.kind is not EventKind.MESSAGE or event.step is None or event.step >= len(steps.values):
        return event
    stepped_rows = np.flatnonzero(steps.present[: event.step + 1])
    return replace(event, step=int(steps.values[stepped_rows[-1]])) if len(stepped_rows) else event
