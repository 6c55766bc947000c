"""The rules that decide what is a spike: in each table, the first row that applies decides."""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property
from typing import Final

import numpy as np

from stabdiag.model.arrays import Floats, Mask
from stabdiag.model.frozen import frozen
from stabdiag.stats.abrupt import abrupt_spikes
from stabdiag.stats.events import LevelEvent, find_events
from stabdiag.stats.peaks import (
    MAX_GAP,
    Surroundings,
    centered_baseline,
    has_similar_noise,
    point_residuals,
)
from stabdiag.stats.profile import Profile, measure_profile, profile_of_stretches
from stabdiag.stats.quantiles import median
from stabdiag.stats.recurrence import PeakGroup, find_peak_group, high_peaks
from stabdiag.stats.rolling import TrailingBaseline
from stabdiag.stats.shape import SearchWindows, Spike, describe
from stabdiag.stats.spikes import SpikeScan, level_spans, merged, next_start, with_rise_as_onset
from stabdiag.stats.standards import (
    CLEAR,
    HALF,
    MIN_CONSECUTIVE,
    MIN_LONG_LOG,
    MIN_SAMPLE,
    MIN_TREND_POINTS,
    QUARTERS,
    SUBSAMPLE_SIZE,
)
from stabdiag.tree.rules import EventVerdict, Rule, classify

# A log of fewer points than this is short: half of it is needed to measure the noise.
_SHORT_LOG: Final = 2 * MIN_LONG_LOG

# The slope of a descent hides a peak if it inflates the deviation by this factor more than in the
# last quarter of the log.
_MIN_INFLATION: Final = 3.0


@frozen
class EventContext:
    """An event that may be a spike, and the facts around it.

    ``min_height`` is in units of the loss, ``sigmas`` the minimum height in standard deviations.
    """

    event: LevelEvent
    spike: Spike
    reach: SearchWindows
    sigmas: float
    min_height: float
    has_cause: bool
    group: PeakGroup | None

    @cached_property
    def surroundings(self) -> Surroundings:
        """The other excursions of the run."""
        event = self.event
        return Surroundings(
            residuals=event.residuals, at=event.at, spike=self.spike, reach=self.reach
        )

    @property
    def is_in_group(self) -> bool:
        """Whether the event is a recovered peak of the separated group."""
        in_group = self.group is not None and self.group.has(self.event.at)
        return in_group and self.spike.recovered is True

    @property
    def is_short_log_noise(self) -> bool:
        """Whether the event is a single loss of a short log whose noise is as high.

        The last loss of a log had no time to recover, so it is compared with the noise, too.
        """
        x = self.event.residuals.values
        is_point = self.event.is_single and self.spike.recovered is not False
        return is_point and len(x) < _SHORT_LOG and has_similar_noise(x, self.spike)

    @property
    def is_insignificant(self) -> bool:
        """Whether the event recovered and is too low to be distinct from noise.

        The slope of a descent inflates the deviation of its window, and not the score. If peaks
        inflate the deviation, the limit of the noise is low and shows nothing.
        """
        if self.event.is_single:
            limit, sigmas = self.event.limit, 2 * self.sigmas
            is_beyond = limit >= self.sigmas and self.spike.score > limit
        else:
            sigmas, is_beyond = CLEAR, False
        is_low = self.spike.height <= sigmas * self.spike.sigma
        return bool(self.spike.recovered) and is_low and not is_beyond


EVENT_RULES: Final[tuple[Rule[EventContext], ...]] = (
    Rule(
        name="too low",
        purpose="a spike exceeds spike.sigma deviations and spike.min_rise of the range so far",
        applies=lambda c: c.spike.height <= max(c.sigmas * c.spike.sigma, c.min_height),
        verdict=EventVerdict.NOISE,
    ),
    Rule(
        name="logged cause",
        purpose="just after a jump of the learning rate or a repeated batch, less is enough",
        applies=lambda c: c.has_cause,
        verdict=EventVerdict.SPIKE,
    ),
    Rule(
        name="separated group",
        purpose="peaks separated from the noise by a gap are spikes, however many they are",
        applies=lambda c: c.is_in_group,
        verdict=EventVerdict.SPIKE,
    ),
    Rule(
        name="stands out",
        purpose="a recovered stretch reached 5 deviations, a loss the limit or twice spike.sigma",
        applies=lambda c: c.is_insignificant,
        verdict=EventVerdict.NOISE,
    ),
    Rule(
        name="noise of a short log",
        purpose="a loss of a short log is not a spike if single losses elsewhere come near",
        applies=lambda c: c.is_short_log_noise,
        verdict=EventVerdict.NOISE,
    ),
    Rule(
        name="recurring",
        purpose="a peak is not a spike if others of the run come near",
        applies=lambda c: c.surroundings.is_recurring,
        verdict=EventVerdict.USUAL,
    ),
    Rule(
        name="gap in the tail",
        purpose="a single loss is a spike only if a gap separates it from the others",
        applies=lambda c: c.event.is_single and not c.surroundings.is_separated,
        verdict=EventVerdict.USUAL,
    ),
    Rule(
        name="as high elsewhere",
        purpose="a peak is not a spike if the noise of the run reaches as high elsewhere",
        applies=lambda c: c.surroundings.has_noise_as_high(c.event.limit),
        verdict=EventVerdict.USUAL,
    ),
)


def find_spikes(
    x: Floats,
    reach: SearchWindows,
    sigmas: float,
    false_alarm: float,
    min_range_share: float,
    atypical: Mask | None = None,
    after_logged_cause: Mask | None = None,
    *,
    of_means: bool = False,
    average_sigma: float = 0.0,
) -> SpikeScan:
    """Find the points and stretches that are too high for the run's own noise.

    Args:
        x: shape (n,), finite.
        reach: windows in points.
        sigmas: minimum height of a peak above the mean of its window, in standard deviations.
        false_alarm: the probability that noise alone produces a spike anywhere in the log.
        min_range_share: minimum height as a fraction of the range of the levels before the spike.
        atypical: points, shape (n,), that are excluded from the level a spike has to return to.
        after_logged_cause: points, shape (n,), just after a logged cause.
        of_means: whether each loss is a mean over many batches: of an epoch, or an evaluation.
        average_sigma: the standard deviation of a moving average; 0 if the loss is not one.

    A point is too high if its score, the distance from the baseline in standard deviations, exceeds
    the family-wise limit of this run's own scores. A stretch is too high if the median of the next
    few points exceeds it, which detects small but lasting shifts. ``EVENT_RULES`` decide which of
    these events are spikes.
    """
    n, first = len(x), reach.least
    abrupt: tuple[Spike, ...] = ()
    if of_means or n < 2 * reach.window:
        abrupt = abrupt_spikes(x, reach, sigmas, 1 if of_means else MIN_CONSECUTIVE, atypical)
    if n <= first + 1:
        return SpikeScan(spikes=abrupt, abrupt=abrupt)
    single = measure_profile(x, reach, false_alarm)
    separated = find_peak_group(single.points)
    local = None
    if n <= SUBSAMPLE_SIZE and len(single.points.excursions.positions):
        separated, local = _with_descent(x, single, separated)
    group = separated if separated is not None and separated.is_rare else None
    search = _Search(
        x=x,
        reach=reach,
        sigmas=sigmas,
        min_range_share=min_range_share,
        average_sigma=average_sigma,
        atypical=atypical,
        has_cause=np.zeros(n, bool) if after_logged_cause is None else after_logged_cause,
        single=single,
        lasting=profile_of_stretches(x, single),
        group=group,
        local=local,
    )
    spikes = search.spikes()
    largest = int(np.argmax(single.points.scores[first:])) + first
    largest_score = float(single.points.scores[largest])
    return SpikeScan(
        spikes=merged(abrupt, spikes, reach) if of_means else merged(spikes, abrupt, reach),
        limit=single.limit,
        largest=largest_score,
        largest_at=largest,
        largest_level=float(single.base.level[largest]),
        largest_chance=single.points.excursions.chance_of_separation(
            largest_score, largest - 2 * MAX_GAP, largest + 2 * MAX_GAP
        ),
        tested=n - first,
        abrupt=abrupt,
        group=group,
        frequent_peaks=separated if group is None else None,
        high_peaks=high_peaks(single.points) if separated is None else None,
    )


@frozen
class _Search:
    """What is known about a log before its events are classified.

    ``single`` is the profile of single points, ``lasting`` of stretches. ``local`` is the baseline
    from the points around each peak of the ``group``, if the initial descent hides these peaks.
    """

    x: Floats
    reach: SearchWindows
    sigmas: float
    min_range_share: float
    average_sigma: float
    atypical: Mask | None
    has_cause: Mask
    single: Profile
    lasting: Profile
    group: PeakGroup | None
    local: TrailingBaseline | None

    def spikes(self) -> list[Spike]:
        """Return the events that are spikes; after one of them, the next may begin later."""
        events = find_events(self.x, self.single, self.lasting, self.has_cause, self.group)
        spans = level_spans(self.single.base.level, [event.onset for event in events])
        spikes: list[Spike] = []
        resume = 0
        usual_until = {1: 0, MIN_SAMPLE: 0}
        for event in events:
            width = event.residuals.width
            if event.at < max(resume, usual_until[width]):
                continue
            context = self._context(event, spans[event.onset])
            verdict = classify(EVENT_RULES, context)
            if verdict is EventVerdict.USUAL:
                usual_until[width] = event.at + width
            if verdict is EventVerdict.SPIKE:
                spikes.append(with_rise_as_onset(self.x, context.spike))
                resume = next_start(context.spike, self.reach)
        return spikes

    def _context(self, event: LevelEvent, span: float) -> EventContext:
        """Return the facts about an event; ``span`` is the range of the levels before it."""
        profile = self.single if event.is_single else self.lasting
        base, windows = profile.base, profile.reach
        has_cause = bool(self.has_cause[event.onset])
        # A cause makes a spike likely: half of the usual height is sufficient.
        share = self.min_range_share * (HALF if has_cause else 1.0)
        min_height = max(share * span, CLEAR * self.average_sigma)
        is_in_group = event.is_single and self.group is not None and self.group.has(event.at)
        if self.local is not None and is_in_group:
            base = self.local
            windows = replace(self.reach, window=MIN_TREND_POINTS, least=MIN_TREND_POINTS)
            min_height = self.min_range_share * span
        return EventContext(
            event=event,
            spike=describe(self.x, base, event.onset, windows, self.atypical),
            reach=self.reach,
            sigmas=self.sigmas,
            min_height=min_height,
            has_cause=has_cause,
            group=self.group,
        )


def _with_descent(
    x: Floats, single: Profile, separated: PeakGroup | None
) -> tuple[PeakGroup | None, TrailingBaseline | None]:
    """Return the peaks that a gap separates from the noise, also from the noise around them.

    If the initial descent takes most of a log, its slope hides peaks, and only the points around a
    peak show the noise. The baseline of these points is returned if they are needed: the same
    peaks or more are separated, and the slope inflates the deviation at some of them.
    """
    base = centered_baseline(x)
    points = replace(point_residuals(x, base, single.points.first), burn_in_end=single.points.first)
    around = find_peak_group(points)
    if around is None or (
        separated is not None
        and (len(separated) > len(around) or not all(map(around.has, separated.peaks)))
    ):
        return separated, None
    inflation = single.base.sigma / base.sigma
    usual = max(median(inflation[-max(len(x) // QUARTERS, 1) :]), 1.0)
    is_hidden = inflation[around.peaks].max() > _MIN_INFLATION * usual
    # Decaying spikes inflate the deviation before the next one.
    is_hidden |= separated is None and around.scores.min() >= MIN_CONSECUTIVE * CLEAR
    return (around, base) if is_hidden else (separated, None)
