"""The tolerant reader of JSON lines: slow, but it reads all that can be made sense of."""

from __future__ import annotations

import json
import re
from typing import Final

from stabdiag.readers.columns import BadLine, Rows, rows_of
from stabdiag.readers.json.keyed import steps_of
from stabdiag.readers.nested import Record, flattened
from stabdiag.readers.words import number_of

# Integers become floats at once, which spares them the limit on the digits of an int.
DECODER: Final = json.JSONDecoder(strict=False, parse_int=float)

# Decoding so many lines at once takes half the time of decoding them one by one.
_BUNCH: Final = 500

# A string, which is left alone, or what begins as a number does: -nan, inf, 007, .5. Whether it is
# one is for ``number_of`` to say. A string that has no end is one up to the end of the text: else
# each of its quotes would be tried as a start.
_NUMBER: Final = re.compile(
    r'"(?:[^"\\]+|\\.)*(?:"|\\?\Z)'
    r"|(?<![-+.\w])[-+]?(?:[.\d]|nan|inf)[-+.\w]*(?:\(\w*\))?",
    re.IGNORECASE | re.DOTALL,
)

_SPACE: Final = re.compile(r"\s*")

# How many opening braces of a broken line are tried as the start of a whole record.
_RESCUES: Final = 8


def read_lines(block: bytes) -> tuple[Rows, list[BadLine], int]:
    """Return the records of a block, its bad lines by their number in it, and its line count."""
    lines = block.decode("utf-8", "replace").split("\n")
    if not lines[-1]:
        lines.pop()
    records: list[Record] = []
    bad: list[BadLine] = []
    for start in range(0, len(lines), _BUNCH):
        bunch = [line.strip() for line in lines[start : start + _BUNCH]]
        together = _decode_bunch(bunch)
        if together is not None:
            records += together
            continue
        for number, line in enumerate(bunch, start=start + 1):
            found, reason = decode_line(line)
            records += found
            if reason:
                bad.append(BadLine(line=number, reason=reason))
    steps = steps_of(records)
    if steps:
        return rows_of(*flattened(steps)), bad, len(lines)
    if block.count(b"{") > len(records):
        records, order = flattened(records)
        return rows_of(records, order), bad, len(lines)
    return rows_of(records), bad, len(lines)


def decode_line(line: str) -> tuple[list[Record], str]:
    """Return the records on a line, and what is wrong with it, if anything."""
    line = line.strip().lstrip("\ufeff")
    found, end, reason = _decode_along(line)
    if not reason:
        return found, ""
    better = mended(line)
    if better != line:
        again, _, still = _decode_along(better)
        if not still:
            return again, ""
    rescued = _after_a_cut(line, end)
    return found + rescued, reason


def _decode_bunch(lines: list[str]) -> list[Record] | None:
    lines = [line for line in lines if line]
    if not all(line[0] == "{" and line[-1] == "}" for line in lines):
        return None
    try:
        records = DECODER.decode(f"[{','.join(lines)}]")
    except (ValueError, RecursionError):
        return None
    whole = len(records) == len(lines) and all(type(record) is dict for record in records)
    return records if whole else None


def _decode_along(line: str) -> tuple[list[Record], int, str]:
    """Decode one object after the other; stop, and say why, at the first that is none."""
    found: list[Record] = []
    end = 0
    while end < len(line):
        try:
            value, stop = DECODER.raw_decode(line, end)
        except RecursionError:
            return found, end, "nested too deeply"
        except json.JSONDecodeError as error:
            return found, end, _why(line, end, error)
        if not isinstance(value, dict):
            return found, end, f"not an object but {_KINDS.get(type(value), 'a number')}"
        found.append(value)
        end = _SPACE.match(line, stop).end()  # type: ignore[union-attr]  # matches anywhere
    return found, end, ""


_KINDS: Final = {list: "a list", str: "a text", bool: "a truth value", type(None): "null"}


def _why(line: str, start: int, error: json.JSONDecodeError) -> str:
    if "\0" in line:
        return "holds NUL bytes"
    if line[start] != "{":
        return "not JSON" if start == 0 else f"more than a JSON object (from character {start + 1})"
    if error.pos >= len(line) or error.msg.startswith("Unterminated"):
        return "breaks off"
    return f"not JSON ({error.msg.lower()} at character {error.pos + 1})"


def _after_a_cut(line: str, start: int) -> list[Record]:
    """Return the records that follow a broken one on its line.

    A process that is killed leaves half a line; the next one appends to it.
    """
    for _ in range(_RESCUES):
        start = line.find("{", start + 1)
        if start < 0:
            return []
        found, _, reason = _decode_along(line[start:])
        if not reason:
            return found
    return []


def mended(text: str) -> str:
    """Return JSON whose numbers are spelt as Python's decoder knows them."""
    return _NUMBER.sub(_as_json, text)


def _as_json(match: re.Match[str]) -> str:
    text = match.group()
    value = None if text.startswith('"') else number_of(text)
    return text if value is None else json.dumps(value)
