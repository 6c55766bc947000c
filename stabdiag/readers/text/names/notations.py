"""Rewrite odd notations of names and values as usual ones, if the head of a log has them.

They are decimal commas, values glued to their words, tuples that ``print`` writes in Python 2,
names with the calls of a tensor, dicts of losses, and losses in brackets after a time.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import chain, islice
from typing import Final

from stabdiag.model.patterns import lazy_pattern
from stabdiag.model.roles.choice import assign
from stabdiag.model.roles.scores import is_known_score
from stabdiag.readers.text.lines.grammar import Normalization
from stabdiag.readers.text.lines.line_forms import is_frequent
from stabdiag.readers.text.names.counted_names import find_ranges
from stabdiag.readers.text.names.counter_notations import (
    NOTATION_BYTES,
    find_counts,
    find_glued_counters,
)
from stabdiag.readers.text.names.enclosed_values import SCALAR, find_enclosed_values


def find_notations(data: bytes) -> Iterator[Normalization]:
    """Yield the replacements for the notations of a log, without its decimal commas."""
    head = data[:NOTATION_BYTES]
    return chain(
        find_glued_counters(data, head),
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
        find_counts(head),
    )


# The losses of two splits: tloss: 2.31 vloss: 2.40. A v_loss alone may be a value loss.
_SHORT_SPLITS: Final = tuple(
    Normalization((), rb"(?<![\w./-])%b_?[Ll]oss(?=[\"']?[ :=])" % letter, name)
    for letter, name in ((b"[Tt]", b"train_loss"), (b"[Vv]", b"val_loss"))
)


def _losses_of_splits(head: bytes) -> Iterator[Normalization]:
    """Yield the replacements for short names of the losses of two splits."""
    if b"oss" in head and all(is_frequent(row.pattern, head) for row in _SHORT_SPLITS):
        yield from _SHORT_SPLITS


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
    head = data[:NOTATION_BYTES]
    # Most logs have points soon, and the other search is slower.
    if len([*islice(_DECIMAL_POINT.finditer(head), _MAX_POINTS + 1)]) > _MAX_POINTS:
        return ()
    fractions = [*islice(_COMMA_FRACTION.finditer(head), _MIN_FRACTIONS)]
    return (_DECIMAL_POINTS,) if len(fractions) == _MIN_FRACTIONS else ()


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
