"""Short trials that are meant to diverge or to memorize: a range test, a test on one batch."""

from __future__ import annotations

import re
from typing import Final

import numpy as np

from stabdiag.model.findings import Action, Severity
from stabdiag.model.findings import ActionKind as Do
from stabdiag.model.manifest.keys import OVERFIT_BATCHES
from stabdiag.model.patterns import lazy_pattern
from stabdiag.model.text import num, plural, typed
from stabdiag.stats.course import end_level, measure_course
from stabdiag.stats.quantiles import is_constant
from stabdiag.stats.standards import HUNDREDFOLD, NEGLIGIBLE, TENFOLD, TWENTIETHS
from stabdiag.symptoms.symptom import Evidence, Symptom, at_least
from stabdiag.tree.case import Case

# No warm-up raises the rate by a constant factor from record to record, and by this much.
_MIN_SWEEP: Final = HUNDREDFOLD
_RANGE_TEST: Final = lazy_pattern(r"range|find", re.IGNORECASE)

# Smith 2017 (arXiv:1506.01186) and fastai take a rate a tenth of the one with the lowest loss.
_BELOW_LOWEST: Final = TENFOLD

# A memorized batch keeps this fraction of its first loss. Trials are short.
_MEMORIZED: Final = 0.02
_MAX_TRIAL_STEPS: Final = 5000
_MOST_BATCHES: Final = 10

_EXPECTED: Final = (
    *("nan", "spike", "divergence", "plateau", "lr-", "loss-oscillating", "loss-constant"),
    *("not-learning", "no-progress", "learning-slow", "frequent-spikes", "setting-unusual"),
    *("overfitting", "eval-", "learning-not-transferring", "underfitting", "grad-"),
)


@Symptom(
    slug="lr-range-test",
    severity=Severity.NOTE,
    title="A learning-rate range test",
    needs=("loss", "lr"),
    preconditions=(at_least(TWENTIETHS, "loss"), at_least(TWENTIETHS, "lr")),
    expects=_EXPECTED,
)
def lr_range_test(case: Case) -> Evidence | None:
    """Does the learning rate grow by a constant factor from the first record to the last?"""
    lr, loss = case.history.finite("lr"), case.loss
    if not _is_sweep(case):
        return None
    parts = measure_course(loss.values, 2 * TWENTIETHS)
    level, ends = parts.levels, loss.steps[parts.ends]
    lowest = int(level.argmin())
    rate = float(np.interp(ends[lowest], lr.steps, lr.values))
    first, last = float(lr.values[0]), float(lr.values[-1])
    suggested = typed(rate / _BELOW_LOWEST)
    return Evidence(
        because=f"The learning rate grows from {num(first)} to {num(last)} throughout the log; "
        f"the loss is lowest, {num(float(level[lowest]))}, at a rate of {num(rate)} and ends at "
        f"{num(float(level[-1]))}. The final divergence is expected in this test.",
        step=int(ends[lowest]),
        measured={"first_lr": first, "last_lr": last, "lowest_at_lr": rate},
        first=Action(
            Do.CHECK_SETTINGS,
            f"Train with a peak learning rate of about {num(suggested)}, a tenth of the rate at "
            "which the loss was lowest.",
            setting="peak_lr",
            to=suggested,
        ),
    )


def _is_sweep(case: Case) -> bool:
    """Return True if the rate grows exponentially, or the schedule is named a range test."""
    lr = case.history.finite("lr")
    x = lr.values
    if x.min() <= 0 or len(case.loss) > _MAX_TRIAL_STEPS or x[-1] < x.max():
        return False
    is_named = _RANGE_TEST.search(case.manifest.schedule or "") is not None
    if is_named and x[-1] > x[0] and bool((np.diff(x) >= 0).all()):
        return True
    logs = np.log(x)
    line = logs[0] + (logs[-1] - logs[0]) * (lr.steps - lr.steps[0]) / np.ptp(lr.steps)
    is_straight = bool(np.abs(logs - line).max() <= NEGLIGIBLE * (logs[-1] - logs[0]))
    return x[-1] >= _MIN_SWEEP * x[0] and is_straight


def _no_batches(case: Case) -> str:
    """Return the reason that the number of batches is unknown, or ""."""
    return "needs batch_id or overfit_batches" if _batches(case) is None else ""


def _batches(case: Case) -> int | None:
    """Return the number of batches that a run trains on, as configured or if there is only one."""
    configured = (case.settings[name] for name in OVERFIT_BATCHES if name in case.settings)
    # In Lightning, 1 means one batch and 1.0 means all batches.
    counts = [int(count) for count in configured if isinstance(count, int) and count >= 1]
    if counts:
        return counts[0]
    ids = case.history.finite("batch_id").values
    # A run with evaluations is not a trial: its loader is stuck.
    if not len(ids) or case.history.has("eval_loss"):
        return None
    return 1 if len(ids) == len(case.loss) and is_constant(ids) else _MOST_BATCHES + 1


@Symptom(
    slug="one-batch-test",
    severity=Severity.NOTE,
    title="A passed test on one batch",
    needs=("loss",),
    preconditions=(at_least(TWENTIETHS, "loss"), _no_batches),
    expects=(*_EXPECTED, "batch-repeats", "too-good"),
)
def one_batch_test(case: Case) -> Evidence | None:
    """Did the run train on one or a few batches until the loss was nearly zero?"""
    count = _batches(case)
    if count is None or count > _MOST_BATCHES or len(case.loss) > _MAX_TRIAL_STEPS:
        return None
    first, last = float(case.loss.values[0]), end_level(case.loss.values)
    if not 0 <= last <= _MEMORIZED * first:
        return None
    return Evidence(
        because=f"The run trains on only {plural(count, 'batch', 'batches')}, and the loss went "
        f"from {num(first)} to {num(last)}: the model can memorize.",
        step=int(case.loss.steps[0]),
        measured={"batches": count, "first_loss": first, "loss": last},
        first=Action(
            Do.FIX_LOADER,
            "Train on all batches now. If this was not meant as a test, find out why the loader "
            "repeats itself.",
            also=(Do.KEEP_GOING,),
        ),
    )
