"""A text that may be a log, with samples of its lines, and the counters on other lines."""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from functools import cached_property
from typing import Final

from stabdiag.model.frozen import frozen
from stabdiag.model.patterns import lazy_pattern
from stabdiag.readers.text.evidence.counter_evidence import MIN_COUNTS
from stabdiag.readers.text.evidence.sample import Sample, take_sample
from stabdiag.readers.text.lines.counters import GAMES, STEP, find_headings, find_positions
from stabdiag.readers.text.lines.fixed_texts import line_end
from stabdiag.readers.text.lines.tokens import LONGEST, lines_with_a_loss
from stabdiag.readers.text.messages.reports import logs_failure
from stabdiag.readers.text.messages.status_lines import failure_lines

# A line that names its counter at the end: Epoch=4 end, Finished epoch 4, epoch 4 done
_END_OF_COUNT: Final = lazy_pattern(rb"(?i)\b(?:end(?:s|ed)?|finish(?:ed)?|done|completed?)\b")

# Headings are searched for in this many bytes at the head.
_HEADING_BYTES: Final = 1 << 22


@frozen
class ExaminedLog:
    """A text, with the results that do not depend on the name of its loss."""

    data: bytes

    @cached_property
    def _samples(self) -> dict[bytes, Sample]:
        return {}

    def sample(self, word: bytes) -> Sample:
        """Return a sample of the lines whose loss has a name with this word."""
        if word not in self._samples:
            self._samples[word] = take_sample(self.data, word)
        return self._samples[word]

    @cached_property
    def headings(self) -> list[tuple[int, bytes, int]]:
        """The counters with a word at its head."""
        return [*find_headings(self.data[:_HEADING_BYTES])]

    @cached_property
    def reports_failure(self) -> bool:
        """Whether a line reports a failure of the training."""
        lines = failure_lines("loss", STEP)
        return any(line.search(self.data) for line in lines) or logs_failure(self.data)

    def heading_counts(self, sample: Sample) -> dict[bytes, list[int]]:
        """Return the counts of each counter with a word, on all lines above a sample's end."""
        counts: dict[bytes, list[int]] = defaultdict(list)
        below = self.counted_below(sample)
        ended: set[bytes] = set()
        for place, name, count in self.headings:
            # The line that ends the last record is below its loss.
            if place < sample.end or (name in below and name not in ended):
                counts[name].append(count)
            if place >= sample.end:
                ended.add(name)
        # Games between two losses are not steps of the training.
        for game in [name for name in counts if name in GAMES]:
            if len(self._counts_above_losses(sample, game)) < MIN_COUNTS:
                del counts[game]
        return counts

    def position_counts(self, sample: Sample) -> dict[bytes, list[int]]:
        """Return the counts of each position on the lines above a sample's end.

        The first one of a position is above the first loss: [20/600], and below it loss: 2.31.
        """
        counts: dict[bytes, list[int]] = defaultdict(list)
        if not sample.values:
            return counts
        first = next((begin for begin, _ in lines_with_a_loss(self.data, sample.word)), 0)
        cut: dict[bytes, list[int]] = defaultdict(list)
        for place, name, count in find_positions(self.data[: min(sample.end, _HEADING_BYTES)]):
            (counts if place < first or name in counts else cut)[name].append(count)
        if counts:
            return counts
        # A paste may begin within a record, below its position. The losses are indented then.
        if self.data[first : first + 1] not in (b" ", b"\t"):
            return counts
        records = max(map(len, sample.values.values()))
        return {name: [2 * c[0] - c[1], *c] for name, c in cut.items() if 1 < len(c) == records - 1}

    def counted_below(self, sample: Sample) -> set[bytes]:
        """Return the counters that end each record: Epoch=4 end."""
        first = next((begin for begin, _ in lines_with_a_loss(self.data, sample.word)), 0)
        below: dict[bytes, bool] = {}
        for place, name, _ in self.headings:
            if below.setdefault(name, place > first):
                begin = self.data.rfind(b"\n", 0, place) + 1
                end = line_end(self.data, place, LONGEST)
                below[name] = _END_OF_COUNT.search(self.data, begin, end) is not None
        return {name for name, is_below in below.items() if is_below}

    def _counts_above_losses(self, sample: Sample, counter: bytes) -> set[int]:
        """Return the counts of a counter that are the last ones above a loss."""
        places = [(place, count) for place, name, count in self.headings if name == counter]
        lines = lines_with_a_loss(self.data[: sample.end + 1], sample.word)
        above = (bisect_left(places, (begin, 0)) - 1 for begin, _ in lines)
        return {places[at][1] for at in above if at >= 0}
