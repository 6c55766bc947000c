"""The pictures of the page."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import numpy.typing as npt
from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from page_kinds import example, grouped
from page_style import Theme, bare, save
from scoring import SECTIONS, Scored, by_fault, dated, leaves

Floats = npt.NDArray[np.float64]
EVENT_MARGIN = 60  # logged points on either side of an event
BUCKETS = 200  # of a curve; each shows its lowest and its highest point


@dataclass(frozen=True, kw_only=True)
class Scale:
    """The sizes of a section's faults: larger ones are drawn at the end."""

    unit: str
    ends: tuple[float, float]
    ticks: Mapping[float, str]

    @property
    def limits(self) -> tuple[float, float]:
        """The ends of the axis, with room for the last mark."""
        low, high = self.ends
        return low / 1.15, high * 1.15


SCALES = {
    "§2": Scale(
        unit="height, in deviations",
        ends=(3, 200),
        ticks={3: "3", 10: "10", 30: "30", 100: "100"},
    ),
    "§3": Scale(
        unit="bad points", ends=(3, 1000), ticks={3: "3", 10: "10", 100: "100", 1000: "1,000"}
    ),
    "§4": Scale(
        unit="rise, of the progress",
        ends=(0.1, 10),
        ticks={0.1: "10 %", 1: "100 %", 10: "1,000 %"},
    ),
}


def draw_all(scored: Sequence[Scored], folder: Path) -> None:
    """Write every picture."""
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.glob("*.svg"):
        old.unlink()
    save(partial(confusion, scored), folder, "confusion")
    save(partial(severity, scored), folder, "severity")
    save(partial(onset, scored), folder, "onset")
    for kind, runs in grouped(scored):
        save(partial(failure, example(runs)), folder, kind.name)


def confusion(scored: Sequence[Scored], theme: Theme) -> Figure:
    """The reported leaf against the true leaf."""
    expected, reported = leaves(scored)
    figure, axes = plt.subplots(figsize=(7.6, 6.6))
    pairs = Counter(
        (result.run.expect, result.run.expect if result.right else result.slug) for result in scored
    )
    totals = Counter(result.run.expect for result in scored)
    for (truth, slug), count in pairs.items():
        x, y = reported.index(slug), expected.index(truth)
        share = count / totals[truth]
        color = theme.right if truth == slug else theme.wrong
        axes.add_patch(Rectangle((x, y), 1, 1, color=color, alpha=0.15 + 0.6 * share, lw=0))
        axes.text(x + 0.5, y + 0.52, str(count), ha="center", va="center")
    axes.set(xlim=(0, len(reported)), ylim=(len(expected), 0), xlabel="said", ylabel="true")
    axes.set_xticks(np.arange(len(reported)) + 0.5, reported, rotation=90)
    axes.set_yticks(np.arange(len(expected)) + 0.5, expected)
    for x in range(len(reported) + 1):
        axes.axvline(x, color=theme.faint, lw=0.4, alpha=0.6)
    for y in range(len(expected) + 1):
        axes.axhline(y, color=theme.faint, lw=0.4, alpha=0.6)
    bare(axes)
    return figure


def severity(scored: Sequence[Scored], theme: Theme) -> Figure:
    """For each fault, the share found against the size of what it left in the log."""
    faults = by_fault(scored)
    rows = -(-len(faults) // 4)
    figure, grid = plt.subplots(rows, 4, figsize=(8.4, 1.7 * rows), sharey=True, squeeze=False)
    for axes in grid.flat[len(faults) :]:
        axes.set_visible(False)
    for axes, (name, runs) in zip(grid.flat, faults, strict=False):
        scale = SCALES[runs[0].run.section]
        size = np.log10(np.clip([result.run.size for result in runs], *scale.ends))
        detected = np.array([result.alarm for result in runs])
        at = np.linspace(size.min(), size.max() + 0.01, 80)
        axes.plot(10**at, smoothed(size, detected, at), color=theme.right)
        axes.plot(*run_marks(size, detected, 1.1), "|", ms=5, color=theme.right)
        axes.plot(*run_marks(size, ~detected, -0.1), "|", ms=5, color=theme.wrong)
        axes.set(xscale="log", xlim=scale.limits, ylim=(-0.2, 1.2), yticks=(0, 0.5, 1))
        axes.set_xticks(list(scale.ticks), list(scale.ticks.values()), minor=False)
        axes.minorticks_off()
        axes.set_title(f"{name}: {detected.sum()} of {len(detected)}")
        axes.set_xlabel(scale.unit)
        axes.set_yticklabels(("none", "half", "all"))
    return figure


def run_marks(size: Floats, which: npt.NDArray[np.bool_], height: float) -> tuple[Floats, Floats]:
    """A mark for each run."""
    sizes = 10 ** size[which]
    return sizes, np.full(len(sizes), height)


def smoothed(size: Floats, detected: npt.NDArray[np.bool_], at: Floats) -> Floats:
    """The share found around each size: neighbors count less the further they are off."""
    weight = np.exp(-0.5 * ((at[:, None] - size) / 0.25) ** 2)
    share: Floats = (weight * detected).sum(-1) / weight.sum(-1)
    return share


def onset(scored: Sequence[Scored], theme: Theme) -> Figure:
    """The distance from the reported onset to the true onset."""
    figure, axes = plt.subplots(figsize=(6.4, 2.9))
    runs: dict[str, list[int]] = defaultdict(list)
    for result in dated(scored):
        if result.apart is not None:
            runs[result.run.section].append(result.apart)
    styles = dict(zip(SECTIONS, ("-", "--", "-.", ":"), strict=True))
    for section, apart in sorted(runs.items()):
        error = np.sort(apart)
        reach = np.append(error, error[-1] * 1.5 + 1)
        share = np.append(np.arange(1, len(error) + 1), len(error)) / len(error)
        label = f"{SECTIONS[section]} ({len(error)})"
        color = theme.wrong if section == "§4" else theme.right
        axes.plot(reach, share, styles[section], drawstyle="steps-post", color=color, label=label)
    axes.set_xscale("symlog", linthresh=1)
    axes.set_xticks((0, 1, 10, 100, 1000), ("0", "1", "10", "100", "1,000"))
    axes.minorticks_off()
    axes.set(xlim=(-0.1, None), ylim=(0, 1.03), xlabel="steps from the true onset")
    axes.set(ylabel="share of the runs, up to there")
    axes.legend(loc="lower right")
    return figure


def failure(result: Scored, theme: Theme) -> Figure:
    """A run: the whole loss, and the neighborhood of the event."""
    figure, (whole_axes, event_axes) = plt.subplots(1, 2, figsize=(8.4, 2.1), width_ratios=(1.6, 1))
    series = result.report.history.series
    truth, reported = result.run.onset, result.report.tree.outcome.step
    events = [step for step in (truth, reported) if step is not None]
    scaler = (
        "§3" in (result.run.section, result.report.tree.outcome.section) and "loss_scale" in series
    )
    for axes, name in ((whole_axes, "loss"), (event_axes, "loss_scale" if scaler else "loss")):
        steps, values = series[name].steps, series[name].values
        part = around(steps, events) if axes is event_axes else slice(None)
        axes.plot(*thinned(steps[part], values[part]), color=theme.ink, lw=0.8)
        axes.set_ylabel(name.replace("_", " "))
        mark(axes, truth, "true onset", theme.onset, "--")
        mark(axes, reported, "said", theme.wrong, ":")
        if name == "loss_scale" or wide(values[part]):
            axes.set_yscale("log", base=2 if name == "loss_scale" else 10)
            axes.minorticks_off()
    whole_axes.set_xlabel("step")
    event_axes.set_xlabel("step, around the event")
    if truth is not None or reported is not None:
        whole_axes.legend(loc="best", handlelength=1.5)
    return figure


def around(steps: npt.NDArray[np.int64], events: Sequence[int]) -> slice:
    """The points near some events; the last ones, if there are none."""
    first, last = np.searchsorted(steps, (min(events), max(events)) if events else steps[[-1, -1]])
    return slice(max(0, int(first) - EVENT_MARGIN), int(last) + EVENT_MARGIN)


def mark(axes: Axes, step: int | None, label: str, color: str, style: str) -> None:
    """A line across at a step."""
    if step is not None:
        axes.axvline(step, color=color, ls=style, lw=1.3, label=label)


def thinned(steps: npt.NDArray[np.int64], values: Floats) -> tuple[Floats, Floats]:
    """A curve in fewer points that looks the same: the lowest and highest of each bucket."""
    if len(steps) <= 2 * BUCKETS:
        return steps.astype(np.float64), values
    kept = []
    for part in np.array_split(np.arange(len(steps)), BUCKETS):
        bucket = values[part]
        if np.isfinite(bucket).any():
            kept += sorted({int(part[np.nanargmin(bucket)]), int(part[np.nanargmax(bucket)])})
    return steps[kept].astype(np.float64), values[kept]


def wide(values: Floats) -> bool:
    """Whether a loss needs a logarithmic axis."""
    good = values[np.isfinite(values)]
    return bool(len(good) and good.min() > 0 and good.max() > 20 * np.median(good))
