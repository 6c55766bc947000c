"""The forms of the lines of a text: its distinct lines without digits.

A log repeats a few lines with other numbers, so a search in their forms takes a hundredth of the
time of a search in the log.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from itertools import accumulate, islice, pairwise
from typing import Final

import numpy as np

from stabdiag.model.arrays import Ints, Mask

# With this table for ``bytes.translate``, lines that differ only in digits other than 0 are equal.
SAME_DIGITS: Final = bytes.maketrans(b"23456789", b"11111111")
# With this one, lines are equal that differ in any digits, or end with a carriage return.
ALL_DIGITS: Final = bytes.maketrans(b"023456789\r", b"111111111\n")
_DIGIT_BYTES: Final = b"0123456789"
# Hashes of three bytes are below this number. Those of five bytes are in a range of the same size
# above it, or in a larger one for a long text: otherwise, the text would share most hashes with a
# word that it lacks.
_HASHES: Final = 1 << 18
_MAX_HASHES: Final = 1 << 21
_MIN_WORD: Final = 3
# At least this many matches are several.
_MIN_MATCHES: Final = 2
# In a longer outline, most texts are ruled out by their hashes.
_LONG_OUTLINE: Final = 1 << 15
# Hashes are collected in pieces of this size, which needs little memory.
_PIECE_BYTES: Final = 1 << 14


@lru_cache(maxsize=1)
def line_forms(data: bytes) -> frozenset[bytes]:
    """Return the different lines of a text, with digits other than 0 as 1. Cached for one text."""
    return frozenset(data.translate(SAME_DIGITS).split(b"\n"))


@lru_cache(maxsize=2)
def outline(data: bytes) -> bytes:
    """Return the different lines of a text, in any order, with each digit replaced by 1. Cached.

    Use it for fast searches: it has the same words as the text, and a pattern that treats all
    digits alike, within one line, matches in both or in neither. A carriage return ends a line.
    """
    return b"\n".join({*data.translate(ALL_DIGITS).split(b"\n")})


def may_contain(data: bytes, *texts: bytes) -> bool:
    """Return True if a text contains one of others, maybe with other digits; cheap."""
    lines = outline(data)
    if len(lines) > _LONG_OUTLINE:
        searchable = tuple(text for text in texts if is_searchable(text))
        others = [text for text in texts if not is_searchable(text)]
        texts = (*others, *(searchable[at] for at in _candidates(data, searchable)))
    forms = [text.translate(ALL_DIGITS) for text in texts]
    if len(lines) > _LONG_OUTLINE and forms:
        pairs = _adjacent_bytes(lines)
        forms = [form for form in forms if all(pairs[a << 8 | b] for a, b in pairwise(form))]
    return any(form in lines for form in forms)


def contains(data: bytes, text: bytes) -> bool:
    """Return True if a text contains another; fast if it lacks it."""
    return may_contain(data, text) and text in data


def is_frequent(pattern: bytes, data: bytes) -> bool:
    """Return True if a text has several matches of a pattern that knows all digits alike."""
    if re.search(pattern, outline(data)) is None:  # most texts repeat a few lines
        return False
    return len([*islice(re.finditer(pattern, data), _MIN_MATCHES)]) == _MIN_MATCHES


def is_searchable(word: bytes) -> bool:
    """Return True if ``words_in`` can search for a word: it has three bytes without its digits."""
    return len(word.translate(None, _DIGIT_BYTES)) >= _MIN_WORD


def possible_words(data: bytes, words: Sequence[bytes]) -> list[bytes]:
    """Return the words that a text may contain: no other is in it. See ``words_in``."""
    return [words[at] for at in _candidates(data, (*words,))]


def words_in(data: bytes, words: Sequence[bytes]) -> list[bytes]:
    """Return the words that a text contains; fast, as most lack five bytes that follow each other.

    ``words`` are on one line each, and ``is_searchable`` is true of each.
    """
    candidates = _candidates(data, (*words,))
    if not candidates:
        return []
    forms, text = _word_hashes((*words,))[0], _without_digits(data)[0]
    if 2 * len(text) < len(data):
        candidates = [at for at in candidates if forms[at] in text]
    return [words[at] for at in candidates if words[at] in data]


def _candidates(data: bytes, words: tuple[bytes, ...]) -> list[int]:
    """Return the indexes of the words that a text may contain, maybe with other digits."""
    if not words:
        return []
    _, hashes, starts = _word_hashes(words)
    _, mask = _without_digits(data)
    of_five = _HASHES + ((hashes - _HASHES) & (len(mask) - _HASHES - 1))
    present = mask[np.where(hashes < _HASHES, hashes, of_five)]
    candidates: list[int] = np.flatnonzero(np.logical_and.reduceat(present, starts)).tolist()
    return candidates


@lru_cache(maxsize=2)
def _without_digits(data: bytes) -> tuple[bytes, Mask]:
    """Return the lines of a text without digits, and a mask of the hashes of its bytes.

    Cached for two texts: a text, and its lines outside records.
    """
    lines = outline(data)
    text = lines.translate(None, _DIGIT_BYTES)
    if 2 * len(lines) < len(data):  # its lines repeat
        text = b"\n".join({*text.split(b"\n")})
    size = min(max(_HASHES, 1 << (2 * len(text)).bit_length()), _MAX_HASHES)
    mask = np.zeros(_HASHES + size, dtype=np.bool_)
    for start in range(0, len(text), _PIECE_BYTES):
        threes, fives = _hashes(text[start : start + _PIECE_BYTES + 4])
        mask[threes] = True
        mask[_HASHES + (fives & (size - 1))] = True
    return text, mask


@lru_cache(maxsize=2)
def _adjacent_bytes(lines: bytes) -> bytes:
    """Return a mask of the pairs of bytes that follow each other, by both their codes. Cached."""
    pairs = np.zeros(1 << 16, dtype=np.bool_)
    for start in range(0, len(lines), _PIECE_BYTES):
        codes = np.frombuffer(lines[start : start + _PIECE_BYTES + 1], dtype=np.uint8)
        pairs[(codes[:-1].astype(np.int64) << 8) | codes[1:]] = True
    return pairs.tobytes()


@lru_cache(maxsize=1 << 8)
def _word_hashes(words: tuple[bytes, ...]) -> tuple[Sequence[bytes], Ints, Ints]:
    """Return all words without digits, their hashes, and the index of each word's first hash.

    Hashes of three bytes would match a phrase of common words too often.
    """
    forms = [word.translate(None, _DIGIT_BYTES) for word in words]
    threes, fives = _hashes(b"".join(forms))
    fives += _HASHES
    ends = accumulate(map(len, forms))
    hashes = [
        fives[end - len(form) : end - 4] if len(form) > 4 else threes[end - len(form) : end - 2]
        for form, end in zip(forms, ends, strict=True)
    ]
    return forms, np.concatenate(hashes), np.cumsum([0, *map(len, hashes[:-1])])


def _hashes(text: bytes) -> tuple[Ints, Ints]:
    """Return the hashes of each three and of each five adjacent bytes."""
    codes = np.frombuffer(text, dtype=np.uint8).astype(np.int64)
    threes = (codes[:-2] << 10) ^ (codes[1:-1] << 5) ^ codes[2:]
    return threes, 37 * threes[:-2] + threes[2:]
