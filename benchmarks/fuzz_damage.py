"""Damage to logs, as disks, editors and bad days do it, drawn at random."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import random
    from collections.abc import Sequence

# Inputs are a few kilobytes. One in 50 is made longer than the blocks that readers use.
_LONG_ONE: Final = 50
_LONGEST: Final = 300_000

_NUMBERS: Final = (
    *(b"nan", b"NaN", b"-inf", b"Infinity", b"1e999", b"-0", b"-", b".", b"1_0", b"1,234", b"1,5"),
    *(b"9" * 30, b"9" * 400, b"9223372036854775808", b"1e18", b"0", b"1.#QNAN", b"true", b"%"),
)
_MARKS: Final = (
    *(b"", b" ", b"\n", b"\n\n", b"\r", b"\r\n", b"\t", b"\0", b"\xff", b"\xff\xfe", b" " * 500),
    *(b",", b";", b":", b": ", b"=", b"|", b"#", b'"', b"'", b"\\", b"\xef\xbb\xbf", b"x" * 2100),
    *(b"[", b"]", b"{", b"}", b"(", b")", b"\x1b[", b"\x1b[31m", b"\x1b]0;", b"\x9b", b"\x1f\x8b"),
)
# Texts that readers react to.
_WORDS: Final = (
    *(b"step", b"loss", b"null", b"None", b"epoch", b'"step"', b'"loss"', b"'epoch': ", b"val "),
    *(b"[default1]:", b" 3: ", b"\n7: ", b"iteration 1/ 2 |", b"step=1, skipped=2, lr=["),
    *(b"Attempted loss scale: 1, reducing to 2", b":::MLLOG {", b"CUDA error: ", b"Killed"),
    *(b"Traceback (most recent call last):\n", b"100%|###| 5/9 [00:01<00:02, 1it/s]"),
    *(b'{"a":' * 50, b"[" * 200, b'"log_history": [', b'"values": {', b'"step_interval": 5,'),
    *(b'{"1": 2, "2": 3}', b"sep=;\n", b"\xe2\x80\xa8"),
)
_TOKENS: Final = _NUMBERS + _MARKS + _WORDS

_SORTS: Final = (
    *("cut", "left out", "flipped", "noise", "blank", "token", "token", "repeated", "spliced"),
)


def damaged(samples: Sequence[bytes], chance: random.Random) -> bytes:
    """Return a sample with some damage, or occasionally only noise."""
    if chance.random() < 0.03:
        return chance.randbytes(chance.randrange(3000))
    data = chance.choice(samples)
    if chance.randrange(_LONG_ONE) == 0:
        data *= chance.randrange(1, _LONGEST // len(data) + 2)
    for _ in range(chance.choice((1, 1, 2, 3, 6, 12))):
        data = _damaged_once(data, samples, chance)
    return data[:_LONGEST]


def _damaged_once(data: bytes, samples: Sequence[bytes], chance: random.Random) -> bytes:
    begin = chance.randrange(len(data) + 1)
    end = min(len(data), begin + chance.choice((0, 1, 4, 40, 400, 4000)))
    before, here, after = data[:begin], data[begin:end], data[end:]
    match chance.choice(_SORTS):
        case "cut":
            return before
        case "left out":
            return before + after
        case "flipped":
            here = bytes(byte ^ (1 << chance.randrange(8)) for byte in here[:10]) + here[10:]
        case "noise":
            here = chance.randbytes(min(len(here), 60))
        case "blank":
            here = chance.choice((b"\0", b"\xff", b" ", b"\n")) * len(here)
        case "token":
            token = chance.choice(_TOKENS) * chance.choice((1, 1, 1, 2, 30))
            here = token + chance.choice((b"", here))
        case "repeated":
            here *= chance.choice((2, 3, 6))
        case "spliced":
            other = chance.choice(samples)
            at = chance.randrange(len(other) + 1)
            here = other[at : at + chance.choice((40, 400, 4000))]
    return before + here + after


def noise(chance: random.Random) -> bytes:
    """Return bytes that mean nothing in a text: no digit, no letter, no line end."""
    return bytes(chance.choices(b"\x80\xa0\xff\xc3\x00\x07", k=chance.randrange(300)))
