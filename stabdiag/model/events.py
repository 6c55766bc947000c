"""Events of a log, or of its reading."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import field
from enum import StrEnum
from typing import Final

from stabdiag.model.frozen import frozen
from stabdiag.model.roles.counter_names import counter_unit, counts_games


class EventKind(StrEnum):
    """The kinds of events of a log, or of its reading."""

    REWIND = "rewind"
    ATTEMPT = "attempt"
    UNREADABLE = "unreadable"
    HIDDEN_NAN = "hidden-nan"
    PLACEHOLDER = "placeholder"
    COLUMN = "column"
    STEPS = "steps"
    MESSAGE = "message"
    SOURCE = "source"
    LEFT_OUT = "left-out"


class EventCode(StrEnum):
    """The meaning of an event, if the program depends on more than its kind."""

    EPOCHS_AS_STEPS = "epochs-as-steps"
    EPISODES_AS_STEPS = "episodes-as-steps"
    ROUNDS_AS_STEPS = "rounds-as-steps"
    NUMBERED = "numbered-by-record"
    COUNTED = "records-counted"
    COUNTER_RESTARTS = "counter-restarts"
    PLACEHOLDER_DROPPED = "placeholder-dropped"
    INITIAL_NAN = "initial-nan"
    OUT_OF_MEMORY = "out-of-memory"
    DISK_FULL = "disk-full"
    COLLECTIVE_FAILED = "collective-failed"
    SCALE_AT_MINIMUM = "scale-at-minimum"
    NOT_FINITE = "not-finite"
    LOSS_EXPLODED = "loss-exploded"
    CUDA_ERROR = "cuda-error"
    DEVICE_FAILED = "device-failed"
    KILLED = "killed"
    TRACEBACK = "traceback"
    LAST_WORDS = "last-words"
    CLOSING_LINE = "closing-line"
    SEVERAL_WRITERS = "several-writers"
    BYTES_LEFT_OUT = "bytes-left-out"
    LINES_LEFT_OUT = "lines-left-out"
    CELLS_LEFT_OUT = "cells-left-out"
    RECORDS_LEFT_OUT = "records-left-out"
    LOGS_LEFT_OUT = "logs-left-out"
    LOSS_UNKNOWN = "loss-unknown"
    FORM_CHANGED = "form-changed"
    LINES_OMITTED = "lines-omitted"


# These count only at the end of a log: a failure in any words, and words that no rule knows.
LAST_LINES: Final = frozenset({EventCode.LAST_WORDS, EventCode.CLOSING_LINE})


class Phase(StrEnum):
    """The part of a run that a traceback ends in."""

    EVALUATION = "evaluation"
    UPDATE = "update"


@frozen(eq=True)
class Event:
    """Something that happened to the log: a rewind, a new attempt, a message among its lines.

    ``message`` is for people; ``code`` and the rest are for the program. ``role`` and ``value``
    describe a placeholder, ``quote`` is the text of a message in the log. ``line`` is the line
    number of the event, from 1; ``path`` is its file if the run has several. ``phase`` is the part
    of the run that raised an exception, if its traceback shows it. ``above`` is the number of
    records above a message, until a history gives the message its step.
    """

    kind: EventKind
    message: str
    code: EventCode | None = None
    step: int | None = None
    role: str | None = None
    value: float | None = None
    quote: str = ""
    line: int | None = None
    path: str | None = None
    phase: Phase | None = None
    above: int | None = None


# Summaries after a training are a few records or lines; more than this many are left out.
MAX_SUMMARY: Final = 5


@frozen(eq=True)
class LeftOut:
    """Content that a reader could not use, and that may hold a training loss.

    ``code`` is the kind of content, ``count`` its amount. ``above`` is the number of records above
    it; None if it follows all of them. ``message`` is one clause for people, such as "12 lines look
    like records and are not readable". ``line`` is the number of its first line, from 1, and
    ``text`` is this line.
    """

    code: EventCode
    message: str
    count: int = 1
    above: int | None = None
    line: int | None = None
    text: str = field(default="", compare=False, repr=False)

    def as_event(self) -> Event:
        """Return the event of a history that reports it."""
        return Event(
            kind=EventKind.LEFT_OUT,
            code=self.code,
            message=self.message,
            value=float(self.count),
            line=self.line,
        )


def step_unit(events: Iterable[Event], counter: str = "") -> str:
    """Return the name of a step in a log with these events.

    The ``counter`` of a text may count episodes or games.
    """
    units = {
        EventCode.EPOCHS_AS_STEPS: "epoch",
        EventCode.EPISODES_AS_STEPS: "episode",
        EventCode.ROUNDS_AS_STEPS: "round",
    }
    of_text = counter_unit(counter) if counts_games(counter) else "step"
    return next((units[event.code] for event in events if event.code in units), of_text)
