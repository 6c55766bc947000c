"""A limit on what packed files may unpack to, so that none of them fills the memory."""

from __future__ import annotations

from typing import Final

from stabdiag.errors import LogError

# The text of a log shrinks to a tenth. One in which nothing changes but the counters (a million
# lines of Megatron-LM, packed as hard as each can) shrinks 49, 94, 271 and 142 times; what is far
# beyond that says the same again and again, and would be read for minutes. A member of a ZIP
# archive is packed as gzip packs.
RATIOS: Final = {"gzip": 100, "packed": 100, "bzip2": 200, "xz": 600, "Zstandard": 300}

# A job that printed one line for hours is read up to this size in any case.
_FROM: Final = 1 << 26

# A column of one number costs Parquet nothing, and is read at once.
_FROM_PARQUET: Final = 1 << 28
_RATIO_PARQUET: Final = 500


class Bomb(LogError):
    """A packed file unpacks to more than a log does."""


class Gauge:
    """Compares the size of what was unpacked with what was packed, and stops what is no log."""

    def __init__(self, name: str, packing: str) -> None:
        """Measure the unpacking of the file of this name."""
        self._name = name
        self._ratio = RATIOS[packing]
        self._packed = 0
        self._unpacked = 0

    def took(self, data: bytes) -> bytes:
        """Count packed bytes, and return them."""
        self._packed += len(data)
        return data

    def gave(self, data: bytes) -> bytes:
        """Count unpacked bytes, and return them."""
        self._unpacked += len(data)
        if self._unpacked > max(_FROM, self._ratio * self._packed):
            raise Bomb(
                f"{self._name}: {_why(self._ratio)}; if it is one, unpack it and give the file"
            )
        return data


def refuse_bomb(name: str, packed: int, unpacked: int) -> None:
    """Raise an error if a Parquet file tells beforehand that it unpacks to too much."""
    if unpacked > max(_FROM_PARQUET, _RATIO_PARQUET * packed):
        why = _why(_RATIO_PARQUET)
        raise Bomb(f"{name}: {why}; if it is one, write it again without compression")


def _why(ratio: int) -> str:
    return f"unpacks to more than {ratio} times its size, as no log does"
