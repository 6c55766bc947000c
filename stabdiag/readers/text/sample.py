"""What the first lines with a loss say, in a text of which nothing is known."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import TYPE_CHECKING, Final, TypeAlias

from stabdiag.readers.text.counters import EPOCH, count_of, counters_of, headings_of
from stabdiag.readers.text.grammar import is_a_loss
from stabdiag.readers.text.measured import lines_with_a_loss, spans_of

if TYPE_CHECKING:
    from collections.abc import Iterable

# How many lines are looked at.
_LOOKED_AT: Final = 500

# How many bytes above a loss its epoch is searched for.
_BETWEEN: Final = 1 << 14

# A line with as many values is more than prose.
_MORE_THAN_PROSE: Final = 4

# For each line with a counter and a loss: its epoch (or that of a line above it), and the count.
Counts: TypeAlias = list[tuple[int, int]]
# For each set of names on a line: what the counters of the lines with these names say.
Shapes: TypeAlias = dict[tuple[str, ...], list[dict[bytes, int]]]


@dataclass(frozen=True, kw_only=True)
class Sample:
    """Lines with a loss: their counters, and the values of the loss by its name.

    ``losses`` are the names of all losses on these lines, the first to be told the first; of each
    line the first one counts.
    ``not_finite`` are the shapes of lines with a loss that is NaN or infinite beside so many other
    values that they are no prose. ``end`` is where the last line begins.
    """

    counters: dict[tuple[bytes, str], Counts] = field(default_factory=lambda: defaultdict(list))
    values: dict[str, list[bytes]] = field(default_factory=lambda: defaultdict(list))
    shapes: Shapes = field(default_factory=lambda: defaultdict(list))
    not_finite: Shapes = field(default_factory=lambda: defaultdict(list))
    losses: tuple[str, ...] = ()
    end: int = 0


def sample_of(data: bytes, word: bytes) -> Sample:
    """Return what the first lines say that call a loss by a word."""
    sample = Sample()
    losses: dict[str, None] = {}
    end = epoch = 0
    for begin, line in islice(lines_with_a_loss(data, word), _LOOKED_AT):
        epoch = _epoch_above(data[max(end, begin - _BETWEEN) : begin], epoch)
        spans = spans_of(line, word=word)
        found = losses_of(spans)
        if not found:
            continue
        loss, end = found[0], begin
        losses |= dict.fromkeys(found)
        sample.values[loss].append(line[slice(*spans[loss])])
        counts = {name: count_of(line[slice(*at)]) for name, at in counters_of(line).items()}
        sample.shapes[tuple(spans)].append(counts)
        lost = any(is_lost(line[slice(*spans[name])]) for name in found)
        if lost and len(spans) >= _MORE_THAN_PROSE:
            sample.not_finite[tuple(spans)].append(counts)
        for name, count in counts.items():
            sample.counters[name, loss].append((counts.get(EPOCH, epoch), count))
    return replace(sample, losses=tuple(losses), end=end)


def losses_of(names: Iterable[str]) -> list[str]:
    """Return the names that are those of losses; a loss scale is none."""
    return [name for name in names if is_a_loss(name) and "scale" not in name.lower()]


def is_lost(value: bytes) -> bool:
    """Tell whether a value is NaN or infinite."""
    return value.lstrip(b"+-").startswith((b"n", b"N", b"i", b"I"))


def _epoch_above(between: bytes, epoch: int) -> int:
    """Return the epoch that the lines above a loss tell last, or else the one before."""
    if b"poch" in between or b"POCH" in between:
        for name, count in headings_of(between):
            epoch = count if name == EPOCH else epoch
    return epoch
