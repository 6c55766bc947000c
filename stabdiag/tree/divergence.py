"""§4: does the loss climb, and what climbs with it?"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from stabdiag.stats.trend import mann_kendall
from stabdiag.tree.question import Question, Reply, no, unknown, yes
from stabdiag.tree.reward import no_harm
from stabdiag.tree.rises import (
    best_step,
    climb,
    found_rise,
    is_clear,
    lr_jump,
    lr_over,
    material_bar,
)
from stabdiag.tree.turns import turned_to
from stabdiag.tree.weights import did_a_weight_norm_change
from stabdiag.words import num, plural

if TYPE_CHECKING:
    from stabdiag.findings import Scalar
    from stabdiag.stats.rise import Rise
    from stabdiag.tree.case import Case


def _is_the_loss_rising(case: Case) -> Reply:
    if case.literal:
        return _monotone(case)
    contested = case.history.contested
    if contested is not None:
        column = case.history.series["loss"].column
        return unknown(f"{column!r} is {contested}: it may rise while the run learns")
    if case.reward is not None:
        return no_harm(case.reward)
    rise, limits = case.rise, case.limits.divergence
    if rise is None:
        count = case.settled.stop - case.settled.start
        settled = plural(count, "settled loss", "settled losses")
        because = f"{settled}; a trend needs {case.rise_window}"
        return unknown(because, measured={"logged": count})
    measured: dict[str, Scalar] = {
        "rise": rise.amount,
        "bar": material_bar(case, rise),
        "p_value": rise.p_value,
        "recent_p_value": rise.recent_p_value,
        "best": rise.best_level,
        "last": rise.last_level,
        "own_ups_and_downs": rise.bar,
        "progress": rise.progress,
    }
    first, last = climb(case)
    ends = _ends(case, rise)
    if is_clear(case, rise):
        return yes(
            f"{ends}; it climbed from step {first} to {last}, {_why_clear(case, rise)}",
            first,
            last,
            branch="material",
            measured=measured,
        )
    if rise.recent_p_value < limits.significance and rise.amount > 0.5 * rise.bar:
        return yes(
            f"{ends}: a trend over the last {limits.window} steps, but a small one "
            f"(material from {num(material_bar(case, rise))} on)",
            first,
            last,
            branch="slight",
            measured=measured,
        )
    if rise.amount > material_bar(case, rise):
        ends += (
            f"; that is {num(rise.amount / rise.bar)} times what its noise and its usual ups and "
            f"downs explain, but no trend (p {rise.p_value:.2g})"
        )
    elif rise.amount > 0:
        ends += ", no more than its noise and its usual ups and downs"
    return no(ends, measured=measured)


def _ends(case: Case, rise: Rise) -> str:
    """Tell where the loss ended, or stood before it jumped, and how that compares with its best."""
    settled = case.settled
    jumps = [case.at(spike.onset) for spike in case.spikes if not spike.recovered]
    ends, since = "the loss ends", ""
    if settled.stop < len(case.loss):
        ends = f"before the jump at step {jumps[0]} the loss stood"
    elif settled.start:
        since = f" since the jump at step {jumps[-1]}"
    ends += f" at {num(rise.last_level)}"
    if rise.points > 1:
        ends += f" (mean of {rise.points})"
    if rise.amount <= 0:
        return f"{ends}, its best level{since}"
    return (
        f"{ends}, {num(rise.amount)} above its best level{since} "
        f"({num(rise.best_level)} near step {best_step(case)})"
    )


def _why_clear(case: Case, rise: Rise) -> str:
    """Return why a climb is one: no chance, or, where the trend is unclear, its height."""
    if rise.p_value >= case.limits.divergence.significance:
        return "far beyond its usual ups and downs"
    chance = f"{rise.p_value:.1g}" if rise.p_value > 1e-12 else "below 1e-12"
    return f"which noise does with chance {chance}"


def _monotone(case: Case) -> Reply:
    """The tree to the letter: every step of the window higher than the one before."""
    loss, wanted = case.loss, case.limits.divergence.window
    first, last = (int(loss.steps[0]), int(loss.steps[-1])) if len(loss) else (0, 0)
    if len(loss) < case.rise_window or last - first < wanted:
        losses = plural(len(loss), "loss", "losses")
        return unknown(
            f"{losses} over {plural(last - first, 'step')}; {case.rise_window} over {wanted} are "
            "needed",
            measured={"logged": len(loss)},
        )
    window = loss.between(last - wanted, last)
    steps = f"at every step of the last {wanted}"
    if len(window) > 1 and (np.diff(window.values) > 0).all():
        return yes(f"the loss rose {steps}", branch="material")
    return no(f"the loss did not rise {steps}")


def _is_the_lr_rising(case: Case) -> Reply:
    first, last = climb(case)
    lr = lr_over(case, first, last)
    if lr is None:
        return unknown("too few learning rates were logged over the climb")
    begin, end, since = lr.begin, lr.end, lr.first
    ratio = end / begin if begin > 0 else (1.0 if end == begin else float("inf"))
    told = f"the learning rate went from {num(begin)} at step {since} to {num(end)} at step {last}"
    if end > begin * case.limits.divergence.lr_rise and lr.again:
        told += f", no higher than it had been before ({num(lr.highest_before)})"
    measured: dict[str, Scalar] = {"lr_first": begin, "lr_last": end, "lr_ratio": ratio}
    jump = None if case.literal or lr.rises else lr_jump(case, first, last)
    if jump is not None:
        told = (
            f"the learning rate jumped from {num(jump.before)} to {num(jump.after)} at step "
            f"{jump.step}, and stayed up"
        )
        measured |= {"lr_before": jump.before, "lr_after": jump.after, "turned": jump.step}
        return yes(told, jump.step, last, branch="jump", measured=measured)
    if not lr.rises:
        return no(told, since, last, measured=measured)
    turned = turned_to(case, case.history.series["lr"], first, last)
    if turned is not None:
        told += f"; the rise began at step {turned}"
        measured["turned"] = turned
    return yes(told, since, last, measured=measured)


def _is_the_grad_norm_rising(case: Case) -> Reply:
    material = case.literal or is_clear(case, found_rise(case))
    first, last = climb(case)
    norm = case.history.get("grad_norm")
    # To the letter, a loss that rises without its gradient norm is a model that is done training.
    kind = "unexplained" if material and not case.literal else "plateau"
    if norm is None:
        return _without_grad_norm(kind)
    # Its second half against half as long before it: a norm that rose at once has risen too.
    back = last - first if case.literal else (last - first) // 2
    span = norm.finite().between(first - back, last)
    third = len(span) // 3
    if third < 3:
        return _without_grad_norm(kind)
    before, after = float(np.mean(span.values[:third])), float(np.mean(span.values[-third:]))
    ratio = after / before if before > 0 else float("inf")
    times = f", {num(ratio)} x" if before > 0 else ""
    # It rose with the loss, or had risen before it: then it no longer does.
    chance = min(mann_kendall(part.values) for part in (span, span.between(first, last)))
    told = (
        f"the gradient norm's mean went from {num(before)} to {num(after)}{times}, over the climb"
    )
    measured: dict[str, Scalar] = {
        "before": before,
        "after": after,
        "ratio": ratio if before > 0 else None,
        "p_value": chance,
    }
    higher = ratio > case.limits.divergence.grad_norm_rise
    rising = higher and chance < 0.01
    if rising and material:
        return yes(told, first, last, measured=measured)
    if rising:
        return no(
            f"{told}, but the loss hardly rose: that convicts nobody",
            branch=kind,
            measured=measured,
        )
    if higher:
        told += f", but not steadily: a flat one does so with chance {num(chance)}"
    return no(told, first, last, branch=kind, measured=measured)


def _without_grad_norm(kind: str) -> Reply:
    return unknown("too few gradient norms were logged over the climb", branch=kind)


QUESTIONS: tuple[Question, ...] = (
    Question(
        id="Q4.1",
        asks="Has the loss been rising over the last {divergence.window} steps?",
        answer=_is_the_loss_rising,
        needs=("loss",),
        limits=(
            "divergence.window",
            "divergence.min_points",
            "divergence.significance",
            "divergence.material",
        ),
    ),
    Question(
        id="Q4.2",
        asks="Has the learning rate increased over the same window?",
        answer=_is_the_lr_rising,
        needs=("lr",),
        limits=("divergence.lr_rise",),
    ),
    Question(
        id="Q4.3",
        asks="Has a weight norm changed by more than {divergence.weight_norm_ratio}x in "
        "{divergence.window} steps?",
        answer=did_a_weight_norm_change,
        limits=("divergence.weight_norm_ratio", "divergence.window"),
    ),
    Question(
        id="Q4.4",
        asks="Is the gradient norm's rolling mean rising?",
        answer=_is_the_grad_norm_rising,
        limits=("divergence.grad_norm_rise", "divergence.material"),
    ),
)
