"""Search any text for evidence that it is a log: losses, and what counts their steps."""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from stabdiag.readers.text.asides import alarms
from stabdiag.readers.text.candidates import above, beside, excerpt, first, rising, uncounted
from stabdiag.readers.text.counters import EPOCH, STEP, headings_of
from stabdiag.readers.text.names import LOSS, OTHER_LOSSES, SUMMED, VALIDATED
from stabdiag.readers.text.sample import is_lost, sample_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from stabdiag.readers.text.evidence import Evidence
    from stabdiag.readers.text.sample import Sample, Shapes

# What Keras and nnU-Net print above what they tell of each epoch: Epoch 1/10, …: Epoch 0, epoch:  0
_EPOCH_ALONE: Final = re.compile(
    rb"\n[\d:. -]{0,40}[Ee]poch:?[ ]{1,4}\d{1,6}(?:/\d{1,6})?[ \t]{0,8}\n"
)

# In how many bytes at the head of the text headings are searched for.
_LOOK_ABOVE: Final = 1 << 22


def evidence(data: bytes) -> Evidence | None:
    """Return the evidence that lines are a log, or None if there is not enough.

    The loss may have another name, such as a cost, only if nothing is called a loss.
    """
    others = [word for word in OTHER_LOSSES if word in data]
    summed = SUMMED.search(data)
    for word in (LOSS, *([summed[1]] if summed else []), *others):
        sample = sample_of(data, word)
        found = _evidence(data, sample)
        if found is not None:
            total = next((name for name in sample.losses if name.lower() == "loss"), None)
            return replace(found, word=word, total=total)
    return None


def _evidence(data: bytes, sample: Sample) -> Evidence | None:
    trained = {name: one for name, one in sample.values.items() if not name.startswith(VALIDATED)}
    of_these = {key: counts for key, counts in sample.counters.items() if key[1] in trained}
    found = beside(of_these) or beside(sample.counters)
    of_training = found is not None and (found.loss in trained or not trained)
    if found and of_training:
        on_its_line = (EPOCH, found.loss) in sample.counters
        if on_its_line or (found.rising == 1 and not found.restarts):
            return found
    headings: dict[bytes, list[int]] = defaultdict(list)
    for name, count in headings_of(data[: min(sample.end, _LOOK_ABOVE)]):
        headings[name].append(count)
    if found and not of_training:
        # A counter beside the losses of evaluations tells little of those of the training.
        found = above(headings, trained) or found
    if found is not None:
        return found if found.above else replace(found, epochs=rising(headings[EPOCH]) == 1)
    return (
        above(headings, sample.values)
        or excerpt(sample.shapes)
        or _of_few_epochs(data, sample, headings)
        or _alarming(data, sample)
        or first(trained, sample.counters)
        or uncounted(trained, sample.counters)
    )


def _of_few_epochs(
    data: bytes, sample: Sample, headings: Mapping[bytes, list[int]]
) -> Evidence | None:
    """Return the evidence in two epochs with a line of their own, or one with a loss of NaN."""
    if not _EPOCH_ALONE.search(data, 0, sample.end):
        return None
    lost = any(is_lost(value) for values in sample.values.values() for value in values)
    return above({EPOCH: headings[EPOCH]}, sample.values, fewest=1 if lost else 2)


def _alarming(data: bytes, sample: Sample) -> Evidence | None:
    """Return the evidence in an excerpt that says that the training went wrong."""
    found = None
    if sample.shapes and any(line.search(data) for line in alarms("loss", STEP)):
        found = excerpt(sample.shapes, alarmed=True)
    if found is None and 2 * _lines(sample.not_finite) >= _lines(sample.shapes):
        found = excerpt(sample.not_finite, alarmed=True)
    return found


def _lines(shapes: Shapes) -> int:
    return sum(map(len, shapes.values()))
