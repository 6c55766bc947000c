"""The tree's original fixed rules: the questions that they answer otherwise."""

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
from stabdiag.tree.case import Case, Reply, no, unknown, yes
from stabdiag.tree.divergence import climb, describe_lr_change, grad_norm, weight_norms
from stabdiag.tree.measure import Measures
from stabdiag.tree.rises import rise_of
from stabdiag.tree.run import Run
from stabdiag.tree.spike import count_outliers, did_it_recover, focus, highest, risen, width

# Fewer losses have no deviation.
_MIN_POINTS: Final = 2


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
    """Answer that the rule of Q2.1 cannot be applied to any logged loss."""
    window, losses = (
        case.limits.spike.window,
        plural(len(case.loss), "finite loss", "finite losses"),
    )
    if round(window / case.stride) < _MIN_POINTS:
        why = f"a deviation takes {_MIN_POINTS} losses within {window} {case.unit}s"
    else:
        why = f"the rule tests {case.unit}s after the first {window}"
    return unknown(f"{losses}; {why}", measured={"logged": len(case.loss)})


def _did_it_recover_in_time(case: Case) -> Reply:
    """Answer Q2.2, unless the log is too sparse: then no loss shows what happened in that time."""
    time = case.limits.spike.recovery_steps
    if case.stride > time:
        onset = case.at(focus(case).onset)
        because = f"no loss was logged within {plural(time, case.unit)} of the onset at {onset}"
        return unknown(because, onset)
    return did_it_recover(case)


def _monotone(case: Case) -> Reply:
    """Answer Q4.1: is every loss of the window higher than the one before?"""
    loss, limits = case.loss, case.limits.divergence
    first, last, wanted = int(loss.steps[0]), int(loss.steps[-1]), limits.window
    least = case.points(wanted, limits.min_points)
    if len(loss) < min(least, limits.min_points) or last - first < wanted:
        losses, span = plural(len(loss), "loss", "losses"), plural(last - first, case.unit)
        because = f"{losses} over {span}; {least} over {wanted} are needed"
        return unknown(because, measured={"logged": len(loss)})
    part = _last_window(case)
    begin, count = case.at(part.start), part.stop - part.start
    told = f"at every {case.unit} of the last {wanted}"
    if last - begin > wanted:
        told = f"at each of the last {count} losses (the log is sparse)"
    if (np.diff(loss.values[part]) > 0).all():
        return yes(f"the loss rose {told}", begin, last, branch="material")
    return no(f"the loss did not rise {told}")


def _is_the_lr_higher(case: Case) -> Reply:
    """Answer Q4.2: is the learning rate higher at the end of the window?"""
    first, last = climb(case)
    over = case.history.finite("lr").between(first, last)
    if len(over) < 3:
        return unknown("too few learning rates were logged over the climb")
    begin, end = float(over.values[0]), float(over.values[-1])
    told, measured = describe_lr_change(case, begin, end, int(over.steps[0]), last)
    answer = yes if end > begin * case.limits.divergence.lr_rise else no
    return answer(told, int(over.steps[0]), last, measured=measured)


def _did_a_weight_norm_double(case: Case) -> Reply:
    """Answer Q4.3: over the window alone."""
    return weight_norms(case, *climb(case))


def _is_the_grad_norm_higher(case: Case) -> Reply:
    """Answer Q4.4: a loss that rises alone is a plateau, if the log shows that it rises alone."""
    first, last = climb(case)
    reply = grad_norm(case, first, last, back=last - first, kind="plateau")
    if reply.verdict is Verdict.UNKNOWN:
        return unknown(reply.because, branch="unexplained")
    return reply


def _last_window(run: Run) -> slice:
    """Return the losses of the last window of §4; on a sparse log, as many as it takes at least."""
    n, limits = len(run.loss), run.limits.divergence
    begin = int(np.searchsorted(run.loss.steps, run.at(n - 1) - limits.window)) if n else 0
    return slice(min(begin, max(n - limits.min_points, 0)), n)


ANSWERS: Final = {
    "Q2.1": _is_there_an_outlier,
    "Q2.2": _did_it_recover_in_time,
    "Q4.1": _monotone,
    "Q4.2": _is_the_lr_higher,
    "Q4.3": _did_a_weight_norm_double,
    "Q4.4": _is_the_grad_norm_higher,
}


@frozen
class LiteralCase(Case):
    """A case under the original rules: every outlier is a spike, and nothing excuses one."""

    answers = ANSWERS
    stops_early = True
    by_epoch = False

    @cached_property
    def measures(self) -> Measures:
        """All measurements; a climb is one over the last window."""
        x, limits = self.loss.values, self.limits.spike
        scan = outliers(x, self.spike_window, self.reach, limits.sigma)
        whole, last = slice(0, len(x)), _last_window(self)
        rise = rise_of(self, whole, scan.spikes)
        if rise is not None:
            rise = replace(rise, onset=last.start, crest=last.stop - 1)
        return Measures(scan=scan, spikes=scan.spikes, comparable_range=whole, rise=rise)

    @cached_property
    def spike_window(self) -> int:
        """The losses within the window of §2, however few; more than there are if that is none."""
        points = round(self.limits.spike.window / self.stride)
        return points if points >= _MIN_POINTS else len(self.loss) + _MIN_POINTS

    @property
    def baseline_window(self) -> int:
        """The window as it is, however short the log."""
        return self.spike_window

    @cached_property
    def baseline(self) -> RollingBaseline:
        """The rolling mean and deviation, from the first loss on that the rule tests."""
        window, loss = self.spike_window, self.loss
        mean, sigma = trailing_moments(loss.values, window)
        mean[window : window + 1] = np.nan
        above = loss.values > mean + self.limits.spike.sigma * sigma
        return RollingBaseline(
            window=window, steps=loss.steps, mean=mean, deviation=sigma, above=above
        )

    def jumps_as_usual(self, step: int) -> bool:
        """Return that no jump of the learning rate is usual."""
        return False

    @property
    def negative_result(self) -> str:
        """What there is none of in a run in which nothing was found."""
        return (
            f"no NaN, no loss above μ+{num(self.limits.spike.sigma)}σ, no rise at every "
            f"{self.unit} of the last {self.limits.divergence.window} (only the tree was checked)"
        )
