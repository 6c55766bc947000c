"""The HF Trainer on standard output: ``{'loss': 2.05, 'grad_norm': 0.5, …, 'epoch': 0.28}``.

The line has no step, but the progress bar that is drawn right after it has. Without bars, the step
follows from the epoch and the number of steps that the Trainer announced. Without either the
records of training are counted.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from stabdiag.model.arrays import Mask
from stabdiag.model.history import Event, EventCode, EventKind
from stabdiag.readers.columns import Column, Columns
from stabdiag.readers.source import Stream
from stabdiag.readers.text.grammar import QUOTED, Grammar, Line, Step
from stabdiag.readers.text.log import read_log
from stabdiag.readers.text.status_lines import SCALE
from stabdiag.readers.text.steps import TOTAL, announced_number, are_rounded, are_shared, steps_of

_LOSS = (
    rb"'(?:eval_(?:[^'\n]{1,60}_)?|[^'\n]{1,60}/)?loss(?:/[^'\n]{1,40})?': '?[-+.\w]{1,40}'?[,}]"
)
# train: {'epoch': 0, 'loss': 2.05} is one of several lines on which others tell of each split.
_OF_NO_SPLIT = rb"(?<!train: \{)(?<!val: \{)(?<!test: \{)"
# … - INFO - llmtuner.extras.callbacks - {'loss': 2.05, …} over the line of the Trainer itself.
_NO_ECHO = rb"(?!(?<= - \{|>> \{)[^\n{}]{1,4000}\}[ \t\r]{0,400}\n\{'loss': )"
_STEP_NAMES = ("step", "global_steps", "global_step/max_steps")
_CLOCK = rb"'(?:epoch|step|global_steps?|learning_rate)': "

_STEPS = "Total optimization steps"
_EPOCHS = "Num Epochs"
_AN_EPOCH = "Num update steps per epoch"
_EXAMPLES = "Num examples"
_BATCH = "Total train batch size"
_TOLD = "|".join((_STEPS, _EPOCHS, _AN_EPOCH, _EXAMPLES, _BATCH)).encode()

# The bars are trusted if no more losses than this share a step: some bar may be cut in two.
_FEW = 0.1
_RECKONED = "no record tells its step: the steps are reckoned from the epochs, which records share"
# Fewer records than this show no rhythm to count by.
_COUNTABLE = 3
# Epochs are printed with two decimals.
_ROUNDED = 0.01
_TOO_FEW_BARS = "the progress bar is drawn too seldom to tell the steps of all records"

GRAMMAR = Grammar(
    step="global_step",
    kinds=(
        Line(
            pattern=rb"\{%b(?=[^\n{}]{0,2000}?%b)('[^\n{}]{1,4000}\})" % (_NO_ECHO, _LOSS),
            pairs=QUOTED,
            named=lambda name: "global_step" if name in _STEP_NAMES else name,
            signature=(
                rb"\{%b(?='[^\n{}]{0,2000}?)(?=[^\n{}]{0,2000}?%b)(?=[^\n{}]{0,2000}?%b)"
                % (_OF_NO_SPLIT, _LOSS, _CLOCK)
            ),
            step=Step.COMING,
        ),
        #  10%|█         | 500/5000 [01:00<08:59, 8.34it/s]
        Line(
            pattern=rb"%\|[^|\n]{0,400}\| (\d{1,12})/(\d{1,12}) \[",
            names=("global_step", TOTAL),
            is_record=False,
            identifies_format=False,
        ),
        *SCALE,
    ),
    total=_STEPS,
    ended=rb"\{'train_runtime': '?\d",
    config=rb"(%b)(?: \([^)\n]{1,80}\))? = ([\d,]{1,20})" % _TOLD,
)


def read(stream: Stream) -> Columns:
    """Read what the HF Trainer printed."""
    columns = read_log(stream, "hf-trainer-stdout", GRAMMAR)
    without = replace(columns, names=tuple(name for name in columns.names if name != GRAMMAR.step))
    seldom = False
    if {GRAMMAR.step, "loss"} <= set(columns.names):
        loss, step = columns.load("loss").present, columns.load(GRAMMAR.step)
        steps = step.values[loss & step.present]
        if loss.any() and not len(steps):
            # DeepSpeed's overflows, several between two losses, are counted on from wherever.
            return without
        # The bar may be that of the model that is loaded, and not of training.
        stands = len(steps) > 1 and not np.ptp(steps)
        seldom = not stands and _shared(columns, loss & step.present)
        columns = without if stands or seldom else columns
    if GRAMMAR.step in columns.names or "epoch" not in columns.names:
        return columns
    an_epoch = _steps_of_an_epoch(columns.config)
    if an_epoch:
        return _with_steps(columns, an_epoch)
    return _counted(replace(columns, notes=(*columns.notes, _TOO_FEW_BARS)) if seldom else columns)


def _steps_of_an_epoch(config: Mapping[str, object]) -> float | None:
    """Return how many steps an epoch has, from what the Trainer announced.

    The number of epochs is rounded up for a run that ends within one. Recent versions announce the
    steps of an epoch; for others they follow from the examples and the size of a batch.
    """
    total, epochs, steps, examples, batch = (
        announced_number(config, name) for name in (_STEPS, _EPOCHS, _AN_EPOCH, _EXAMPLES, _BATCH)
    )
    if steps or not (total and epochs):
        return steps
    mean = total / epochs
    if not (examples and batch) or mean >= examples // batch:
        return mean
    return float(np.ceil(examples / batch))


def _shared(columns: Columns, losses: Mask) -> bool:
    """Tell whether losses of several epochs share a step: the bar was drawn too seldom to tell."""
    if "epoch" not in columns.names:
        return False
    step, epoch = columns.load(GRAMMAR.step).values, columns.load("epoch").values
    rows = np.flatnonzero(losses & np.isfinite(epoch))
    return int(((np.diff(step[rows]) == 0) & (np.diff(epoch[rows]) > 0)).sum()) > _FEW * len(rows)


def _counted(columns: Columns) -> Columns:
    """Return the columns with the records of training counted from 0, evaluations between them.

    Where the epochs go back the count does: to a checkpoint, or to the beginning of another run.
    """
    if not {"loss", "epoch"} <= set(columns.names):
        return columns
    epoch, loss = columns.load("epoch"), columns.load("loss")
    rows = np.flatnonzero(loss.present & np.isfinite(epoch.values))
    epochs = epoch.values[rows]
    gaps = np.diff(epochs)
    # A record as far from epoch 0 as the next one is from it begins a run, if others came before.
    first = (gaps > 3 * _ROUNDED) & (np.abs(gaps - epochs[:-1]) < 1.6 * _ROUNDED)
    anew = [place for place in np.flatnonzero(first).tolist() if place >= _COUNTABLE]
    begins = sorted({*anew, *(np.flatnonzero(gaps < 0) + 1).tolist()})
    last = epochs[begins[-1] :] if len(begins) else epochs
    if len(last) < _COUNTABLE or last[-1] <= last[0]:
        return columns
    counted = _with_steps(columns, (len(last) - 1) / float(last[-1] - last[0]), from_zero=True)
    numbers = counted.load(GRAMMAR.step).values[rows]
    if not (np.diff(numbers[-len(last) :]) == 1).all():
        return columns
    message = (
        "no step was logged: a step here is the number of a record, from 0 (a manifest with "
        "logging_steps gives the real ones)"
    )
    event = Event(kind=EventKind.STEPS, code=EventCode.COUNTED, message=message)
    # Its epochs do not go on with those of the run before.
    ends, known = rows[anew].tolist(), np.arange(len(epoch.values)) >= max(rows[anew], default=0)
    epoch = replace(epoch, values=np.where(known, epoch.values, np.nan))
    return replace(
        counted,
        notes=columns.notes,
        events=(*counted.events, event),
        ends=(*columns.ends, *ends),
        load=lambda name: epoch if name == "epoch" else counted.load(name),
    )


def _with_steps(columns: Columns, an_epoch: float, *, from_zero: bool = False) -> Columns:
    """Add the steps that follow from the epochs; ``an_epoch`` is how many steps one has.

    Steps begin with 1, unless they are only counted. Other records are at the step of the last
    record of training, or beyond it by their epoch.
    """
    epoch = columns.load("epoch")
    good = epoch.present & np.isfinite(epoch.values)
    values = np.where(good, np.round(np.where(good, epoch.values, 0.0) * an_epoch), np.nan)
    rows = np.flatnonzero(good & columns.load("loss").present if "loss" in columns.names else good)
    notes = columns.notes
    shared = are_shared(epoch.values[rows])
    if len(rows) and (shared or are_rounded(epoch.values[rows])):
        values[rows] = steps_of(epoch.values[rows], an_epoch)
        last = np.searchsorted(rows, np.arange(len(values)), side="right") - 1
        after = good & (last >= 0)
        trained = values[rows[last[after]]]
        values[after] = trained if shared else np.maximum(values[after], trained)
    if shared:
        notes = (*notes, _RECKONED)
    if "loss" in columns.names:
        # A loss without an epoch is reported in words: it belongs to the step after the last one.
        reported = columns.load("loss").present & ~good
        last = np.maximum.accumulate(np.where(good, values, -np.inf))
        reported &= np.isfinite(last)
        values = np.where(reported, last + 1, values)
        good = good | reported
    if from_zero:
        values = np.maximum(values - min(float(values[rows].min()), 1.0), 0.0)
    steps = Column(values=values, present=good, null=np.zeros_like(good))

    def load(name: str) -> Column:
        return steps if name == GRAMMAR.step else columns.load(name)

    return replace(
        columns,
        names=(GRAMMAR.step, *columns.names),
        load=load,
        notes=notes,
        events=tuple(_at_its_step(event, steps) for event in columns.events),
    )


def _at_its_step(event: Event, steps: Column) -> Event:
    """Return an event at the step of its record, where its step is the number of a record."""
    if event.kind is not EventKind.MESSAGE or event.step is None or event.step >= len(steps.values):
        return event
    known = np.flatnonzero(steps.present[: event.step + 1])
    return replace(event, step=int(steps.values[known[-1]])) if len(known) else event
