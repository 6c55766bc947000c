"""The page on accuracy, but for its pictures."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from statistics import median

import side_by_side
from page_kinds import FAULTS, Kind, example, grouped
from page_peers import peers
from page_tables import (
    alarm_table,
    alarms,
    headline,
    leaf_table,
    onset_table,
    percent,
    table,
)
from scoring import CAUSES, LASTING, Scored, by_fault, done, setting, share
from side_by_side import Row

SPLITS = {
    "dev": "the part on which the rules were developed, so that its figures flatter",
    "held": "the part that was held back at first, but has been looked at since; its figures are "
    "figures of development, too",
    "test": "drawn with a seed of its own; 91.5 % of them were diagnosed right when they were new, "
    "but they have been looked at since; their figures are figures of development, too",
    "fresh": "drawn with a seed of its own and harder by design; 91.3 % of them were diagnosed "
    "right when they were new, but they have been looked at since",
    "fifth": "drawn with a seed of its own; 97.2 % of them were diagnosed right when they were "
    "new, but they have been looked at since",
    "sixth": "drawn with a seed of its own; 94.1 % of them were diagnosed right when they were "
    "new, but they have been looked at since",
    "tenth": "drawn with a seed of its own, trained while the rules were still being worked on, "
    "and no rule came from what went wrong with them; 95.5 % of them were diagnosed right when "
    "they were new",
    "all": "all there are",
}


def page(scored: Sequence[Scored], data: Path, split: str) -> str:
    """The whole page."""
    versions, said = side_by_side.load(data)
    said = {side_by_side.OURS: side_by_side.ours(scored), **said}
    rows = [side_by_side.count(tool, verdicts, scored) for tool, verdicts in said.items()]
    parts = [
        *opening(scored, split),
        *summary(scored, rows),
        *elsewhere(),
        *confusions(scored),
        *false_alarms(scored),
        *detection(scored),
        *onsets(scored),
        *peers(rows, versions),
        *failures(scored),
    ]
    return "\n\n".join(parts) + "\n"


def opening(scored: Sequence[Scored], split: str) -> Iterable[str]:
    """What was measured, and what came out."""
    healthy = sum(one.healthy for one in scored)
    yield "# How often is it right?"
    yield "<!-- Written by `make accuracy-page`. -->"
    yield (
        f"Measured on {len(scored)} training runs: {healthy} healthy ones and "
        f"{len(scored) - healthy} that something was done to. Each is a real run of a small model "
        "(a transformer on text, a convolutional net, an MLP, a recurrent net, a regression), and "
        "its label says what was done to it, as far as its log shows it; "
        "[how runs and labels are made](../benchmarks/accuracy/README.md). "
        f"These are the runs called `{split}`: {SPLITS.get(split, 'one part of those there are')}."
    )


def summary(scored: Sequence[Scored], rows: Sequence[Row]) -> Iterable[str]:
    """The figures that count."""
    right = share("", scored, lambda one: one.right)
    best = max((row for row in rows if row.tool != side_by_side.OURS), key=lambda row: row.both)
    yield "## In short"
    yield (
        f"**The diagnosis is right, down to the leaf, for {percent(right.hits, right.runs)} of the "
        f"runs.** Of the other tools, which are asked for no more than the family, {best.tool} "
        f"does best: {percent(best.both, best.runs)} ([side by side](#side-by-side))."
    )
    yield headline(scored)
    spikes = [one for one in scored if one.run.recovered is not None]
    found = [one for one in spikes if one.slug in CAUSES | LASTING]
    told = share("", found, lambda one: one.told_recovery)
    yield (
        "A spike that was not found counts as wrong about its recovery, too. Of the "
        f"{told.runs} that were found, {percent(told.hits, told.runs)} are told right."
    )
    yield (
        "A *leaf* is one of the [outcomes](outcomes.md), a *section* one of the four families: "
        "NaN, spike, mixed precision, divergence. The intervals are 95 %: Wilson's, as if the runs "
        "were independent; some share a beginning, so the true ones are a little wider."
    )


def elsewhere() -> Iterable[str]:
    """What this page scores, and what it does not."""
    yield "## What is scored where"
    yield table(
        ["question", "scored on", "figures"],
        [
            [
                "Is the right leaf named, and is a healthy run left alone?",
                "runs with a spike, a NaN, an overflow or a divergence, and healthy ones",
                "this page",
            ],
            [
                "Is an everyday failure flagged, and its family named?",
                "a rate, a schedule, data, labels or a loss that is wrong, each with healthy "
                "twins; logged in full and as people log",
                "[benchmarks/cure](../benchmarks/cure/README.md)",
            ],
            [
                "Does the first action cure it?",
                "the same runs, trained again as the report says",
                "[benchmarks/cure](../benchmarks/cure/README.md)",
            ],
        ],
    )
    yield (
        "The figures on everyday failures are much lower than those of this page. Some cannot be "
        "seen in one log at all: a model that is too small, frozen layers, a softmax too many or "
        "evaluation in training mode only make a loss that a healthy twin beats. Compare with a "
        "run that is known to be good (`stabdiag compare`)."
    )


def confusions(scored: Sequence[Scored]) -> Iterable[str]:
    """What is taken for what."""
    yield "## What is taken for what"
    yield picture(
        "confusion",
        "Confusion matrix: what is true of each run, and what was said of it. Blue is right.",
    )
    yield (
        "A row is what is true, a column what was said; blue is right. Where a label allows two "
        "leaves, either is right. The same as a table:"
    )
    yield leaf_table(scored)


def false_alarms(scored: Sequence[Scored]) -> Iterable[str]:
    """Crying wolf."""
    families = alarms(scored, lambda one: one.spikes).families
    yield "## False alarms"
    yield alarm_table(scored)
    yield (
        f"The intervals come from drawing the {families} families of runs again 10,000 times: runs "
        "of a family share their beginning, and so a false alarm in it."
    )


def detection(scored: Sequence[Scored]) -> Iterable[str]:
    """How small a fault is still found."""
    names = [name for name, _ in by_fault(scored) if not name.startswith("any ")]
    yield "## How small a fault is still found"
    yield picture(
        "severity", "For each fault, the share of runs with an alarm against the fault's size."
    )
    yield (
        "The line is the share of runs that get an alarm, against the size of what the fault left "
        "in the log; every mark is a run, found (above) or missed (below). A size is measured "
        "against the run's own noise and against the same run without the fault; what lies beyond "
        "the end of an axis is drawn at its end. A NaN has no size: it is there, or it is not."
    )
    words = "; ".join(f"*{name}*, {FAULTS[name]}" for name in names)
    yield f"Runs with one fault, and faults that five runs or more show: {words}."


def onsets(scored: Sequence[Scored]) -> Iterable[str]:
    """When it began."""
    yield "## When it began"
    yield picture("onset", "Share of runs against the distance from the true onset, by section.")
    yield onset_table(scored)
    yield (
        "Of the runs whose leaf is right, and whose fault has a moment at which it can first be "
        "seen. A weight decay that went wrong shows in the weight norms at once. Any other "
        "divergence has no sharp moment: its true onset is where a tenth of the rise is made, "
        "between smoothed losses, and the program looks for the same place by means of its own. "
        "So the figure tells how well both find that place, not how near it is to the cause."
    )
    if late := [points_late(one) for one in scored if one.right and one.run.section == "§4"]:
        yield (
            f"From the step at which a fault struck to the one that is named for its climb lie "
            f"{median(late):.0f} logged points in the median, over all {len(late)} runs with a "
            "divergence that was found."
        )


def points_late(one: Scored) -> float:
    """How many logged points lie between the first fault and the step that is named."""
    struck: int = min(fault["step"] for fault in one.run.faults)
    step = one.report.tree.outcome.step
    return ((struck if step is None else step) - struck) / one.stride


def failures(scored: Sequence[Scored]) -> Iterable[str]:
    """What still goes wrong."""
    groups = grouped(scored)
    wrong = sum(len(runs) for _, runs in groups)
    yield "## What still goes wrong"
    yield (
        f"{wrong} of {len(scored)} runs get the wrong leaf. By kind, the most frequent first, each "
        "with one run as an example: on the left the whole loss, on the right the steps around the "
        "event (of the loss scale, where it is about mixed precision). *What was done* "
        "tells the fault, how strong it was, and at which step."
    )
    for kind, runs in groups:
        yield f"### {kind.title}: {len(runs)}"
        yield kind.why
        yield from shown(kind, runs)


def shown(kind: Kind, runs: Sequence[Scored]) -> Iterable[str]:
    """A kind's example, and the list of its runs."""
    one = example(runs)
    caption = f"{one.run.expect}, called {one.slug}"
    yield picture(kind.name, f"Loss of run {one.run.run_id}: {caption}.")
    often = Counter(f"{r.run.expect} → {r.slug}" for r in runs).most_common()
    summary = ", ".join(f"{count} × {pair}" for pair, count in often)
    rows = [
        (
            f"`{r.run.run_id}`",
            f"{r.run.expect} → {r.slug}",
            "" if r.healthy or not r.run.size else f"{r.run.size:.3g}",
            f"{told(r.run.onset)} → {told(r.report.tree.outcome.step)}",
            done(r.run),
            setting(r.run),
        )
        for r in sorted(runs, key=lambda r: (r.run.expect, r.slug, r.run.run_id))
    ]
    head = ("run", "true → said", "size", "onset", "what was done", "run")
    yield f"Run `{one.run.run_id}`: {caption}. What was done: {done(one.run)}. ({setting(one.run)})"
    yield f"<details><summary>{summary}</summary>\n\n{table(head, rows)}\n\n</details>"


def told(step: int | None) -> str:
    """A step, if there is one."""
    return "–" if step is None else f"{step}"


def picture(name: str, words: str) -> str:
    """A picture for a light page and for a dark one."""
    return (
        f'<picture><source media="(prefers-color-scheme: dark)" srcset="accuracy/{name}-dark.svg">'
        f'<img src="accuracy/{name}-light.svg" alt="{words}"></picture>'
    )
