"""The part of the page that compares stabdiag with other tools."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from page_tables import of, percent, span, table
from scoring import SECTIONS
from side_by_side import OWN_NAME, Row


def peers(rows: Sequence[Row], versions: Mapping[str, str]) -> Iterable[str]:
    """The other tools."""
    first, second = peer_tables(rows, versions)
    failed = sum(row.failed for row in rows)
    yield "## Side by side"
    yield (
        "Other tools that judge the log of a run, on the same runs, with their defaults and every "
        "logged step of loss, gradient norm and learning rate. None of them knows the tree's "
        "leaves, so the only question is whether anything is wrong, and in what family."
    )
    yield first
    yield "Runs with a fault whose family is right, by family:"
    yield second
    yield (
        "*Silent*: no warning. *Quiet*: no warning of a family; remarks on a plateau or a missing "
        "warm-up do not count. *Flagged*: any warning. A tool's first finding with a family "
        "counts, in its own order of severity. Its notes do not: with them, no tool gets more runs "
        "right. A non-finite gradient norm is right for NaN and for mixed precision, and a burst "
        "of it counts as a spike, which suits these tools best "
        "([the mapping](../benchmarks/accuracy/peer_tools.py)). A tool that flags every "
        "non-finite gradient is right on mixed precision and wrong on healthy fp16 runs, whose "
        "scaler probes. The literal tree is `--literal`. "
        + (f"{failed} logs got no answer." if failed else "No tool failed on a log.")
    )


def peer_tables(rows: Sequence[Row], versions: Mapping[str, str]) -> tuple[str, str]:
    """The other tools' figures, and the families that they name rightly; the best first."""
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
