"""Lines of text with the loss of an evaluation."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from itertools import chain, pairwise
from typing import Final, TypeAlias

from stabdiag.model.frozen import frozen
from stabdiag.model.patterns import lazy_pattern
from stabdiag.model.roles.names import is_evaluation
from stabdiag.model.roles.scores import is_known_score
from stabdiag.readers.text.lines.counters import NTH, counter_value, is_word, line_counters
from stabdiag.readers.text.lines.evaluated import (
    EVALUATED,
    EVALUATION_STEMS,
    data_label,
    evaluation_prefix,
)
from stabdiag.readers.text.lines.fixed_texts import find_positions, line_end
from stabdiag.readers.text.lines.grammar import (
    NUMBER_PATTERN,
    Kind,
    TextPart,
    as_float,
    is_a_loss,
    make_parts,
    trains,
)
from stabdiag.readers.text.lines.line_forms import ALL_DIGITS, contains, outline
from stabdiag.readers.text.lines.measure_words import LOSS_STEM, SCORES
from stabdiag.readers.text.lines.prefix import LONGEST_LABEL
from stabdiag.readers.text.lines.spans import find_spans
from stabdiag.readers.text.lines.tokens import LONGEST, Spans, has_number

_SpannedLine: TypeAlias = tuple[int, bytes, Spans]

# Prose about a NaN loss, or source code at the head of a log that sets a loss to 0.
_PROSE: Final = lazy_pattern(
    rb"(?<![A-Za-z])(?:if|when|unless|whether)(?![A-Za-z])[^:=]{0,60} is "
    rb"|^\s{0,80}\w{1,80} = 0(?:\.0?)?\s{0,80}$",
    re.IGNORECASE,
)

# The loss of an evaluation is searched for in this many lines below its heading.
_MAX_LINES_BELOW: Final = 3

# A rounded value differs by at most half a unit of its last digit, and floats by a little more.
_HALF: Final = 0.5001

# Loss: 2.31 (2.25), as timm and others print each batch: the mean of all so far.
_MEAN: Final = lazy_pattern(rb" ?\( {0,4}(%b)\)" % NUMBER_PATTERN)


# A name with one of these words, at the start of the name or of a part of it, may be of an
# evaluation.
_EVALUATION_WORDS: Final = frozenset({*EVALUATION_STEMS, b"eval"})

# A bar is drawn behind its percentage: 100%|####|
_PERCENT_BAR: Final = b"%|"

# Best Valid accuracy: 77.00%, which never falls.
_BEST_SO_FAR: Final = lazy_pattern(rb"(?<![a-z])best(?![a-z])", re.IGNORECASE)


def _after_label(begin: int, line: bytes) -> int:
    """Return a position in a line after the label that may name its rank."""
    return begin + min(LONGEST_LABEL, len(line) - 1)


@frozen
class Evaluation(Kind):
    """Lines with the loss or a score of an evaluation, without the counter of other lines.

    They belong to the step before them. If a name recurs before the next line of the training, the
    lines are batches of an evaluation, and the last mean printed after a value counts, or the last
    state of a progress bar, or the last batch of those that count to a total. Other values with the
    same name may belong to several evaluations, and do not count. They do if all are equal, as on a
    line and the progress bar below it, or if each line begins with the name of its data. ``scores``
    are names that need no word for an evaluation.
    """

    counter: bytes
    word: bytes = LOSS_STEM
    counter_alias: bytes | None = None
    scores: AbstractSet[str] = frozenset()
    may_have_any_score: bool = False

    def find(self, data: bytes) -> list[TextPart]:
        """Return all lines of this kind."""
        return make_parts(self._unique_values(data))

    def _unique_values(self, data: bytes) -> Iterator[tuple[int, dict[str, bytes]]]:
        for lines in self._stretches(data):
            stretch = _named_by_label(lines)
            times = Counter(name for _, _, spans in stretch for name in spans)
            repeated = {name for name, count in times.items() if count > 1}
            means = {
                name: (row, mean[1])
                for row, (_, line, spans) in enumerate(stretch)
                for name, at in spans.items()
                if name in repeated and (mean := _MEAN.match(line, at[1])) is not None
            }
            means |= _last_states(repeated - means.keys(), stretch)
            unclear = _values_by_name(repeated - means.keys(), stretch)
            same = {name for name, values in unclear.items() if _are_same(values)}
            for row, (begin, line, spans) in enumerate(stretch):
                names = spans.keys() - repeated | spans.keys() & same
                same -= names
                cells = {name: line[slice(*at)] for name, at in spans.items() if name in names}
                cells |= {name: mean for name, (last, mean) in means.items() if last == row}
                if any(map(self._is_judged, cells)):
                    yield _after_label(begin, line), cells

    def _stretches(self, data: bytes) -> Iterator[list[_SpannedLine]]:
        """Yield the evaluation lines between two lines of the training."""
        stretch: list[_SpannedLine] = []
        end = 0
        for item in self._lines(data):
            begin, line, _ = item
            if stretch and data.find(self.word, end, begin) >= 0:
                yield stretch
                stretch = []
            stretch.append(item)
            end = begin + len(line)
        yield stretch

    def _lines(self, data: bytes) -> Iterator[_SpannedLine]:
        """Yield the lines of this kind, in order."""
        words = (*_EVALUATION_WORDS, *(SCORES if self._has_scores else ()))
        for begin, line in _lines_with_a_word(data, words):
            if len(line) > LONGEST:
                continue
            if self.word in line and not has_number(line):
                continue
            if self.word not in line:
                if has_number(line):
                    spans = self._spans(line) or self._score_spans(line)
                    if spans and not self._has_counter(line):
                        yield begin, line, spans
                yield from self._evaluation_lines(data, begin, line)
            elif not self._has_counter(line):
                spans = self._spans(line)
                if spans and not _PROSE.search(line):
                    yield begin, line, spans

    def _evaluation_lines(self, data: bytes, begin: int, heading: bytes) -> Iterator[_SpannedLine]:
        """Yield the line shortly below the heading of an evaluation that has its loss."""
        end = begin + len(heading)
        for _ in range(_MAX_LINES_BELOW):
            begin, end = end + 1, line_end(data, end + 1, LONGEST)
            line = data[begin:end]
            if self.word.lower() in line.lower():
                prefix = evaluation_prefix(heading, len(heading))
                if prefix and not self._has_counter(line):
                    named = find_spans(line, word=self.word)
                    spans = {
                        f"{prefix}{name}": at for name, at in named.items() if not trains(name)
                    }
                    # A line that names the evaluation is found without the heading.
                    if any(map(self._is_judged, spans)) and not any(map(is_evaluation, named)):
                        yield begin, line, spans
                return

    def _has_counter(self, line: bytes) -> bool:
        """Return True if a line has the counter. Its word alone is checked first, for speed."""
        if is_word(self.counter) and self.counter in line.lower():
            return True
        return not line_counters(line).keys().isdisjoint((self.counter, self.counter_alias))

    def _spans(self, line: bytes) -> Spans:
        """Return the spans of the evaluation values on a line, none if they have no loss."""
        values = find_spans(line, word=self.word).items()
        spans = {
            name: span
            for name, span in values
            if is_evaluation(name) and (is_a_loss(name) or not _BEST_SO_FAR.search(line[: span[0]]))
        }
        return spans if any(map(self._is_judged, spans)) else {}

    @property
    def _has_scores(self) -> bool:
        return self.may_have_any_score or bool(self.scores)

    def _score_spans(self, line: bytes) -> Spans:
        """Return the spans of the known scores on a line that names no evaluation."""
        if not self._has_scores or _BEST_SO_FAR.search(line):
            return {}
        spans = find_spans(line, word=self.word)
        return {name: span for name, span in spans.items() if is_known_score(name)}

    def _is_judged(self, name: str) -> bool:
        """Return True if a value is a loss, or a known score of an evaluation."""
        if is_a_loss(name) or name in self.scores:
            return True
        return (is_evaluation(name) or self.may_have_any_score) and is_known_score(name)


def _named_by_label(stretch: list[_SpannedLine]) -> list[_SpannedLine]:
    """Return the lines with the label of each in its names, if some names recur: val clean wer."""
    times = Counter(name for _, _, spans in stretch for name in spans)
    repeated = {name for name, count in times.items() if count > 1}
    lines = [line for _, line, spans in stretch if not repeated.isdisjoint(spans)]
    labels = [*map(data_label, lines)]
    if not all(labels) or len({*labels}) < len(labels):
        return stretch
    return [
        (begin, line, {_with_label(name, data_label(line)): at for name, at in spans.items()})
        if not repeated.isdisjoint(spans)
        else (begin, line, spans)
        for begin, line, spans in stretch
    ]


def _with_label(name: str, label: str) -> str:
    """Return a name with a label behind its word for an evaluation."""
    prefix = next((prefix for prefix in EVALUATED if name.startswith(prefix)), "")
    return f"{prefix}{label} {name.removeprefix(prefix)}"


def find_lone_scores(
    data: bytes, counter: bytes, word: bytes, records: AbstractSet[str]
) -> frozenset[str]:
    """Return the names of scores that several evaluations print on lines of their own.

    ``records`` are the names on the lines of the loss, which have no such score.
    """
    if not any(contains(data, stem) for stem in SCORES):
        return frozenset()
    kind = Evaluation(counter=counter, word=word, may_have_any_score=True)
    times = Counter[str]()
    for part in kind.find(data):
        times.update({name: len(part.starts) for name in part.names})
    return frozenset(
        name
        for name, count in times.items()
        if count > 1 and name not in records and not is_evaluation(name) and is_known_score(name)
    )


def _values_by_name(
    names: AbstractSet[str], lines: list[_SpannedLine]
) -> Mapping[str, list[bytes]]:
    """Return the values with each of these names on some lines."""
    values: dict[str, list[bytes]] = {name: [] for name in names}
    for _, line, spans in lines if names else ():
        for name in spans.keys() & names:
            values[name].append(line[slice(*spans[name])])
    return values


def _last_states(
    names: AbstractSet[str], lines: list[_SpannedLine]
) -> Mapping[str, tuple[int, bytes]]:
    """Return the last value of each of these names on a bar or on lines that count, and its row.

    The other lines with the name are states of the same bar, which has to be full, or batches of
    the same evaluation: 50%|##  | 5/10 and 100%|####| 10/10, [1/10] and [2/10].
    """
    states: dict[str, tuple[int, bytes]] = {}
    for name in names:
        named = [(row, line, at[name]) for row, (_, line, at) in enumerate(lines) if name in at]
        if _count_to_total([line for _, line, _ in named]):
            row, line, at = named[-1]
            states[name] = row, line[slice(*at)]
    return states


def _count_to_total(lines: Sequence[bytes]) -> bool:
    """Return True if lines count to the same total, as states of a full bar or as batches."""
    counters = [*map(line_counters, lines)]
    bars = sum(_PERCENT_BAR in line for line in lines)
    if bars not in (0, len(lines)):
        return False
    for total in set.intersection(*map(set, counters)):
        if not total.startswith(NTH):
            continue
        counts = [
            counter_value(line[slice(*spans[total])])
            for line, spans in zip(lines, counters, strict=True)
        ]
        is_full = counts[-1] == counter_value(total[len(NTH) :])
        if (is_full and counts == sorted(counts)) if bars else _rise(counts):
            return True
    return False


def _rise(counts: Sequence[int]) -> bool:
    return all(before < after for before, after in pairwise(counts))


def _are_same(values: list[bytes]) -> bool:
    """Return True if decimals are one value, which some lines round: 2.3100 and 2.31."""
    decimals = [value.partition(b".")[2] for value in values]
    if not all(map(bytes.isdigit, decimals)):
        return False
    numbers = [*map(as_float, values)]
    return max(numbers) - min(numbers) <= _HALF * 10.0 ** -min(map(len, decimals))


def _lines_with_a_word(data: bytes, stems: Sequence[bytes]) -> Iterator[tuple[int, bytes]]:
    """Yield each line that may belong to an evaluation, and where it begins."""
    words = {*map(bytes.lower, stems)}
    forms = outline(data)
    if 2 * len(forms) < len(data):  # its lines repeat: most words are in none of their forms
        lowered = forms.lower()
        words = {
            word
            for word in words
            if next(_word_positions(forms, lowered, word.translate(ALL_DIGITS)), None) is not None
        }
    lowered = data.lower() if words else b""
    places = (_word_positions(data, lowered, word) for word in words)
    after = 0
    for place in sorted(chain.from_iterable(places)):
        if place >= after:
            begin = data.rfind(b"\n", 0, place) + 1
            after = line_end(data, place, len(data))
            yield begin, data[begin:after]


def _word_positions(data: bytes, lowered: bytes, word: bytes) -> Iterator[int]:
    """Yield the positions of a word in a text, which is also given in lower case.

    A word for an evaluation begins a part of a name: not in oval, but in my_val and myVal. A value
    is not an evaluation.
    """
    places = find_positions(lowered, word)
    if word not in _EVALUATION_WORDS:
        return places
    return (
        place
        for place in places
        if not (data[place - 1 : place].islower() and data[place : place + 1].islower())
        and lowered[place + len(word) : place + len(word) + 2] != b"ue"
    )
