"""Any log of names and values: ``Step 100 | loss: 2.31 | lr: 0.0003``.

The log has no known format. The evidence that it is a log is the name of a loss on line after line,
with a counter that rises. The report says how good this evidence is.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache
from typing import Final

import numpy as np

from stabdiag.errors import NoUsableRecord
from stabdiag.model.events import Event, EventCode, EventKind, LeftOut
from stabdiag.model.patterns import lazy_pattern
from stabdiag.model.roles.choice import assign
from stabdiag.model.text import plural
from stabdiag.model.unique import unique_values
from stabdiag.readers.columns import Bar, Columns
from stabdiag.readers.source import Stream
from stabdiag.readers.text.evidence.loss_evidence import evidence
from stabdiag.readers.text.evidence.sample import TextEvidence, find_planned_epochs
from stabdiag.readers.text.lines.clean import cleaned, head_blocks, whole_text
from stabdiag.readers.text.lines.counters import EPOCH, STEP, is_word
from stabdiag.readers.text.lines.line_forms import outline
from stabdiag.readers.text.lines.measure_words import LOSS_STEM, OBJECTIVES
from stabdiag.readers.text.log import read_log
from stabdiag.readers.text.losses.evaluation import Evaluation
from stabdiag.readers.text.losses.evaluation_blocks import EvaluationBlocks
from stabdiag.readers.text.losses.measured import MeasuredLines
from stabdiag.readers.text.names.bounds import negate_bounds
from stabdiag.readers.text.names.standard_names import normalize
from stabdiag.readers.text.steps import find_restarts

# Evidence, and evaluations above their epochs, are searched for in this many bytes at the head.
_EVIDENCE_BYTES: Final = 1 << 24
_EVALUATION_BYTES: Final = 1 << 20

# 66/3300 [>.......] - ETA: 187s - loss: 1.3111, and 66/3300 ━━━━━━━━ 8s 51ms/step - loss: 1.3111.
# If all bars are complete, no mean of an incomplete epoch was printed.
_KERAS_BAR: Final = lazy_pattern(
    rb"(?<!\d)(\d{1,9})/(?!\1 )\d{1,9} (?:\[[=>.]{2,80}\]|(?:\xe2\x94\x81){2,80}) (?:- )?"
    rb"[^\n]{1,40} - [^\n]{0,80}loss: "
)
_KERAS_STARTS: Final = (b" [=", b" [>", b" [.", b" \xe2\x94\x81")
# 45%|████▌     | 450/1000 [00:55<01:07,  8.10it/s, loss=0.693]
_OTHER_BAR: Final = lazy_pattern(rb"\d/\d{1,9} \[\d{1,4}:\d\d(?::\d\d)?<")


# The losses of the best models end where a training fails.
_OTHER_MODELS: Final = LeftOut(
    code=EventCode.RECORDS_LEFT_OUT,
    message="only the best models have a loss: the losses of all others are not logged",
)


def sniff(head: bytes, *, is_complete: bool) -> bool:
    """Return True if a loss recurs while a counter rises."""
    return evidence(cleaned(head)) is not None


def sniff_unknown(head: bytes, source: str) -> bool:
    """Return True if values of unknown meaning recur while a counter rises, or losses are listed.

    This is the last resort, after all other formats.
    """
    from stabdiag.readers.text.evidence.unknown import unknown_evidence

    return unknown_evidence(cleaned(head), source) is not None or has_lists(head, source)


def has_lists(head: bytes, source: str) -> bool:
    """Return True if a text has lists of losses, or rows of them with names in front."""
    return bool(_find_lists(head, source))


@lru_cache(maxsize=1)
def _find_lists(head: bytes, source: str) -> Mapping[str, list[bytes]]:
    """Return the lists of losses at the head of a log, which may be very long lines. Cached."""
    from stabdiag.readers.text.grammars.lists import find_lists
    from stabdiag.readers.text.grammars.plain_lists import may_have_lists, without_quotes

    if not may_have_lists(head):
        return {}
    return find_lists(whole_text(without_quotes(head)), source)


def read(stream: Stream) -> Columns:
    """Read a log by its names and values."""
    head = cleaned(stream.peek(_EVIDENCE_BYTES))
    result = evidence(head)
    if result is None or result.is_without_loss:
        result = _evidence_without_loss(head, stream.name, result)
    # The only line with a loss may be the row of its values, below or above the row of the steps.
    if result is None or result.lines == 1:
        lists = _find_lists(stream.peek(_EVIDENCE_BYTES), stream.name)
        if lists and (result is None or _may_be_lists(result, lists)):
            from stabdiag.readers.text.grammars.lists import read_lists

            return read_lists(stream, lists)
    if result is None:
        raise NoUsableRecord(
            f"{stream.name}: no record could be read; expected lines with a step and a loss, such"
            " as Step 100 | loss: 2.31"
        )
    planned_epochs = None
    if result.counter == EPOCH:
        start = normalize(head[:_EVALUATION_BYTES], result.normalizations)
        start = EvaluationBlocks().mark(start) if result.has_evaluation_blocks else start
        planned_epochs = find_planned_epochs(result, start)
        result = replace(result, evaluation_first=_is_evaluation_first(result, start))
    columns = read_log(stream, "text", result.grammar, head_blocks(stream.peek(_EVIDENCE_BYTES)))
    if result.has_only_bests:
        columns = replace(columns, left_out=(*columns.left_out, _OTHER_MODELS))
    columns, note = negate_bounds(columns) if result.word.lower() in OBJECTIVES else (columns, "")
    described = ", ".join(filter(None, (_describe(result), note)))
    event = Event(
        kind=EventKind.COLUMN,
        message=f"read by its names and values ({result.certainty}): {described}",
    )
    if result.counter is not None and is_word(result.counter) and result.rising < 1:
        count, restarts = find_restarts(head, result.counter)
        # Each record has a count, and no other line has.
        columns = replace(columns, restarts=(*restarts,) if count == columns.rows else ())
    columns = _counting_epochs(columns) if result.counter == EPOCH else columns
    events = (event, *columns.events)
    planned = {"total_steps": result.planned_steps, "epochs": planned_epochs}
    totals = {name: total for name, total in planned.items() if total is not None}
    config = {**totals, **columns.config}
    return replace(
        columns,
        events=events,
        epoch_length=result.epoch_length,
        bar=_find_bar(head),
        counter="" if result.counter is None else result.counter.decode(),
        config=config,
        is_unknown=result.is_unknown,
    )


def _evidence_without_loss(
    head: bytes, source: str, result: TextEvidence | None
) -> TextEvidence | None:
    """Return the evidence of unknown values if there is none, and the total of several scores."""
    # Imported here, as most logs have a loss.
    from stabdiag.readers.text.evidence.unknown import evidence_of_totals, unknown_evidence

    result = result or unknown_evidence(head, source)
    return (
        evidence_of_totals(head, result)
        if result is not None and result.is_without_loss
        else result
    )


def _may_be_lists(result: TextEvidence, lists: Mapping[str, list[bytes]]) -> bool:
    """Return True if lists have the counter of the only record, or it has none."""
    return result.counter is None or result.counter.decode() in lists


def _find_bar(head: bytes) -> Bar | None:
    """Return the kind of progress bar at the head of a log."""
    # Few logs have these texts, which are found much faster.
    if any(start in head for start in _KERAS_STARTS) and _KERAS_BAR.search(head) is not None:
        return Bar.KERAS
    return Bar.OTHER if b"<" in head and _OTHER_BAR.search(outline(head)) is not None else None


def _is_evaluation_first(result: TextEvidence, head: bytes) -> bool:
    """Return True if an evaluation is printed above each training loss, and none below."""
    kinds = [kind for kind in result.grammar.kinds if isinstance(kind, MeasuredLines | Evaluation)]
    if len(kinds) < 2:
        return False
    starts = [sorted(start for part in kind.find(head) for start in part.starts) for kind in kinds]
    if not 0 < len(starts[0]) == len(starts[1]):
        return False
    return all(evaluation < loss for loss, evaluation in zip(*starts, strict=True))


def _counting_epochs(columns: Columns) -> Columns:
    """Return the columns with the counter as epochs: an epoch may have many losses."""
    epoch, load = EPOCH.decode(), columns.load
    step = assign([name for name in columns.names if name != STEP]).columns.get("step")
    # Iter[450/ 41] on each line: the last count of each epoch is not a step.
    counts = load(step).logged if step is not None else np.empty(0)
    is_constant = len(counts) > 1 and len(unique_values(counts)) == 1
    names = dict.fromkeys(
        epoch if name == STEP else name
        for name in columns.names
        if not (is_constant and name == step)
    )
    return replace(
        columns, names=(*names,), load=lambda name: load(STEP if name == epoch else name)
    )


def _describe(result: TextEvidence) -> str:
    """Describe the evidence."""
    lines = plural(result.lines, "line")
    measure = f"the log has no loss; {result.loss!r}" if result.is_without_loss else "a loss"
    measure = (
        "a number without a name, which is taken as the loss," if result.is_assumed else measure
    )
    if result.counter is None:
        counted = f"{lines} or more, none with a step"
    else:
        where = "below" if result.above else "next to"
        counter = result.counter.decode()
        rising = "" if result.rising == 1 else f", which rises {result.rising:.0%} of the time"
        counted = f"{lines}, {where} {counter!r}{rising}"
    usual = result.word in (LOSS_STEM, b"LOSS") or result.is_without_loss
    name = "" if usual else f"; {result.word.decode()!r} is taken as the loss"
    return f"{measure} is on {counted}{name}"
