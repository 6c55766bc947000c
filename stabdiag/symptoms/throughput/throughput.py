"""Runs that get slower, waste their accelerator, or leak memory."""

from __future__ import annotations

import re

import numpy as np

from stabdiag.model.arrays import Floats, Ints
from stabdiag.model.findings import Action, Severity
from stabdiag.model.findings import ActionKind as Do
from stabdiag.model.history import Series
from stabdiag.model.roles.names import name_words
from stabdiag.model.roles.scores import PERCENT, full_scale
from stabdiag.model.text import capitalized, num, percent
from stabdiag.model.unique import unique_values
from stabdiag.stats.course import keeps_growing, position_after, settled, usual_change
from stabdiag.stats.levels import levels
from stabdiag.stats.quantiles import median, typical
from stabdiag.stats.standards import CLEAR, LEAST, TENTHS, TINY
from stabdiag.symptoms.losses import rhythm
from stabdiag.symptoms.symptom import Evidence, Symptom, at_least
from stabdiag.tree.case import Case

_SPEED = ("tokens_per_second or step_time",)
_SPEEDS = at_least(LEAST, "tokens_per_second", "step_time")

# Fewer slow steps do not show a period.
_LEAST_SLOW = 5

# A drop must be this many times the usual difference between two levels. Noise alone reaches that
# in one log of a hundred (lognormal, σ 0.5 to 1, 30 to 500 points); a steady slowdown makes it
# seven.
_MIN_NOISE_RATIO = CLEAR


@Symptom(
    slug="straggler",
    title="One rank is slower than the others",
    needs=("rank_time or rank_speed",),
    preconditions=(at_least(LEAST, "rank_time", "rank_speed", groups=True),),
    next_actions=(
        Action(
            Do.CHECK_MACHINES,
            "Swap the machines of two ranks: if the slowness moves with the machine, the machine "
            "is "
            "at fault; otherwise the rank's data or its part of the model.",
        ),
        Action(Do.CHANGE_BATCH, "Give all ranks batches of the same length."),
    ),
)
def straggler(case: Case) -> Evidence | None:
    """Does one rank take longer than the others, which wait for it?"""
    ranks, steps, times = _rank_times(case)
    # The median rank, or the faster one of two.
    count = np.isfinite(times).sum(axis=0)
    usual = np.sort(times, axis=0)[(count - 1) // 2, np.arange(len(steps))]
    # If only the fastest and the slowest rank are logged, all others are assumed to be usual.
    ratios = np.nan_to_num(times / usual, nan=1.0)
    ends = [float(levels(ratio, TENTHS)[-2:].min()) for ratio in ratios]
    worst = int(np.argmax(ends))
    last, lost = ends[worst], 1 - 1 / ends[worst]
    if lost <= case.limits.throughput.lost_fraction:
        return None
    # The step that best separates usual times from slow times.
    slow = np.sign(ratios[worst] - (1 + last) / 2)
    since = int(steps[np.argmin(np.cumsum(slow) - slow)])
    number = re.search(r"(?<!\d)\d+$", ranks[worst])
    slowest = f"rank {number[0]}" if number else "the slowest rank"
    return Evidence(
        because=f"From {case.unit} {since} on {slowest} takes {num(last)} times as long as the "
        f"others, "
        f"which wait for it {lost:.0%} of the time.",
        step=since,
        measured={"group": ranks[worst], "ratio": last, "lost": lost, "ranks": len(ranks)},
        first=Action(
            Do.CHECK_MACHINES,
            f"Check the machine of {slowest} from {case.unit} {since} on: the accelerator's clock, "
            "temperature and errors (nvidia-smi -q, dmesg), other jobs, disks and network.",
            step=since,
        ),
    )


def _rank_times(case: Case) -> tuple[list[str], Ints, Floats]:
    """Return ranks, steps, and times of shape (ranks, steps), NaN where a rank logged none."""
    role = "rank_time" if case.history.has("rank_time") else "rank_speed"
    ranks = {name: series.finite() for name, series in case.history.group(role).items()}
    steps = unique_values(np.concatenate([series.steps for series in ranks.values()]))
    times = np.full((len(ranks), len(steps)), np.nan)
    for row, series in zip(times, ranks.values(), strict=True):
        positive = np.where(series.values > 0, series.values, np.nan)
        row[np.searchsorted(steps, series.steps)] = positive
    return list(ranks), steps, times if role == "rank_time" else 1 / times


@Symptom(
    slug="throughput-drop",
    title="The throughput dropped",
    needs=_SPEED,
    preconditions=(_SPEEDS,),
    next_actions=(
        Action(Do.INSPECT_DATA, "Check whether sequences or batches got longer there."),
        Action(Do.SPEED_UP, "Profile for gaps between kernels: loader, synchronization, logging."),
        Action(Do.RELOAD_CHECKPOINT, "Restart from the last checkpoint if a machine is at fault."),
    ),
)
def throughput_drop(case: Case) -> Evidence | None:
    """Has the throughput dropped, and stayed low?"""
    series = _pace(case)
    if series is None:
        return None
    is_time = series.role == "step_time"
    steps, speed = series.steps, 1.0 / series.values if is_time else series.values
    level = levels(speed, TENTHS)
    # The first tenth is compilation and warm-up.
    usual, last = float(level[1:-2].max()), float(level[-2:].max())
    fraction = last / usual if usual > 0 else 1.0
    if fraction >= case.limits.throughput.drop_ratio or last <= 0 or not _is_clear_drop(level):
        return None
    since = int(steps[min(position_after(speed > (usual + last) / 2), len(steps) - 1)])
    before, after = (1 / usual, 1 / last) if is_time else (usual, last)
    subject = "Steps" if case.unit == "step" else f"{capitalized(case.unit)}s"
    change = f"The throughput fell by {1 - fraction:.0%}"
    if is_time:
        change = f"{subject} became {after / before - 1:.0%} slower"
    unit = _unit(series)
    return Evidence(
        because=f"{change} ({num(before)} -> {num(after)}{unit and f' {unit}'}) by {case.unit} "
        f"{since} and stayed that way.",
        step=since,
        measured={"before": before, "after": after, "fraction": fraction, "unit": unit or None},
        first=Action(
            Do.CHECK_MACHINES,
            f"Compare the machines before and after {case.unit} {since}: accelerator clock and "
            "temperature, other jobs, network and disks.",
            step=since,
        ),
    )


def _is_clear_drop(level: Floats) -> bool:
    """Return True if the last two levels are below all earlier ones by more than levels vary.

    Medians of noisy step times differ by chance; differences of adjacent levels show how much. A
    single drop changes one of these differences, and a steady slowdown is larger than each.
    """
    logs = np.log(np.maximum(level[1:], TINY))
    before, after = logs[:-2], logs[-2:]
    return bool(np.max(before) - np.max(after) > _MIN_NOISE_RATIO * usual_change(logs))


def _unit(series: Series) -> str:
    """Return the unit that a column of step times or speeds names, or ""."""
    words = name_words(series.column)
    if series.role == "tokens_per_second":
        quantity = next((word for word in words if word in ("tokens", "samples")), "")
        return f"{quantity}/s" if quantity else ""
    if "ms" in words or "milliseconds" in words:
        return "ms"
    return "s" if {"s", "sec", "secs", "seconds"} & set(words) else ""


def _pace(case: Case) -> Series | None:
    """Return the logged throughput, or else the positive times of single steps."""
    logged = map(case.history.finite, ("tokens_per_second", "step_time"))
    series = next((series for series in logged if len(series) >= LEAST), None)
    if series is None or series.role == "tokens_per_second":
        return series
    # A time that never falls is the run time, not a step time.
    is_total = series.values.min() <= 0 or np.all(np.diff(series.values) >= 0)
    return None if is_total else series


def _speed(case: Case) -> tuple[Ints, Floats] | None:
    """Return steps and speeds in any unit: as logged, or the inverse of the step time."""
    series = _pace(case)
    if series is None:
        return None
    is_time = series.role == "step_time"
    return series.steps, 1.0 / series.values if is_time else series.values


def _speed_unit(case: Case) -> str:
    """Return the unit of the speeds, or "" if the column does not name it."""
    series = _pace(case)
    unit = "" if series is None else _unit(series)
    return f"steps/{unit}" if unit and series is not None and series.role == "step_time" else unit


@Symptom(
    slug="throughput-sawtooth",
    title="Slow steps at regular intervals",
    needs=_SPEED,
    preconditions=(_SPEEDS,),
    next_actions=(
        Action(Do.SPEED_UP, "Give the loader more workers and let it prefetch."),
        Action(Do.SPEED_UP, "Write checkpoints in the background, or less often."),
    ),
)
def throughput_sawtooth(case: Case) -> Evidence | None:
    """Are there slow steps at regular intervals that take much of the time?"""
    pace = _speed(case)
    if pace is None:
        return None
    steps, speed = pace
    usual = typical(speed)
    # Slow steps take at least twice the usual time.
    if usual <= 0 or np.count_nonzero(speed <= usual / 2) < _LEAST_SLOW:
        return None
    # The time that each step loses, in usual steps. On a shared machine, slow steps can occur at
    # any time, so the period is taken from the steps that lose most.
    cost = np.maximum(usual / np.maximum(speed, 1e-3 * usual) - 1, 0)
    high = float(np.partition(cost, -_LEAST_SLOW)[-_LEAST_SLOW])
    slow = np.flatnonzero(cost >= max(high / 2, 1.0))
    # A long slow phase is a drop, so only the first step of each phase is used for the period.
    begins = slow[np.diff(slow, prepend=-2) > 1]
    every = rhythm(steps[begins]) if len(begins) >= _LEAST_SLOW else None
    # Most steps between two records are assumed to be usual.
    lost = float(cost[slow].sum() / (float(np.ptp(steps)) + 1 + cost.sum()))
    if every is None or lost <= case.limits.throughput.lost_fraction:
        return None
    unit = _speed_unit(case)
    return Evidence(
        because=f"Every {num(every)} {case.unit}s, {len(begins)} times, the throughput falls "
        f"below half of its usual {num(usual)}{unit and f' {unit}'}; this takes {lost:.0%} of the "
        "time.",
        step=int(steps[begins[0]]),
        measured={"interval": every, "drops": len(begins), "lost": lost, "usual": usual},
        first=Action(
            Do.SPEED_UP,
            f"Find out what happens every {num(every)} {case.unit}s: a checkpoint, an evaluation, "
            "garbage collection, or a loader that cannot keep up.",
        ),
    )


@Symptom(
    slug="data-loading-slow",
    severity=Severity.NOTE,
    title="Steps wait for their data",
    needs=("data_time", "step_time"),
    preconditions=(at_least(LEAST, "data_time"), at_least(LEAST, "step_time")),
    next_actions=(
        Action(Do.SPEED_UP, "Decode and augment ahead of time, or on the accelerator."),
        Action(Do.CHECK_MACHINES, "Check the disk or network that the data comes from."),
    ),
)
def data_loading_slow(case: Case) -> Evidence | None:
    """Do steps spend most of their time waiting for data?"""
    waits, times = case.history.finite("data_time"), case.history.finite("step_time")
    # The first tenth fills the loader's queue.
    wait = median(waits.values[settled(len(waits))])
    step = median(times.values[settled(len(times))])
    # The step time includes the data time, unless it is shorter.
    total = step if wait <= step else step + wait
    if total <= 0 or wait < case.limits.throughput.data_fraction * total:
        return None
    unit = _unit(times)
    return Evidence(
        because=f"{wait / total:.0%} of a step is spent waiting for data: {num(wait)} of "
        f"{num(total)}"
        f"{unit and f' {unit}'} (medians of {len(waits)} records).",
        step=int(waits.steps[0]),
        measured={"fraction": wait / total, "data_time": wait, "step_time": total},
        first=Action(
            Do.SPEED_UP,
            "Give the loader more workers, pinned memory and prefetching until the wait is short.",
        ),
    )


@Symptom(
    slug="mfu-low",
    severity=Severity.NOTE,
    title="The accelerator is mostly idle (low MFU)",
    needs=("mfu",),
    preconditions=(at_least(LEAST, "mfu"),),
    next_actions=(
        Action(Do.SPEED_UP, "Turn on bf16, torch.compile, fused attention, a fused optimizer."),
        Action(Do.CHANGE_BATCH, "Enlarge the batch, or pack sequences."),
        Action(Do.SPEED_UP, "Lower the ZeRO stage if the model still fits."),
    ),
)
def mfu_low(case: Case) -> Evidence | None:
    """Is little of the accelerator's peak used?"""
    mfu = case.history.finite("mfu")
    x = mfu.values[settled(len(mfu))]
    # Some logs use percent. The median ignores single records above the peak, which are
    # mismeasured.
    usual = median(x)
    used = usual / (PERCENT if "percent" in mfu.column else full_scale(usual))
    if not 0 < used < case.limits.throughput.min_mfu:
        return None
    return Evidence(
        because=f"The run uses {percent(used)} of the accelerator's peak (MFU, median of "
        f"{len(x)} records).",
        step=int(mfu.steps[0]),
        measured={"mfu": used},
        first=Action(
            Do.SPEED_UP,
            "Profile a few steps and look for gaps: a slow loader, .item() calls, communication "
            "that does not overlap.",
        ),
    )


@Symptom(
    slug="memory-growth",
    title="Memory keeps growing",
    needs=("memory",),
    preconditions=(at_least(LEAST, "memory", groups=True),),
    next_actions=(
        Action(Do.FREE_MEMORY, "Evaluate under torch.no_grad()."),
        Action(Do.FREE_MEMORY, "Compare two memory snapshots taken a hundred steps apart."),
        Action(Do.FREE_MEMORY, "Set expandable_segments:True if it is fragmentation."),
    ),
)
def memory_growth(case: Case) -> Evidence | None:
    """Does memory keep growing?"""
    memory = max((series.finite() for series in case.history.group("memory").values()), key=len)
    # In the first tenth a run allocates what it needs.
    level, since = levels(memory.values, TENTHS), int(memory.steps[settled(len(memory))][0])
    first, last = float(level[1]), float(level[-1])
    growth = last / first - 1 if first > 0 else 0.0
    # A logged peak rises by ever smaller steps if memory does not grow.
    if growth <= case.limits.throughput.memory_growth or not keeps_growing(level):
        return None
    return Evidence(
        because=f"The memory in use grew from {num(first)} at {case.unit} {since} to {num(last)} "
        f"({growth:+.0%}; medians over a tenth of the run), up to the end.",
        step=since,
        measured={"first": first, "last": last, "growth": growth},
        first=Action(
            Do.FREE_MEMORY,
            "Look for tensors kept from step to step: a loss summed without .item(), outputs in "
            "a list, a retained graph.",
        ),
    )
