"""The literal fixed rules of the tree, as answers that replace the adaptive ones."""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property
from typing import Final

import numpy as np

from stabdiag.model.findings import RollingBaseline, Verdict
from stabdiag.model.frozen import frozen
from stabdiag.model.text import num, plural
from stabdiag.stats.rolling import trailing_moments
from stabdiag.stats.spikes import outliers
from stabdiag.stats.standards import MIN_CONSECUTIVE
from stabdiag.tree.case import Case, Reply, no, unknown, yes
from stabdiag.tree.divergence import climb_steps, describe_lr_change, grad_norm, weight_norms
from stabdiag.tree.measure import Measures
from stabdiag.tree.precision import ANSWERS as PRECISION
from stabdiag.tree.rises import measure_rise
from stabdiag.tree.run import Run
from stabdiag.tree.scaler import find_overflows
from stabdiag.tree.spike import count_outliers, did_it_recover, focus, highest, risen, width

# A standard deviation needs this many losses.
_MIN_SIGMA_POINTS: Final = 2


def _is_there_an_outlier(case: Case) -> Reply:
    """Answer Q2.1: every outlier is a spike."""
    scan = case.scan
    worst = case.focus or next(iter(case.spikes), None)
    if not scan.tested:
        return _untested(case)
    counted, measured = count_outliers(case)
    measured["window_points"] = case.spike_window
    if worst is not None:
        return risen(case, worst, counted, measured, width(case))
    return no(
        f"{counted}; {highest(case)}{width(case)}",
        case.at(scan.largest_at),
        measured={"largest_score": scan.largest, **measured},
    )


def _untested(case: Case) -> Reply:
    """Answer that the rule of Q2.1 applies to no logged loss."""
    window, losses = (
        case.limits.spike.window,
        plural(len(case.loss), "finite loss", "finite losses"),
    )
    if round(window / case.stride) < _MIN_SIGMA_POINTS:
        why = (
            f"a standard deviation requires {_MIN_SIGMA_POINTS} losses within {window} {case.unit}s"
        )
    else:
        why = f"the rule tests {case.unit}s after the first {window}"
    return unknown(f"{losses}; {why}", measured={"logged": len(case.loss)})


def _did_it_recover_in_time(case: Case) -> Reply:
    """Answer Q2.2, or unknown if the log is too sparse for the recovery time."""
    time = case.limits.spike.recovery_steps
    if case.stride > time:
        onset = case.at(focus(case).onset)
        because = f"no loss was logged within {plural(time, case.unit)} of the onset at {onset}"
        return unknown(because, onset)
    return did_it_recover(case)


def _monotone(case: Case) -> Reply:
    """Answer Q4.1: is every loss of the window higher than the one before?"""
    loss, limits = case.loss, case.limits.divergence
    first, last, window = int(loss.steps[0]), int(loss.steps[-1]), limits.window
    least = case.points(window, limits.min_points)
    if len(loss) < min(least, limits.min_points) or last - first < window:
        losses, span = plural(len(loss), "loss", "losses"), plural(last - first, case.unit)
        because = f"{losses} over {span}; {least} over {window} are needed"
        return unknown(because, measured={"logged": len(loss)})
    part = _last_window(case)
    begin, count = case.at(part.start), part.stop - part.start
    span = f"at every {case.unit} of the last {window}"
    if last - begin > window:
        span = f"at each of the last {count} losses (the log is sparse)"
    if (np.diff(loss.values[part]) > 0).all():
        return yes(f"the loss rose {span}", begin, last, branch="material")
    return no(f"the loss did not rise {span}")


def _what_does_the_scale_show(case: Case) -> Reply:
    """Answer Q3.2: without a logged loss scale, every overflow counts."""
    reply, overflows = PRECISION["Q3.2"](case), find_overflows(case)
    if reply.verdict is not Verdict.NO or case.history.has("loss_scale") or not overflows.count:
        return reply
    because = f"{plural(overflows.count, 'overflow')}, and the loss scale was not logged"
    return yes(
        because,
        *overflows.first_steps,
        branch="overflow",
        measured={"overflows": overflows.count},
    )


def _is_the_lr_higher(case: Case) -> Reply:
    """Answer Q4.2: is the learning rate higher at the end of the window?"""
    first, last = climb_steps(case)
    over = case.history.finite("lr").between(first, last)
    if len(over) < MIN_CONSECUTIVE:
        return unknown("too few learning rates were logged over the climb")
    begin, end = float(over.values[0]), float(over.values[-1])
    because, measured = describe_lr_change(case, begin, end, int(over.steps[0]), last)
    answer = yes if end > begin else no
    return answer(because, int(over.steps[0]), last, measured=measured)


def _did_a_weight_norm_double(case: Case) -> Reply:
    """Answer Q4.3 over the window only."""
    return weight_norms(case, *climb_steps(case))


def _is_the_grad_norm_higher(case: Case) -> Reply:
    """Answer Q4.4: a loss that rises without the gradient norm is a plateau."""
    first, last = climb_steps(case)
    reply = grad_norm(case, first, last, back=last - first, kind="plateau")
    if reply.verdict is Verdict.UNKNOWN:
        return unknown(reply.because, branch="unexplained")
    return reply


def _last_window(run: Run) -> slice:
    """Return the last window of §4; on a sparse log, the minimum number of losses."""
    n, limits = len(run.loss), run.limits.divergence
    begin = int(np.searchsorted(run.loss.steps, run.at(n - 1) - limits.window)) if n else 0
    return slice(min(begin, max(n - limits.min_points, 0)), n)


ANSWERS: Final = {
    "Q2.1": _is_there_an_outlier,
    "Q2.2": _did_it_recover_in_time,
    "Q3.2": _what_does_the_scale_show,
    "Q4.1": _monotone,
    "Q4.2": _is_the_lr_higher,
    "Q4.3": _did_a_weight_norm_double,
    "Q4.4": _is_the_grad_norm_higher,
}


@frozen
class LiteralCase(Case):
    """A case under the literal rules: every outlier is a spike, without exceptions."""

    answers = ANSWERS
    stops_early = True
    by_epoch = False

    @cached_property
    def measures(self) -> Measures:
        """All measurements; a climb spans the last window."""
        x, limits = self.loss.values, self.limits.spike
        scan = outliers(x, self.spike_window, self.reach, limits.sigma)
        everything, last = slice(0, len(x)), _last_window(self)
        rise = measure_rise(self, everything, scan.spikes)
        if rise is not None:
            rise = replace(rise, onset=last.start, crest=last.stop - 1)
        return Measures(scan=scan, spikes=scan.spikes, comparable_range=everything, rise=rise)

    @cached_property
    def spike_window(self) -> int:
        """The number of losses in the window of §2; more than the log has if it is too sparse."""
        points = round(self.limits.spike.window / self.stride)
        return points if points >= _MIN_SIGMA_POINTS else len(self.loss) + _MIN_SIGMA_POINTS

    @property
    def baseline_window(self) -> int:
        """The window, which is not shortened for a short log."""
        return self.spike_window

    @cached_property
    def baseline(self) -> RollingBaseline:
        """The rolling mean and standard deviation, from the first tested loss on."""
        window, loss = self.spike_window, self.loss
        mean, sigma = trailing_moments(loss.values, window)
        mean[window : window + 1] = np.nan
        above = loss.values > mean + self.limits.spike.sigma * sigma
        return RollingBaseline(
            window=window, steps=loss.steps, mean=mean, deviation=sigma, above=above
        )

    def is_usual_jump(self, step: int) -> bool:
        """Return False: no jump of the learning rate is usual."""
        return False

    @property
    def negative_result(self) -> str:
        """What the tree looked for and did not find, in words."""
        return (
            f"no NaN, no loss above μ+{num(self.limits.spike.sigma)}σ, no rise at every "
            f"{self.unit} of the last {self.limits.divergence.window} (only the tree was checked)"
        )
