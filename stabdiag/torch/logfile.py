"""The file of a recorder: JSON Lines, a line for each record, each written as a whole."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

# A float32 has no more significant digits than this.
_FLOAT32_DIGITS = 9

# The beginning of a header; a line of records begins otherwise.
_HEADER_START = b'{"config"'


class LogFile:
    """Appends records to a file. Each is one call to the system, so that a kill loses no more.

    ``segment`` counts the processes that wrote to the file, from 1.
    """

    def __init__(self, path: str | os.PathLike[str], rank: int) -> None:
        path = Path(path)
        self.path = path if rank == 0 else path.with_name(f"{path.stem}.rank{rank}{path.suffix}")
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self.segment, torn = _read_end(self.path)
        self._file = os.open(self.path, os.O_APPEND | os.O_CREAT | os.O_WRONLY, 0o644)
        if torn:
            # A killed process may have left half a line.
            os.write(self._file, b"\n")

    def write(self, record: Mapping[str, Any]) -> None:
        """Write one record."""
        line = _dumps(record).encode() + b"\n"
        written = os.write(self._file, line)
        if written < len(line):
            raise OSError(f"{self.path}: the disk took {written} of {len(line)} bytes")

    def close(self) -> None:
        """Close the file; a second call does nothing."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1


def _dumps(record: Mapping[str, Any]) -> str:
    return json.dumps({name: _short(value) for name, value in record.items()}, default=str)


def _short(value: Any) -> Any:
    """Return a number without the digits that a float32 does not have; JSON Lines keep NaN."""
    if isinstance(value, float) and math.isfinite(value):
        return float(f"{value:.{_FLOAT32_DIGITS}g}")
    return value


def _read_end(path: Path) -> tuple[int, bool]:
    """Return the number of this segment, and whether the last line before it is torn."""
    if not path.is_file():
        return 1, False
    segments, line = 0, b"\n"
    with path.open("rb") as file:
        for line in file:
            segments += line.startswith(_HEADER_START)
    return segments + 1, not line.endswith(b"\n")
