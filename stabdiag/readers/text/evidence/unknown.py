"""The evidence in a log without known names of values: D: 0.69 G: 0.7, or kimg 40.0 augment 0.1.

A text is searched for it last, when nothing else was found. The search may take longer than others.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from itertools import islice
from typing import Final

from stabdiag.model.patterns import lazy_pattern
from stabdiag.model.roles.names import is_fitness, is_setting, name_words
from stabdiag.model.roles.scores import score_direction
from stabdiag.readers.text.evidence.counter_evidence import heading_evidence, on_loss_lines
from stabdiag.readers.text.evidence.loss_evidence import evidence
from stabdiag.readers.text.evidence.sample import Sample, TextEvidence, is_lost, take_sample
from stabdiag.readers.text.lines.counters import find_headings, is_word
from stabdiag.readers.text.lines.grammar import NUMBER_PATTERN, Normalization
from stabdiag.readers.text.lines.line_forms import outline
from stabdiag.readers.text.lines.measure_words import SPLIT
from stabdiag.readers.text.lines.spans import find_spans
from stabdiag.readers.text.lines.tokens import LONGEST, has_number
from stabdiag.readers.text.names.counted_names import numbers_parts
from stabdiag.readers.text.names.notations import find_decimal_commas, find_notations
from stabdiag.readers.text.names.positions import MEASURE, Positions, find_positions
from stabdiag.readers.text.names.split_scores import are_scores
from stabdiag.readers.text.names.standard_names import find_normalizations, normalize

# The search covers this many bytes at the head, and this many lines with a number.
_UNKNOWN_HEAD_BYTES: Final = 1 << 18
_MAX_LINES: Final = 500

# The fewest lines with a name, or with two values that belong together, and the most names tried.
_MIN_COUNTED: Final = 3
_MIN_PAIRS: Final = 2
_MAX_NAMES: Final = 6

# At least one in this many lines is a record. Source code and prose repeat fewer.
_LINES_APART: Final = 3
# The lines of a generation of an evolution: -- Generation 3 --, Evaluated 181 individuals, Min 44.0
_LINES_OF_GENERATION: Final = 8

# Values that belong together: two networks, two kinds of samples, the terms of a VAE.
_NETWORK_NAMES: Final = (
    (rb"[Nn]et_?D|[Dd]|[Dd]isc?|[Dd]iscriminator|[Cc]ritic", b"D"),
    (rb"[Nn]et_?G|[Gg]|[Gg]en|[Gg]enerator", b"G"),
)
_SUPERVISION: Final = ((rb"[Ss]up(?:ervised)?", b"sup"), (rb"[Uu]n?sup(?:ervised)?", b"unsup"))
_VARIATIONAL_NAMES: Final = ((rb"[Rr]ec(?:on\w{0,12})?", b"recon"), (rb"KLD?|kld?", b"kl"))
_PAIRS: Final = (_NETWORK_NAMES, _SUPERVISION, _VARIATIONAL_NAMES)

# The losses of two splits, also without a blank before their values: tl 2.31 vl 2.40, TL2.31 VL2.4
_SPLIT_LOSSES: Final = tuple(
    (
        rb"(?<![\w./-])(?:%b)(?:[ \t]?[:=])?[ \t]{0,4}(?=[-+]?\d{0,9}\.\d|nan|NaN|inf)" % names,
        name + b"_loss: ",
    )
    for names, name in (
        (rb"tl|TL|[Tt]r(?:n|ain)?_?[Ll]|[Tt]_loss", b"train"),
        (rb"vl|VL|[Vv](?:a|al|ld)_?[Ll]|[Vv]_loss", b"val"),
    )
)
# And the names of two splits alone: trn 2.31 val 2.40
_SPLIT_NAMES: Final = tuple(
    (rb"(?<![\w./-])(?:%b)(?=[ :=]{1,3}%b)" % (names, NUMBER_PATTERN), name)
    for names, name in (
        (rb"[Tt]rn?|TRN?", b"train"),
        (rb"[Vv]a(?:l|lid)?|[Vv]ld|VAL?|VLD|[Tt]e(?:st)?|TE", b"val"),
    )
)

# The parts of the loss of a detector, by the network and what it predicts: rpn_cls: 0.5 rpn_regr:
# 0.2
_DETECTOR_PARTS: Final = tuple(
    rb"(?<![\w./-])(?i:f?rpn|f?rcnn|roi|det(?:ector)?|anchor|proposal|refine|stage_?\d|[ds]\d)"
    rb"_(?:%b)(?=[ :=]{1,3}%b)" % (predicted, NUMBER_PATTERN)
    for predicted in (
        rb"cls|class(?:ification)?|conf|score|obj(?:ectness)?",
        rb"regr?|regression|bbox|box(?:es)?|loc(?:alization)?|delta",
    )
)

# D: 0.69, and [D - real: 0.4, fake: 0.2], where the network has several values.
_NAMED: Final = rb"(?<![\w./-])(?:%b)(?=[ :=]{1,3}%b)"
_SECTION: Final = rb"(?<![\w./-])(?:%b)(?: - |: ?|\()(?=[a-z]\w{0,20} ?[:=] ?%b)"

# Training criteria, and abbreviations of a word for a loss.
_CRITERIA: Final = (
    rb"[Ff]ocal|[Tt]riplet|[Cc]ontrastive|[Hh]inge|[Cc]hamfer|[Rr]esidual|ctc|CTC"
    rb"|[Ll]os|[Ll]ss|[Ee]rr"
)
# Names that a loss has only where nothing else is named: total: 2.4, L1: 0.12, bpd=3.2, and E = 0.5
# in DyNet
_NAMED_CRITERION: Final = rb"(?<![\w./-])(?:%b)[ :=]{1,3}(?:-?\d{0,9}\.\d|nan)" % _CRITERIA
_TOTAL_NAMES: Final = lazy_pattern(
    rb"(?<![\w./-])([Tt]ot(?:al)?|TOT(?:AL)?|l[12]?|L[a-qs-z\d]?|bp[cdb]|KLD?"
    rb"|[EJ](?= ?[:=] ?(?:-?\d{1,9}\.\d|nan))|%b)"
    rb"(?=(?: ?[:=] ?| (?<=[a-z]{3} )(?=-?\d{0,9}\.\d|nan))%b"
    rb"(?![\w%%:]|\.\d| ?(?:%%|(?:sec|min|s|ms)\b)))" % (_CRITERIA, NUMBER_PATTERN)
)

# The parts of the time of a step: model: 219.1, backward: 45.2, and total: 334.2
_TIME_OF_PASS: Final = lazy_pattern(
    rb"(?i)\b(?:forward|backward|optimi[sz]er)(?:[_ ]?(?:pass|step|time))? ?[:=] ?%b"
    % NUMBER_PATTERN
)

# The symbol of a loss: L_total=2.31 L_pde=1.9
_LOSS_SYMBOLS: Final = rb"(?<![\w./-])L_([A-Za-z]\w{0,30})(?= ?[:=] ?%b)" % NUMBER_PATTERN

_TOTAL_VALUES: Final = lazy_pattern(_TOTAL_NAMES.pattern + rb"[ :=]{1,3}(%b)" % NUMBER_PATTERN)

# Totals are the losses of batches if each score has the same number of them.
_TOTALS_PER_SCORE: Final = 4

# The text behind a number of a list.
_NEXT_OF_LIST: Final = rb"[.]?[ \t]{0,8}[,; \t][ \t]{0,8}[-+]?\.?\d"

# Losses of spaCy by the name of their component: {'ner': 117.4, 'tok2vec': 3.2}
_COMPONENTS: Final = (
    rb"(?<=['\"])(ner|textcat(?:_multilabel)?|spancat|tagger|parser|tok2vec|transformer|morphologizer"
    rb"|senter|entity_linker)(?=['\"] ?: ?%b[,}])" % NUMBER_PATTERN
)

# Train: 0.69 / 54.1% above Valid: 0.71 / 52.0%: the loss of each split is named after the split.
_OF_SPLIT: Final = rb"(?m)^[ \t>*-]{0,8}(%b)(?= {0,2}[:=] {0,2}(%b)(?![\w%%%%/]))"
_SPLIT_VALUES: Final = (
    _OF_SPLIT % (rb"[Tt]rain(?:ing)?", NUMBER_PATTERN),
    _OF_SPLIT % (rb"[Vv]al(?:id(?:ation)?)?|[Tt]est|[Dd]ev", NUMBER_PATTERN),
)
# Episode 100  Avg: 19.36  Best: 21.2: the average of a game is a reward.
_EPISODE: Final = rb"(?mi)^[^\n]{0,80}\b(?:episodes?|games?)\b[ :=#\[]{1,8}\d"
_BEFORE_NUMBER: Final = rb"(?= {0,4}[:=] {0,12}%b|[ \t]{1,4}%b)" % (NUMBER_PATTERN, NUMBER_PATTERN)
_EPISODE_AVERAGE: Final = rb"(?<![\w./-])(?:[Aa]vg|AVG|[Aa]verage|[Mm]ean)\.?" + _BEFORE_NUMBER
# Generation 3 | Best: 21.2 | Avg: 19.36 of an evolution, which may be minimized
_GENERATION: Final = rb"(?mi)^[^\n]{0,80}\bgeneration\b[ :=#\[]{1,8}\d"
_FITNESS: Final = (
    (_EPISODE_AVERAGE, b"average_fitness"),
    (rb"(?<![\w./-])[Bb](?:est|EST)" + _BEFORE_NUMBER, b"best_fitness"),
    (rb"(?<![\w./-])(?:[Mm]ax|MAX)" + _BEFORE_NUMBER, b"max_fitness"),
    (rb"(?<![\w./-])(?:[Mm]in|MIN)" + _BEFORE_NUMBER, b"min_fitness"),
)
# 0.70 (0.02) with: {'batch_size': 10, 'epochs': 50}: the scores of a search over settings
_SETTINGS_BEHIND: Final = rb"(?m)^%b \(%b\) with: \{" % (NUMBER_PATTERN, NUMBER_PATTERN)
_EXTREMES: Final = frozenset({"max_fitness", "min_fitness"})
# avg_ep_r: 19.4, avg_l: 0.02, avg_q: 1.3: the letters of a reward and a loss, next to a value of
# episodes or the exploration.
_EPISODE_VALUE: Final = (
    rb"(?<![\w./-])(?:(?:\w{1,8}_)?(?:[Ee]p|[Ee]pisode|[Gg]ame)_(?:[rR]|len|length|steps?)"
    rb"|(?:avg|mean|max)_[qQ]|[Ee]ps|[Ee]psilon)(?=[ :=]{1,3}%b)" % NUMBER_PATTERN
)
_BY_LETTER: Final = tuple(
    (
        rb"(?<![\w./-])((?:(?:%b)_){1,2})%b(?=[ :=]{1,3}%b)" % (words, letter, NUMBER_PATTERN),
        rb"\1" + name,
    )
    for words, letter, name in (
        (rb"avg|mean|total|sum|max|min|moving|[Ee]p|[Ee]pisode|[Gg]ame", b"[rR]", b"reward"),
        (rb"avg|mean|total|sum", b"[lL]", b"loss"),
    )
)
_VALUE_ALONE: Final = rb"(?m)^[ \t]{0,8}(%b)[ \t]{0,8}$" % NUMBER_PATTERN

# Numbered parts of a model are looked for in this many lines.
_LINES_OF_PARTS: Final = 300


def unknown_evidence(data: bytes, source: str) -> TextEvidence | None:
    """Return the evidence in values without known names, or None if there is too little.

    Args:
        data: the head of the text.
        source: the name of its file, which may say what numbers without a name are.
    """
    head = data[:_UNKNOWN_HEAD_BYTES]
    searches = (
        _abbreviated_splits,
        _named_pairs,
        _parts_of_detectors,
        _rewards_by_letter,
        _named_totals,
        _losses_of_splits,
        _averages_of_episodes,
    )
    rows = next(filter(None, (tuple(search(head)) for search in searches)), ())
    result = evidence(normalize(data, rows)) if rows else None
    if result is not None:
        return replace(result, normalizations=(*rows, *result.normalizations))
    # The number of a part is not a step, and neither is a setting.
    if numbers_parts(head.split(b"\n", _LINES_OF_PARTS)[:_LINES_OF_PARTS]):
        return None
    if _is_frequent(_SETTINGS_BEHIND, head):
        return None
    standard = (*find_decimal_commas(head), *find_notations(head), *find_normalizations(head))
    head = normalize(head, standard)
    fitness = tuple(_fitness_of_generations(head))
    standard, head = (*standard, *fitness), normalize(head, fitness)
    positions = find_positions(head, source)
    result = (
        _values_by_position(head, positions if positions and positions.is_named else None)
        or _values_by_name(head)
        or _values_by_position(head, positions)
        or _values_alone(head)
    )
    if result is None:
        return None
    return replace(result, normalizations=(*standard, *result.normalizations))


def evidence_of_totals(data: bytes, scores: TextEvidence) -> TextEvidence:
    """Return the evidence in totals without the word for a loss, if scores are on few lines.

    [epoch: 3/200, iter: 25/448] total: 1.08, and after each epoch its accuracy. A criterion may be
    next to each score: focal: 1.08 iou: 0.4.
    """
    rows = tuple(_named_totals(data[:_UNKNOWN_HEAD_BYTES]))
    result = evidence(normalize(data, rows)) if rows else None
    if result is None or result.is_without_loss:
        return scores
    is_criterion = _is_frequent(_NAMED_CRITERION, data[:_UNKNOWN_HEAD_BYTES])
    if result.lines < (1 if is_criterion else _TOTALS_PER_SCORE) * scores.lines:
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


def _parts_of_detectors(head: bytes) -> Iterator[Normalization]:
    """Yield the replacements that name what a detector predicts if a text has both parts."""
    if all(_is_frequent(pattern, head) for pattern in _DETECTOR_PARTS):
        for pattern in _DETECTOR_PARTS:
            yield Normalization((), pattern, rb"\g<0>_loss")


def _abbreviated_splits(head: bytes) -> Iterator[Normalization]:
    """Yield the replacements for short names of splits if a text has both of them."""
    for rows in (_SPLIT_LOSSES, _SPLIT_NAMES):
        if all(_is_frequent(pattern, head) for pattern, _ in rows):
            for pattern, name in rows:
                yield Normalization((), pattern, name)
            return


def _named_totals(head: bytes) -> Iterator[Normalization]:
    if _TIME_OF_PASS.search(head):
        return
    # epoch 7 (total: 2000) has the number of epochs, and total: 300 the examples so far.
    values = [match[2] for match in islice(_TOTAL_VALUES.finditer(head), _MAX_NAMES)]
    is_count = all(map(bytes.isdigit, values)) and values == sorted(values, key=int)
    totals = () if is_count else (_TOTAL_NAMES.pattern,)
    for pattern in (*totals, _LOSS_SYMBOLS, _COMPONENTS):
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


def _fitness_of_generations(head: bytes) -> Iterator[Normalization]:
    if _is_frequent(_GENERATION, head):
        for pattern, name in _FITNESS:
            yield Normalization((), pattern, name)


def _rewards_by_letter(head: bytes) -> Iterator[Normalization]:
    rewards, _ = _BY_LETTER[0]
    if _is_frequent(_EPISODE_VALUE, head) and _is_frequent(rewards, head):
        for pattern, name in _BY_LETTER:
            yield Normalization((), pattern, name)


def _is_frequent(pattern: bytes, head: bytes) -> bool:
    if re.search(pattern, outline(head)) is None:  # most texts repeat a few lines
        return False
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
    samples = [(name, take_sample(head, name.encode())) for name in islice(named, _MAX_NAMES)]
    # A value that is not finite says most, then a known score; times and rates say least. The mean
    # of a population says more than its extremes.
    samples.sort(
        key=lambda item: (
            not any(map(is_lost, item[1].values[item[0]])),
            _rank(item[0]),
            item[0] in _EXTREMES,
        )
    )
    for name, sample in samples:
        result = _counted(head, sample)
        each = _LINES_OF_GENERATION if is_fitness(name) else _LINES_APART
        if result is None or not _is_dense(head, result.lines, each):
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


def _values_by_position(head: bytes, positions: Positions | None) -> TextEvidence | None:
    """Return the evidence in numbers that are named by their positions."""
    if positions is None:
        return None
    row = (positions.row,)
    if not (positions.is_named or positions.is_a_loss):
        sample = take_sample(normalize(head, row), MEASURE)
        return _as_measures(on_loss_lines(sample.counters), row)
    result = evidence(normalize(head, row))
    if result is None:
        return None
    return replace(
        result,
        normalizations=(*row, *result.normalizations),
        is_assumed=positions.is_a_loss,
    )


def _values_alone(head: bytes) -> TextEvidence | None:
    """Return the evidence in values on lines of their own, below a counter."""
    values = re.findall(_VALUE_ALONE, head)
    if len(values) < _MIN_COUNTED or not any(b"." in value or is_lost(value) for value in values):
        return None
    has_loss = any(map(is_lost, values))
    name = b"loss" if has_loss else MEASURE
    row = (Normalization((), _VALUE_ALONE, name + rb": \1"),)
    normalized = normalize(head, row)
    if has_loss:
        result = evidence(normalized)
        return None if result is None else replace(result, normalizations=row)
    result = _counted(normalized, take_sample(normalized, MEASURE))
    return _as_measures(result if result and _is_dense(head, result.lines) else None, row)


def _as_measures(
    result: TextEvidence | None, row: tuple[Normalization, ...]
) -> TextEvidence | None:
    """Return the evidence in values that may be anything."""
    if result is None:
        return None
    return replace(result, word=MEASURE, is_unknown=True, normalizations=row)


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


def _is_dense(head: bytes, lines: int, each: int = _LINES_APART) -> bool:
    """Return True if a text has at most a few other lines for each of these lines."""
    return each * lines >= sum(1 for line in head.split(b"\n") if line.strip())
