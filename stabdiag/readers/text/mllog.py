"""MLPerf: ``:::MLLOG {"key": "eval_accuracy", "value": 0.37, "metadata": {"epoch_num": 1}}``."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import TypeGuard

from stabdiag.readers.text.clean import line_end, places_of
from stabdiag.readers.text.grammar import Grammar, Kind, Part, parts_of

_MARK = b":::MLLOG {"
_LONGEST = 20_000

# The names under which benchmarks log the place in the training, the best first.
_CLOCKS = ("step", "step_num", "iteration", "samples_count", "epoch_num", "epoch_count")

_MEASURED = ("loss", "eval", "throughput", "accuracy", "error", "tracked_stats", "learning_rate")


@dataclass(frozen=True, kw_only=True, eq=False)
class _Marked(Kind):
    """The marked lines with a measurement and the step or epoch at which it was taken."""

    def search(self, data: bytes) -> bool:
        """Return whether there is a marked line."""
        return _MARK in data

    def find(self, data: bytes) -> list[Part]:
        """Return all lines that carry measurements."""
        return parts_of(_records(data))


def _records(data: bytes) -> Iterator[tuple[int, dict[str, bytes]]]:
    for place in places_of(data, _MARK):
        record = _record(data[place + len(_MARK) - 1 : line_end(data, place, _LONGEST)])
        if record:
            yield place, record


def _record(line: bytes) -> dict[str, bytes] | None:
    try:
        event = json.loads(line.decode("utf-8", "surrogatepass"))
        key, value, metadata = event["key"], event["value"], event["metadata"]
    except (ValueError, RecursionError, KeyError, TypeError):
        return None
    if not (isinstance(metadata, dict) and isinstance(key, str) and _is_measured(key)):
        return None
    clock = _clock(metadata)
    if clock is None:
        return None
    values = value if isinstance(value, dict) else {key: value}
    found = {name: _cell(one) for name, one in values.items() if _is_number(one)}
    return {"step": _cell(clock), **found} if found else None


@lru_cache(maxsize=256)
def _is_measured(key: str) -> bool:
    return any(word in key for word in _MEASURED)


def _clock(metadata: dict[str, object]) -> float | None:
    return next(filter(_is_number, map(metadata.get, _CLOCKS)), None)


def _is_number(value: object) -> TypeGuard[float]:
    return type(value) in (int, float)


def _cell(value: float) -> bytes:
    return repr(value).encode()


GRAMMAR = Grammar(step="step", kinds=(_Marked(),), joined=True)
