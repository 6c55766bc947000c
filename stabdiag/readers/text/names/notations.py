"""Rewrite odd notations of names and values as usual ones, if the head of a log has them.

They are decimal commas, counters and values glued to their words, tuples that ``print`` writes in
Python 2, names with the calls of a tensor, dicts of losses, and losses in brackets after a time.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import chain, islice, pairwise
from typing import Final

from stabdiag.model.patterns import lazy_pattern
from stabdiag.model.roles.choice import assign
from stabdiag.model.roles.scores import is_known_score
from stabdiag.readers.text.lines.grammar import Normalization
from stabdiag.readers.text.lines.line_forms import is_frequent, outline
from stabdiag.readers.text.names.counted_names import find_ranges
from stabdiag.readers.text.names.enclosed_values import SCALAR, find_enclosed_values

# Notations are searched for in this many bytes at the head.
_NOTATION_BYTES: Final = 1 << 16


def find_notations(data: bytes) -> Iterator[Normalization]:
    """Yield the replacements for the notations of a log, without its decimal commas."""
    head = data[:_NOTATION_BYTES]
    return chain(
        _glued_counters(data, head),
        _glued_values(head),
        _printed_tuples(head),
        find_enclosed_values(head),
        _called_tensors(head),
        _dicts_of_losses(head),
        _listed_losses(head),
        find_ranges(head),
        _bars_in_brackets(head),
        _timed_losses(head),
        _losses_of_splits(head),
        _episodes(head),
        _counts_before_words(head),
        _positions_in_lists(head),
        _joined_positions(head),
        _counts_at_start(head),
    )


# [200, 3000]: the position and the total. In [2, 2000], an epoch and its last batch, the first
# number rises by one.
_IN_LIST: Final = rb"\[ {0,6}(\d{1,9}), {1,6}(\d{1,12})\]"
_MOST_LISTED_VALUES: Final = 200


def _positions_in_lists(head: bytes) -> Iterator[Normalization]:
    """Yield the replacement for positions that are written as a list of two numbers."""
    listed = [*islice(re.finditer(_IN_LIST, head), _MOST_LISTED_VALUES)] if b", " in head else []
    counts = [int(pair[1]) for pair in listed]
    moves = {after - before for before, after in pairwise(counts)}
    strides = [move for move in moves if move > 0]
    is_position = len({pair[2] for pair in listed}) == 1 and max(counts) <= int(listed[0][2])
    # The count falls where an epoch begins.
    if is_position and min(strides, default=1) > 1:
        yield Normalization((), _IN_LIST, rb"[\1/\2]")


# The positions of an epoch and a batch without a blank between them: [3/100-20/600]
_JOINED: Final = rb"([\[(] {0,6}\d{1,9}/\d{1,9})[-:_](\d{1,12}/\d{1,12} {0,6}[\])])"


def _joined_positions(head: bytes) -> Iterator[Normalization]:
    """Yield the replacement that separates two positions in brackets."""
    if (b"[" in head or b"(" in head) and is_frequent(_JOINED, head):
        yield Normalization((), _JOINED, rb"\1, \2")


# The losses of two splits: tloss: 2.31 vloss: 2.40. A v_loss alone may be a value loss.
_SHORT_SPLITS: Final = tuple(
    Normalization((), rb"(?<![\w./-])%b_?[Ll]oss(?=[\"']?[ :=])" % letter, name)
    for letter, name in ((b"[Tt]", b"train_loss"), (b"[Vv]", b"val_loss"))
)


def _losses_of_splits(head: bytes) -> Iterator[Normalization]:
    """Yield the replacements for short names of the losses of two splits."""
    if b"oss" in head and all(is_frequent(row.pattern, head) for row in _SHORT_SPLITS):
        yield from _SHORT_SPLITS


# Ep 12 next to a reward counts episodes, not epochs.
_EP: Final = rb"(?<![\w./-])[Ee][Pp]\.?(?=[ :#=]{1,3}\d{1,9}%b)"
_REWARD: Final = rb"[^\n]{0,300}(?:[Rr]eward|[Rr]eturn|[Ss]core|_[rR])[\w]{0,12}[ :=]{1,3}-?\d"


def _episodes(head: bytes) -> Iterator[Normalization]:
    """Yield the replacement that names the episodes of a log with rewards."""
    if (
        b"poch" not in head
        and (b"Ep" in head or b"ep" in head)
        and is_frequent(_EP % _REWARD, head)
    ):
        # A reward may also be missing, or not finite.
        yield Normalization((), _EP % b"", b"episode")


# Loss after 100 iterations: 2.31, where the count is in front of its word. The number of a window
# does not rise: loss over the last 100 steps.
_COUNT_BEFORE_WORD: Final = (
    rb"(?m)(?<=[a-z]) (?:at|after|in|for|on) (?:the (?:first )?)?(\d{1,12})"
    rb" (?:training |global )?(step|iteration|epoch|batch|update|episode|game|generation|round)"
    rb"(?:e?s)?(?= ?[:=,-]| is | was )"
)


def _counts_before_words(head: bytes) -> Iterator[Normalization]:
    """Yield the replacement that puts the word of a rising counter in front of its count."""
    counts = [int(match[1]) for match in re.finditer(_COUNT_BEFORE_WORD, head)]
    if len({*counts}) >= _MIN_COUNTS and all(a <= b for a, b in pairwise(counts)):
        yield Normalization((), _COUNT_BEFORE_WORD, rb" at \2 \1")


# 68 epochs, 480 batches  loss: 2.31, and 3rd epoch - loss: 2.31, behind the name of a logger or a
# time. Ten epochs without a better loss do not count, and neither does the 1 of Epi: 1 Steps: 2.
_COUNT_AT_START: Final = (
    rb"(?mi)^((?:[^\n]{0,60}[:\]|>] ?|[\d:., -]{8,40})?[ \t*>-]{0,8}"
    rb"(?:\d{1,9} (?:epoch|step|iteration|batch|update|round|episode)(?:e?s)?, ){0,2})"
    rb"(\d{1,9})(?:st|nd|rd|th)? (%b)(?:e?s)?"
    rb"(?! (?:without|with no|since|in a row|left|remaining|to go|ago)\b)"
    rb"(?![ \t]{0,4}[:=][ \t]{0,4}\d{1,12}(?![.\d]))"
    rb"(?=(?:,| done| completed?| finished)?[ \t]{0,4}[-:=|,(]{0,2}[ \t]{1,8}[A-Za-z\d(]|[:=])"
)
_WORDS_OF_COUNTS: Final = (
    *(b"epoch", b"step", b"iteration", b"batch", b"update", b"round", b"episode"),
)


def _counts_at_start(head: bytes) -> Iterator[Normalization]:
    """Yield the replacements that put the words of rising counts at the start of lines first."""
    lowered = outline(head).lower()
    # Coarse counts are behind finer ones only after these are replaced.
    for word in reversed(_WORDS_OF_COUNTS):
        if word not in lowered:
            continue
        pattern = _COUNT_AT_START % word
        counts = [int(match[2]) for match in re.finditer(pattern, head)]
        if len({*counts}) >= _MIN_COUNTS and all(a <= b for a, b in pairwise(counts)):
            yield Normalization((), pattern, rb"\1\3 \2")


# Decimal commas, as programs print them in most of Europe: loss: 0,482 and 2,31, not a time,
# 10:12:36,388. Groups of thousands have three digits, and none begins with 0.
_MIN_FRACTIONS: Final = 3
_MAX_POINTS: Final = 1

# The end of a number: a comma after it separates two values.
_END: Final = rb"(?=[\s;|)\]}%]|,(?:\s|$)|$)"
_COMMA_FRACTION: Final = lazy_pattern(
    rb"(?<![\w.,])(?<!\d:)[-+]?(?:0,\d{3}|\d{1,9},(?:\d{2}|\d{4,20}))" + _END
)
_DECIMAL_POINT: Final = lazy_pattern(rb"(?<![\w.,:])[-+]?\d{1,9}\.\d{2,20}(?![\w.])")

_DECIMAL_POINTS: Final = Normalization(
    (b",",),
    rb"(?<![\w.,])(?<!\d:)([-+]?\d{1,9}),(?=\d{1,20}(?:[eE][-+]?\d{1,3})?" + _END + rb")",
    rb"\1.",
)


def find_decimal_commas(data: bytes) -> tuple[Normalization, ...]:
    """Return the replacement of decimal commas if a log has several, and hardly a decimal point.

    A sentence above a pasted log may have one.
    """
    head = data[:_NOTATION_BYTES]
    # Most logs have points soon, and the other search is slower.
    if len([*islice(_DECIMAL_POINT.finditer(head), _MAX_POINTS + 1)]) > _MAX_POINTS:
        return ()
    fractions = [*islice(_COMMA_FRACTION.finditer(head), _MIN_FRACTIONS)]
    return (_DECIMAL_POINTS,) if len(fractions) == _MIN_FRACTIONS else ()


_MIN_COUNTS: Final = 3

# The first epoch may be longer than the head. Parts of this size are then searched, this many.
_PART_BYTES: Final = 1 << 12
_GLUED_PARTS: Final = 16

# Counters without a blank after their word: epoch1 loss=2.31, E001 loss 2.31, ep1_loss: 2.31. The
# words of each counter are at the start of a line that names a loss or a reward, or the key of a
# mapping of YAML: epoch_1:
_GLUED_WORDS: Final = (
    (rb"epoch|ep|e", rb"\1epoch \2 "),
    (rb"step|iter(?:ation)?|it|batch|round", rb"\1step \2 "),
    (rb"generation|gen", rb"\1generation \2 "),
    (rb"episode|game", rb"\1episode \2 "),
)
_AT_START: Final = (
    rb"(?mi)^([ \t\[(]{0,4})[\"']?(?:%b)[_-]?(\d{1,9})[\"']?"
    rb"(?=[ \t_:,;\])|-][^\n]{0,200}(?:oss|eward|itness|core\b)|:[ \t\r]{0,8}$)"
)
# The key of a mapping of YAML may be a count only, above lines with values.
_COUNT_AS_KEY: Final = (
    rb"(?m)^([ \t]{0,4})[\"']?(\d{1,9})[\"']?(?=:[ \t\r]{0,8}\n[ \t]{1,12}[\w\"'][^\n:]{0,60}: )"
)
# A count alone on the line above its values: #10, E10, t=10, [10], --- 10 ---
_COUNT_ALONE: Final = (
    rb"(?m)^([ \t]{0,4}[#\[(=*-]{0,12} ?)(?:[A-Za-z]{1,2} ?[=:]? ?)?"
    rb"(\d{1,9})(?=(?:/\d{1,9})?[ \t\])=*:.-]{0,12}\r?$)"
)
_WORD_OF_COUNT: Final = rb"(?i)(?<![a-z])(?:epoch|step|iter|round|batch|episode|update|game|gen)"
# A line names one of these next to a counter without a blank.
_GLUED_MEASURES: Final = (b"oss", b"eward", b"itness", b"core")


def _glued_counters(data: bytes, head: bytes) -> Iterator[Normalization]:
    """Yield the replacements that separate a rising counter from its word."""
    if not any(measure in head for measure in _GLUED_MEASURES):
        return
    yield from _counts_alone(head)
    glued = ((_AT_START % words, replacement) for words, replacement in _GLUED_WORDS)
    for pattern, replacement in (*glued, (_COUNT_AS_KEY, rb"\1step \2 ")):
        counts = [int(match[2]) for match in re.finditer(pattern, head)]
        if counts and len({*counts}) < _MIN_COUNTS and len(data) > len(head):
            counts += _counts_of_parts(data, pattern)
        if len({*counts}) >= _MIN_COUNTS and all(a <= b for a, b in pairwise(counts)):
            yield Normalization((), pattern, replacement)


def _counts_alone(head: bytes) -> Iterator[Normalization]:
    """Yield the replacement that names counts on lines of their own, with a measure below each.

    They rise evenly, which elapsed times do not, and no other counter has a name.
    """
    if b"\n" not in head or re.search(_WORD_OF_COUNT, outline(head)) is not None:
        return
    counts = [*re.finditer(_COUNT_ALONE, head)]
    strides = {int(after[2]) - int(before[2]) for before, after in pairwise(counts)}
    if len(counts) < _MIN_COUNTS or len(strides) > 1 or min(strides) < 1:
        return
    places = [0, *(place for count in counts for place in count.span())]
    blocks = [head[end:begin] for end, begin in zip(places[::2], places[1::2], strict=False)]
    measured = [any(measure in block for measure in _GLUED_MEASURES) for block in blocks]
    # A measure above the first count has its count below it.
    if measured == [False, *[True] * (len(counts) - 1)]:
        yield Normalization((), _COUNT_ALONE, rb"\1step \2")


def _counts_of_parts(data: bytes, pattern: bytes) -> list[int]:
    """Return the counts in parts of a long log, from below its head to its end."""
    stride = max((len(data) - _NOTATION_BYTES) // _GLUED_PARTS, 1)
    begins = range(_NOTATION_BYTES, len(data), stride)
    parts = (data[data.find(b"\n", at) + 1 : at + _PART_BYTES] for at in begins)
    return [int(match[2]) for part in parts for match in re.finditer(pattern, part)]


# Values without a blank after their names: mean_loss0.130139, val acc0.712. A digit may also end a
# name, as in loss1, so the value is a fraction, NaN or
# infinite. A file has a dash or a point next to it.
_GLUED_VALUE: Final = (
    rb"(?i)(?<![\w./-])((?:(?![a-z]{1,9}(?:nan|inf) )[a-z]{1,12}[_ ]){0,3}"
    rb"(?:loss|acc|accuracy|auc|reward|mse|mae|rmse|ppl|lr))"
    rb"(?=(?:\d{1,9}\.\d{2,20}|-?(?:nan|inf))(?![\w.:=/(-]))"
)


# Most logs have none, which is fast to see.
_AFTER_LETTER: Final = rb"(?<=[A-Za-z])(?:\d{1,9}\.\d\d|-?(?:[nN][aA][nN]|[iI][nN][fF])(?!\w))"


def _glued_values(head: bytes) -> Iterator[Normalization]:
    """Yield the replacement that separates values from their names."""
    if is_frequent(_AFTER_LETTER, head) and is_frequent(_GLUED_VALUE, head):
        yield Normalization((), _GLUED_VALUE, rb"\1: ")


_MIN_TUPLES: Final = 2

# A tuple of Python 2: ('Epoch', 3, 'loss', 2.31)
_STRING: Final = rb"u?(?:'[^'\n]{0,100}'|\"[^\"\n]{0,100}\")"
# A number, or a call: tensor(2.31, device='cuda:0')
_TUPLE_VALUE: Final = rb"(?: ?\w{0,20}\([^()\n]{0,60}\)|[^'\",(\n]{1,60})"

# The last line of a log may be cut. Only one of the cells can match, so that a search is linear.
_TUPLE: Final = rb"(?m)^\((%b(?:,(?: ?%b|%b)){1,40})\)?$" % (_STRING, _STRING, _TUPLE_VALUE)

_TUPLE_CELL: Final = lazy_pattern(rb"u?'([^'\n]*)'|u?\"([^\"\n]*)\"|(%b)" % _TUPLE_VALUE)
_DECORATION: Final = lazy_pattern(rb"\\[nrt]|%[dfs]|#")


def _printed_tuples(head: bytes) -> Iterator[Normalization]:
    """Yield the replacement that writes the cells of tuples with blanks between them."""
    if b"\n(" in head and len(re.findall(_TUPLE, head)) >= _MIN_TUPLES:
        yield Normalization((), _TUPLE, _as_words)


def _as_words(line: re.Match[bytes]) -> bytes:
    texts = (_DECORATION.sub(b" ", b"".join(cell)).strip() for cell in _TUPLE_CELL.findall(line[1]))
    return b" ".join(text for text in texts if text)


# loss.item()=2.31, as f"{loss.item()=}" prints it, and loss.detach().cpu().numpy(): 2.31
_CALLS: Final = (
    rb"(?<=\w)(?:\.(?:item|data|detach|mean|sum|cpu|numpy|tolist)(?:\(\))?){0,3}\.\w{1,12}\(\)"
    rb"(?=(?: ?[:=]| ) ?(?:[\w(.]{1,12}\()?%b(?![\w.]))" % SCALAR
)


def _called_tensors(head: bytes) -> Iterator[Normalization]:
    """Yield the replacement that leaves the calls of a tensor out of its name."""
    if b"()" in head and is_frequent(rb"(?i)oss\w{0,20}" + _CALLS, head):
        yield Normalization((), _CALLS, b"")


# loss: {'a': 0.12, 'b': 0.31}: the keys are parts of the name.
_KEY: Final = rb"(?:'[\w./ -]{1,40}'|\"[\w./ -]{1,40}\")"
_DICT_OF_LOSSES: Final = (
    rb"(?<![A-Za-z])((?:[A-Za-z]{2,12}[_ /])?[Ll]oss)(?:es)?[\"']? ?[:=] ?"
    rb"\{(%b: ?%b(?:, ?%b: ?%b){0,20})\}" % (_KEY, SCALAR, _KEY, SCALAR)
)
_LOSSES_IN_DICT: Final = lazy_pattern(rb"oss(?:es)?[\"']? ?[:=] ?\{")
_TOTALS: Final = (b"loss", b"total", b"sum", b"total_loss", b"sum_loss")


def _dicts_of_losses(head: bytes) -> Iterator[Normalization]:
    """Yield the replacement that names each loss of a dict after its key."""
    if _LOSSES_IN_DICT.search(head) is not None and is_frequent(_DICT_OF_LOSSES, head):
        yield Normalization((), _DICT_OF_LOSSES, _as_named_losses)


def _as_named_losses(match: re.Match[bytes]) -> bytes:
    pairs = (pair.split(b":") for pair in match[2].split(b","))
    named = ((_loss_name(match[1], key.strip(b" '\"")), value.strip()) for key, value in pairs)
    return b", ".join(b"%b: %b" % pair for pair in named)


def _loss_name(name: bytes, key: bytes) -> bytes:
    """Return the name of a loss in a dict: loss_a of loss and a, val_loss of val_loss and total."""
    if key.lower() in _TOTALS:
        return name
    split = name.lower().removesuffix(b"loss")
    text = key.decode()
    keeps = b"loss" in key.lower() or is_known_score(text)
    return split + key if keeps else b"%b_%b" % (name, key.replace(b" ", b"_"))


# Losses: cls 0.12, box 0.31: the names in the list are parts of the loss.
_LISTED_PAIR: Final = rb"([A-Za-z][\w/]{0,20})(?:[ :=]{1,3})(%b)(?![\w.%%%%:/])" % SCALAR
_LISTED_LOSSES: Final = (
    rb"(?<![A-Za-z])((?:[A-Za-z]{2,12}[_ ])?[Ll]oss)es(?::| =)?[ \t]{1,4}"
    rb"((?:%b[ \t]{0,4}[,|;]?[ \t]{0,4}){2,20})"
) % re.sub(rb"\((?!\?)", b"(?:", _LISTED_PAIR)


def _listed_losses(head: bytes) -> Iterator[Normalization]:
    """Yield the replacement that names each loss of a list after its name in the list."""
    if b"osses" in head and re.search(_LISTED_LOSSES, head) is not None:
        yield Normalization((), _LISTED_LOSSES, _as_parts)


def _as_parts(match: re.Match[bytes]) -> bytes:
    pairs = re.findall(_LISTED_PAIR, match[2])
    if any(assign([name.decode()]).columns for name, _ in pairs):
        return match[0]
    return b", ".join(b"%b: %b" % (_loss_name(match[1], name), value) for name, value in pairs)


# Train[Cost|2.31 Acc|0.42] Test[Cost|2.40]: the words before the brackets are parts of the names.
_BAR_PAIR: Final = rb"([A-Za-z]\w{0,20})\|(%b)[ ,;]{0,2}" % SCALAR
_BARS_IN_BRACKETS: Final = (
    rb"(?<!\w)([A-Za-z]{2,12}) ?\[((?:[A-Za-z]\w{0,20}\|%b[ ,;]{0,2}){1,20})\]" % SCALAR
)


def _bars_in_brackets(head: bytes) -> Iterator[Normalization]:
    """Yield the replacement that names each value of brackets after the word before them."""
    if b"|" in head and b"[" in head and is_frequent(_BARS_IN_BRACKETS, head):
        yield Normalization((), _BARS_IN_BRACKETS, _as_named_values)


def _as_named_values(match: re.Match[bytes]) -> bytes:
    pairs = re.findall(_BAR_PAIR, match[2])
    return b", ".join(b"%b_%b: %b" % (match[1], *pair) for pair in pairs)


# [02:43:23][#061370][4251ms][0.286][0.137], as DeepFaceLab prints the losses of both faces
_TIMED: Final = rb"(?m)^(\[[\d:]{5,8}\]\[#)(\d{1,9})(\]\[ ?[\d.]{1,9}m?s\])"
_TIMED_LOSSES: Final = _TIMED + rb"((?:\[%b\]){1,2})(?=[ \t\r]*$)" % SCALAR
_TIMED_NAMES: Final = (b"src_loss", b"dst_loss")


def _timed_losses(head: bytes) -> Iterator[Normalization]:
    """Yield the replacement that names the iteration and the losses behind a time."""
    if b"][#" in head and is_frequent(_TIMED, head):
        yield Normalization((), _TIMED_LOSSES, _as_src_and_dst)
        yield Normalization((), _TIMED, rb"\1 iter \2 \3")


def _as_src_and_dst(match: re.Match[bytes]) -> bytes:
    values = match[4].strip(b"[]").split(b"][")
    names = _TIMED_NAMES if len(values) > 1 else (b"loss",)
    losses = (b" %b: %b" % pair for pair in zip(names, values, strict=True))
    return match[1] + match[2] + match[3] + b"".join(losses)
