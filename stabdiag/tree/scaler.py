"""How a loss scaler lives: calibration at the start, regular probes, and overflows beyond those."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from stabdiag.model.roles import counts_since_the_last
from stabdiag.tree.probes import PAUSE, changes, interval_of

if TYPE_CHECKING:
    from stabdiag.model.arrays import Floats, Ints
    from stabdiag.model.history import Series
    from stabdiag.tree.case import Case
    from stabdiag.tree.scale import Fall

# A scaler has found its scale once it goes this many steps, or a tenth of a short run, without an
# overflow.
_CALIBRATED_AFTER = 50

# A log that begins later shows a search only if its scale is as high as one begins: PyTorch and
# DeepSpeed start at 65536 or 2^32, fairseq at 128, but that at the beginning of the run.
_FIRST_SCALE = 2.0**14

# From the highest scale that one begins with, 2^32, down to 1 it takes 32 overflows, or with the
# hysteresis of Megatron and DeepSpeed twice as many.
_LONGEST_SEARCH = 64

# A search overflows step after step, and pauses only near its end: half a scale overflows half as
# often or less, so that a pause of 2 steps, of 4, of 8 ... is soon one that ends it. Where no scale
# shows that it fell, more pauses than these are overflows like any other.
_PAUSES = 10


@dataclass(frozen=True, kw_only=True, eq=False)
class Overflows:
    """Overflows as the log shows them.

    ``at`` are the steps, each of them once, with a gradient norm that is not finite, those that the
    scaler is said to have skipped, and those at which the loss scale fell; ``times`` is how many
    overflows each stands for, as a record may tell of many, and as a scale may have been halved
    often. ``calibrating`` of them belong to the scaler's search for its first scale. ``interval``
    is the steps from one probe to the next, ``expected`` the overflows that such probing explains.
    """

    at: Ints
    times: Ints
    calibrating: int
    interval: float
    interval_from: str
    expected: float

    @property
    def count(self) -> int:
        """How many overflows there are."""
        return int(self.times.sum())

    @property
    def later(self) -> int:
        """Overflows after the calibration."""
        return self.count - self.calibrating

    def after(self, step: int) -> int:
        """Return how many overflows there are after a step."""
        return int(self.times[self.at > step].sum())

    def began(self, fall: Fall, stride: float) -> int:
        """Return the first of the overflows that led to a fall, without a long pause.

        Those of a decline come one after the other, or since the scale last stood where it used to.
        """
        led = self.at[self.at <= fall.since]
        pauses = np.flatnonzero(np.diff(led) > max(PAUSE, 3 * stride))
        first = int(led[pauses[-1] + 1]) if len(pauses) else int(led[0]) if len(led) else fall.since
        lower = led[led > fall.usual_until]
        return min(first, int(lower[0])) if len(lower) else first

    def first_unexplained(self, factor: float) -> int:
        """Return the first overflow after the calibration that no regular probe explains."""
        place = _place(self.times, self.calibrating)
        soon = np.flatnonzero(self._soon(factor))
        return int(self.at[place + soon[0] if len(soon) else place])

    def too_soon(self, factor: float) -> int:
        """Count the overflows after the calibration that are followed by another one too soon.

        After an overflow the scale is halved, and a scaler waits for an interval to try again.
        """
        return int(self._soon(factor).sum())

    def _soon(self, factor: float) -> Ints:
        """Count those that are followed too soon by another at each step after the calibration."""
        place = _place(self.times, self.calibrating)
        times = self.times[place:].copy()
        times[:1] -= self.calibrating - self.times[:place].sum()
        followed = np.append(np.diff(self.at[place:]) * factor < self.interval, False)
        soon: Ints = times - 1 + followed[: len(times)]
        return soon


def _place(times: Ints, number: int) -> int:
    """Return at which step the overflow of this number is, counted from 0."""
    return int(np.searchsorted(np.cumsum(times), number, side="right"))


def overflows(case: Case) -> Overflows:
    """Read the overflows off the gradient norm, the skipped steps and the loss scale."""
    norm, scale = case.history.get("grad_norm"), case.history.get("loss_scale")
    found = [np.empty(0, np.int64)]
    if norm is not None:
        found.append(norm.steps[~np.isfinite(norm.values)])
    doublings = np.empty(0, np.int64)
    if scale is not None and case.manifest.dtype == "fp16":
        fell, times, doublings = changes(scale)
        # The step that overflows and the record in which the scale has fallen may differ, as far as
        # the scale was logged apart.
        logged = scale.finite().steps
        since = fell - logged[np.searchsorted(logged, fell) - 1]
        seen = _count_before(fell, np.concatenate(found), np.maximum(2 * case.stride, since))
        found.append(np.repeat(fell, np.maximum(times - seen, 0)))
    seen_otherwise = np.sort(np.concatenate(found))
    told, besides = _skipped_besides(case, seen_otherwise)
    at, place = np.unique(np.concatenate([seen_otherwise, told]), return_inverse=True)
    times = np.zeros(len(at), np.int64)
    np.add.at(times, place, np.append(np.ones(len(seen_otherwise), np.int64), besides))
    begun, ended = _ends(case)
    grown = int(doublings[0]) if len(doublings) else ended
    early = np.flatnonzero(at <= grown)[:_LONGEST_SEARCH]
    search = np.repeat(at[early], np.minimum(times[early], _LONGEST_SEARCH))[:_LONGEST_SEARCH]
    calibrating = _calibration(search.tolist(), begun, ended, case.stride, scale)
    later = _place(times, calibrating)
    interval, source = interval_of(case, doublings, scale, at[later:])
    after = int(at[later]) if later < len(at) else ended
    first = int(at[_place(times, calibrating - 1)]) if calibrating else begun
    span = float((case.history.last_step or after) - first)
    return Overflows(
        at=at,
        times=times,
        calibrating=calibrating,
        interval=interval,
        interval_from=source,
        expected=max(span / interval, float(len(doublings))),
    )


def _skipped_besides(case: Case, known: Ints) -> tuple[Ints, Ints]:
    """Return the records that tell of skipped steps, and how many each that nothing else tells of.

    A record tells of the steps since the one before it; a scale that has fallen may come after it.
    """
    skipped = case.history.finite("skipped")
    if not len(skipped) or case.manifest.dtype != "fp16":
        return skipped.steps[:0], skipped.steps[:0]
    stride = round(case.stride)
    since = np.append(max(skipped.steps[0] - stride, -1), skipped.steps[:-1])
    told = np.clip(skips(skipped), 0, skipped.steps - since).astype(np.int64)
    seen = np.searchsorted(known, skipped.steps + 2 * stride, side="right")
    besides = np.maximum.accumulate(np.maximum(np.cumsum(told) - seen, 0))
    more = np.diff(besides, prepend=0)
    return skipped.steps[more > 0], more[more > 0]


def skips(skipped: Series) -> Floats:
    """Return how many steps each record says were skipped; some logs count from the start."""
    counts = skipped.values
    if counts_since_the_last(skipped.column):
        return counts
    if len(counts) > 1 and np.all(np.diff(counts) >= 0):
        return np.diff(counts, prepend=0.0)
    return counts


def _count_before(steps: Ints, known: Ints, margin: Floats) -> Ints:
    """Count for each step the known ones that are at most its ``margin`` before it."""
    known = np.sort(known)
    until: Ints = np.searchsorted(known, steps, side="right")
    return until - np.searchsorted(known, steps - margin, side="left")


def _ends(case: Case) -> tuple[int, int]:
    """Return the first and the last step of the loss, or of all series where it was not logged."""
    logged = [case.loss] if len(case.loss) else [s for s in case.history.series.values() if len(s)]
    return min(int(s.steps[0]) for s in logged), max(int(s.steps[-1]) for s in logged)


def _calibration(
    search: list[int], begun: int, ended: int, stride: float, scale: Series | None
) -> int:
    """Return how many overflows, from the first on, belong to the calibration at the start.

    ``search`` has the steps of the first ones before the scale first grew: by then it was found.
    """
    patience = max(min(_CALIBRATED_AFTER, (ended - begun) / 10), 3 * stride)
    late = begun > max(_CALIBRATED_AFTER, 3 * stride)
    if late and scale is not None and len(scale) and scale.values[0] < _FIRST_SCALE:
        return 0
    before = begun
    pauses: list[int] = []
    for count, step in enumerate(search):
        if step - before > patience:
            return count
        if scale is None and step - before > 2 * stride:
            pauses.append(count)
        if len(pauses) > _PAUSES:
            return pauses[0]
        before = step
    return len(search)
