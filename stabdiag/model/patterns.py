"""Regular expressions that are compiled when they are first used."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any, AnyStr, Final, cast

# The methods of a compiled pattern that the program uses.
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


# Parts of a pattern: an escaped character, a set of characters, a parenthesis, a bar, other text.
_PATTERN_PARTS: Final = lazy_pattern(rb"\\.|\[\^?\]?[^\]]*(?:\]|\Z)|[(|)]|[^\\\[(|)]+")
_FIXED_TEXT: Final = lazy_pattern(rb"(?:[\w ,:;'\"<>/=@!%&~`#-]|\\[^\w])*(?![?*+{])")
_MIN_FIXED: Final = 3


@lru_cache(maxsize=1 << 10)
def fixed_starts(pattern: bytes) -> tuple[bytes, ...]:
    r"""Return the possible beginnings of a match of a pattern.

    Return none if the start of a match is not fixed, or is short: under three bytes without digits.

    >>> fixed_starts(rb"train\.py: \d+|lr=[\d.]+")
    (b'train.py: ', b'lr=')
    """
    alternatives, depth = [b""], 0
    for part in _PATTERN_PARTS.findall(pattern):
        depth += (part == b"(") - (part == b")")
        if part == b"|" and not depth:
            alternatives.append(b"")
        else:
            alternatives[-1] += part
    matches = map(_FIXED_TEXT.match, alternatives)
    texts = [re.sub(rb"\\(.)", rb"\1", match[0]) for match in matches if match is not None]
    lengths = [len(text.translate(None, b"0123456789")) for text in texts]
    return tuple(texts) if min(lengths) >= _MIN_FIXED else ()
