"""Words that every part of the program may use."""

from __future__ import annotations


def plural(count: int | str, one: str, many: str | None = None) -> str:
    """Return ``1 step`` or ``2 steps``; the count may be written already."""
    return f"{count} {one if str(count) == '1' else many or one + 's'}"
