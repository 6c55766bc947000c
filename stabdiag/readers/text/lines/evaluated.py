"""Words for an evaluation before the values on a line, and the prefixes that names get for them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from stabdiag.model.patterns import lazy_pattern
from stabdiag.model.roles.names import is_evaluation
from stabdiag.model.roles.scores import score_direction
from stabdiag.readers.text.lines.counters import line_counters
from stabdiag.readers.text.lines.grammar import is_a_loss, trains
from stabdiag.readers.text.lines.tokens import Field, line_fields

# The prefixes of names on a line of an evaluation.
VALIDATED: Final = "val "
TESTED: Final = "test "
EVALUATED: Final = (VALIDATED, TESTED)

# CV is the set for cross-validation; mi-test and fit_test are names of runs.
_EVALUATION_WORD: Final = (
    rb"(?<![A-Za-z])(?<!\w[-_])(?:(?:vali?|valid(?:at(?:e|ing|ion))?|eval(?:uat(?:ing|ion))?"
    rb"|test(?:ing)?|tst|dev)(?:set)?|h[eo]ld[ _-]?out|(?-i:CV))(?![A-Za-z_])"
)
# Every word for an evaluation contains one of these.
EVALUATION_STEMS: Final = (b"val", b"test", b"tst", b"dev", b"cv", b"held", b"hold")
_EVALUATION_TOKEN: Final = lazy_pattern(_EVALUATION_WORD, re.IGNORECASE)
# A heading above the lines of its losses: Val:, --- Test results ---
_EVALUATION_HEADING: Final = lazy_pattern(
    rb"[\s=*#>\[-]{0,40}(%b)(?: (?:results?|set|metrics|stats))?[\s=*#>:\]-]{0,40}$"
    % _EVALUATION_WORD,
    re.IGNORECASE,
)
# A word before the values of one split: Train: loss 2.3 | Val: loss 2.4, [valid] loss=2
_OPENS: Final = lazy_pattern(
    rb"(?<![\w/.-])(?:%b|tr(?:ai)?n(?:ing)?(?:set)?)(?:[\])]:?|:| ?\|| -)[ \t]{1,4}"
    rb"(?=[{(\[]?[A-Za-z\"'])(?!(?:n/a|none|null|nan|inf)\b)" % _EVALUATION_WORD,
    re.IGNORECASE,
)

# The time of an evaluation is before its values: Valid. time: 3.02s, loss: 2.4
_TIME_OF_EVALUATION: Final = lazy_pattern(
    rb"%b\.?[ _-](?:time|duration)\b" % _EVALUATION_WORD, re.IGNORECASE
)

# The name of the data right before the first value: Img Val | Loss: 2.3, INFO:main:dev-clean: WER 7
_DATA_LABEL: Final = lazy_pattern(
    rb"(?<![\w./-])((?:[A-Za-z][\w-]{0,24}[\])]? ){0,3}[A-Za-z][\w-]{0,24})[\])]?"
    rb"[ \t]{0,8}[:|>=\t-][\s|:>-]{0,12}$"
)
# These words say no more than that it is an evaluation, or which of its results these are.
_NO_DATA: Final = frozenset(
    b"set data dataset results result epoch step best saved saving improved last previous current"
    b" info debug warning loss metrics score scores".split()
)


def data_label(line: bytes) -> str:
    """Return the name of the data in front of the values of a line, or ""."""
    fields = line_fields(line)
    if not fields:
        return ""
    match = _DATA_LABEL.search(line, 0, min(item.at[0] for item in fields))
    if match is None:
        return ""
    words = [word.rstrip(b"])") for word in match[1].split()]
    words = [word for word in words if not _EVALUATION_TOKEN.fullmatch(word)]
    if not words or any(word.lower() in _NO_DATA for word in words):
        return ""
    return b" ".join(words).decode("utf-8", "replace")


def is_evaluated(name: str) -> bool:
    """Return True for the name of a value of an evaluation, with or without a prefix."""
    return name.startswith(EVALUATED) or (is_evaluation(name) and not trains(name))


def under_its_heading(data: bytes, begin: int, line: bytes) -> bytes:
    """Prefix a line without a counter with the evaluation that the line above it names."""
    above = _EVALUATION_HEADING.match(
        data, data.rfind(b"\n", 0, max(begin - 1, 0)) + 1, max(begin - 1, 0)
    )
    return line if above is None or line_counters(line) else b"%b %b" % (above[1], line)


def evaluation_prefix(line: bytes, first: int) -> str:
    """Return the prefix for names after a word for an evaluation or a test, or ""."""
    match = _EVALUATION_TOKEN.search(line, 0, first)
    if match is None:
        return ""
    return TESTED if match[0].lower().startswith(b"test") else VALIDATED


def evaluation_prefixes(line: bytes, fields: Sequence[Field]) -> list[str]:
    """Return the prefix of each field for the evaluation that is named before it, or ""."""
    lowered = line.lower()
    if not any(stem in lowered for stem in EVALUATION_STEMS):
        return [""] * len(fields)
    first = min((item.at[0] for item in fields), default=0)
    opened = [(0, evaluation_prefix(line, first))]
    opened += [
        (match.end(), evaluation_prefix(match[0], len(match[0])))
        for pattern in (_TIME_OF_EVALUATION, _OPENS)
        for match in pattern.finditer(line, first)
    ]
    opened.sort()
    prefixes = [next(text for at, text in reversed(opened) if at <= item.at[0]) for item in fields]
    if fields and not any(prefixes) and (own := _only_evaluation(fields)):
        return [own if score_direction(item.name) is not None else "" for item in fields]
    return prefixes


def evaluation_of_loss(line: bytes) -> str:
    """Return the prefix for the names of a line if its only loss is an evaluation loss, else ""."""
    fields = line_fields(line)
    return _only_evaluation(fields) if fields else ""


def _only_evaluation(fields: Sequence[Field]) -> str:
    """Return the prefix of a line that begins with its only evaluation: val loss: 2.4, acc: 0.6.

    The scores after the only loss belong to the same split.
    """
    first = min(fields, key=lambda item: item.at[0])
    evaluated = [item for item in fields if is_evaluation(item.name)]
    if evaluated != [first] or [item for item in fields if is_a_loss(item.name)] != [first]:
        return ""
    return TESTED if first.name.lower().startswith("test") else VALIDATED
