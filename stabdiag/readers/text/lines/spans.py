"""The values on a line by name, with the counter of the log as its step."""

from __future__ import annotations

import re
from typing import Final

from stabdiag.model.patterns import lazy_pattern
from stabdiag.readers.text.lines.counters import (
    POSITION,
    STEP,
    counter_matches,
    is_word,
    line_counters,
)
from stabdiag.readers.text.lines.evaluated import evaluation_prefixes
from stabdiag.readers.text.lines.grammar import trains
from stabdiag.readers.text.lines.measure_words import LOSS_STEM, TRAINED, renamed
from stabdiag.readers.text.lines.shapes import line_pattern
from stabdiag.readers.text.lines.tokens import Span, Spans, line_fields

# | train | epoch 001 | loss 4.5 | num_updates 500: fairseq's mean, at a step that has its own line.
_MEAN_OF_EPOCH: Final = lazy_pattern(rb"\| train \| epoch \d{1,6} \|")

# At most this many shapes of lines are kept: compiling the pattern of one takes as long as looking
# at a line.
_MAX_SHAPES: Final = 8


def find_spans(
    line: bytes,
    counter: bytes | None = None,
    word: bytes = LOSS_STEM,
    counter_alias: bytes | None = None,
) -> Spans:
    """Return the spans of the values of a line by name. The first value of each name counts.

    The ``counter``, or its alias, is named step, and other counters by their words. A name with
    ``word`` becomes the name of a loss.
    """
    all_fields = line_fields(line)
    if counter is None and not all_fields:
        return {}
    counters = line_counters(line)
    taken = set(counters.values())
    fields = [item for item in all_fields if item.value not in taken]
    epoch_prefix = "train_" if _MEAN_OF_EPOCH.search(line) else ""
    pairs: Spans = {}
    for item, prefix in zip(fields, evaluation_prefixes(line, fields), strict=True):
        # val - epoch: 1, val_loss: 0.3
        is_named = trains(item.name) or (prefix and item.name.startswith(f"{prefix.strip()}_"))
        name = item.name if is_named else f"{prefix or epoch_prefix}{item.name}"
        pairs.setdefault(name, item.value)
    if word != LOSS_STEM:
        pairs = renamed(pairs, word)
    if not counters and word.lower() in TRAINED:
        # Dataset split: train=24, val=3
        pairs = {name: at for name, at in pairs.items() if not line[slice(*at)].isdigit()}
    if counter is None:
        return pairs
    others = {name.decode(): at for name, at in counters.items() if is_word(name)}
    own = counter if counter in counters else counter_alias or counter
    named = {name: at for name, at in others.items() if name not in (STEP, own.decode())}
    if counted := counters.get(own):
        named[STEP] = counted
    # Next to NeMo's reduced loss, Lightning's own mean is NaN.
    if b"reduced_train_loss" in line:
        pairs.pop("loss", None)
    return {**pairs, **named}


def fixed_spans(line: bytes) -> list[Span]:
    """Return the spans of the names and counters that define the shape of a line."""
    fixed = [item.at for item in line_fields(line)]
    fixed += [match.span(1) for match in counter_matches(line)]
    # The total of a position is part of its name: a bar of another length is another bar.
    if b"/" in line:
        fixed += [match.span(2) for match in POSITION.finditer(line)]
    return fixed


class SpanFinder:
    """Finds spans as ``find_spans`` does; another line of a shape takes a tenth of the time."""

    def __init__(self, word: bytes = LOSS_STEM) -> None:
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
        pattern = line_pattern(line, values, fixed_spans(line))
        if pattern is not None:
            groups = {name: values.index(span) + 1 for name, span in spans.items()}
            self._shapes.append((pattern, groups, frozenset(line_counters(line))))
