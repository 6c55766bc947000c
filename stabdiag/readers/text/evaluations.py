"""Lines of an evaluation without a counter of steps, as stand at the end of an epoch."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from stabdiag.model.roles import is_evaluation
from stabdiag.readers.text.clean import line_end
from stabdiag.readers.text.counters import counters_of, is_word
from stabdiag.readers.text.grammar import Kind, Part, is_a_loss, parts_of
from stabdiag.readers.text.measured import spans_of
from stabdiag.readers.text.names import LOSS, VALIDATED
from stabdiag.readers.text.ranks import LONGEST_LABEL

if TYPE_CHECKING:
    from collections.abc import Iterator

    from stabdiag.readers.text.names import Spans

    # Where a line begins, the line, and the spans of what it tells.
    _Found = tuple[int, bytes, Spans]

_LONGEST: Final = 2000

# Prose says what to do if the loss is NaN; no log does.
_CONDITION: Final = re.compile(
    rb"(?<![A-Za-z])(?:if|when|unless|whether)(?![A-Za-z])[^:=]{0,60} is ", re.IGNORECASE
)

# Every word for an evaluation contains one of these.
_WORDS: Final = (b"val", b"test", b"dev", b"cv")


@dataclass(frozen=True, kw_only=True)
class Evaluation(Kind):
    """Lines with the loss of an evaluation, and without the counter that other lines have.

    They belong to the step before them. A name that recurs before the next line of the training is
    left out there: these lines are of the batches of an evaluation, or of several evaluations.
    """

    counter: bytes
    word: bytes = LOSS
    tells: bool = False

    def find(self, data: bytes) -> list[Part]:
        """Return all lines of this kind."""
        return parts_of(self._told_once(data))

    def _told_once(self, data: bytes) -> Iterator[tuple[int, dict[str, bytes]]]:
        for stretch in self._stretches(data):
            times = Counter(name for _, _, spans in stretch for name in spans)
            for begin, line, spans in stretch:
                once = {name: line[slice(*at)] for name, at in spans.items() if times[name] == 1}
                if any(map(is_a_loss, once)):
                    yield begin + min(LONGEST_LABEL, len(line) - 1), once

    def _stretches(self, data: bytes) -> Iterator[list[_Found]]:
        """Yield the lines between two of the training."""
        stretch: list[_Found] = []
        end = 0
        for one in self._lines(data):
            begin, line, _ = one
            if stretch and data.find(self.word, end, begin) >= 0:
                yield stretch
                stretch = []
            stretch.append(one)
            end = begin + len(line)
        yield stretch

    def _lines(self, data: bytes) -> Iterator[_Found]:
        """Yield the lines of this kind, in order."""
        for begin, line in _lines_with_a_word(data):
            if self.word in line and len(line) <= _LONGEST and not self._has_the_counter(line):
                spans = self._spans(line)
                if spans and not _CONDITION.search(line):
                    yield begin, line, spans

    def _has_the_counter(self, line: bytes) -> bool:
        """Tell whether a line has the counter; most are seen to have it by its word alone."""
        if is_word(self.counter) and self.counter in line.lower():
            return True
        return self.counter in counters_of(line)

    def _spans(self, line: bytes) -> Spans:
        """Return the spans of what a line tells of an evaluation, none if it tells no loss."""
        spans = {
            name: span
            for name, span in spans_of(line, word=self.word).items()
            if name.startswith(VALIDATED) or is_evaluation(name)
        }
        return spans if any(map(is_a_loss, spans)) else {}


def _lines_with_a_word(data: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield each line that may be of an evaluation, and where it begins."""
    plain = data.lower()
    # A word that does not occur at all is left out of the pattern.
    words = [word for word in _WORDS if word in plain]
    after = 0
    for match in re.finditer(b"|".join(words), plain) if words else ():
        if match.start() >= after:
            begin = data.rfind(b"\n", 0, match.start()) + 1
            after = line_end(data, match.end(), len(data))
            yield begin, data[begin:after]
