"""Parts of a reader that can be copied, to try what the unfinished end of a log would add."""

from __future__ import annotations

from copy import copy
from typing import Any, Self


class Copyable:
    """An object that collects the blocks of a log, and can be copied for trial additions."""

    def copy(self) -> Self:
        """Return a copy: a block that is added to it does not change the original."""
        other = copy(self)
        vars(other).update({name: _copied(value) for name, value in vars(self).items()})
        return other


def _copied(value: Any) -> Any:
    """Return a copy of a collection or of a part that collects, or any other value itself."""
    if isinstance(value, Copyable):
        return value.copy()
    if isinstance(value, dict):
        other = copy(value)
        for key, item in value.items():
            other[key] = _copied(item)
        return other
    return copy(value) if isinstance(value, list | set) else value
