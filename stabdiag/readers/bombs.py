"""Packed files that unpack to more than any log does: a limit, so that none fills the memory."""

from __future__ import annotations

from typing import Final

from stabdiag.errors import LogError

# The text of a log shrinks to a tenth or a fiftieth; gzip bombs grow by 1,000, others by more.
# A job that printed one line for hours may come near: up to the size it is read in any case.
_FROM: Final = 1 << 28
_RATIO: Final = 500

_WHY: Final = f"unpacks to more than {_RATIO} times its size, as no log does"


class Bomb(LogError):
    """A packed file unpacks to more than a log does."""


class Gauge:
    """How much came out of how much; raises an error where that is no log any more."""

    def __init__(self, name: str) -> None:
        """Measure the unpacking of the file of this name."""
        self._name = name
        self._packed = 0
        self._unpacked = 0

    def took(self, data: bytes) -> bytes:
        """Count packed bytes, and return them."""
        self._packed += len(data)
        return data

    def gave(self, data: bytes) -> bytes:
        """Count unpacked bytes, and return them."""
        self._unpacked += len(data)
        if _is_bomb(self._packed, self._unpacked):
            raise Bomb(f"{self._name}: {_WHY}; if it is one, unpack it and give the file")
        return data


def refuse_bomb(name: str, packed: int, unpacked: int) -> None:
    """Raise an error if a file of so many bytes tells beforehand that it unpacks to too many."""
    if _is_bomb(packed, unpacked):
        raise Bomb(f"{name}: {_WHY}; if it is one, write it again without compression")


def _is_bomb(packed: int, unpacked: int) -> bool:
    return unpacked > max(_FROM, _RATIO * packed)
