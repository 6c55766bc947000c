"""The lead-up to a NaN, in sentences."""

from __future__ import annotations

import math

from stabdiag.model.events import EventKind
from stabdiag.model.roles.names import is_evaluation, name_words
from stabdiag.model.text import capitalized
from stabdiag.stats.quantiles import median
from stabdiag.stats.shape import BLOWUP_RATIO, FP32_SQUARE_OVERFLOW
from stabdiag.stats.standards import TENFOLD
from stabdiag.tree.advice.shared import (
    LEVEL,
    batch_id_suffix,
    describe_batches,
    first_covered_step,
)
from stabdiag.tree.case import Case
from stabdiag.tree.drivers import half_peak_step, why_lead_up_unknown
from stabdiag.tree.nan import FirstBad, Origin

# The words of a column that is the whole loss, not a term of it.
_WHOLE_LOSS = frozenset({"loss", "losses", "train", "training", "total", "lm", "step", "batch"})

# A warm-up may matter up to this multiple of the steps to half the peak learning rate.
_WARMUP_REACH = TENFOLD


def suspect_batches(case: Case, start: Origin) -> str:
    """Describe the batches to inspect: from the surge on, or from two before the NaN."""
    if case.history.counts_epochs:
        return describe_batches(case, start.bad.step)
    if start.surge_start is not None:
        first = first_covered_step(case, start.surge_start)
    else:
        first = max(min(start.step - 2, first_covered_step(case, start.step)), 0)
    last = start.bad.step
    return f"the batches of {case.unit}s {first} to {last}{batch_id_suffix(case, last)}"


def exploded_before_nan(case: Case, start: Origin) -> bool:
    """Return True if the loss exploded before it went NaN."""
    loss = case.history.finite("loss").until(start.bad.step).values
    before, peak = loss[:-LEVEL], float(loss[-LEVEL:].max(initial=0.0))
    usual = abs(median(before)) if len(before) else math.inf
    return bool(peak > min(BLOWUP_RATIO * usual, FP32_SQUARE_OVERFLOW))


def is_early(case: Case, step: int) -> bool:
    """Return True if a warm-up may be related to an event at a step."""
    half = half_peak_step(case.history.finite("lr"))
    return half is None or step <= _WARMUP_REACH * half


def describe_start(case: Case, start: Origin) -> str:
    """Describe the series that failed first, and the gradient norm before it."""
    first = (
        "" if start.role == "loss" else f"{start.role} went first, at {case.unit} {start.step}. "
    )
    if case.error_steps:
        return f"{first}An earlier error began at {case.unit} {case.error_steps[0]}."
    if start.surge is None:
        why = capitalized(why_lead_up_unknown(case, start.step))
        return f"{first}{why}, so the lead-up is unknown."
    calm = f"{capitalized(start.surge.name)} was calm before it"
    return f"{first}{calm}: suspect a bad sample or a layer's numerics."


def _name_loss(case: Case) -> str:
    """Return a subject: the loss, with its column if that is a term or an evaluation."""
    column = case.history.series["loss"].column
    is_term = case.history.has("other_loss") and not _WHOLE_LOSS.issuperset(name_words(column))
    return f"The loss {column!r}" if is_term or is_evaluation(column) else "The loss"


def describe_nan(case: Case, bad: FirstBad) -> str:
    """Describe the position and number of non-finite losses, and how the log writes them."""
    return f"{_name_position(case, bad)}{_name_placeholder(case)}"


def _name_position(case: Case, bad: FirstBad) -> str:
    good = "" if bad.last_good is None else f" (last finite loss: {case.unit} {bad.last_good})"
    are = "is" if bad.count == 1 else "are"
    count = f"{bad.count} of {bad.total} losses {are} non-finite"
    if not bad.is_permanent:
        return (
            f"{_name_loss(case)} is non-finite at {case.unit} {bad.step}{good} and finite again "
            "later; "
            f"{count}."
        )
    counts = "" if bad.count == 1 else f"; {count}"
    loss = _name_loss(case)
    if bad.last_good is None and bad.step > 0:
        return f"{loss} is non-finite at {case.unit} {bad.step}, the first one logged{counts}."
    return f"{loss} is non-finite from {case.unit} {bad.step} on{good}{counts}."


def _name_placeholder(case: Case) -> str:
    """Return a sentence about the number that the log has instead of NaN, such as 0.0."""
    hidden = (event for event in case.history.events if event.kind is EventKind.HIDDEN_NAN)
    written = next((event.value for event in hidden if event.value is not None), None)
    return "" if written is None else f" The log has {written} instead of NaN."
