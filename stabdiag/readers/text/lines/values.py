"""Rewrite odd spellings of values in a text as ``nan``, ``inf`` or a null.

``loss: (nan)``, ``loss=-nan(ind)``, ``loss 1.#QNAN``, ``loss: tensor(2.31, device='cuda:0')``,
``loss: None``, ``loss: ***``: the grammars and the search for names and values see ``nan``,
``inf``, ``2.31`` or a null in their place. ``readers/values.py`` has the table of spellings.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Final, TypeAlias

from stabdiag.model.patterns import lazy_pattern
from stabdiag.model.roles.other_losses import is_objective, is_other_loss
from stabdiag.readers.text.lines.grammar import NUMBER_PATTERN
from stabdiag.readers.text.lines.line_forms import line_forms, may_contain, outline
from stabdiag.readers.values import NULL_WORDS, PHRASES, not_finite

Replacement: TypeAlias = bytes | Callable[[re.Match[bytes]], bytes]

# A loss without a value. It has the form of a number, so that every pattern finds it, and no
# program writes NaN in this way.
NULL_CELL: Final = b"nAN"
# A placeholder with the reason for the missing value: val_loss=nan (not run yet)
NOT_MEASURED: Final = (
    rb"(?<=[:= ])(?:[nN]a[nN]|[-+]?inf)(?= ?\((?:not (?:yet|run|evaluated|computed|measured"
    rb"|available"
    rb"|started|logged|done)|no \w{1,20} (?:yet|so far)|never (?:run|evaluated)"
    rb"|(?:\w{1,20} )?starts? (?:at|in|with))\b[^)\n]{0,60}\))"
)

# tensor(2.31, device='cuda:0', grad_fn=<NllLossBackward0>), np.float32(2.31), array([2.31]): the
# ends of their names, which are fast to find, and the whole.
_WRAPPER_ENDS: Final = (
    *((b"ensor(", lazy_pattern(rb"ensor\(")), (b"rray(", lazy_pattern(rb"rray\("))),
    (b"loat00(", lazy_pattern(rb"loat\d\d\(")),
)
_WRAPPER: Final = lazy_pattern(
    rb"(?:[a-z]{1,10}\.){0,2}(?:[tT]ensor|[A-Za-z]{0,10}[Aa]rray|[bB]?[fF]loat\d\d)\(\Z"
)
_LONGEST_WRAPPER: Final = 32
_WRAPPED: Final = lazy_pattern(
    rb"\[{0,3} ?(%b) ?\]{0,3}"
    rb"(?:, [^\[\]()\n]{1,100}(?:\(\)[^\[\]()\n]{0,100})?)?\)" % NUMBER_PATTERN
)

# <tf.Tensor: shape=(), dtype=float32, numpy=2.31>
_EAGER_TENSOR: Final = lazy_pattern(
    rb"<tf\.(?:Tensor|Variable)[^<>\n]{0,120}numpy=(%b)>" % NUMBER_PATTERN
)

# Lines of tensors only, below a loss in words or in code: print(loss), loss:
_BARE_TENSOR: Final = (
    rb"[ \t]{0,8}tensor\(%b(?:, [^\n()]{1,60}(?:\([^\n()]{0,20}\))?[^\n()]{0,60})?\)[ \t\r]{0,8}"
    % NUMBER_PATTERN
)
_BARE_TENSORS: Final = lazy_pattern(
    rb"(?:(?<=\n)|\A)%b(?:\n{1,4}%b){1,100000}(?=\n|\Z)" % (_BARE_TENSOR, _BARE_TENSOR)
)
# PyTorch before 0.4 prints the number of a variable on a line of its own:
# Variable containing:
#  2.31
# [torch.cuda.FloatTensor of size 1 (GPU 0)]
_VARIABLE: Final = lazy_pattern(
    rb"Variable containing:[ \t\r]{0,8}\n[ \t]{0,20}(%b)[ \t\r]{0,8}\n"
    rb"\[torch\.[\w.]{1,40} of size 1(?:x1)?(?: \(GPU \d{1,3}\))?\]" % NUMBER_PATTERN
)
_LOSS_ABOVE: Final = 400

# nan.0, as Lightning prints a value that it rounds to the width of others.
_WITH_DECIMALS: Final = lazy_pattern(rb"(nan|inf|NaN|Inf)(?<![\w.]...)\.0{1,6}(?![\w.])")
_ROUNDED: Final = (b"nan.0", b"inf.0", b"NaN.0", b"Inf.0")

# .nan and -.inf, as YAML writes them.
_YAML: Final = lazy_pattern(rb"\.(nan|inf)(?:(?<=: ....)|(?<=: [-+]....))(?![\w.])")

# 1.#QNAN, -1.#IND00, 1.#INF, and 1.#J or 1.$ in a short format: Microsoft's C runtime prints them.
_MICROSOFT: Final = lazy_pattern(
    rb"[-+]?(?<![\d.])1\.(?:#[A-Z]{1,8}\d{0,12}(?:e[-+]?\d{1,4})?|\$)(?![\w$])"
)

# 1.5f-5 in Julia and 1.5D-05 in Fortran. A decimal point tells them from hexadecimal digits.
_WRITTEN_EXPONENT: Final = lazy_pattern(
    rb"(?<![\w.])([-+]?\d{1,20}\.\d{0,20})[fdD]([-+]?\d{1,3})(?![\w.])"
)
_EXPONENT_STARTS: Final = (b"0f0", b"0f-0", b"0D-0", b"0D+0", b"0d-0", b"0d+0")

# Julia's NaN of 16 and 32 bits, and what AIX and C add to it.
_NAN32: Final = tuple(
    (
        word,
        tuple(word + end for end in (b"00", b"Q", b"q", b"f")),
        lazy_pattern(rb"%b(?<![\w.]...)(?:16|32|Q|q|f)(?!\w)" % word),
    )
    for word in (b"NaN", b"Inf", b"nan", b"NAN")
)

# (nan), [nan], "nan", -nan(ind), nan%, nan.0, NaN32 in place of a value.
_MARKED: Final = (
    lazy_pattern(rb"nan(?:[\"'()%.\]]|[qf](?!\w))"),
    lazy_pattern(rb"NaN[\"'()%.\dQ\]]"),
    lazy_pattern(rb"inf[\"'().\]]"),
    lazy_pattern(rb"Inf\d"),
    lazy_pattern(rb"NANQ"),
)
_ENCLOSED: Final = lazy_pattern(
    rb"(?:(?<=[:=])|(?<=[:=>] )|(?<=LOSS ))"
    rb"[\"'(\[]{1,2}([-+]?(?:nan|NaN|NAN|[iI]nf(?:inity)?))"
    rb"(?:\(\w{0,20}\)|%)?[\"')\]]{1,2}(?=[\s,;|}\])]|$)"
    rb"|(?<![\w.])([-+]?(?:nan|NaN))(?:\(\w{1,20}\)|%)(?=[\s,;|}\])]|$)"
)
# What begins after at most this many signs and brackets.
_NOT_FINITE_WORDS: Final = tuple(
    (word, lazy_pattern(word)) for word in (b"nan", b"NaN", b"NAN", b"inf", b"Inf")
)
_MAX_OPENING: Final = 3

# Loss: <2.31>, as MADlib prints its values.
_ANGLED: Final = lazy_pattern(rb"<(?<=[:=] <)(%b)>(?=[\s,;|]|$)" % NUMBER_PATTERN)

# <loss>NaN (skipped)</loss>
_ELEMENT: Final = lazy_pattern(rb"(?<=>)([^<>\s\d][^<>\n]{0,60})(?=</)")

# Values of a loss that are not numbers: loss: None, loss=N/A, loss (nan),
# loss ***, "loss": #NUM!, loss=float('inf'), loss: 非数. The table of spellings knows which of them
# are not finite; a dash alone only counts where no number follows it.
_BRACKETED: Final = (
    rb"[\w.]{0,40}(?:\((?:[^()\n]|\([^()\n]{0,80}\)){0,160}\)|\[[^\[\]\n]{1,80}\]"
    rb"|\{[^{}\n]{1,80}\}|<[^<>\n]{1,160}>)"
)
_LONG_PHRASES: Final = b"|".join(
    re.escape(phrase.encode()) for phrase in sorted(PHRASES, reverse=True) if " " in phrase
)
_LOSS_CELL: Final = rb"(?i:%b)|[^\s\d.:=|,;\"'][^\n,;|\"']{0,40}?" % _LONG_PHRASES
# In a sentence, these words may follow the word "loss".
_SENTENCE_WORDS: Final = (
    rb"overflow|OVERFLOW|diverged|DIVERGED|none|missing|un|[Nn]on-?fin|[Nn]ot[ -]"
    rb"|[Ii]n(?:fini|def|det)"
)
_OF_A_LOSS: Final = lazy_pattern(
    # Nearly all losses are numbers, and the first line excludes them fast. It also excludes
    # Colossal-AI.
    rb"oss(?![\"']?(?:: |=| )\d|[_ ]scale)(?<=[lL]oss)(?<![cC]oloss)"
    rb"([\w/.-]{0,40}(?![\w/.-])[\"'\]]?(?: (?:at|of|in|for) [A-Za-z]{1,12} \d{1,12})?"
    rb"[ \t]{0,12}(?:[:=|][ \t]{0,12}|(?<=[ \t])(?!%b)"
    rb"|(?<=[ \t])(?=\w{4,9}(?:[ \t]{1,4}[a-z]\w{0,40}[ \t]{1,4}[-+]?\.?\d|,"
    rb"|[ \t]{0,8}(?:\n|$)))))"
    rb"(?P<quote>[\"']?)(%b|%b)(?P=quote)(?=[ \t]{0,40}(?:$|[\n\r,;|}\])]|(?<=\))/ ?\d)|[ \t]{1,40}"
    rb"(?![-+]?(?:\.?\d|nan|NaN|inf)))" % (_SENTENCE_WORDS, _BRACKETED, _LOSS_CELL)
)


# Terms of a loss without a value, under names without that word: kl: None, nll=N/A, kl n/a, "kl":
# "None", kl: -. A dash between blanks may be a separator, and in front of a number its sign.
_NULL_END: Final = rb"(?=[\"']?(?:[\s,;|})\]]|$))(?![ \t]{1,9}[\d.])"
_PRINTED_NULLS: Final = (
    *(
        (word, lazy_pattern(word + _NULL_END))
        for word in (b"None", b"N/A", b"null", b"n/a", b"overflow", b"Overflow")
    ),
    *(
        (sign, lazy_pattern(rb"%b{1,3}%b" % (sign, _NULL_END)))
        for sign in (b": -", b"= -", b":-", b"=-")
    ),
)
_NAME_BEFORE_NULL: Final = lazy_pattern(
    rb"(?<![\w./-])([A-Za-z][\w/.-]{0,40})[\"']?(?: ?[:=] ?|[ \t]{1,12})[\"']?\Z"
)
_LONGEST_TERM: Final = 48


# 2·31: a point in the middle of its line, as British and Spanish texts print it.
_MIDDLE_POINT: Final = lazy_pattern(rb"(?<=\d)\xc2\xb7(?=\d)")

# A mark behind the last value, or in front of a delimiter: loss: 2.31 ✓ |
_VALUE_MARKS: Final = ("✓", "✔", "✅", "★", "⭐", "↓", "↑", "🔥", "❗")
_MARK_PARTS: Final = tuple(mark.encode() for mark in _VALUE_MARKS)
_VALUE_MARK: Final = lazy_pattern(
    rb"(?<=[\dnNf])[ \t]?(?:%b)(?=[ \t]{0,8}(?:[|,;)\n\r]|$))" % "|".join(_VALUE_MARKS).encode()
)


def name_bare_tensors(data: bytes) -> bytes:
    """Return a text with a name for the loss on lines that consist of tensors.

    A loss is named above them, or they have a gradient: usually only a loss is printed with one.
    """
    if may_contain(data, b"Variable containing:"):
        data = _VARIABLE.sub(rb"tensor(\1, grad_fn=<Variable>)\n\n", data)
    if not may_contain(data, b"tensor(") or b"\ntensor(" not in data:
        return data

    def named(match: re.Match[bytes]) -> bytes:
        above = data[max(match.start() - _LOSS_ABOVE, 0) : match.start()]
        is_loss = b"loss" in above or match[0].count(b"grad_fn=") == match[0].count(b"tensor(")
        return match[0].replace(b"tensor(", b"loss: tensor(") if is_loss else match[0]

    return _BARE_TENSORS.sub(named, data)


def _spelled(match: re.Match[bytes]) -> bytes:
    value = not_finite(match[0].decode("utf-8", "replace"))
    return match[0] if value is None else b"%a" % value


# Odd spellings, in the order of their replacement, with texts of which each match has one.
_SPELLINGS: Final[Sequence[tuple[Sequence[bytes], re.Pattern[bytes], Replacement]]] = (
    (_MARK_PARTS, _VALUE_MARK, b""),
    ((b"\xc2\xb7",), _MIDDLE_POINT, b"."),
    ((b", numpy=",), _EAGER_TENSOR, rb"\1"),
    (_EXPONENT_STARTS, _WRITTEN_EXPONENT, rb"\1e\2"),
    ((b"1.#", b"1.$"), _MICROSOFT, _spelled),
    ((b" <",), _ANGLED, rb"\1"),
    ((b"</",), _ELEMENT, _spelled),
)


def plain_values(data: bytes) -> bytes:
    """Return a text with odd spellings of values rewritten; no line is added or removed."""
    if may_contain(data, *(text for text, _ in _WRAPPER_ENDS)):
        data = _unwrap_values(data)
    for texts, pattern, replacement in _SPELLINGS:
        if may_contain(data, *texts):
            data = pattern.sub(replacement, data)
    if may_contain(data, b"nan", b"inf", b"NaN"):
        data = _YAML.sub(rb"\1", data) if may_contain(data, b".nan", b".inf") else data
        if any(mark.search(outline(data)) for mark in _MARKED):
            for word, texts, pattern in _NAN32:
                data = pattern.sub(word, data) if may_contain(data, *texts) else data
            data = _WITH_DECIMALS.sub(rb"\1", data) if may_contain(data, *_ROUNDED) else data
            data = _without_marks(data)
    for word, pattern in _PRINTED_NULLS:
        if may_contain(data, word):
            data = pattern.sub(_as_null_term, data)
    if _OF_A_LOSS.search(outline(data)) is None:
        return data
    # The zero of #DIV/0 is a part of its spelling.
    matches = _OF_A_LOSS.finditer(b"\n".join(line_forms(data)))
    has_odd_values = any(_value_of_a_loss(match) != match[0] for match in matches)
    return _OF_A_LOSS.sub(_value_of_a_loss, data) if has_odd_values else data


def _as_null_term(match: re.Match[bytes]) -> bytes:
    """Return a null or NaN in place of a word that means it, behind a term of a loss."""
    sign = match[0][: len(match[0]) - len(match[0].lstrip(b":= "))]
    above = match.string[max(match.start() - _LONGEST_TERM, 0) : match.start()] + sign
    name = _NAME_BEFORE_NULL.search(above)
    # The words behind "loss" are searched below.
    if name is None or b"oss" in name[1].lower():
        return match[0]
    term = name[1].decode("utf-8", "replace")
    if not (is_other_loss(term) or is_objective(term)):
        return match[0]
    return sign + (NULL_CELL if not_finite(match[0].decode()) is None else b"nan")


def _without_marks(data: bytes) -> bytes:
    """Return a text without brackets, quotes and percent signs at non-finite values."""
    starts = sorted(
        match.start()
        for word, pattern in _NOT_FINITE_WORDS
        if word in data
        for match in pattern.finditer(data)
    )
    kept: list[bytes] = []
    place = 0
    for start in starts:
        begins = range(max(start - _MAX_OPENING, place), start + 1)
        matches = (_ENCLOSED.match(data, begin) for begin in begins)
        match = next(filter(None, matches), None)
        if match is not None:
            kept += data[place : match.start()], match[1] or match[2]
            place = match.end()
    return b"".join([*kept, data[place:]]) if kept else data


def _unwrap_values(data: bytes) -> bytes:
    """Return a text with each wrapped number without its wrapper."""
    ends = [
        match.end()
        for text, pattern in _WRAPPER_ENDS
        if may_contain(data, text)
        for match in pattern.finditer(data)
    ]
    kept: list[bytes] = []
    place = 0
    for end in sorted(ends):
        value = _WRAPPED.match(data, end)
        start = _WRAPPER.search(data, max(end - _LONGEST_WRAPPER, place), end)
        if value is not None and start is not None:
            kept += data[place : start.start()], value[1]
            place = value.end()
    return b"".join([*kept, data[place:]]) if kept else data


def _value_of_a_loss(match: re.Match[bytes]) -> bytes:
    text = match[3].decode("utf-8", "replace")
    if text.lower() in NULL_WORDS:
        return b"oss%b%b" % (match[1], NULL_CELL)
    # At the end of a sentence, the word is not the value of a record.
    value = None if text.endswith(".") else not_finite(text)
    return match[0] if value is None else b"oss%b%a" % (match[1], value)
