"""Messages in the records of a log: ``{"level": "ERROR", "message": "loss is nan, stopping"}``."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

import numpy as np

from stabdiag.model.text import word_list
from stabdiag.readers.columns import BadLine, Column, Columns

# The fields of messages, without the names of the objects around them.
_MESSAGE_FIELDS: Final = frozenset(
    word_list(
        "message msg error err exception exc exc_info traceback stack stacktrace stack_trace "
        "reason stderr detail details warning error_message error_msg exception_message "
        "failure_reason exit_reason"
    )
)
# The fields of states, whose words mean nothing by themselves.
_STATE_FIELDS: Final = frozenset(word_list("status state event run_status job_status run_state"))

_STATE: Final = "status: "

# At most this many different messages are searched, and this many records with one of them.
_MAX_MESSAGES: Final = 20_000
_MAX_MESSAGE_RECORDS: Final = 1000


def with_recorded_messages(columns: Columns) -> Columns:
    """Return the columns with the failures that the texts of their records report."""
    names = [name for name in columns.names if _field(name) in _MESSAGE_FIELDS | _STATE_FIELDS]
    if not names or not columns.rows:
        return columns
    last = columns.rows - 1
    texts = [text for name in names for text in _texts(name, columns.load(name), last)]
    # The state of a record comes before its message.
    texts.sort(key=lambda text: (text[0], not text[1].startswith(_STATE), text[1]))
    if not texts:
        return columns
    lines = [
        BadLine(line=number, reason="", above=row + 1, text=text)
        for number, (row, text) in enumerate(texts, start=1)
    ]
    from stabdiag.readers.log_builder import with_messages
    from stabdiag.readers.text.log import InterleavedMessages

    messages = InterleavedMessages()
    messages.look(lines, 0, 0)
    if not messages.positions:
        return columns
    count, result = len(columns.events), with_messages(columns, messages)
    events = [replace(event, line=None) for event in result.events[count:]]
    return replace(result, events=(*result.events[:count], *events))


def _field(name: str) -> str:
    return name.rpartition("/")[2].rpartition(".")[2].lower()


def _texts(name: str, column: Column, last: int) -> Iterator[tuple[int, str]]:
    """Yield the record and the text of each line of a message that may report a failure.

    A message that only the record at the position ``last`` has may be the last line of the log.
    """
    if not column.is_text or len(column.words) > _MAX_MESSAGES:
        return
    from stabdiag.readers.text.messages.alarms import is_alarm
    from stabdiag.readers.text.messages.failure_search import may_report
    from stabdiag.readers.text.messages.search import may_be_message

    label = _STATE if _field(name) in _STATE_FIELDS else ""
    last_word = column.values[last] if column.present[last] and not label else None
    for code, word in enumerate(column.words):
        text = f"{label}{word}"
        data = text.encode("utf-8", "replace")
        may_fail = may_report(data) or may_be_message(data) or is_alarm(data)
        if not may_fail and code != last_word:
            continue
        rows = np.flatnonzero(column.present & (column.values == code))[:_MAX_MESSAGE_RECORDS]
        if not may_fail and len(rows) > 1:
            continue
        for row in rows.tolist():
            for part in text.splitlines():
                yield row, part
