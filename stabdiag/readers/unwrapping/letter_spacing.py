"""Text with a blank after each character, as ``np.savetxt`` writes strings: ``l o s s   2 . 3``."""

from __future__ import annotations

from typing import Final

from stabdiag.model.patterns import lazy_pattern
from stabdiag.readers.blocks import blocks
from stabdiag.readers.source import Stream

_SPACED_HEAD: Final = 1 << 12
_MIN_CHARACTERS: Final = 50
_MIN_SPACED_SHARE: Final = 0.85

# A decimal number, as against rows of digits.
_SPACED_NUMBER: Final = lazy_pattern(rb"\d \. \d")
_SPACING: Final = lazy_pattern(rb"(?<=\S) (?=\S)")
_BLANKS_OF_WORDS: Final = lazy_pattern(rb" {2,}")


def without_letter_spacing(stream: Stream) -> Stream:
    """Return the stream without the blanks between characters, or the stream itself."""
    head = stream.peek(_SPACED_HEAD)
    if _SPACED_NUMBER.search(head) is None:
        return stream
    parts = head.split()
    alone = sum(len(part) == 1 for part in parts)
    if len(parts) < _MIN_CHARACTERS or alone < _MIN_SPACED_SHARE * len(parts):
        return stream
    stream.notes.append("a blank after each character is left out")
    return stream.rewritten(
        _BLANKS_OF_WORDS.sub(b" ", _SPACING.sub(b"", block)) for block in blocks(stream)
    )
