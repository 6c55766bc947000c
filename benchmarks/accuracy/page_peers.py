"""The part of the page that sets stabdiag beside other tools."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from page_tables import of, percent, span, table
from scoring import SECTIONS
from side_by_side import OURS, Row


def peers(rows: Sequence[Row], versions: Mapping[str, str]) -> Iterable[str]:
    """The other tools."""
    first, second = peer_tables(rows, versions)
    failed = sum(row.failed for row in rows)
    yield "## Side by side"
    yield (
        "The same runs, seen by the tools that can be installed to look at the log of a run, each "
        "with its defaults and every logged step of loss, gradient norm and learning rate. None of "
        "them names leaves as the tree does, so they are asked only what they can say: is anything "
        "wrong, and which of the four families is it?"
    )
    yield first
    yield "Runs with a fault whose family is right, by family:"
    yield second
    yield (
        "*Silent*: no warning of any kind. *Quiet*: none that belongs to a family; a remark on a "
        "plateau or on a missing warm-up is left aside. *Flagged*: a warning of any kind. A tool's "
        "first finding that has a family counts, in its own order of severity; its notes do not, "
        "since with them no tool gets more runs right in all. A gradient norm that "
        "is not finite is right on NaN and on mixed precision alike; a burst of it counts as a "
        "spike, which suits these tools best on the whole "
        "([the mapping](../benchmarks/accuracy/peer_tools.py)). A tool that calls every gradient "
        "that is not finite a fault is right by that on mixed precision, and wrong on the healthy "
        "fp16 runs whose scaler does what it should. The tree to the letter is `--literal`. "
        + (f"{failed} logs got no answer." if failed else "No tool broke down over a log.")
    )


def peer_tables(rows: Sequence[Row], versions: Mapping[str, str]) -> tuple[str, str]:
    """The other tools' figures, and the families that they name rightly; the best first."""
    order = sorted(rows, key=lambda row: (row.tool != OURS, -row.both))
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
        name = f"**{name}**" if row.tool == OURS else name
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
