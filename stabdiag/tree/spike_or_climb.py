"""Which part of the loss §2 answers for and which §4: the spikes, and the settled losses."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stabdiag.model.roles import OF_OPPONENTS
from stabdiag.stats.shape import rise_points
from stabdiag.tree.loss_weight import jumps_by_weight, weighed_alike
from stabdiag.tree.ramps import is_on_ramp
from stabdiag.tree.rises import climbs_before, climbs_on, ends_higher
from stabdiag.tree.turns import turned_to

if TYPE_CHECKING:
    from stabdiag.model.history import Series
    from stabdiag.stats.shape import Spike
    from stabdiag.tree.case import Case

# However few steps a point stands for, a loss that is up after so many of them jumped.
_SUDDEN = 3

# A norm was shrinking already if it had lost this share of itself at the jump.
_LOST = 0.05


def proper_spikes(case: Case) -> tuple[Spike, ...]:
    """Return the spikes that §2 answers for.

    A loss that rises slowly and stays up is a climb, and §4's, unless a logged cause came just
    before. So is a jump of a loss that was climbing already: it is the climb's end, not its cause.
    A run whose reward holds has no spikes, the loss of one of two opponents may shift, and so may
    one of which a part comes to weigh more, or one that is measured on something else from then on.
    """
    if case.literal:
        return case.scan.spikes
    if case.reward is not None:
        return ()
    longest = case.points(case.limits.spike.recovery_steps / 2, _SUDDEN)
    x, caused, reach = case.loss.values, case.suspect, case.reach

    def is_sudden(spike: Spike) -> bool:
        return rise_points(x, spike.onset, reach) <= longest

    proper = [
        spike
        for spike in case.scan.spikes
        if spike.recovered or caused[spike.onset] or is_sudden(spike)
    ]
    if len(proper) < len(case.scan.spikes) and not ends_higher(case, proper):
        proper = list(case.scan.spikes)
    proper = [spike for spike in proper if spike.explodes or not jumps_by_weight(case, spike)]
    shifted = [shift.spike for shift in case.shifts]
    proper = [spike for spike in proper if spike not in shifted]
    proper = [spike for spike in proper if caused[spike.onset] or not is_on_ramp(case, spike)]
    if case.history.contested == OF_OPPONENTS:
        proper = [spike for spike in proper if spike.recovered or spike.explodes]
    stayed = next((spike for spike in proper if not spike.recovered), None)
    if stayed is not None and (
        _weights_were_shrinking(case, stayed)
        or climbs_before(case, stayed, proper)
        or (not caused[stayed.onset] and climbs_on(case, stayed, proper))
    ):
        proper = [spike for spike in proper if spike.recovered]
    return tuple(proper)


def jumps_that_stay(case: Case) -> list[Spike]:
    """Return the jumps that stayed up, or may stay, whatever they are owed to."""
    stayed = [spike for spike in case.spikes if not spike.recovered]
    return sorted((*stayed, *(one.spike for one in case.shifts)), key=lambda one: one.onset)


def settled_part(case: Case) -> slice:
    """Return the losses, as positions, in which §4 looks for a climb.

    A loss that jumped and stayed up is §2's, or is measured on something else since: the part after
    the jump counts if it is long enough, else the part before; of several where the loss came to be
    measured on something else, the last that is. While a part of the loss comes to weigh more, or
    what it is measured on gets harder, its losses cannot be compared.
    """
    part = weighed_alike(case)
    if case.ramp is not None:
        part = slice(max(part.start, case.ramp.until), max(part.stop, case.ramp.until))
    stayed = [spike for spike in jumps_that_stay(case) if spike.onset < part.stop]
    if case.literal or not stayed:
        return part
    shifted = [shift.spike for shift in case.shifts]

    def after(jump: Spike) -> int:
        # What is measured on something else needs no time to come to rest, and may break meanwhile.
        return max(jump.onset if jump in shifted else jump.end, int(part.start))

    if part.stop - after(stayed[-1]) >= case.rise_window:
        return slice(after(stayed[-1]), part.stop)
    while len(stayed) > 1 and stayed[-2] in shifted:
        stop = stayed.pop().onset
        if stop - after(stayed[-1]) >= case.rise_window:
            return slice(after(stayed[-1]), stop)
    return slice(part.start, max(stayed[0].onset, part.start))


def _weights_were_shrinking(case: Case, jump: Spike) -> bool:
    """Tell whether a weight norm was falling when the loss jumped, and went on to fall far.

    A weight decay that is too high undoes in a few dozen steps what a run has learned. The loss
    then goes up as fast as in a jump, but the weights began it. A norm that fell at once, as by a
    part of the model that was set back, had the same cause as the jump.
    """
    series = case.history.group("weight_norm").values()
    return any(_was_shrinking(case, norm.finite(), jump) for norm in series)


def _was_shrinking(case: Case, norm: Series, jump: Spike) -> bool:
    window, factor = case.limits.divergence.window, case.limits.divergence.weight_norm_ratio
    onset = case.at(jump.onset)
    turned = turned_to(case, norm, onset - window, onset + window, falling=True)
    if turned is None or turned >= onset:
        return False
    before, then = norm.between(onset - window, turned).values, norm.until(onset).values
    later = norm.between(onset + 1, onset + window).values
    if not (len(before) and len(later)):
        return False
    at, least = float(then[-1]), float(later.min())
    return at < (1 - _LOST) * float(before[-1]) and least < at / factor
