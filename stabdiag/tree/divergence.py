"""§4: does the loss climb, and which other series climbs with it?"""

from __future__ import annotations

from typing import Final

import numpy as np

from stabdiag.model.findings import Scalar, Verdict
from stabdiag.model.history import Series
from stabdiag.model.roles.loss_kinds import LossKind, is_value_loss
from stabdiag.model.text import num, plural, times
from stabdiag.stats.course import start_level
from stabdiag.stats.levels import is_trimmed
from stabdiag.stats.quantiles import median, usual_gap
from stabdiag.stats.rise import Rise
from stabdiag.stats.standards import (
    HUNDREDFOLD,
    MAX_CHANCE,
    MIN_CONSECUTIVE,
    RELATIVE_EPS,
    TENFOLD,
    THIRDS,
)
from stabdiag.stats.trend import mann_kendall
from stabdiag.tree.case import Case, Reply, no, unknown, yes
from stabdiag.tree.comparable import comparison_advice, describe_ramp
from stabdiag.tree.drivers import climb_rates, find_turn_step, logarithms, step_phrase
from stabdiag.tree.measure import unrecovered_jumps
from stabdiag.tree.progress import improved_score
from stabdiag.tree.rises import is_clear, material_bar

# The logarithm of the largest number.
_MAX_LOG: Final = float(np.log(np.finfo(np.float64).max))


def require_rise(case: Case) -> Rise:
    """Return the rise; raise LookupError if Q4.1 found none."""
    if case.rise is None:
        raise LookupError("Q4.2 to Q4.4 require a rise of the loss")
    return case.rise


def best_step(case: Case) -> int:
    """Return the step of the best level of the loss before the rise."""
    return case.at(require_rise(case).best)


def climb_steps(case: Case) -> tuple[int, int]:
    """Return the first and last step of the climb, for Q4.2 to Q4.4.

    The range ends where most of the climb is done.
    """
    rise = require_rise(case)
    first, last = case.at(rise.onset), case.at(rise.crest)
    return first, max(last, first + 1)


def describe_range_end(case: Case) -> str:
    """Describe the end of the comparable range if it is not the end of the log."""
    return f"the jump at {case.unit} {case.at(case.comparable_range.stop)}"


def answer_reward_maintained(case: Case) -> Reply:
    """Answer no about the loss of a run whose reward did not collapse."""
    reward = case.reward
    if reward is None:
        raise LookupError("the run has no reward, or it collapsed")
    best = f"not clearly below its best level ({num(reward.best)})"
    if reward.last >= reward.best:
        best = "its best level"
    return no(
        f"the run is trained for a reward, and {reward.column!r} ends at {num(reward.last)} "
        f"({level_name(reward.points)}), {best}: its loss may jump and rise in the meantime",
        measured={"reward_best": reward.best, "reward_last": reward.last},
    )


def level_name(points: int) -> str:
    """Name the statistic that gives the level of the last points, which form two blocks."""
    return f"{'trimmed mean' if is_trimmed(points // 2) else 'mean'} of {points}"


def _is_the_loss_rising(case: Case) -> Reply:
    if case.loss_kind is not None and not (_is_far_beyond_returns(case) or _keeps_falling(case)):
        return _answer_by_score(case, case.loss_kind)
    if case.reward is not None:
        return answer_reward_maintained(case)
    rise, limits = case.rise, case.limits.divergence
    if rise is None:
        count = case.comparable_range.stop - case.comparable_range.start
        losses = plural(count, "comparable loss", "comparable losses")
        because = f"{losses}; a trend needs {case.rise_window}"
        if case.ramp is not None:
            because += f"; {describe_ramp(case, case.ramp)}; {comparison_advice(case.ramp)}"
        return unknown(because, measured={"logged": count})
    bar, (first, last) = material_bar(case, rise), climb_steps(case)
    ends, measured = _ends(case, rise), _measured(rise, bar)
    if evaluation_rise(case) is not None:
        column = case.loss.column
        because = f"{ends}, and {column!r} is an evaluation loss: it also rises by overfitting"
        return unknown(because, measured=measured)
    if is_clear(case, rise):
        because = f"{ends}; it climbed from {case.unit} {first} to {last}{_why_clear(case, rise)}"
        return yes(because, first, last, branch="material", measured=measured)
    # A rise that does not show in the figures of a report is none.
    is_visible = num(rise.last_level) != num(rise.best_level)
    if rise.recent_p_value < limits.significance and rise.amount > 0.5 * rise.bar and is_visible:
        recent = min(limits.window, int(np.ptp(case.loss.steps)))
        return yes(
            f"{ends}: a trend over the last {recent} {case.unit}s, but a small one "
            f"(a rise counts from {num(bar)} on)",
            first,
            last,
            branch="slight",
            measured=measured,
        )
    if rise.amount > bar:
        ends += (
            f"; that is {num(rise.amount / rise.bar)} times its normal variation, but no trend "
            f"(p {rise.p_value:.2g})"
        )
    elif rise.amount > rise.bar:
        ends += f", a small rise (a rise counts from {num(bar)} on)"
    elif rise.amount > 0:
        ends += ", within normal variation"
    return no(ends, measured=measured)


def evaluation_rise(case: Case) -> Rise | None:
    """Return the clear rise of an evaluation loss if no training loss was logged.

    A rise to a multiple of the best level that memorization does not reach is a divergence.
    """
    rise = case.rise
    if rise is None or not case.has_only_evaluations or not is_clear(case, rise):
        return None
    return rise if 0 < rise.last_level < TENFOLD * rise.best_level else None


def _answer_by_score(case: Case, kind: LossKind) -> Reply:
    """Answer for a loss that may rise while the run learns: no if a score improved."""
    column = case.history.series["loss"].column
    why = f"{column!r} is {kind.about}: it may rise while the run learns"
    # The level of a running sum says nothing either, but another series may show each loss.
    score = None if kind is LossKind.RUNNING_SUM else improved_score(case)
    if score is None:
        return unknown(why)
    measured = {"score_first": score.first, "score_last": score.last}
    return no(f"{score.name} improved {score.text}, and {why}", measured=measured)


def _is_far_beyond_returns(case: Case) -> bool:
    """Return True if the loss of a value function grew far more than returns do."""
    if case.loss_kind not in (LossKind.VALUE, LossKind.POLICY_SUM) or case.rise is None:
        return False
    before = case.loss.values[: case.rise.best + 1]
    return case.rise.last_level > HUNDREDFOLD**2 * start_level(before) > 0


def _keeps_falling(case: Case) -> bool:
    """Return True if a loss that may be one of estimated returns does not rise.

    The loss of a value function next to a policy says nothing about the policy.
    """
    if case.loss_kind is not LossKind.VALUE or is_value_loss(case.loss.column):
        return False
    return case.rise is not None and case.rise.amount <= case.rise.bar


def _measured(rise: Rise, bar: float) -> dict[str, Scalar]:
    return {
        "rise": rise.amount,
        "bar": bar,
        "p_value": rise.p_value,
        "recent_p_value": rise.recent_p_value,
        "best": rise.best_level,
        "last": rise.last_level,
        "noise_floor": rise.bar,
        "progress": rise.progress,
    }


def _ends(case: Case, rise: Rise) -> str:
    """Describe the last level of the loss, or the level before a jump, relative to its best."""
    comparable = case.comparable_range
    ends, since = "the loss ends", ""
    if comparable.stop < len(case.loss):
        ends = f"before {describe_range_end(case)} the loss was"
    elif case.ramp is not None and comparable.start == case.ramp.until:
        since = f" since {case.ramp.name} settled at {case.unit} {case.at(comparable.start)}"
    elif comparable.start:
        jump = unrecovered_jumps(case.spikes, case.objective_changes)[-1]
        since = f" since the jump at {case.unit} {case.at(jump.onset)}"
    ends += f" at {num(rise.last_level)}"
    if rise.points > 1:
        since_then = comparable.stop - rise.points
        out = any(spike.recovered and spike.end > since_then for spike in case.spikes)
        ends += f" ({level_name(rise.points)}{', spikes left out' if out else ''})"
    if rise.amount <= 0:
        return f"{ends}, its best level{since}"
    return (
        f"{ends}, {num(rise.amount)} above its best level{since} "
        f"({num(rise.best_level)} near {case.unit} {best_step(case)})"
    )


def _why_clear(case: Case, rise: Rise) -> str:
    """Return the evidence of a climb: its p-value, or its height if the trend is unclear."""
    if rise.p_value >= case.limits.divergence.significance:
        return ", far beyond normal variation"
    chance = f"= {rise.p_value:.1g}" if rise.p_value > 1e-12 else "< 1e-12"
    return f" (p {chance})"


def _is_the_lr_rising(case: Case) -> Reply:
    """Did the learning rate rise over the climb, or jump where it began?"""
    first, last = climb_steps(case)
    lr = climb_rates(case, first, last)
    if lr is None:
        return unknown("too few learning rates were logged over the climb")
    because, measured = describe_lr_change(case, lr.begin, lr.end, lr.first, last)
    if lr.end > lr.begin * case.limits.divergence.lr_rise and lr.is_within_earlier_range:
        because += f", no higher than it had been before ({num(lr.highest_before)})"
    jump = None if lr.rises else _lr_jump(case, first, last)
    if jump is not None:
        rates = case.history.finite("lr")
        low, high = float(rates.values[jump - 1]), float(rates.values[jump])
        step = int(rates.steps[jump])
        because = f"the learning rate jumped from {num(low)} to {num(high)} at {case.unit} {step}"
        measured |= {"lr_before": low, "lr_after": high, "turning_step": step}
        return yes(f"{because}, and stayed up", step, last, branch="jump", measured=measured)
    if not lr.rises:
        return no(because, lr.first, last, measured=measured)
    turned = find_turn_step(case, case.history.series["lr"], first, last)
    if turned is not None:
        because += f"; the rise began {step_phrase(case, case.history.series['lr'], turned)}"
        measured["turning_step"] = turned
    return yes(because, lr.first, last, measured=measured)


def describe_lr_change(
    case: Case, begin: float, end: float, first: int, last: int
) -> tuple[str, dict[str, Scalar]]:
    """Describe the change of the learning rate between two steps, in words and in numbers."""
    ratio = end / begin if begin > 0 else (1.0 if end == begin else float("inf"))
    text = (
        f"the learning rate went from {num(begin)} at {case.unit} {first} to {num(end)} at "
        f"{case.unit} {last}"
    )
    return text, {"lr_first": begin, "lr_last": end, "lr_ratio": ratio}


def _lr_jump(case: Case, first: int, last: int) -> int | None:
    """Return the position of the rate after a jump that began a climb, or None.

    The jump is between the best level of the loss and the middle of the climb, and most later rates
    exceed all earlier ones.
    """
    best, lr = best_step(case), case.history.finite("lr")
    for step in case.causes.lr_jumps[::-1].tolist():
        at = int(np.searchsorted(lr.steps, step))
        if (
            best <= step <= (first + last) / 2
            and median(lr.between(step, last).values)
            > lr.values[:at].max() * case.limits.divergence.lr_rise
        ):
            return at
    return None


def _did_a_weight_norm_change(case: Case) -> Reply:
    """Did the norm of a group of weights change much, and when did that begin?"""
    began, last = climb_steps(case)
    window = case.limits.divergence.window
    # The range starts half a climb earlier, so that a norm that rose in one step counts.
    # may be shorter than their window.
    reply = weight_norms(case, min(best_step(case), last - window), last)
    if reply.verdict is Verdict.NO:
        # A climb may continue slowly after most of it is done, so the last window before its
        # highest level and the last window of the log count as well.
        crest = case.at(require_rise(case).crest) + window // 2
        for end in (crest, case.at(case.comparable_range.stop - 1)):
            later = weight_norms(case, max(end - window, began), end)
            reply = later if later.branch else reply
    if not reply.branch:
        return reply
    first, name, falling = reply.steps[0], reply.measured["group"], reply.branch == "collapsing"
    norm = case.history.group("weight_norm")[str(name)]
    turned = find_turn_step(case, norm, first, last, falling=falling)
    if turned is not None and turned > began:
        # A change that began after the climb did not cause it, regardless of its size.
        turned = find_turn_step(case, norm, first, began + window, falling=falling)
    if turned is None:
        return reply
    return yes(
        f"{reply.because}; the change began {step_phrase(case, norm, turned)}",
        *reply.steps,
        branch=reply.branch,
        measured={**reply.measured, "turning_step": turned},
    )


def weight_norms(case: Case, first: int, last: int) -> Reply:
    """Answer whether a weight norm changed much between two steps."""
    groups, window = case.history.group("weight_norm"), case.limits.divergence.window
    logged = {
        name: span
        for name, series in groups.items()
        if len(span := series.finite().between(first, last)) > 1
    }
    if not logged:
        return unknown("too few weight norms were logged over the climb")
    # The window contains at least three values.
    windows = {name: max(window, round(2 * usual_gap(span.steps))) for name, span in logged.items()}
    changes = {name: _largest_change(span, windows[name]) for name, span in logged.items()}
    name = max(changes, key=lambda group: abs(np.log(changes[group])))
    ratio, limit = changes[name], case.limits.divergence.weight_norm_ratio
    measured: dict[str, Scalar] = {"group": name, "ratio": ratio, "groups": len(groups)}
    because = (
        f"the weight norm of {name!r} changed most, to {times(ratio)} within {windows[name]} "
        f"{case.unit}s"
    )
    if windows[name] > window:
        because += f" (not {window}: it was logged too rarely)"
    # A ratio of exactly 2 or 1/2 is within the limit.
    if max(ratio, 1 / ratio) <= limit * (1 + RELATIVE_EPS):
        return no(because, first, last, measured=measured)
    branch = "climbing" if ratio > 1 else "collapsing"
    return yes(because, first, last, branch=branch, measured=measured)


def _largest_change(series: Series, window: int) -> float:
    """Return the ratio farthest from 1 of two values at most ``window`` steps apart."""
    steps, logs = logarithms(series)
    if len(logs) < 2:
        return 1.0
    changes = logs - logs[np.searchsorted(steps, steps - window)]
    return float(np.exp(np.clip(changes[np.argmax(np.abs(changes))], -_MAX_LOG, _MAX_LOG)))


def _is_the_grad_norm_rising(case: Case) -> Reply:
    """Does the gradient norm rise with the loss?"""
    material = is_clear(case, require_rise(case))
    first, last = climb_steps(case)
    # The range starts half a climb earlier, so that a norm that rose in a single step counts.
    kind = "unexplained" if material else "plateau"
    reply = grad_norm(case, first, last, back=(last - first) // 2, kind=kind)
    if reply.verdict is Verdict.YES and not material:
        because = f"{reply.because}, but the loss hardly rose: that explains nothing"
        return no(because, branch=kind, measured=reply.measured)
    return reply


def grad_norm(case: Case, first: int, last: int, *, back: int, kind: str) -> Reply:
    """Answer whether the gradient norm rises from ``back`` steps before the first step to the last.

    ``kind`` is the branch if it does not.
    """
    span = case.history.finite("grad_norm").between(first - back, last)
    third = len(span) // THIRDS
    if third < MIN_CONSECUTIVE:
        return unknown("too few gradient norms were logged over the climb", branch=kind)
    before, after = float(np.mean(span.values[:third])), float(np.mean(span.values[-third:]))
    ratio = after / before if before > 0 else float("inf")
    factor = f", {num(ratio)} x" if before > 0 else ""
    # It rose during the climb, or before it and then stopped.
    chance = min(mann_kendall(part.values) for part in (span, span.between(first, last)))
    because = (
        f"the gradient norm's mean went from {num(before)} to {num(after)}{factor}, over the climb"
    )
    measured: dict[str, Scalar] = {
        "before": before,
        "after": after,
        "ratio": ratio if before > 0 else None,
        "p_value": chance,
    }
    higher = ratio > case.limits.divergence.grad_norm_rise
    if higher and chance < MAX_CHANCE:
        return yes(because, first, last, measured=measured)
    if higher:
        because += f", but not steadily: a flat one does so with chance {num(chance)}"
    return no(because, first, last, branch=kind, measured=measured)


ANSWERS: Final = {
    "Q4.1": _is_the_loss_rising,
    "Q4.2": _is_the_lr_rising,
    "Q4.3": _did_a_weight_norm_change,
    "Q4.4": _is_the_grad_norm_rising,
}
