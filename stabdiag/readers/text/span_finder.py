"""The spans of the values on many lines, mostly of one form."""

from __future__ import annotations

import re
from typing import Final

from stabdiag.readers.text.counters import line_counters
from stabdiag.readers.text.measured import find_spans, fixed_spans
from stabdiag.readers.text.shapes import LineShape, line_pattern
from stabdiag.readers.text.tokens import Span, Spans

# At most this many shapes of lines are kept: compiling the pattern of one takes as long as looking
# at a line.
_MAX_SHAPES: Final = 8


class SpanFinder:
    """Finds spans as ``find_spans`` does; another line of a shape takes a tenth of the time."""

    def __init__(self, word: bytes) -> None:
        """Find spans on lines whose loss has a name with this word."""
        self._word = word
        self._shapes: list[tuple[re.Pattern[bytes], dict[str, int], frozenset[bytes]]] = []

    def find(self, line: bytes) -> Spans:
        """Return the spans of the values of a line by name."""
        for pattern, groups, counters in self._shapes:
            match = pattern.fullmatch(line)
            # A whole number after epoch is a counter, and a decimal one is a value.
            if match is not None and line_counters(line).keys() == counters:
                return {name: match.span(group) for name, group in groups.items()}
        spans = find_spans(line, word=self._word)
        if spans and len(self._shapes) < _MAX_SHAPES:
            self._add(line, spans)
        return spans

    def _add(self, line: bytes, spans: Spans) -> None:
        values: list[Span] = sorted(spans.values())
        pattern = line_pattern(line, LineShape((), values, fixed_spans(line)))
        if pattern is not None:
            groups = {name: values.index(span) + 1 for name, span in spans.items()}
            self._shapes.append((pattern, groups, frozenset(line_counters(line))))
