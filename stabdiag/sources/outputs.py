"""Outputs next to a log: other files that contain the last messages of its job.

A scheduler or a shell writes the error output of a job to a file of its own: ``train.err`` next to
``train.log``, ``job.e123`` next to ``job.o123``, ``stderr`` next to ``metrics.csv``. Often only
this file shows that a run failed. Its end counts as the end of the log.
"""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import lru_cache
from itertools import islice, pairwise
from pathlib import Path
from typing import Final

from stabdiag.model.patterns import lazy_pattern
from stabdiag.model.text import and_more, word_list
from stabdiag.readers.columns import BadLine, Columns
from stabdiag.sources.folder import note

# Outputs are looked for among this many names of a folder.
_MAX_OUTPUT_NAMES: Final = 10_000

# The end of an output: at most this many bytes and lines.
_END_SIZE: Final = 1 << 16
_END_LINES: Final = 300
# An alarm in plain words counts on these last lines.
_LAST_OUTPUT_LINES: Final = 3
# The words that count records of a training, and the fewest rises of one.
_TRAINING_COUNTERS: Final = (b"epoch", b"step", b"iteration", b"iter", b"episode", b"generation")
_MIN_RISES: Final = 4
_WITH_POINT: Final = lazy_pattern(rb"(?<![\d.])\d{1,12}\.\d")
# A longer line is cut.
_OUTPUT_LINE_SIZE: Final = 2000

# An output that was written this long before the log, in seconds, belongs to an earlier job.
_STALE_SECONDS: Final = 600.0

_WORD_END: Final = lazy_pattern(r"[-_. ]+")
_ERROR_WORDS: Final = frozenset({"err", "error", "errors", "stderr"})
# Words that programs other than the training give their outputs, too.
_CONSOLE_WORDS: Final = frozenset(word_list("out output stdout console nohup screen terminal"))
_TEXT_WORDS: Final = frozenset(word_list("log logs txt"))
_TABLE_WORDS: Final = frozenset(word_list("jsonl ndjson json csv tsv parquet pq wandb db sqlite"))
# The words in the name of a log of the run of its folder. Schedulers name outputs after
# themselves.
_GENERIC_WORDS: Final = frozenset(
    word_list(
        "train training trainer metric metrics scalar scalars history progress loss losses result "
        "results debug event events state stats run main job tfevents slurm pbs sge lsf"
    )
)
# PBS and Grid Engine: job.o123 and job.e123.
_NUMBERED: Final = lazy_pattern(r"([oe])(\d{1,12})")


class _OutputName:
    """The parts of the name of a log or an output.

    Attributes:
        base: The words that the outputs of a job share.
        numbers: The numbers of a run or of a job.
        is_error: Whether it is named like an error output.
        is_console: Whether it is named like an output of a shell.
        is_table: Whether it has the suffix of a structured log.
        is_text: Whether it has the suffix of a text.
    """

    def __init__(self, name: str) -> None:
        words = [word for word in _WORD_END.split(name.lower()) if word]
        if len(words) > 1 and words[-1] in ("gz", "bz2", "xz", "zst"):
            del words[-1]
        numbered = _NUMBERED.fullmatch(words[-1]) if len(words) > 1 else None
        if numbered is not None:
            words[-1:] = ["stderr" if numbered[1] == "e" else "stdout", numbered[2]]
        kinds = _ERROR_WORDS | _CONSOLE_WORDS | _TEXT_WORDS | _TABLE_WORDS
        others = [word for word in words if word not in kinds]
        self.base = tuple(word for word in others if not word.isdecimal())
        self.numbers = tuple(word for word in others if word.isdecimal())
        self.is_error = not _ERROR_WORDS.isdisjoint(words)
        self.is_console = not _CONSOLE_WORDS.isdisjoint(words)
        last = words[-1] if words else ""
        self.is_table = last in _TABLE_WORDS or "tfevents" in words
        is_unnumbered = not last.isdecimal() and last in kinds
        is_stream = (
            not {word for word in words if not word.isdecimal()} - _CONSOLE_WORDS - _ERROR_WORDS
        )
        self.is_text = not self.is_table and (numbered is not None or is_unnumbered or is_stream)

    @property
    def is_generic(self) -> bool:
        """Whether the name shows no run, so that it belongs to the run of its folder."""
        return _GENERIC_WORDS.issuperset(self.base)

    def is_numbered_like(self, output: _OutputName) -> bool:
        """Return True if an output may belong to the job of this log, judged by its numbers."""
        if self.numbers or not (self.is_table or output.is_error):
            return self.numbers == output.numbers
        return not output.numbers or output.is_error or output.is_console


@lru_cache(maxsize=1024)
def _parsed(name: str) -> _OutputName:
    return _OutputName(name)


def is_output(name: str) -> bool:
    """Return True if a name shows only that a file is the output of some training run."""
    parsed = _parsed(name)
    return parsed.is_text and (parsed.is_error or parsed.is_console or parsed.is_generic)


def find_outputs(log: str, names: Iterable[str]) -> list[str]:
    """Return the outputs of the job of a log among the names in its folder.

    An error output shares its other words with the log, or neither name shows a run. If the log's
    name shows no run, a console output also counts, and so does a text if the log is a table. Only
    outputs have the number of a job in their names; if there are several jobs, the last one counts.
    """
    own = _parsed(log)
    outputs = sorted(name for name in names if name != log and _is_of_same_job(own, name))
    jobs = [_parsed(name).numbers for name in outputs]
    last = max(jobs, key=lambda numbers: [*map(int, numbers)], default=())
    return [name for name, job in zip(outputs, jobs, strict=True) if job in ((), last)]


def _is_of_same_job(own: _OutputName, name: str) -> bool:
    other = _parsed(name)
    if not other.is_text or own.is_error or not own.is_numbered_like(other):
        return False
    if other.base == own.base and (other.is_error or other.is_console or own.is_table):
        return True
    if not (own.is_generic and other.is_generic):
        return False
    return other.is_error or other.is_console or own.is_table


def with_outputs(columns: Columns, log: Path) -> Columns:
    """Return the columns of a log with the last messages in the outputs next to it."""
    outputs = [log.parent / name for name in find_outputs(log.name, _names(log.parent))]
    ends = [(path.name, _end(path)) for path in outputs if not _is_stale(path, log)]
    return with_last_messages(columns, ends)


def with_last_messages(columns: Columns, ends: Sequence[tuple[str, bytes]]) -> Columns:
    """Return the columns with the failures that the ends of some outputs, by name, report."""
    names = []
    for name, end in ends:
        reports = [*_reports(end)]
        if reports:
            columns = _with_reports(columns, reports)
            names.append(name)
    if not names:
        return columns
    message = f"read the last messages of the job in {and_more(names)}"
    return replace(columns, events=(*columns.events, note(message)))


def reports_failure(path: Path) -> bool:
    """Return True if the end of a file reports that a job failed."""
    return next(_reports(_end(path)), None) is not None


def has_records(path: Path) -> bool:
    """Return True if a counter of a training rises on the lines of a file, next to a number."""
    from stabdiag.readers.text.lines.counters import counter_matches, counter_value, counter_word

    counts: dict[bytes, list[int]] = defaultdict(list)
    for line in _beginning(path).split(b"\n"):
        for match in counter_matches(line[:_OUTPUT_LINE_SIZE]) if b"." in line else ():
            if counter_word(match) in _TRAINING_COUNTERS and _WITH_POINT.search(line, match.end()):
                counts[counter_word(match)].append(counter_value(match[2]))
    return any(
        sum(before < after for before, after in pairwise(values)) >= _MIN_RISES
        for values in counts.values()
    )


def _names(folder: Path) -> list[str]:
    with suppress(OSError), os.scandir(folder) as items:
        return [item.name for item in islice(items, _MAX_OUTPUT_NAMES)]
    return []


def _is_stale(path: Path, log: Path) -> bool:
    try:
        return path.stat().st_mtime < log.stat().st_mtime - _STALE_SECONDS
    except OSError:
        return True


def _beginning(path: Path) -> bytes:
    """Return the first bytes of a file; none if it is not a regular file that can be read."""
    if not path.is_file():
        return b""
    with suppress(OSError), path.open("rb") as file:
        return file.read(_END_SIZE)
    return b""


def _end(path: Path) -> bytes:
    """Return the last bytes of a file; none if it is not a regular file that can be read."""
    if not path.is_file():
        return b""
    with suppress(OSError), path.open("rb") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(size - _END_SIZE, 0))
        return file.read(_END_SIZE)
    return b""


def _reports(end: bytes) -> Iterator[str]:
    """Yield the lines that report a failure, with the lines of tracebacks.

    Skipped updates and overflowed gradients are not failures: training continued.
    """
    from stabdiag.readers.text.messages.alarms import is_alarm
    from stabdiag.readers.text.messages.failures import Failure, classify_failure

    if b"\0" in end:
        return
    lines = [line.rpartition(b"\r")[2] for line in end.replace(b"\r\n", b"\n").split(b"\n")]
    lines = [line[:_OUTPUT_LINE_SIZE] for line in lines[-_END_LINES:] if line.strip()]
    fatal = _message_lines(lines)
    last = max(len(lines) - _LAST_OUTPUT_LINES, 0)
    fatal |= {number for number in range(last, len(lines)) if is_alarm(lines[number])}
    for number, line in enumerate(lines):
        if number in fatal or classify_failure(line) in (Failure.LOSS, Failure.MINIMUM_SCALE):
            yield line.decode("utf-8", "replace")


def _message_lines(lines: Sequence[bytes]) -> set[int]:
    """Return the numbers of the lines that belong to messages of a job that died, from 0."""
    from stabdiag.readers.text.lines.clean import Text
    from stabdiag.readers.text.messages.search import Messages, may_be_message

    data = b"\n".join([b"", *lines])
    if not may_be_message(data):
        return set()
    # The text begins with the end of a line.
    spans = Messages().look(Text(data, first_line=1), 0)
    numbers = (
        range(data.count(b"\n", 0, begin) - 1, data.count(b"\n", 0, end)) for begin, end in spans
    )
    return {number for stretch in numbers for number in stretch}


def _with_reports(columns: Columns, reports: Sequence[str]) -> Columns:
    """Return the columns with lines below their last record."""
    from stabdiag.readers.log_builder import with_messages
    from stabdiag.readers.text.log import InterleavedMessages

    messages = InterleavedMessages()
    lines = [
        BadLine(line=number, reason="", text=text) for number, text in enumerate(reports, start=1)
    ]
    messages.look(lines, 0, columns.rows)
    if not messages.positions:
        return columns
    count, result = len(columns.events), with_messages(columns, messages)
    # The lines have other numbers than in the log.
    events = [replace(event, line=None) for event in result.events[count:]]
    return replace(result, events=(*result.events[:count], *events))
