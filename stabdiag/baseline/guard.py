"""The band of references, and whether one of them clearly differs from the others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from stabdiag.baseline.roles import usual_spread, worse_direction
from stabdiag.model.baseline import UnusedReference
from stabdiag.model.frozen import frozen
from stabdiag.model.profile import RunProfile
from stabdiag.stats.bands import bin_start, deviation_bar
from stabdiag.stats.leave_one_out import ROBUST_COUNT, PeakDeviation, leave_one_out

# Fewer references than this cannot outvote one of them.
_MIN_TO_LEAVE_OUT: Final = 4

# A reference is left out if it exceeds the bar this many times; at most one in four is.
_LEAVE_OUT_FACTOR: Final = 2.0
_MIN_PER_LEFT_OUT: Final = 4

_NO_PEAK: Final = PeakDeviation(size=0.0, bin=0, lasts=False)


@frozen
class GuardedReferences:
    """References that were tested against each other.

    ``peaks`` has the largest deviation among the kept ``references`` by role. ``odd_one`` is set if
    one of three clearly differs: two against one may be the bad ones.
    """

    references: Sequence[RunProfile]
    left_out: Sequence[UnusedReference]
    peaks: Mapping[str, float]
    odd_one: UnusedReference | None = None


def guard(references: Sequence[RunProfile]) -> GuardedReferences:
    """Test each reference against the others.

    At most a quarter of four or more are left out, the worst first.
    """
    kept = list(references)
    left_out: list[UnusedReference] = []
    max_left_out = len(kept) // _MIN_PER_LEFT_OUT if len(kept) >= _MIN_TO_LEAVE_OUT else 0
    peaks: list[dict[str, PeakDeviation]] = []
    while len(kept) >= _MIN_TO_LEAVE_OUT - 1:
        peaks = _peaks(kept)
        worst = [max(own.values(), key=lambda peak: peak.size, default=_NO_PEAK) for own in peaks]
        # One at a time, since a bad reference widens the band. Among many references, several may
        # be left out together.
        order = sorted(range(len(kept)), key=lambda position: -worst[position].size)
        limit = _LEAVE_OUT_FACTOR * deviation_bar(len(kept) - 1)
        odd = [at for at in order[: max(len(kept) // ROBUST_COUNT, 1)] if worst[at].size > limit]
        if not odd:
            break
        odd_runs = [
            UnusedReference(
                name=kept[at].name, reason="differs from the others", step=bin_start(worst[at].bin)
            )
            for at in odd
        ]
        if len(kept) < _MIN_TO_LEAVE_OUT and not left_out and worst[odd[0]].lasts:
            return GuardedReferences(references=kept, left_out=(), peaks={}, odd_one=odd_runs[0])
        allowed = max_left_out - len(left_out)
        if allowed <= 0:
            break
        left_out += odd_runs[:allowed]
        dropped = set(odd[:allowed])
        kept = [run for at, run in enumerate(kept) if at not in dropped]
    roles = {role for own in peaks for role in own} if len(kept) >= _MIN_TO_LEAVE_OUT else set()
    largest = {role: max(own[role].size for own in peaks if role in own) for role in roles}
    return GuardedReferences(references=kept, left_out=left_out, peaks=largest)


def find_odd_run(runs: Sequence[RunProfile]) -> int | None:
    """Return the position of the run that differs most from the others, if these agree."""
    if len(runs) < _MIN_TO_LEAVE_OUT - 1:
        return None
    sizes = _largest(runs)
    at = sizes.index(max(sizes))
    others = [run for run in runs if run is not runs[at]]
    return at if max(_largest(others)) <= deviation_bar(len(others) - 1) else None


def _largest(runs: Sequence[RunProfile]) -> list[float]:
    """Return the largest deviation of each run from the others."""
    return [max((peak.size for peak in own.values()), default=0.0) for own in _peaks(runs)]


def _peaks(references: Sequence[RunProfile]) -> list[dict[str, PeakDeviation]]:
    """Return the peak of each reference against the others, by role, in the series that decide."""
    peaks: list[dict[str, PeakDeviation]] = [{} for _ in references]
    for role in shared_roles(references):
        if worse_direction(role) is None:
            continue
        levels = [reference.series.get(role) for reference in references]
        for own, peak in zip(peaks, leave_one_out(levels, usual_spread(role)), strict=True):
            if peak is not None:
                own[role] = peak
    return peaks


def shared_roles(profiles: Sequence[RunProfile]) -> list[str]:
    """Return the roles that at least half of the profiles have."""
    roles = dict.fromkeys(role for profile in profiles for role in profile.series)
    required = (len(profiles) + 1) // 2
    return [
        role for role in roles if sum(role in profile.series for profile in profiles) >= required
    ]
