"""The page on accuracy, without its pictures."""

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
    count_alerts,
    headline,
    leaf_table,
    onset_table,
    percent,
    table,
)
from scoring import CAUSES, LASTING, Scored, by_fault, done, setting, share
from side_by_side import Row

SPLITS = {
    "dev": "the rules were developed on them, so the figures flatter",
    "held": "held out at first, but looked at since",
    "test": "a seed of their own; 91.5 % right when new, but looked at since",
    "fresh": "a seed of their own, harder by design; 91.3 % right when new, but looked at since",
    "fifth": "a seed of their own; 97.2 % right when new, but looked at since",
    "sixth": "a seed of their own; 94.1 % right when new, but looked at since",
    "tenth": "a seed of their own, and no rule came from their failures; 95.5 % right when new",
    "all": "all there are",
}


def page(scored: Sequence[Scored], data: Path, split: str) -> str:
    """The whole page."""
    versions, tool_verdicts = side_by_side.load(data)
    verdicts_by_tool = {
        side_by_side.OWN_NAME: side_by_side.stabdiag_verdicts(scored),
        **tool_verdicts,
    }
    rows = [
        side_by_side.count(tool, verdicts, scored) for tool, verdicts in verdicts_by_tool.items()
    ]
    parts = [
        *opening(scored, split),
        *summary(scored, rows),
        *elsewhere(),
        *confusions(scored),
        *false_positives(scored),
        *detection(scored),
        *onsets(scored),
        *peers(rows, versions),
        *failures(scored),
    ]
    return "\n\n".join(parts) + "\n"


def opening(scored: Sequence[Scored], split: str) -> Iterable[str]:
    """What was measured, and what came out."""
    healthy = sum(result.healthy for result in scored)
    yield "# How often is it right?"
    yield "<!-- Written by `make accuracy-page`. -->"
    yield (
        f"Measured on {len(scored)} training runs: {healthy} healthy ones and "
        f"{len(scored) - healthy} with an injected fault. Each is a real run of a small model (a "
        "transformer on text, a convolutional net, an MLP, a recurrent net, a regression). Its "
        "label is the fault, if the log shows it "
        "([how runs and labels are made](../benchmarks/accuracy/README.md)). "
        f"These are the runs called `{split}`: {SPLITS.get(split, 'one part of those there are')}."
    )


def summary(scored: Sequence[Scored], rows: Sequence[Row]) -> Iterable[str]:
    """The figures that count."""
    right = share("", scored, lambda result: result.right)
    best = max((row for row in rows if row.tool != side_by_side.OWN_NAME), key=lambda row: row.both)
    yield "## In short"
    yield (
        f"**The diagnosis is right, down to the leaf, for {percent(right.hits, right.runs)} of the "
        f"runs.** The best of the other tools, {best.tool}, gets at least the family right for "
        f"{percent(best.both, best.runs)} ([side by side](#side-by-side))."
    )
    yield headline(scored)
    spikes = [result for result in scored if result.run.recovered is not None]
    detected = [result for result in spikes if result.slug in CAUSES | LASTING]
    recovery = share("", detected, lambda result: result.has_right_recovery)
    yield (
        "A missed spike counts as wrong about its recovery. The recovery is right for "
        f"{percent(recovery.hits, recovery.runs)} of the {recovery.runs} detected spikes."
    )
    yield (
        "A *leaf* is one of the [outcomes](outcomes.md), a *section* one of the four families: "
        "NaN, spike, mixed precision, divergence. Intervals are Wilson's for independent runs; "
        "some runs share a beginning, so the true intervals are a little wider."
    )


def elsewhere() -> Iterable[str]:
    """What this page scores, and what it does not."""
    yield "## What is scored where"
    yield table(
        ["question", "scored on", "figures"],
        [
            [
                "Is the leaf right, and do healthy runs pass?",
                "runs with a spike, a NaN, an overflow or a divergence, and healthy ones",
                "this page",
            ],
            [
                "Is an everyday failure flagged, and its family right?",
                "a wrong rate, schedule, data set, label or loss, each with healthy twins; logged "
                "in full and as people log",
                "[benchmarks/cure](../benchmarks/cure/README.md)",
            ],
            [
                "Does the first action cure it?",
                "the same runs, trained again as the report says",
                "[benchmarks/cure](../benchmarks/cure/README.md)",
            ],
            [
                "Is a run found that is worse than earlier good ones?",
                "the same runs against healthy runs with other seeds, and public reruns",
                "[baselines](baselines.md#how-often-it-is-right)",
            ],
        ],
    )
    yield (
        "Figures on everyday failures are much lower: of 44 fresh runs whose log shows the "
        "failure, 57 % are flagged and 43 % cured by the first action with all columns logged, "
        "41 % and 32 % as people log. Some failures do not show in one log: too small a model, "
        "frozen layers, an extra softmax or evaluation in training mode only give a worse loss "
        "than a healthy twin's. With three good runs to compare with (`--baseline`), 94 % and 92 % "
        "of the broken runs get a warning."
    )


def confusions(scored: Sequence[Scored]) -> Iterable[str]:
    """What is taken for what."""
    yield "## Right and wrong, by leaf"
    yield picture(
        "confusion",
        "Confusion matrix: the true leaf of each run, and the diagnosis. Blue is right.",
    )
    yield (
        "Rows are the true leaf, columns the diagnosis; blue is right. If a label allows two "
        "leaves, either is right. As a table:"
    )
    yield leaf_table(scored)


def false_positives(scored: Sequence[Scored]) -> Iterable[str]:
    """Alerts on healthy runs."""
    families = count_alerts(scored, lambda result: result.spikes).families
    yield "## False alarms"
    yield alarm_table(scored)
    yield (
        f"Intervals from resampling the {families} families of runs 10,000 times: runs of a family "
        "share their beginning, and so its false alarms."
    )


def detection(scored: Sequence[Scored]) -> Iterable[str]:
    """How small a fault is still found."""
    names = [name for name, _ in by_fault(scored) if not name.startswith("any ")]
    yield "## How small a fault is still found"
    yield picture(
        "severity", "For each fault, the share of runs with an alarm against the fault's size."
    )
    yield (
        "The line is the share of runs with an alarm, against the size of the fault's trace in the "
        "log. Each mark is a run, found (above) or missed (below). Size is relative to the run's "
        "noise and to the same run without the fault; sizes beyond an axis are drawn at its end. "
        "A NaN has no size."
    )
    words = "; ".join(f"*{name}*, {FAULTS[name]}" for name in names)
    yield f"Only runs with one fault, and faults of at least five runs: {words}."


def onsets(scored: Sequence[Scored]) -> Iterable[str]:
    """When it began."""
    yield "## When it began"
    yield picture("onset", "Share of runs against the distance from the true onset, by section.")
    yield onset_table(scored)
    yield (
        "Only runs whose leaf is right and whose fault can first be seen at some moment. A wrong "
        "weight decay shows in the weight norms at once. Any other divergence has no sharp "
        "moment: its true onset is where the smoothed loss has made a tenth of its rise. The "
        "program looks for that place by other means, so the figure says how well the two agree, "
        "not how near they are to the cause."
    )
    if late := [
        points_late(result) for result in scored if result.right and result.run.section == "§4"
    ]:
        yield (
            f"The step named for a climb comes {median(late):.0f} logged points after the fault "
            f"(median of the {len(late)} divergences found)."
        )


def points_late(result: Scored) -> float:
    """The number of logged points between the first fault and the reported step."""
    struck: int = min(fault["step"] for fault in result.run.faults)
    step = result.report.tree.outcome.step
    return ((struck if step is None else step) - struck) / result.stride


def failures(scored: Sequence[Scored]) -> Iterable[str]:
    """Runs with a wrong leaf."""
    groups = grouped(scored)
    wrong = sum(len(runs) for _, runs in groups)
    yield "## What still goes wrong"
    yield (
        f"{wrong} of {len(scored)} runs get the wrong leaf. They are grouped by kind, the most "
        "frequent first, each with an example: on the left the whole loss, on the right the steps "
        "around the event (of the loss scale, for mixed precision). *What was done* gives the "
        "fault, its strength and its step."
    )
    for kind, runs in groups:
        yield f"### {kind.title}: {len(runs)}"
        yield kind.why
        yield from shown(kind, runs)


def shown(kind: Kind, runs: Sequence[Scored]) -> Iterable[str]:
    """A kind's example, and the list of its runs."""
    result = example(runs)
    caption = f"{result.run.expect}, called {result.slug}"
    yield picture(kind.name, f"Loss of run {result.run.run_id}: {caption}.")
    often = Counter(f"{r.run.expect} → {r.slug}" for r in runs).most_common()
    summary = ", ".join(f"{count} × {pair}" for pair, count in often)
    rows = [
        (
            f"`{r.run.run_id}`",
            f"{r.run.expect} → {r.slug}",
            "" if r.healthy or not r.run.size else f"{r.run.size:.3g}",
            f"{step_text(r.run.onset)} → {step_text(r.report.tree.outcome.step)}",
            done(r.run),
            setting(r.run),
        )
        for r in sorted(runs, key=lambda r: (r.run.expect, r.slug, r.run.run_id))
    ]
    head = ("run", "true → said", "size", "onset", "what was done", "run")
    run = result.run
    yield f"Run `{run.run_id}`: {caption}. What was done: {done(run)}. ({setting(run)})"
    yield f"<details><summary>{summary}</summary>\n\n{table(head, rows)}\n\n</details>"


def step_text(step: int | None) -> str:
    """A step, if there is one."""
    return "–" if step is None else f"{step}"


def picture(name: str, words: str) -> str:
    """A picture for a light page and for a dark one."""
    return (
        f'<picture><source media="(prefers-color-scheme: dark)" srcset="accuracy/{name}-dark.svg">'
        f'<img src="accuracy/{name}-light.svg" alt="{words}"></picture>'
    )
