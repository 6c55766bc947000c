"""Regular expressions that are compiled when they are first used."""

from __future__ import annotations

import re
from typing import Any, AnyStr, Final, cast

# What the program uses of a compiled pattern.
_USED: Final = (
    *("search", "match", "fullmatch", "finditer", "findall", "sub", "subn", "split"),
    *("groups", "groupindex", "flags"),
)


def lazy_pattern(pattern: AnyStr, flags: int = 0) -> re.Pattern[AnyStr]:
    """Return a pattern as ``re.compile`` does, which is compiled on first use.

    A log needs few of the patterns, and compiling all of them takes longer than reading a small
    log. The functions of ``re`` do not take it: call its methods.
    """
    return cast("re.Pattern[AnyStr]", LazyPattern(pattern, flags))


class LazyPattern:
    """A pattern that gets its methods when the first of them is used."""

    __slots__ = ("_compile_flags", "pattern", *_USED)

    def __init__(self, pattern: str | bytes, flags: int) -> None:
        self.pattern = pattern
        self._compile_flags = flags

    def __getattr__(self, name: str) -> Any:
        """Compile the pattern; called only for what is not set yet."""
        if name not in _USED:
            raise AttributeError(name)
        compiled = re.compile(self.pattern, self._compile_flags)
        for used in _USED:
            setattr(self, used, getattr(compiled, used))
        return getattr(self, name)

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the text, as compiled patterns do."""
        return LazyPattern, (self.pattern, self._compile_flags)
