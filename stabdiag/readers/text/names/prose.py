"""Hide the numbers of sentences around a log: ``I had a loss of 0.5 at epoch 10 before``.

People post a log between sentences about it. A number in a sentence is not a record, and its
epoch does not restart the run.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from itertools import islice
from typing import Final

from stabdiag.model.patterns import lazy_pattern
from stabdiag.readers.text.lines.counters import DIGIT
from stabdiag.readers.text.lines.grammar import Normalization
from stabdiag.readers.text.lines.values import NOT_MEASURED

# Only posts and short logs have such sentences, and this many lines with a loss are a log.
_MAX_POST: Final = 1 << 18
_MIN_RECORDS_AROUND: Final = 4

# Words that people write and programs do not print. The I in I Training of Epoch 3 is the level of
# a logger.
_OF_PEOPLE: Final = (
    rb"I(?! [A-Z])"
    rb"|I'm|I've|I'd|[Mm]y|[Mm]e|[Ww]e|[Oo]ur|[Uu]s|[Yy]ou|[Yy]our|[Ii]t's|[Dd]oesn't|[Dd]on't"
    rb"|[Dd]idn't|[Ii]sn't|[Cc]an't|[Ww]hy|[Bb]ecause|[Hh]owever|[Aa]nyone|[Tt]hanks|[Gg]uys|[Hh]ello"
    rb"|but|should|would|seems?|looks|yesterday|week|someone|else"
)
_HAS_WORD_OF_PEOPLE: Final = lazy_pattern(rb"(?<![\w'./-])(?:%b)(?![\w'./=:-])" % _OF_PEOPLE)
# Four words in a row.
_FOUR_WORDS: Final = rb"(?:(?<![\w-])[A-Za-z'][A-Za-z']{0,20},? ){4}"
_SENTENCE_WITH_NUMBER: Final = (
    rb"(?m:^(?=[^\n]{0,400}?%b)(?=[^\n]{0,400}?(?<![\w'./-])(?:%b)(?![\w'./=:-]))"
    rb"(?![^\n]{0,400}?\b(?:nan|NaN|NAN|inf|\w{0,60}(?:Error|Exception))\b)[^\n]{0,400}\d[^\n]{0,400}$)"
    % (_FOUR_WORDS, _OF_PEOPLE)
)
# The summary of a run, as W&B prints it below the log.
_LINE_OF_WANDB: Final = rb"(?m:^wandb: [^\n]{0,200}\d[^\n]{0,200}$)"

_ABSENT_VALUE: Final = b"n/a"

_MEASURE_THEN_NUMBER: Final = lazy_pattern(
    rb"(?i)(?:loss|cost|reward|return|score|acc|perplexity|error)[^\n]{0,20}?\d"
)


def find_prose(data: bytes) -> Iterator[Normalization]:
    """Yield the replacements that hide placeholders and the numbers of sentences and summaries."""
    if (b"nan (" in data or b"inf (" in data) and re.search(NOT_MEASURED, data) is not None:
        yield Normalization((), NOT_MEASURED, _ABSENT_VALUE)
    if len(data) > _MAX_POST:
        return
    patterns = []
    if _HAS_WORD_OF_PEOPLE.search(data) is not None and not _repeats_sentences(data):
        patterns.append(_SENTENCE_WITH_NUMBER)
    if b"wandb: " in data:
        patterns.append(_LINE_OF_WANDB)
    matching = [pattern for pattern in patterns if re.search(pattern, data)]
    if matching and _has_records(re.sub(b"|".join(matching), b"", data)):
        for pattern in matching:
            yield Normalization((), pattern, _without_digits)


def _has_records(data: bytes) -> bool:
    records = islice(_MEASURE_THEN_NUMBER.finditer(data), _MIN_RECORDS_AROUND)
    return len([*records]) == _MIN_RECORDS_AROUND


def _repeats_sentences(data: bytes) -> bool:
    """Return True if sentences differ only in their numbers: a program wrote them."""
    sentences = (match[0] for match in re.finditer(_SENTENCE_WITH_NUMBER, data))
    forms = Counter(DIGIT.sub(b"0", sentence) for sentence in sentences)
    return max(forms.values(), default=0) >= _MIN_RECORDS_AROUND


def _without_digits(line: re.Match[bytes]) -> bytes:
    return DIGIT.sub(b"#", line[0])
