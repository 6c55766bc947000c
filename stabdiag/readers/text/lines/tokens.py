"""Find names with values on the lines of any program.

A line may have pairs in any order, with any separators: ``loss: 2.31``,
``"lr"=1e-4``, ``[loss 2.31]``, ``loss tensor(2.31)``, ``foo 7, bar 8ms``. Each name with a value is
a field. A counter is a word with a whole number, or a position such as ``10/600``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import pairwise
from typing import Final, NamedTuple, TypeAlias

from stabdiag.model.patterns import lazy_pattern
from stabdiag.model.roles.names import lost_games
from stabdiag.model.roles.scores import Direction, score_direction
from stabdiag.readers.text.lines.grammar import NUMBER_PATTERN, is_a_loss
from stabdiag.readers.text.lines.measure_words import LOSS_STEM

Span: TypeAlias = tuple[int, int]
# The span of the value of each name on a line.
Spans: TypeAlias = dict[str, Span]

# Longer lines are read in pieces.
LONGEST: Final = 2000

# Names of several capitalized words: Generator Loss, Avg. Train Loss, Val Acc, Dev F1 Score, Loss
# Scale, Loss D, Loss RPN classifier, Gen Loss Total; and loss train (curr), as LitGPT writes it.
# The level of a logger is not part of the name. The split may be in small letters: valid Loss.
_TITLE: Final = (
    rb"(?<![A-Za-z])(?:(?:(?!INFO|DEBUG|WARN|ERROR)[A-Z][\w-]{0,20}\.? (?:of )?){1,3}"
    rb"|(?:train(?:ing)?|val(?:i|id(?:ation)?)?|test(?:ing)?|dev|eval) (?:[A-Z][\w-]{0,20} )?)"
    rb"(?:Loss(?: Total)?|LOSS|ACC(?:URACY)?|RATE|NORM|Acc(?:uracy)?|Rate|Norm|Scale|Cost"
    rb"|Entropy|Objective|MSE|BCE|NLL|ELBO|Likelihood|[Rr]ewards?|[Rr]eturns?"
    rb"|(?:F1|AUC|m?IoU|Dice|BLEU|R2)(?:[ -]Score)?|Precision|Recall|PSNR|SSIM)"
    rb"|(?<![A-Za-z])(?:F1|AUC|IoU|Dice|BLEU|R2)[ -]Score"
    rb"|[Ll]oss (?:[A-Z]\w{0,20}(?: [a-z]\w{0,20}(?=[:=]))?(?![\w.])"
    rb"|[a-z]\w{0,20} \([a-z]{1,12}\)(?=[:=]))"
)

# Python output around a number: [1e-4], [ 0.5], '1e-4', np.float64(2.31),
# tensor([2.31], device=…); and around the first of a dict: {'0_default': 1.2, '1_fp32': 0.0}
_AROUND: Final = (
    rb"(?:\[ {0,12}|[\"']|\{'\d\w{0,20}': |(?:np\.float(?:16|32|64)|tensor|[Aa]rray)\(\[?)?"
)

# A number, without the full stop of a sentence. It may have thousands separators: tps: 7,012.
_GROUPED_NUMBER: Final = NUMBER_PATTERN.replace(
    rb"\d[\d.]{0,60}",
    rb"[1-9]\d{0,2}(?:,\d{3}){1,4}(?![,\d])(?:\.\d{1,9})?|\d{1,60}(?:\.\d{0,60})?",
)

# What may follow a number: nanxxx, as Python fills the width of a NaN, and the points that end a
# sentence, as in Loss: 2.31.. Accuracy: 0.5.. These have no value: "loss is NaN or inf", and
# Validation: 100%|####|, the name of a bar.
_UNIT_SUFFIX: Final = rb"(?:ms|us|s|[KMGT]i?B|nats?|bits?|bp[bcd]|dB)?"
_VALUE_END: Final = (
    rb"(?:(?<=[nN])x{1,4}|\.{1,3}(?![\w.]))?%b"
    rb"(?![\w/\[-]|\.\S|#[A-Z]|:\w|,\d| or |%%\|(?:\d? {2}|#|\xe2\x96))" % _UNIT_SUFFIX
)

# val loss inf -> 2.31: an arrow leads from the old value to the new one.
_CHANGED: Final = rb"(?:%b {0,2}(?:-{1,2}|=)> {0,2})?" % _GROUPED_NUMBER

# A name does not begin with a placeholder of a number or with a unit: grad_norm: N/A loss: 2.31,
# loss_ctc inf lr 1e-4, 40.12 GB grad_norm: 1.5, 0.9 Hz accuracy: 0.5, 512 samples/sec acc=0.5
_NO_VALUE: Final = (
    rb"(?:(?:N/A|None|null|[nN]a[nN]|[iI]nf)"
    rb"|(?<=\d[ \t])(?:[KMGT]i?B|[mu]?s|sec|k?Hz|[a-z]{1,12}/s(?:ec(?:ond)?)?)"
    rb"|(?<=[a-z]/)s(?:ec(?:ond)?)?)[ \t]"
)

# What a measure is of, or when it was measured: Loss of the policy, val loss on the last 9 batches,
# loss after forward pass, win rate vs random. A count is not part of the name: loss after epoch 3.
_OF_WHAT: Final = (
    rb"(?:[A-Za-z][\w-]{0,20}[ _])?"
    rb"(?:[Ll]oss|[Aa]ccuracy|[Rr]ate|[Rr]ewards?|[Rr]eturns?|[Ss]core)(?: value)?"
    rb"(?: (?:averaged|computed|measured|summed))?"
    rb" (?:of|after|before|over|on|in|for|from|at|during|across|with|vs\.?|against)"
    rb"(?: (?:the|this|a|an|all|each))?"
    rb"(?: (?:\d{1,9} (?!is\b))?(?!(?:epoch|step|iter(?:ation)?|batch|round|episode) \d)"
    rb"[a-z][\w-]{0,20}){1,4}"
)

# loss: 2.31, "lr"=1e-4, grad norm: 0.5, training's logloss: 0.5, loss is 2.31, Loss of the policy:
# 2.31, Error was [2.31]
_SIGNED_PAIR: Final = (
    rb"(?<![A-Za-z\d])(?<!N/)(?!%b)"
    rb"(%b|%b|[A-Za-z][\w./@-]{0,60}(?:'s| ?\([\w -]{1,24}\))?(?: [a-z]\w{0,20}){0,2}?"
    rb"(?: \([\w -]{1,24}\))?)"
    rb"(?:(?:[\"'\]]| is)? {0,12}[:=][ \t]{0,40}| is | was (?=\[))%b%b(%b)%b"
    % (_NO_VALUE, _TITLE, _OF_WHAT, _AROUND, _CHANGED, _GROUPED_NUMBER, _VALUE_END)
)
_WORD_SIGNS: Final = (b" is ", b" was ")
# A pair without a sign, loss 2.31, for known names of measurements, which may end with a split.
_SPLIT_BEHIND: Final = rb"(?: (?:[Tt]rain(?:ing)?|[Vv]al(?:id(?:ation)?)?|[Tt]est|[Dd]ev|[Ee]val))?"
_UNSIGNED_PAIR: Final = (
    rb"(?<![\w./-])(?!%b)"
    rb"((?:(?:[Vv]al(?:idation)?|[Ee]val(?:uation)?|[Tt]est) )?"
    rb"(?:(?!(?:INFO|DEBUG|WARN|ERROR)\b)[A-Za-z]\w{0,20}[ /])?[\w./-]{0,40}?"
    rb"(?:[Ll]oss|LOSS|lr(?:ate)?|LR|[Ll]earning [Rr]ate|[Nn]orm(?:/[\w.-]{1,40})?|[Ss]cale|ppl"
    rb"|[Pp]erplexity|[Ll]ikelihood|[Oo]bjective|(?:[Ww]in|[Ss]uccess) [Rr]ate"
    rb"|[Aa]cc(?:uracy)?|[Cc]ost|xent|[Cc]ross[_ -]?[Ee]ntropy|nce|nll|NLL|bce|BCE"
    rb"|mse|MSE|elbo|ELBO|[Rr]ewards?(?: mean)?(?=[ \t]{1,4}[-+]?\d{1,9}\.\d)"
    rb"|[Ee]rr(?:or)?(?=%b[ \t]{1,4}(?:[-+]?\d{1,9}\.\d|nan|NaN|inf)))%b)"
    rb"\]?[ \t]{1,24}%b%b(%b)%b"
    % (_NO_VALUE, _SPLIT_BEHIND, _SPLIT_BEHIND, _AROUND, _CHANGED, _GROUPED_NUMBER, _VALUE_END)
)
# Each name of a pair without a sign contains one of these. A search for them takes far less time.
_UNSIGNED_NAMES: Final = (
    *(b"oss", b"OSS", b"lr", b"LR", b" rate", b" Rate", b"norm", b"Norm", b"cale", b"ppl"),
    *(b"erplexity", b"ikelihood", b"bjective", b"acc", b"Acc", b"cost", b"Cost", b"xent"),
    *(b"ntropy", b"nce", b"nll", b"NLL", b"bce", b"BCE", b"mse", b"MSE", b"elbo", b"ELBO"),
    *(b"eward", b"err", b"Err"),
)
_LOOSE_PAIR: Final = lazy_pattern(_SIGNED_PAIR + b"|" + _UNSIGNED_PAIR)
_WITH_SIGN: Final = lazy_pattern(_SIGNED_PAIR)
_WITHOUT_SIGN: Final = lazy_pattern(_UNSIGNED_PAIR)
# A number behind a sign; not the minutes of a time: 12:34
_SIGN_AND_NUMBER: Final = lazy_pattern(
    rb"[:=](?<![^\w./@-]\d\d.)[ \t]{0,40}%b[-+]?(?:[\d.]|[nN][aA][nN]|[iI][nN][fF])" % _AROUND
)

# Separators of the sections of a line, and the words and numbers that alternate in a section:
# | epoch 3 step 120 loss 2.31 | foo 1,200 | bar 7ms, and epoch 3: foo 1,200
_SEPARATOR: Final = lazy_pattern(rb"[|;\[\](){}\t]|,(?!\d)|(?<=\d): ")
_NAME_TOKEN: Final = lazy_pattern(rb"[A-Za-z][\w./@-]{0,40}")
# A full stop may follow it: iteration 7: perplexity 231.5.
_WHOLE_NUMBER: Final = lazy_pattern(
    rb"(%b)(?:%%|[KMGT])?%b\.{0,3}" % (_GROUPED_NUMBER, _UNIT_SUFFIX)
)
_MAX_TOKEN: Final = 80
_TOKEN: Final = lazy_pattern(rb"\S{1,%d}" % _MAX_TOKEN)
_MIN_ALTERNATING: Final = 3
_NAME_LETTERS: Final = b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_"
# val ROC AUC 0.5
_MAX_WORDS_OF_SCORE: Final = 3
_WORD_SIGN: Final = lazy_pattern(rb"\w")
# Before a name, at the start of a section or behind a number: score 5 average score 7
_AVERAGED: Final = lazy_pattern(
    rb"(?i)(?:[\d|,;:(\[] |^ ?)(?:avg\.?|mean|average|total|running|moving|best|max|min)$"
)
# Suffixes of source files: train.py:102, nnet-training.cc:121
_SOURCE_FILES: Final = (".py", ".cc", ".cpp", ".cu", ".hpp", ".h", ".go", ".rs", ".java", ".jl")

# Loss at step 100: 2.31, Cost after epoch 3: 2.31, Training loss (for one batch) at step 100: 2.31;
# Score at iteration 100 is 2.31, as Deeplearning4j calls its loss, loss(epoch 0): 2.31,
# Training loss at epoch 3 - 2.31, Loss at epoch 3 and step 40 is 2.31, Valid MRR at step 99: 0.31.
_STEP_COUNT: Final = (
    rb"(?:global[ _]|training )?(?:(?:time)?step|iteration|iter|epoch|(?:mini[-_ ]?)?batch|update"
    rb"|episode|game|generation|round|frame|sample)[ #:=]{1,8}\d{1,12}(?:/\d{1,12})?"
)
REPORTED_AT_STEP: Final = lazy_pattern(
    rb"(?<![\w./-])((?:[A-Za-z][\w-]{0,20} ){0,2}?[\w./-]{0,40}"
    rb"(?:[Ll]oss|LOSS|[Cc]ost|[Ee]ntropy|[Oo]bjective|[Ee]rror|ELBO|elbo|MSE|mse|NLL|nll|[Aa]ccuracy"
    rb"|Score(?= at)|[Rr]ewards?|[Rr]eturns?|[Ll]ikelihood|[Pp]erplexity|MRR"
    rb"|(?:HITS|[Hh]its)@\d{1,4})(?: (?:for|of) (?:the )?[a-z]\w{2,20})?)"
    rb"(?: \([\w ]{1,40}\))?(?: (?:at|after|in|for|on|of) (?:(?:the )?end of )?| ?[(\[])"
    rb"%b(?:(?:,? and|,|,? of|,? in)? %b)?[)\]]?(?: (?:is|was):? | - | {0,3}[:=] {0,4})%b(%b)%b"
    % (_STEP_COUNT, _STEP_COUNT, _AROUND, _GROUPED_NUMBER, _VALUE_END)
)
_COUNTED: Final = (
    *(b"step", b"iter", b"epoch", b"batch", b"update", b"episode", b"game", b"generation"),
    *(b"round", b"frame", b"sample"),
)
# One of these is between the name and the step.
_BEFORE_STEP: Final = (b" at ", b" after ", b" in ", b" for ", b" on ", b" of ", b"(", b"[")
# A score is a loss only in this form. A best value is one of many.
_SCORE: Final = b"Score"
_BEST: Final = lazy_pattern(
    rb"(?<![a-z])(?:best|lowest|min(?:imum|imal)?)(?![a-z])[^:=]{0,60}$", re.IGNORECASE
)

_BEST_LENGTH: Final = len("best ")

_CONDITION: Final = lazy_pattern(r"(?i)(?:^|\s)(?:if|when) ")
SAVES: Final = lazy_pattern(rb"(?<![a-z])(?:sav(?:ed|ing)|best|improved)(?![a-z])", re.IGNORECASE)

# file=img7.png loss: 2.31, host=gpu-01.local lr 1e-4: a file, a host or a version is the value of a
# setting, and no part of the next name. mode=train loss: 2.31 names the split, net=G2 loss: 2.31 a
# network.
_SETTING: Final = lazy_pattern(rb"\w=(?=[\w-]{0,40}[\d./])[\w./-]{4,80} {1,4}(?=[A-Za-z])")
# Words before the name of a value.
_WITH: Final = lazy_pattern(r"^with (?:the |an? )?")

# A number that is not a part of a word.
NUMBER_START: Final = lazy_pattern(rb"(?<![\w.])[-+.]{0,2}(?:\d|[nN][aA][nN]|[iI][nN][fF])")
_DIGIT_BYTES: Final = b"0123456789"
# A value depends on at most this many characters after its blank; see ``_VALUE_END``.
_AFTER_NUMBER: Final = 4


def has_number(line: bytes) -> bool:
    """Return True if a line has a number that may be a value; much faster than ``line_fields``."""
    # A line of words has no digit, which is found much faster than a number.
    if len(line.translate(None, _DIGIT_BYTES)) == len(line):
        lowered = line.lower()
        if b"nan" not in lowered and b"inf" not in lowered:
            return False
    return NUMBER_START.search(line) is not None


def _values_end(line: bytes) -> int:
    """Return a position after the last number of a line and the characters that it depends on.

    No field is after it: a search up to there takes far less time on a line of words.
    """
    starts = [match.start() for match in NUMBER_START.finditer(line)]
    end = line.find(b" ", starts[-1]) if starts else 0
    return end + _AFTER_NUMBER if end >= 0 else len(line)


def lines_with_a_loss(data: bytes, word: bytes = LOSS_STEM) -> Iterator[tuple[int, bytes]]:
    """Yield the start and the text of each line that may name a loss; long lines in pieces."""
    place = data.find(word)
    while place >= 0:
        begin = data.rfind(b"\n", 0, place) + 1
        end = data.find(b"\n", place)
        line = data[begin:end] if end >= 0 else data[begin:]
        if len(line) <= LONGEST:
            yield begin, line
        else:
            yield from ((begin + at, line[at:to]) for at, to in _pieces(line, word))
        place = data.find(word, end) if end >= 0 else -1


def _pieces(line: bytes, word: bytes) -> Iterator[tuple[int, int]]:
    """Yield the start and end of each piece of a long line that may name a loss.

    The line is cut at blanks, and at the same places for every word: the fields of a piece are
    found once. A piece without a blank is not a record.
    """
    begin = 0
    while begin < len(line):
        end = begin + LONGEST
        if end < len(line):
            end = line.rfind(b" ", begin + LONGEST // 2, end) + 1 or end
        if line.find(word, begin, end) >= 0 and line.find(b" ", begin, end) >= 0:
            yield begin, end
        begin = end


class Field(NamedTuple):
    """A name on a line, its span, and the span of its value."""

    name: str
    at: Span
    value: Span


# train/val loss: 2.31 / 2.40, Loss (train/val): 2.31/2.40, loss_train/test: 2.31/2.40
_BOTH: Final = lazy_pattern(
    rb"(?:%b[ _]([A-Za-z]\w{0,20})|([A-Za-z]\w{0,20}?)(?: ?\(|_)%b\)?)"
    rb" {0,4}[:=]? {0,8}(%b)(?:(?<=nan|inf)[^/\d\n]{1,24})? {0,4}/ {0,4}(%b)(?![\w/])"
    % (
        *2 * (rb"(tr(?:ai)?n(?:ing)?) ?/ ?(val|valid|validation|eval|test|dev)",),
        _GROUPED_NUMBER,
        _GROUPED_NUMBER,
    ),
    re.IGNORECASE,
)


def _fields_of_two_splits(line: bytes) -> Iterator[Field]:
    """Yield a field for each split if a line has one name with two values."""
    for match in _BOTH.finditer(line) if b"/" in line else ():
        name = (match[3] or match[4]).decode()
        for split, value in ((match[1] or match[5], 7), (match[2] or match[6], 8)):
            yield Field(f"{split.decode()} {name}", match.span(), match.span(value))


@lru_cache(maxsize=1 << 12)
def line_fields(line: bytes) -> Sequence[Field]:
    """Return the fields of a line, the most certain of each name first. Cached."""
    both = [*_fields_of_two_splits(line)]
    fields = [*both]
    pattern = _pair_pattern(line)
    for match in pattern.finditer(line, 0, _values_end(line)) if pattern is not None else ():
        group = 1 if match[2] is not None else 3
        if not both or all(
            match.start(group) >= item.at[1] or match.end() <= item.at[0] for item in both
        ):
            fields.append(_field(line, match.span(group), match.span(group + 1)))
    taken = [item.value for item in fields] + [item.at for item in fields]
    # A name may have a number: optim/LR (group 0)=3e-4
    fields += [
        item for item in _alternating(line) if not any(a <= item.value[0] < b for a, b in taken)
    ]
    fields += _reported_at_step(line)
    # The number after a file name is the line number of the logging call: train.py: 171
    others = lost_games(x.name for x in fields) if b"oss" in line else ()
    fields = [x for x in fields if not (x.name.endswith(_SOURCE_FILES) or x.name in others)]
    # Will abort if loss is nan.
    if b"if " in line or b"hen " in line:
        fields = [item for item in fields if not _CONDITION.search(item.name)]
    # New best model saved with loss 2.31, and epoch 3 completed with the loss: 2.31
    if b"ith " in line or b"ITH " in line:
        if SAVES.search(line):
            fields = [item for item in fields if not item.name.lower().startswith("with ")]
        fields = [item._replace(name=_WITH.sub("", item.name)) for item in fields]
    if b"," not in line:
        return fields
    # A loss of 2,345 may have a decimal comma, unless another value of its line has a point. A
    # throughput of 7,012 has a thousands separator.
    if any(b"." in line[slice(*x.value)] for x in fields):
        return fields
    return [x for x in fields if not (b"," in line[slice(*x.value)] and is_a_loss(x.name))]


def _pair_pattern(line: bytes) -> re.Pattern[bytes] | None:
    """Return the fastest pattern that finds all pairs of a line, or None if it has none."""
    may_have_unsigned = any(name in line for name in _UNSIGNED_NAMES)
    if _SIGN_AND_NUMBER.search(line) is not None or any(sign in line for sign in _WORD_SIGNS):
        return _LOOSE_PAIR if may_have_unsigned else _WITH_SIGN
    return _WITHOUT_SIGN if may_have_unsigned else None


def _field(line: bytes, at: Span, value: Span, suffix: str = "") -> Field:
    """Return a field. The name of a time that is not in seconds includes its unit: ``dt (ms)``."""
    if at[0] > 1 and line[at[0] - 1] == ord("="):
        setting = _SETTING.match(line, at[0] - 2, at[1])
        at = (setting.end(), at[1]) if setting is not None else at
    unit = line[value[1] : value[1] + 2]
    suffix += f" ({unit.decode()})" if unit in (b"ms", b"us") else ""
    # Best Val loss: 0.94 is not the loss of this epoch.
    before = line[max(at[0] - _BEST_LENGTH, 0) : at[0]]
    at = (at[0] - _BEST_LENGTH, at[1]) if before.lower() == b"best " else at
    return Field(line[slice(*at)].decode("utf-8", "replace") + suffix, at, value)


def _alternating(line: bytes) -> Iterator[Field]:
    """Yield the fields of sections with alternating words and numbers.

    Each word names the number after it, known or not. Several pairs may follow other words, such as
    the time and the name of a logger.
    """
    for begin, end in _sections(line):
        # Most sections do not end on a number, which is fast to see.
        last = line[begin:end].rsplit(None, 1)[-1:]
        if not last or (len(last[0]) <= _MAX_TOKEN and not _WHOLE_NUMBER.fullmatch(last[0])):
            continue
        tokens = [token.span() for token in _TOKEN.finditer(line, begin, end)]
        pairs: list[Field] = []
        while len(tokens) > 1:
            number = _WHOLE_NUMBER.fullmatch(line, *tokens[-1])
            if number is None or not _NAME_TOKEN.fullmatch(line, *tokens[-2]):
                break
            before = line[max(tokens[-3][0] - 2, 0) : tokens[-3][1]] if len(tokens) > 2 else b""
            words = 2 if _AVERAGED.search(before) else _words_of_score(line, tokens)
            pairs.append(_field(line, (tokens[-1 - words][0], tokens[-2][1]), number.span(1)))
            del tokens[-1 - words :]
        # Only signs are left: step 10 (0.4 s): train 2.31 val 2.40
        if tokens and not _WORD_SIGN.search(line, tokens[0][0], tokens[-1][1]):
            tokens = []
        if not tokens or len(pairs) >= _MIN_ALTERNATING:
            yield from reversed(pairs)
        elif pairs:
            # A word in front belongs to the name: target BLEU 30.5 is not a score of this model.
            if line[tokens[-1][0] : tokens[-1][1]].isalpha():
                del pairs[-1]
            yield from (item for item in reversed(pairs) if _is_score(line, item))


def _sections(line: bytes) -> Iterator[Span]:
    """Yield the spans of the sections of a line, without the name of a list that follows.

    This is the name: ``train 2.31 val 2.40 lr [0.001]``.
    """
    parts = [match.start() for match in _SEPARATOR.finditer(line)]
    for before, end in pairwise([-1, *parts, len(line)]):
        section = line[before + 1 : end]
        if line[end : end + 1] == b"[" and section[-1:].isspace():
            section = section.rstrip().rstrip(_NAME_LETTERS)
        yield before + 1, before + 1 + len(section)


def _words_of_score(line: bytes, tokens: Sequence[Span]) -> int:
    """Return the number of words in front of the last number: several name a score, val AUC 0.5."""
    if b"." not in line[slice(*tokens[-1])]:
        return 1
    for words in range(_MAX_WORDS_OF_SCORE, 1, -1):
        names = tokens[-1 - words : -1]
        if len(names) == words and all(_NAME_TOKEN.fullmatch(line, *name) for name in names):
            name = line[names[0][0] : names[-1][1]].decode("utf-8", "replace")
            if score_direction(name) is Direction.HIGHER:
                return words
    return 1


def _is_score(line: bytes, item: Field) -> bool:
    """Return True if a name with a decimal value is a score, and no error."""
    is_decimal = b"." in line[slice(*item.value)]
    return is_decimal and score_direction(item.name) is Direction.HIGHER


def _reported_at_step(line: bytes) -> Iterator[Field]:
    """Yield the values with a step between name and value."""
    if not all(any(text in line for text in texts) for texts in (_BEFORE_STEP, _COUNTED)):
        return
    for match in REPORTED_AT_STEP.finditer(line):
        if not _BEST.search(line[: match.end(1)]):
            suffix = " at" if match[1].endswith(_SCORE) else ""
            yield _field(line, match.span(1), match.span(2), suffix)
