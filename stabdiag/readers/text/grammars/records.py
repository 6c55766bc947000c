"""Records that a function finds, such as MLPerf lines, or the lines below a heading of Coqui.

Blocks are large, as a record on the border of two blocks would lose lines.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final, TypeAlias

from stabdiag.model.frozen import frozen
from stabdiag.model.patterns import lazy_pattern
from stabdiag.readers.text.lines.fixed_texts import find_positions, line_end
from stabdiag.readers.text.lines.grammar import NUMBER_PATTERN, Grammar, Kind, TextPart, make_parts

Record: TypeAlias = tuple[int, Mapping[str, bytes]]

LARGE_BLOCK: Final = 1 << 24


@frozen
class Records(Kind):
    """Records that a function finds, with their positions and cells.

    If each has several lines, ``find_below`` returns the starts of those below the first one.
    """

    find_records: Callable[[bytes], Iterable[Record]]
    signature: Callable[[bytes], object]
    find_below: Callable[[bytes, int], Sequence[int]] | None = None

    def search(self, data: bytes) -> bool:
        """Return True if the data has a record of this kind."""
        return bool(self.signature(data))

    def find(self, data: bytes) -> list[TextPart]:
        """Return all records. Records with the same names make one part."""
        parts = make_parts(self.find_records(data))
        find_below = self.find_below
        if find_below is None:
            return parts
        return [
            replace(part, below=[at for start in part.starts for at in find_below(data, start)])
            for part in parts
        ]


# Coqui: --> STEP: 25/377 -- GLOBAL_STEP: 25 over lines such as | > loss: 2.5 (2.6). The
# first number belongs to the step, the second is the mean of the epoch so far. The steps of an
# evaluation have the same lines, but no global step: only their means are read.
_GLOBAL_STEP: Final = "global_step"
_ABOVE: Final = lazy_pattern(rb"-- GLOBAL_STEP: (\d{1,12})(?=\s)|--> EVAL PERFORMANCE")

# The most characters of a line that are searched, and the most lines of a record.
_MAX_RECORD_LINE: Final = 400
_MAX_RECORD_LINES: Final = 400

# grad_norm: tensor(10.7261, device='cuda:0'); a collector of logs may have added a time before it.
_COQUI_VALUE: Final = lazy_pattern(
    rb"[^\n|]{0,80}\| > (?:([\w./ -]{1,80}): {0,4}(?:tensor\()?(%b)(?=[\s,()]|$))?" % NUMBER_PATTERN
)


def _steps(data: bytes) -> Iterator[Record]:
    """Yield the values below each global step, and the means below each evaluation."""
    for match in _ABOVE.finditer(data):
        values = _lower_lines(data, match.end())
        if match[1] is None:
            values = {f"eval_{name.removeprefix('avg_')}": value for name, value in values.items()}
        elif values:
            values[_GLOBAL_STEP] = match[1]
        if values:
            yield match.start(), values


def _lower_lines(data: bytes, place: int) -> dict[str, bytes]:
    """Return the names and values on the consecutive lines below a position."""
    return {
        pair[1].decode("utf-8", "replace").strip(): pair[2]
        for pair in _pairs_below(data, place)
        if pair[1] is not None
    }


def _pairs_below(data: bytes, place: int) -> Iterator[re.Match[bytes]]:
    """Yield the matches of the consecutive lines below a position."""
    for _ in range(_MAX_RECORD_LINES):
        place = data.find(b"\n", place) + 1
        pair = _COQUI_VALUE.match(data, place, place + _MAX_RECORD_LINE) if place else None
        if pair is None:
            return
        yield pair


def _starts_below(data: bytes, place: int) -> list[int]:
    """Return the starts of the consecutive lines below a position."""
    return [pair.start() for pair in _pairs_below(data, place)]


# MLPerf: :::MLLOG {"key": "eval_accuracy", "value": 0.37, "metadata": {"epoch_num": 1}}
_MARK: Final = b":::MLLOG {"
_LONGEST_EVENT: Final = 20_000

# The names of the step or epoch in benchmarks, in the order of preference.
_STEP_KEYS: Final = ("step", "step_num", "iteration", "samples_count", "epoch_num", "epoch_count")

_MEASURED_KEYS: Final = lazy_pattern(
    "loss|eval|throughput|accuracy|error|tracked_stats|learning_rate"
)


def _events(data: bytes) -> Iterator[Record]:
    """Yield the marked lines with a measurement and its step or epoch."""
    for place in find_positions(data, _MARK):
        event = _event(data[place + len(_MARK) - 1 : line_end(data, place, _LONGEST_EVENT)])
        if event:
            yield place, event


def _event(line: bytes) -> dict[str, bytes] | None:
    try:
        event = json.loads(line.decode("utf-8", "surrogatepass"))
        key, value, metadata = event["key"], event["value"], event["metadata"]
    except (ValueError, RecursionError, KeyError, TypeError):
        return None
    if not (isinstance(metadata, dict) and isinstance(key, str) and _MEASURED_KEYS.search(key)):
        return None
    clocks = map(metadata.get, _STEP_KEYS)
    clock = next((value for value in clocks if type(value) in (int, float)), None)
    if clock is None:
        return None
    values = value if isinstance(value, dict) else {key: value}
    numbers = {name: value for name, value in values.items() if type(value) in (int, float)}
    if not numbers:
        return None
    return {name: b"%a" % value for name, value in {"step": clock, **numbers}.items()}


COQUI: Final = Grammar(
    step=_GLOBAL_STEP,
    block=LARGE_BLOCK,
    kinds=(
        Records(
            find_records=_steps,
            signature=lambda data: b"-- GLOBAL_STEP: " in data,
            find_below=_starts_below,
        ),
    ),
)
MLLOG: Final = Grammar(
    step="step",
    kinds=(Records(find_records=_events, signature=lambda data: _MARK in data),),
    joined=True,
)
