"""§4: does the loss climb, and what climbs with it?"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from stabdiag.model.text import num, plural
from stabdiag.tree.gradients import is_the_grad_norm_rising
from stabdiag.tree.loss_weight import is_cut_by_weight, weighed_until, what_ended
from stabdiag.tree.question import Reply, no, unknown, yes
from stabdiag.tree.ramps import rose_with, to_compare
from stabdiag.tree.rates import is_the_lr_rising
from stabdiag.tree.reward import no_harm
from stabdiag.tree.rises import best_step, climb, is_clear, last_window, material_bar, mean_of
from stabdiag.tree.spike_or_climb import jumps_that_stay
from stabdiag.tree.weights import did_a_weight_norm_change

if TYPE_CHECKING:
    from stabdiag.model.findings import Scalar
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
        begin = case.settled.start
        if begin and begin == weighed_until(case):
            because += (
                f"; before step {case.at(begin)} {_weight(case)!r} grew, by which a part of the "
                "loss is weighed: log that part unweighted, too"
            )
        elif case.ramp is not None:
            because += f"; {rose_with(case, case.ramp)}; {to_compare(case.ramp)}"
        return unknown(because, measured={"logged": count})
    bar, (first, last) = material_bar(case, rise), climb(case)
    ends, measured = _ends(case, rise), _measured(rise, bar)
    if is_clear(case, rise):
        told = f"{ends}; it climbed from step {first} to {last}, {_why_clear(case, rise)}"
        return yes(told, first, last, branch="material", measured=measured)
    if rise.recent_p_value < limits.significance and rise.amount > 0.5 * rise.bar:
        return yes(
            f"{ends}: a trend over the last {limits.window} steps, but a small one "
            f"(material from {num(bar)} on)",
            first,
            last,
            branch="slight",
            measured=measured,
        )
    if is_cut_by_weight(case) and len(case.loss) - case.settled.stop >= case.rise_window:
        told = "whether it climbed since cannot be told: log that part of it unweighted, too"
        return unknown(f"{ends}; {told}", measured=measured)
    if rise.amount > bar:
        ends += (
            f"; that is {num(rise.amount / rise.bar)} times what its noise and its usual ups and "
            f"downs explain, but no trend (p {rise.p_value:.2g})"
        )
    elif rise.amount > rise.bar:
        ends += f", a small rise (material from {num(bar)} on)"
    elif rise.amount > 0:
        ends += ", no more than its noise and its usual ups and downs"
    return no(ends, measured=measured)


def _measured(rise: Rise, bar: float) -> dict[str, Scalar]:
    return {
        "rise": rise.amount,
        "bar": bar,
        "p_value": rise.p_value,
        "recent_p_value": rise.recent_p_value,
        "best": rise.best_level,
        "last": rise.last_level,
        "own_ups_and_downs": rise.bar,
        "progress": rise.progress,
    }


def _ends(case: Case, rise: Rise) -> str:
    """Tell where the loss ended, or stood before it jumped, and how that compares with its best."""
    settled = case.settled
    jumps = [case.at(spike.onset) for spike in jumps_that_stay(case)]
    ends, since = "the loss ends", ""
    if settled.stop < len(case.loss):
        ends = f"before {what_ended(case)} the loss stood"
    elif settled.start and settled.start == weighed_until(case):
        since = f" since {_weight(case)!r} stopped growing at step {case.at(settled.start)}"
    elif case.ramp is not None and settled.start == case.ramp.until:
        since = f" since {case.ramp.name} settled at step {case.at(settled.start)}"
    elif settled.start:
        since = f" since the jump at step {jumps[-1]}"
    ends += f" at {num(rise.last_level)}"
    if rise.points > 1:
        since_then = settled.stop - rise.points
        out = any(spike.recovered and spike.end > since_then for spike in case.spikes)
        ends += f" ({mean_of(rise.points)}{', spikes left out' if out else ''})"
    if rise.amount <= 0:
        return f"{ends}, its best level{since}"
    return (
        f"{ends}, {num(rise.amount)} above its best level{since} "
        f"({num(rise.best_level)} near step {best_step(case)})"
    )


def _weight(case: Case) -> str:
    return case.history.series["loss_weight"].column


def _why_clear(case: Case, rise: Rise) -> str:
    """Return why a climb is one: no chance, or, where the trend is unclear, its height."""
    if rise.p_value >= case.limits.divergence.significance:
        return "far beyond its usual ups and downs"
    chance = f"{rise.p_value:.1g}" if rise.p_value > 1e-12 else "below 1e-12"
    return f"which noise does with chance {chance}"


def _monotone(case: Case) -> Reply:
    """The tree to the letter: every step of the window higher than the one before."""
    loss, wanted = case.loss, case.limits.divergence.window
    first, last = int(loss.steps[0]), int(loss.steps[-1])
    if len(loss) < case.rise_window or last - first < wanted:
        losses = plural(len(loss), "loss", "losses")
        return unknown(
            f"{losses} over {plural(last - first, 'step')}; {case.rise_window} over {wanted} are "
            "needed",
            measured={"logged": len(loss)},
        )
    window = last_window(case)
    told = f"at every step of the last {wanted}"
    if last - int(window.steps[0]) > wanted:
        told = f"at each of the last {len(window)} losses (the log is sparse)"
    ends = (int(window.steps[0]), last)
    if (np.diff(window.values) > 0).all():
        return yes(f"the loss rose {told}", *ends, branch="material")
    return no(f"the loss did not rise {told}")


ANSWERS: Final = {
    "Q4.1": _is_the_loss_rising,
    "Q4.2": is_the_lr_rising,
    "Q4.3": did_a_weight_norm_change,
    "Q4.4": is_the_grad_norm_rising,
}
