"""Replacements for values with unusual names: pairs, splits, totals, episodes and generations."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import islice
from typing import Final

from stabdiag.model.patterns import lazy_pattern
from stabdiag.readers.text.lines.grammar import NUMBER_PATTERN, Normalization
from stabdiag.readers.text.lines.line_forms import is_frequent
from stabdiag.readers.text.names.split_scores import are_scores

# The fewest lines with a name, and the most names tried.
MIN_COUNTED: Final = 3
MAX_NAMES: Final = 6

# Values that belong together: two networks, two kinds of samples, the terms of a VAE.
_NETWORK_NAMES: Final = (
    (rb"[Nn]et_?D|[Dd]|D[RF]|[Dd]isc?|[Dd]iscriminator|[Cc]ritic", b"D"),
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

# The names of two splits, without the word for a loss: trn 2.31 val 2.40
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
NAMED: Final = rb"(?<![\w./-])(?:%b)(?=[ :=]{1,3}%b)"
_SECTION: Final = rb"(?<![\w./-])(?:%b)(?: - |: ?|\()(?=[a-z]\w{0,20} ?[:=] ?%b)"

# Training criteria, and abbreviations of a word for a loss.
CRITERIA: Final = (
    rb"[Ff]ocal|[Tt]riplet|[Cc]ontrastive|[Hh]inge|[Cc]hamfer|[Rr]esidual|ctc|CTC"
    rb"|[Ll]os|[Ll]ss|[Ee]rr"
)
_TOTAL_NAMES: Final = lazy_pattern(
    rb"(?<![\w./-])([Tt]ot(?:al)?|TOT(?:AL)?|l[12]?|L[a-qs-z\d]?|bp[cdb]|KLD?"
    rb"|[EJ](?= ?[:=] ?(?:-?\d{1,9}\.\d|nan))|%b)"
    rb"(?=(?: ?[:=] ?| (?<=[a-z]{3} )(?=-?\d{0,9}\.\d|nan))%b"
    rb"(?![\w%%:]|\.\d| ?(?:%%|(?:sec|min|s|ms)\b)))" % (CRITERIA, NUMBER_PATTERN)
)

# The parts of the time of a step: model: 219.1, backward: 45.2, and total: 334.2
_TIME_OF_PASS: Final = lazy_pattern(
    rb"(?i)\b(?:forward|backward|optimi[sz]er)(?:[_ ]?(?:pass|step|time))? ?[:=] ?%b"
    % NUMBER_PATTERN
)

# The symbol of a loss: L_total=2.31 L_pde=1.9
_LOSS_SYMBOLS: Final = rb"(?<![\w./-])L_([A-Za-z]\w{0,30})(?= ?[:=] ?%b)" % NUMBER_PATTERN
_TOTAL_VALUES: Final = lazy_pattern(_TOTAL_NAMES.pattern + rb"[ :=]{1,3}(%b)" % NUMBER_PATTERN)

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


def find_unknown_names(head: bytes) -> tuple[Normalization, ...]:
    """Return the replacements for the values that a text names in an unusual way, or none."""
    searches = (
        _abbreviated_splits,
        _named_pairs,
        _parts_of_detectors,
        _rewards_by_letter,
        find_totals,
        _losses_of_splits,
        _averages_of_episodes,
    )
    return next(filter(None, (tuple(search(head)) for search in searches)), ())


def _named_pairs(head: bytes) -> Iterator[Normalization]:
    """Yield the replacements that name the losses of a pair if both are in a text."""
    for pair in _PAIRS:
        for form in (NAMED, _SECTION):
            patterns = [(form % (names, NUMBER_PATTERN), loss) for names, loss in pair]
            if all(is_frequent(pattern, head) for pattern, _ in patterns):
                end = b"_" if form == _SECTION else b""
                for pattern, loss in patterns:
                    yield Normalization((), pattern, b"loss_" + loss + end)


def _parts_of_detectors(head: bytes) -> Iterator[Normalization]:
    """Yield the replacements that name what a detector predicts if a text has both parts."""
    if all(is_frequent(pattern, head) for pattern in _DETECTOR_PARTS):
        for pattern in _DETECTOR_PARTS:
            yield Normalization((), pattern, rb"\g<0>_loss")


def _abbreviated_splits(head: bytes) -> Iterator[Normalization]:
    """Yield the replacements for short names of splits if a text has both of them."""
    for rows in (_SPLIT_LOSSES, _SPLIT_NAMES):
        if all(is_frequent(pattern, head) for pattern, _ in rows):
            for pattern, name in rows:
                yield Normalization((), pattern, name)
            return


def find_totals(head: bytes) -> Iterator[Normalization]:
    """Yield the replacements that name totals, symbols and components as losses."""
    if _TIME_OF_PASS.search(head):
        return
    # epoch 7 (total: 2000) has the number of epochs, and total: 300 the examples so far.
    values = [match[2] for match in islice(_TOTAL_VALUES.finditer(head), MAX_NAMES)]
    is_count = all(map(bytes.isdigit, values)) and values == sorted(values, key=int)
    totals = () if is_count else (_TOTAL_NAMES.pattern,)
    for pattern in (*totals, _LOSS_SYMBOLS, _COMPONENTS):
        if is_frequent(pattern, head):
            yield Normalization((), pattern, rb"\1_loss")


def _losses_of_splits(head: bytes) -> Iterator[Normalization]:
    training, evaluation = ([match[2] for match in re.finditer(p, head)] for p in _SPLIT_VALUES)
    if min(len(training), len(evaluation)) >= MIN_COUNTED and not are_scores(training):
        for pattern in _SPLIT_VALUES:
            yield Normalization((), pattern, rb"\1 loss")


def _averages_of_episodes(head: bytes) -> Iterator[Normalization]:
    if is_frequent(_EPISODE, head) and is_frequent(_EPISODE_AVERAGE, head):
        yield Normalization((), _EPISODE_AVERAGE, b"average_reward")


def find_fitness(head: bytes) -> Iterator[Normalization]:
    """Yield the replacements that name the fitness of the generations of an evolution."""
    if is_frequent(_GENERATION, head):
        for pattern, name in _FITNESS:
            yield Normalization((), pattern, name)


def _rewards_by_letter(head: bytes) -> Iterator[Normalization]:
    rewards, _ = _BY_LETTER[0]
    if is_frequent(_EPISODE_VALUE, head) and is_frequent(rewards, head):
        for pattern, name in _BY_LETTER:
            yield Normalization((), pattern, name)
