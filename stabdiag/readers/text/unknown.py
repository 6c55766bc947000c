"""The evidence in a log without known names of values: D: 0.69 G: 0.7, or kimg 40.0 augment 0.1.

A text is searched for it last, when nothing else was found. The search may take longer than others.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import islice, pairwise
from typing import Final

from stabdiag.model.patterns import lazy_pattern
from stabdiag.model.roles.names import is_setting, name_words
from stabdiag.model.roles.scores import score_direction
from stabdiag.readers.text.counter_evidence import heading_evidence, on_loss_lines
from stabdiag.readers.text.counters import find_headings, is_word
from stabdiag.readers.text.evidence import evidence
from stabdiag.readers.text.grammar import NUMBER_PATTERN, Normalization
from stabdiag.readers.text.measure_words import SPLIT
from stabdiag.readers.text.sample import Sample, TextEvidence, is_lost, take_sample
from stabdiag.readers.text.spans import find_spans
from stabdiag.readers.text.split_scores import are_scores
from stabdiag.readers.text.standard_names import find_normalizations, normalize
from stabdiag.readers.text.tokens import LONGEST, has_number

# The search covers this many bytes at the head, and this many lines with a number.
_UNKNOWN_HEAD_BYTES: Final = 1 << 18
_MAX_LINES: Final = 500

# The fewest lines with a name, with two values that belong together, or with rows of a table, and
# the most names tried.
_MIN_COUNTED: Final = 3
_MIN_PAIRS: Final = 2
_MIN_EVEN: Final = 5
_MAX_NAMES: Final = 6

# At least one in this many lines is a record. Source code and prose repeat fewer.
_LINES_APART: Final = 3

# Values that belong together: of two networks, of two kinds of samples, of a variational encoder.
_NETWORK_NAMES: Final = (
    (rb"[Nn]et_?D|D|[Dd]isc?|[Dd]iscriminator|[Cc]ritic", b"D"),
    (rb"[Nn]et_?G|G|[Gg]en|[Gg]enerator", b"G"),
)
_SUPERVISION: Final = ((rb"[Ss]up(?:ervised)?", b"sup"), (rb"[Uu]n?sup(?:ervised)?", b"unsup"))
_VARIATIONAL_NAMES: Final = ((rb"[Rr]ec(?:on\w{0,12})?", b"recon"), (rb"KLD?|kld?", b"kl"))
_PAIRS: Final = (_NETWORK_NAMES, _SUPERVISION, _VARIATIONAL_NAMES)

# D: 0.69, and [D - real: 0.4, fake: 0.2], where the network has several values.
_NAMED: Final = rb"(?<![\w./-])(?:%b)(?=[ :=]{1,3}%b)"
_SECTION: Final = rb"(?<![\w./-])(?:%b)(?: - |: ?|\()(?=[a-z]\w{0,20} ?[:=] ?%b)"

# Names that a loss has only where nothing else is named: total: 2.4, L1: 0.12, bpd=3.2, and E = 0.5
# in DyNet
_TOTAL_NAMES: Final = lazy_pattern(
    rb"(?<![\w./-])([Tt]otal|[Ll][12]?|bp[cdb]|KLD?|E(?= ?[:=] ?-?\d{1,9}\.\d))"
    rb"(?= ?[:=] ?%b(?![\w%%:]|\.\d| ?(?:sec|min|s|ms)\b))" % NUMBER_PATTERN
)

# The parts of the time of a step: model: 219.1, backward: 45.2, and total: 334.2
_TIME_OF_PASS: Final = lazy_pattern(
    rb"(?i)\b(?:forward|backward|optimi[sz]er)(?:[_ ]?(?:pass|step|time))? ?[:=] ?%b"
    % NUMBER_PATTERN
)

_TOTAL_VALUES: Final = lazy_pattern(_TOTAL_NAMES.pattern + rb" ?[:=] ?(%b)" % NUMBER_PATTERN)

# Totals are the losses of batches if there are as many for each score.
_TOTALS_PER_SCORE: Final = 4

# What follows a number of a list.
_NEXT_OF_LIST: Final = rb"[.]?[ \t]{0,8}[,; \t][ \t]{0,8}[-+]?\.?\d"

# Losses of spaCy by the name of their component: {'ner': 117.4, 'tok2vec': 3.2}
_COMPONENTS: Final = (
    rb"(?<=['\"])(ner|textcat(?:_multilabel)?|spancat|tagger|parser|tok2vec|transformer|morphologizer"
    rb"|senter|entity_linker)(?=['\"] ?: ?%b[,}])" % NUMBER_PATTERN
)

# Lines of a count and a value without a name: 12:	2.31, (12, 2.31), and epoch 12: 2.31. And a
# value alone, below the line of a counter.
_COUNTED_VALUE: Final = (
    rb"(?m)^[ \t]{0,8}[\[(]?(?:(?i:epoch|ep|step|iter(?:ation)?|it|round)[ #:=.]{0,3})?(\d{1,9})"
    rb"(?:[:,;=]|[:,]?[ \t]{1,8})[ \t:=>-]{0,8}(%b)[\])]?,?[ \t]{0,8}$" % NUMBER_PATTERN
)
# And the rows of a table below its heading, which a paste lacks: epoch, step, loss, and others.
_ROW: Final = (
    rb"(?m)^[ \t]{0,8}(\d{1,6})[ \t]{1,20}(\d{1,9})[ \t]{1,20}(%b)"
    rb"(?=(?:[ \t]{1,40}%b){1,12}[ \t]{0,200}$)" % (NUMBER_PATTERN, NUMBER_PATTERN)
)
# And of a table whose first column is the only count: 172000      1.57e+03      3.71e+02, or
# 40: 0.62 1.8, the losses of two networks
_COUNTED_ROW: Final = (
    rb"(?m)^[ \t]{0,8}(\d{1,9}):?[ \t]{1,20}(%b)(?=(?:[ \t]{1,40}%b){1,20}[ \t]{0,200}$)"
    % (NUMBER_PATTERN, NUMBER_PATTERN)
)
# epoch, 0040, 0.0159, 0.0170: a logger joins the names and values of a line by commas.
_JOINED: Final = (
    rb"(?m)\b(?:epoch|step|iter(?:ation)?), {1,4}(\d{1,9}), {1,4}(%b)(?=(?:, {1,4}%b){0,12} {0,8}$)"
    % (NUMBER_PATTERN, NUMBER_PATTERN)
)
# Train: 0.69 / 54.1% above Valid: 0.71 / 52.0%: the loss of each split is named after the split.
_OF_SPLIT: Final = rb"(?m)^[ \t>*-]{0,8}(%b)(?= {0,2}[:=] {0,2}(%b)(?![\w%%%%/]))"
_SPLIT_VALUES: Final = (
    _OF_SPLIT % (rb"[Tt]rain(?:ing)?", NUMBER_PATTERN),
    _OF_SPLIT % (rb"[Vv]al(?:id(?:ation)?)?|[Tt]est|[Dd]ev", NUMBER_PATTERN),
)
# Episode 100  Avg: 19.36  Best: 21.2: the average of a game is that of its reward.
_EPISODE: Final = rb"(?mi)^[^\n]{0,80}\b(?:episodes?|games?|generation)\b[ :=#\[]{1,8}\d"
_EPISODE_AVERAGE: Final = (
    rb"(?<![\w./-])(?:[Aa]vg|AVG|[Aa]verage|[Mm]ean)\.?(?= {0,4}[:=] {0,12}%b|[ \t]{1,4}%b)"
    % (NUMBER_PATTERN, NUMBER_PATTERN)
)
_VALUE_ALONE: Final = rb"(?m)^[ \t]{0,8}(%b)[ \t]{0,8}$" % NUMBER_PATTERN
# The name of these values. It is not the name of a loss: they may be scores, times or rates.
_UNNAMED: Final = b"measure"


def unknown_evidence(data: bytes) -> TextEvidence | None:
    """Return the evidence in values without known names, or None if there is too little."""
    head = data[:_UNKNOWN_HEAD_BYTES]
    searches = (_named_pairs, _named_totals, _losses_of_splits, _averages_of_episodes)
    rows = next(filter(None, (tuple(search(head)) for search in searches)), ())
    result = evidence(normalize(data, rows)) if rows else None
    if result is not None:
        return replace(result, normalizations=(*rows, *result.normalizations))
    standard = find_normalizations(head)
    head = normalize(head, standard)
    result = _values_by_name(head) or _values_without_name(head)
    if result is None:
        return None
    return replace(result, normalizations=(*standard, *result.normalizations))


def evidence_of_totals(data: bytes, scores: TextEvidence) -> TextEvidence:
    """Return the evidence in totals without the word for a loss, if scores are on few lines.

    [epoch: 3/200, iter: 25/448] total: 1.08, and after each epoch its accuracy.
    """
    rows = tuple(_named_totals(data[:_UNKNOWN_HEAD_BYTES]))
    result = evidence(normalize(data, rows)) if rows else None
    if result is None or result.is_without_loss or result.lines < _TOTALS_PER_SCORE * scores.lines:
        return scores
    return replace(result, normalizations=(*rows, *result.normalizations))


def _named_pairs(head: bytes) -> Iterator[Normalization]:
    """Yield the replacements that name the losses of a pair if both are in a text."""
    for pair in _PAIRS:
        for form in (_NAMED, _SECTION):
            patterns = [(form % (names, NUMBER_PATTERN), loss) for names, loss in pair]
            if all(_is_frequent(pattern, head) for pattern, _ in patterns):
                end = b"_" if form == _SECTION else b""
                for pattern, loss in patterns:
                    yield Normalization((), pattern, b"loss_" + loss + end)


def _named_totals(head: bytes) -> Iterator[Normalization]:
    if _TIME_OF_PASS.search(head):
        return
    # epoch 7 (total: 2000) has the number of epochs.
    values = {match[2] for match in islice(_TOTAL_VALUES.finditer(head), _MAX_NAMES)}
    is_count = len(values) == 1 and values.pop().isdigit()
    for pattern in (_COMPONENTS,) if is_count else (_TOTAL_NAMES.pattern, _COMPONENTS):
        if _is_frequent(pattern, head):
            yield Normalization((), pattern, rb"\1_loss")


def _losses_of_splits(head: bytes) -> Iterator[Normalization]:
    training, evaluation = ([match[2] for match in re.finditer(p, head)] for p in _SPLIT_VALUES)
    if min(len(training), len(evaluation)) >= _MIN_COUNTED and not are_scores(training):
        for pattern in _SPLIT_VALUES:
            yield Normalization((), pattern, rb"\1 loss")


def _averages_of_episodes(head: bytes) -> Iterator[Normalization]:
    if _is_frequent(_EPISODE, head) and _is_frequent(_EPISODE_AVERAGE, head):
        yield Normalization((), _EPISODE_AVERAGE, b"average_reward")


def _is_frequent(pattern: bytes, head: bytes) -> bool:
    return len([*islice(re.finditer(pattern, head), _MIN_PAIRS)]) >= _MIN_PAIRS


def _values_by_name(head: bytes) -> TextEvidence | None:
    """Return the evidence in the values of a name next to, or below, a counter that only rises.

    A name with a value that is not finite is the name of a loss.
    """
    lines = [line for line in head.split(b"\n") if len(line) <= LONGEST and has_number(line)]
    counts = Counter(
        name
        for line in lines[:_MAX_LINES]
        for name, at in find_spans(line).items()
        if not _begins_list(line, at)
    )
    names = [name for name, count in counts.most_common() if count >= _MIN_COUNTED]
    named = (name for name in names if name.isascii() and not is_setting(name))
    # Known scores say most, times and rates least.
    for name in sorted(islice(named, _MAX_NAMES), key=_rank):
        sample = take_sample(head, name.encode())
        result = _counted(head, sample)
        if result is None or not _is_dense(head, result.lines):
            continue
        values = sample.values[name]
        if are_scores(values) and SPLIT.fullmatch(name):
            continue  # the score of a split, not its loss
        if any(map(is_lost, values)):
            pattern = _NAMED % (re.escape(name.encode()), NUMBER_PATTERN)
            lost = (Normalization((), pattern, name.encode() + b"_loss"),)
            as_a_loss = evidence(normalize(head, lost))
            if as_a_loss is not None:
                return replace(as_a_loss, normalizations=(*lost, *as_a_loss.normalizations))
        # A known score may be constant.
        if len({*values}) >= _MIN_COUNTED or not _rank(name):
            return replace(result, word=name.encode(), is_unknown=True)
    return None


def _begins_list(line: bytes, at: tuple[int, int]) -> bool:
    """Return True for the first number of several between brackets, such as x: [3. 8.]."""
    is_first = line[: at[0]].rstrip().endswith(b"[")
    return is_first and re.match(_NEXT_OF_LIST, line[at[1] :]) is not None


def _rank(name: str) -> int:
    """Return 0 for the name of a known score, 2 for the name of a time or a rate, 1 for others."""
    words = {*name_words(name)}
    if "/" in name or not words.isdisjoint(("time", "sec", "speed", "mem", "memory", "lr")):
        return 2
    return 0 if score_direction(name) is not None else 1


def _values_without_name(head: bytes) -> TextEvidence | None:
    """Return the evidence in lines of a count and a value, or of a value below a counter."""
    pattern, replacement, values = _unnamed_values(head)
    if len(values) < _MIN_COUNTED or not any(b"." in value or is_lost(value) for value in values):
        return None
    has_loss = any(map(is_lost, values))
    name = b"loss" if has_loss else _UNNAMED
    row = Normalization((), pattern, replacement % name)
    normalized = normalize(head, (row,))
    if has_loss:
        as_a_loss = evidence(normalized)
        return None if as_a_loss is None else replace(as_a_loss, normalizations=(row,))
    result = _counted(normalized, take_sample(normalized, name))
    if result is None or not _is_dense(head, result.lines):
        return None
    return replace(result, word=name, is_unknown=True, normalizations=(row,))


def _unnamed_values(head: bytes) -> tuple[bytes, bytes, list[bytes]]:
    """Return the pattern of values next to a rising count, or else alone; names for it; values."""
    for pattern, replacement in (
        (_COUNTED_VALUE, rb"step \1, %b: \2"),
        (_JOINED, rb"step \1, %b: \2 others: "),
        (_ROW, rb"epoch \1, step \2, %b: \3 others: "),
        (_COUNTED_ROW, rb"step \1, %b: \2 others: "),
    ):
        lines = re.findall(pattern, head)
        counts = [int(line[-2]) for line in lines]
        is_rising = len(counts) >= _MIN_COUNTED and all(map(int.__lt__, counts, counts[1:]))
        if is_rising and (pattern != _COUNTED_ROW or _are_even(counts)):
            return pattern, replacement, [line[-1] for line in lines]
    return _VALUE_ALONE, rb"%b: \1", re.findall(_VALUE_ALONE, head)


def _are_even(counts: Sequence[int]) -> bool:
    """Return True if there are enough counts at equal intervals, unlike in a table of results."""
    return len(counts) >= _MIN_EVEN and len({b - a for a, b in pairwise(counts)}) == 1


def _counted(head: bytes, sample: Sample) -> TextEvidence | None:
    """Return the evidence for a counter with a word that only rises, at least in each epoch."""
    result = on_loss_lines(sample.counters)
    if result is not None and result.rising == 1:
        return result if any(is_word(word) for word, _ in sample.counters) else None
    headings: dict[bytes, list[int]] = {}
    for place, word, count in find_headings(head):
        if place < sample.end:
            headings.setdefault(word, []).append(count)
    below = heading_evidence(headings, sample.values)
    return below if below is not None and below.rising == 1 else None


def _is_dense(head: bytes, lines: int) -> bool:
    """Return True if a text has at most a few other lines for each of these lines."""
    return _LINES_APART * lines >= sum(1 for line in head.split(b"\n") if line.strip())
