"""The scores of a few checkpoints, in a text without another record.

::

    epoch4:                    model_0.h5: BLEU-1: 0.5556, BLEU-4: 0.0866
    mAP: 0.0943                model_10.h5: BLEU-1: 0.5462, BLEU-4: 0.0795
    epoch8:
    mAP: 0.0410

A counter of the training or the number of a checkpoint begins each of them. Methods, classes and
folds are not steps of a training.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Final, TypeAlias

from stabdiag.model.patterns import lazy_pattern
from stabdiag.readers.fallbacks.only_record import short_text, with_only_records
from stabdiag.readers.fallbacks.single_evaluation import (
    SCORE_VALUE,
    assigned_fields,
    is_code_or_settings,
    is_loss_or_norm,
    is_score,
    lines_with_words,
)
from stabdiag.readers.reader import Reader
from stabdiag.readers.source import Stream
from stabdiag.readers.text.lines.counters import counter_value
from stabdiag.readers.text.lines.tokens import Field

# The fewest and the most of them: a log with more is read in other ways.
_MIN_EVALUATIONS: Final = 2
_MAX_EVALUATIONS: Final = 200

# epoch4, step 5000, checkpoint-500, the file model_10.h5, and 10k iterations. Models may have
# numbers, too: resnet_50.
_CHECKPOINT: Final = lazy_pattern(
    rb"(?i)(?<![a-z\d])(epoch|step|iter(?:ation)?|update|checkpoint|ckpt)s?"
    rb"(?:[ _-](?:epoch|step|iter))?[ _:=#-]{0,3}(\d{1,9}k?)(?![\da-z]|\.\d)"
    rb"|(?<![\w.-])(\d{1,9}k?)[ -](epoch|step|iter(?:ation)?)s?(?![a-z])"
    rb"|(?<![a-z\d])(?:model|weights|snapshot|net|epoch)[ _-](\d{1,9})"
    rb"\.(?:h5|hdf5|pth?|ckpt|bin|keras|pkl|tar|npz|safetensors|(?:pd)?params)(?![a-z])"
)

# The names and values of one evaluation, with its counter.
Evaluation: TypeAlias = list[tuple[str, str]]


def few_evaluated(
    stream: Stream, detect: Callable[[Stream], Reader | None]
) -> tuple[Stream, Reader] | None:
    """Return the stream of a few evaluations in a text as JSON records, and its reader.

    Return None if there are none that ``detect`` recognizes.
    """
    text = short_text(stream)
    evaluations = None if text is None else _find_few(text)
    if evaluations is None:
        return None
    note = f"only the scores of {len(evaluations)} evaluations are read"
    return with_only_records(stream, evaluations, detect, note)


def _find_few(data: bytes) -> list[Evaluation] | None:
    """Return the scores of a few evaluations of a text, or None."""
    lines = lines_with_words(data)
    fields = [(line, [*assigned_fields(line)]) for line in lines]
    values = [(item.name, line[slice(*item.value)]) for line, own in fields for item in own]
    if is_code_or_settings(lines, (name for name, _ in values)):
        return None
    if not any(is_score(name) and SCORE_VALUE.fullmatch(value) for name, value in values):
        return None
    measures = [
        (line, [item for item in own if is_score(item.name) or is_loss_or_norm(item.name)])
        for line, own in fields
    ]
    return _split(measures)


def _split(lines: Sequence[tuple[bytes, Sequence[Field]]]) -> list[Evaluation] | None:
    """Return the evaluations of a text, or None if they do not have the same names.

    Lines without a value and without a counter are skipped.
    """
    evaluations: list[Evaluation] = []
    counters: set[str] = set()
    counts: list[int] = []
    for line, fields in lines:
        mark = _CHECKPOINT.search(line)
        values = [item for item in fields if mark is None or item.value[0] >= mark.end()]
        if mark is not None:
            word = mark[1] or mark[4] or b""
            counters.add("epoch" if word.lower() == b"epoch" else "step")
            counts.append(counter_value((mark[2] or mark[3] or mark[5]).upper()))
            evaluations.append([])
        if values and not evaluations:
            return None
        if values:
            evaluations[-1] += [(item.name, line[slice(*item.value)].decode()) for item in values]
    names = [[name for name, _ in own] for own in evaluations]
    is_course = len(counters) == 1 and all(a < b for a, b in pairwise(counts))
    if not _MIN_EVALUATIONS <= len(names) <= _MAX_EVALUATIONS or not is_course:
        return None
    if not names[0] or len({*names[0]}) < len(names[0]) or any(own != names[0] for own in names):
        return None
    counter = counters.pop()
    return [[(counter, str(count)), *own] for count, own in zip(counts, evaluations, strict=True)]
