"""The evidence that a text is a log, if the lines of its loss have no counter.

The counter is on lines of its own, or the text has few records: it is an excerpt of a log.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from stabdiag.readers.text.evidence.blocks import find_block_of_losses, find_block_record
from stabdiag.readers.text.evidence.counter_evidence import (
    evidence_of_few_epochs,
    heading_evidence,
    position_evidence,
)
from stabdiag.readers.text.evidence.examined_log import ExaminedLog
from stabdiag.readers.text.evidence.excerpts import find_excerpt, find_short_paste
from stabdiag.readers.text.evidence.sample import Sample, TextEvidence
from stabdiag.readers.text.evidence.single_record import find_single_epoch, find_single_record
from stabdiag.readers.text.evidence.uncounted import find_uncounted


def sparse_evidence(
    log: ExaminedLog,
    sample: Sample,
    trained: Mapping[str, list[bytes]],
    headings: Mapping[bytes, list[int]],
) -> TextEvidence | None:
    """Return the evidence in a log whose lines of a loss have no counter.

    ``trained`` are the values of losses of the training, and ``headings`` the counts of the
    counters above them.
    """
    headed = heading_evidence(headings, sample.values)
    if headed is None and (excerpt := find_excerpt(sample.shapes)):
        return excerpt
    below = {word: headings[word] for word in log.counted_below(sample)}
    headed = headed or heading_evidence(below, sample.values, fewest=2)
    headed = headed or evidence_of_few_epochs(log.data, sample, headings)
    if headed is not None:
        return replace(headed, is_counted_below=headed.counter in below)
    headed = position_evidence(log.position_counts(sample), sample)
    if headed is not None:
        return headed
    return (
        _failed_excerpt(log, sample)
        or find_single_record(log.data, sample)
        or find_single_epoch(log.data, sample, headings)
        or find_uncounted(log.data, trained, sample)
        or find_short_paste(log.data, sample)
        or find_block_record(log.data)
        or find_block_of_losses(log.data)
    )


def _failed_excerpt(log: ExaminedLog, sample: Sample) -> TextEvidence | None:
    """Return the evidence in an excerpt that reports a failure of the training."""
    if sample.shapes and log.reports_failure:
        excerpt = find_excerpt(sample.shapes, reports_failure=True)
        if excerpt:
            return excerpt
    lost, lines = (sum(map(len, shapes.values())) for shapes in (sample.not_finite, sample.shapes))
    return find_excerpt(sample.not_finite, reports_failure=True) if 2 * lost >= lines else None
