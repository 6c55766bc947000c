"""Write the tables of ``docs/accuracy.md``, or check that they are current.

    python benchmarks/accuracy/page.py                 write them
    python benchmarks/accuracy/page.py --check         exit 1 if they are not current

``--split`` and ``--data`` name the runs that the page is about.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import corpus
import numpy as np
import side_by_side
from intervals import rate, wilson
from scoring import (
    SECTIONS,
    Scored,
    Test,
    dated,
    done,
    leaf_shares,
    leaves,
    score,
    setting,
    share,
)
from side_by_side import OWN_NAME

PAGE = Path(__file__).parent.parent.parent / "docs" / "accuracy.md"
SPLIT = "tenth"  # the runs that the page is about

BLANK = "\N{NO-BREAK SPACE}"


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description="Write the tables of the page on accuracy.")
    parser.add_argument("--split", default=SPLIT, help="a split of the labels, or all")
    parser.add_argument("--data", type=Path, help="folder of the corpus, if another than its own")
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 if not current")
    options = parser.parse_args()
    data = options.data or corpus.folder_of(options.split)
    corpus.check_split(data, options.split)
    kept = PAGE.read_text(encoding="utf-8")
    text = page(kept, score(data, options.split), data)
    if options.check:
        if kept != text:
            sys.exit("docs/accuracy.md is not current; run make accuracy-page")
        return
    PAGE.write_text(text, encoding="utf-8")


def page(text: str, scored: Sequence[Scored], data: Path) -> str:
    """Return the page with its tables replaced."""
    tools, families = peer_tables(scored, data)
    blocks = {
        "runs": runs(scored),
        "headline": headline(scored),
        "leaves": leaf_table(scored),
        "alarms": alarm_table(scored),
        "onsets": onset_table(scored),
        "tools": tools,
        "families": families,
        "wrong": wrong_table(scored),
    }
    for name, block in blocks.items():
        begin, end = f"<!-- {name}: written by make accuracy-page -->", "<!-- end -->"
        before, mark, after = text.partition(begin)
        if not mark:
            sys.exit(f"docs/accuracy.md has no block named {name}")
        text = f"{before}{begin}\n\n{block}\n\n{end}{after.partition(end)[2]}"
    return text


def runs(scored: Sequence[Scored]) -> str:
    """Return the number of runs of each sort, and how many are right."""
    healthy = sum(result.healthy for result in scored)
    right = share("", scored, lambda result: result.right)
    return (
        f"{len(scored)} training runs: {healthy} healthy ones and {len(scored) - healthy} with an "
        f"injected fault. **{percent(right.hits, right.runs)} get the right leaf.**"
    )


def wrong_table(scored: Sequence[Scored]) -> str:
    """Return the runs with the wrong leaf, by what they are taken for."""
    rows = [
        (
            f"`{result.run.run_id}`",
            f"`{result.run.expect}`",
            f"`{result.slug}`",
            "" if result.healthy or not result.run.size else f"{result.run.size:.3g}",
            done(result.run),
            setting(result.run),
        )
        for result in sorted(scored, key=lambda r: (r.run.expect, r.slug, r.run.run_id))
        if not result.right
    ]
    return table(("run", "true", "diagnosed", "size", "fault and step", "setting"), rows)


@dataclass(frozen=True, kw_only=True)
class Goal:
    """A share, and what it should be at least."""

    name: str
    target: float
    runs: Sequence[Scored]
    good: Test


def headline(scored: Sequence[Scored]) -> str:
    """The figures that count, against what they should be."""
    rows = [against(goal) for goal in goals(scored)]
    worst = min(leaf_shares(scored), key=lambda leaf: leaf.hits / leaf.runs)
    rows.insert(
        2, figures(f"right leaf, worst of all: `{worst.name}`", 0.85, worst.hits, worst.runs)
    )
    wolf = count_alerts(scored, lambda result: result.spikes)
    name = "false findings of a spike, per 10,000 healthy steps"
    measured = (f"**{wolf.value:.2f}**", f"{wolf.count} in {wolf.steps:,}", wolf.interval)
    rows.insert(5, (sign(wolf.value < 0.2), name, "< 0.2", *measured))
    return table(("met", "", "target", "measured", "", "95 % interval"), rows)


@dataclass(frozen=True, kw_only=True)
class AlertCounts:
    """Something counted on healthy runs, per 10,000 steps."""

    count: int
    steps: int
    families: int
    low: float
    high: float

    @property
    def value(self) -> float:
        """The rate."""
        return 1e4 * self.count / max(1, self.steps)

    @property
    def interval(self) -> str:
        """The rate's interval."""
        return f"{1e4 * self.low:.2f} to {1e4 * self.high:.2f}"


def count_alerts(scored: Sequence[Scored], count: Callable[[Scored], int]) -> AlertCounts:
    """Count on healthy runs; for the interval, a family of runs is one unit."""
    counts: Counter[str] = Counter()
    steps: Counter[str] = Counter()
    for result in scored:
        if result.healthy:
            counts[result.run.run_id[:-1]] += count(result)
            steps[result.run.run_id[:-1]] += result.steps
    low, high = rate([counts[family] for family in steps], list(steps.values()))
    return AlertCounts(
        count=counts.total(), steps=steps.total(), families=len(steps), low=low, high=high
    )


def alarm_table(scored: Sequence[Scored]) -> str:
    """False alerts on healthy runs."""
    spikes = count_alerts(scored, lambda result: result.spikes)
    runs = count_alerts(scored, lambda result: int(result.alarm))
    rows = [
        (name, f"{them.count}", f"{them.value:.2f}", them.interval)
        for name, them in (("findings of a spike", spikes), ("runs with any alarm", runs))
    ]
    head = (f"in {spikes.steps:,} healthy steps", "count", "per 10,000 steps", "95 % interval")
    return table(head, rows)


def goals(scored: Sequence[Scored]) -> Iterable[Goal]:
    """The shares that have a target."""
    healthy = [result for result in scored if result.healthy]
    spikes = [result for result in scored if result.run.recovered is not None]
    yield Goal(name="right leaf", target=0.95, runs=scored, good=lambda result: result.right)
    yield Goal(
        name="right section", target=0.98, runs=scored, good=lambda result: result.right_section
    )
    yield Goal(
        name="healthy runs without an error",
        target=0.995,
        runs=healthy,
        good=lambda result: result.severity != "error",
    )
    yield Goal(
        name="healthy runs without any alarm",
        target=0.97,
        runs=healthy,
        good=lambda result: not result.alarm,
    )
    yield Goal(
        name="spikes: recovered or not",
        target=0.97,
        runs=spikes,
        good=lambda o: o.has_right_recovery,
    )
    yield Goal(
        name="onset within 5 logged points",
        target=0.90,
        runs=dated(scored),
        good=lambda result: result.close,
    )


def against(goal: Goal) -> tuple[str, ...]:
    """A goal's line."""
    counted = share(goal.name, goal.runs, goal.good)
    return figures(goal.name, goal.target, counted.hits, counted.runs)


def figures(name: str, target: float, hits: int, runs: int) -> tuple[str, ...]:
    """A line of the first table."""
    met = hits >= target * runs
    goal = f"≥ {100 * target:g} %"
    return (
        sign(met),
        name,
        goal,
        f"**{percent(hits, runs)}**",
        of(hits, runs),
        span(hits, runs),
    )


def sign(met: bool) -> str:
    """Whether a target is met."""
    return "✓" if met else "✗"


def leaf_table(scored: Sequence[Scored]) -> str:
    """The confusion matrix, without its zeros."""
    shares = {leaf.name: leaf for leaf in leaf_shares(scored)}
    taken = Counter((result.run.expect, result.slug) for result in scored if not result.right)
    rows = []
    for slug in leaves(scored)[0]:
        leaf = shares[slug]
        wrong = [
            (reported, count) for (true, reported), count in taken.most_common() if true == slug
        ]
        words = ", ".join(f"{count} × `{reported}`" for reported, count in wrong)
        count = of(leaf.hits, leaf.runs)
        interval = span(leaf.hits, leaf.runs)
        rows.append((f"`{slug}`", count, percent(leaf.hits, leaf.runs), interval, words))
    return table(("true", "right", "", "95 % interval", "else said"), rows)


def onset_table(scored: Sequence[Scored]) -> str:
    """How far off the onset is, by section."""
    rows = []
    for mark, name in SECTIONS.items():
        runs = [result for result in dated(scored) if result.run.section == mark]
        apart = [result.apart for result in runs if result.apart is not None]
        if not apart:
            continue
        close = sum(result.close for result in runs)
        middle, upper = np.quantile(apart, (0.5, 0.9), method="higher")
        exact = sum(steps == 0 for steps in apart)
        rows.append(
            (
                f"{mark} {name}",
                of(close, len(runs)),
                percent(close, len(runs)),
                span(close, len(runs)),
                f"{exact}",
                f"{middle:,}",
                f"{upper:,}",
            )
        )
    steps = ("to the step", "median, steps", "9 in 10 within, steps")
    return table(("", "within 5 logged points", "", "95 % interval", *steps), rows)


def percent(hits: int, runs: int) -> str:
    """A share in per cent."""
    return f"{100 * hits / runs:.1f}{BLANK}%" if runs else "–"


def of(hits: int, runs: int) -> str:
    """A share in numbers."""
    return f"{hits}{BLANK}of{BLANK}{runs}"


def span(hits: int, runs: int) -> str:
    """A share's interval."""
    if not runs:
        return ""
    low, high = wilson(hits, runs)
    return f"{100 * low:.1f} to {100 * high:.1f}{BLANK}%"


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A Markdown table."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def peer_tables(scored: Sequence[Scored], data: Path) -> tuple[str, str]:
    """Return the figures of other tools, and the families they name rightly; the best first."""
    versions, verdicts = side_by_side.load(data)
    verdicts = {OWN_NAME: side_by_side.stabdiag_verdicts(scored), **verdicts}
    rows = [side_by_side.count(tool, answers, scored) for tool, answers in verdicts.items()]
    order = sorted(rows, key=lambda row: (row.tool != OWN_NAME, -row.both))
    head = (
        "healthy: silent",
        "healthy: quiet",
        "fault: flagged",
        "fault: right family",
        "all: quiet, or right family",
        "false spikes per 10,000 steps",
    )
    first, second = [], []
    for row in order:
        name = f"{row.tool} {versions.get(row.tool, '')}".strip()
        name = f"**{name}**" if row.tool == OWN_NAME else name
        first.append(
            (
                name,
                percent(row.silent, row.healthy),
                percent(row.quiet, row.healthy),
                percent(row.flagged, row.faulty),
                percent(row.family, row.faulty),
                f"{percent(row.both, row.runs)} ({span(row.both, row.runs)})",
                f"{1e4 * row.spikes / row.steps:.1f}",
            )
        )
        counts = [of(right, runs) for right, runs in row.families.values()]
        second.append((name, *counts))
    sections = [SECTIONS[mark] for mark in order[0].families]
    return table(("", *head), first), table(("", *sections), second)


if __name__ == "__main__":
    main()
