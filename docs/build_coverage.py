"""The page that holds what guides to training look for against what is checked here."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

import stabdiag
from stabdiag.checks.checklist import checklist
from stabdiag.checks.preflight import preflight
from stabdiag.comparison.outcomes import OUTCOMES as COMPARED
from stabdiag.model.edges import BY_SLUG as OUTCOMES
from stabdiag.model.edges import QUESTIONS
from stabdiag.model.limits import Limits
from stabdiag.model.manifest import Manifest
from stabdiag.symptoms import BY_SLUG as SYMPTOMS

if TYPE_CHECKING:
    from collections.abc import Iterator

DATA = Path(__file__).resolve().parent / "coverage.toml"

HEAD = """\
# What practitioners look for, and what covers it

Guides to training list symptoms, causes and checks. Each row here is one of them, in our words,
with what covers it: a question of the [tree](questions.md), an [outcome](outcomes.md), a
[symptom](symptoms.md), a finding of [`stabdiag compare`](compare.md), or a line of [`stabdiag
preflight` or `stabdiag checklist`](preflight.md). The last column says what a log cannot show.
(This page is written by `docs/build.py`.)"""


def coverage_page() -> str:
    """Return the page."""
    parts = [HEAD]
    for guide in guides():
        parts.append(f"## {guide['title']}")
        for topic in guide["list"]:
            lines = ["| looked for | covered by | what a log cannot show |", "|---|---|---|"]
            lines += [_row(row) for row in topic["rows"]]
            parts += [f"### {topic['title']}", "\n".join(lines)]
    return "\n\n".join(parts) + "\n"


def guides() -> list[dict[str, Any]]:
    """Return the guides with their lists and rows."""
    loaded: list[dict[str, Any]] = tomllib.loads(DATA.read_text(encoding="utf-8"))["guide"]
    return loaded


def known() -> dict[str, str]:
    """Return every name that a row may contain, with the page that describes it."""
    pages = {question.id: "questions.md" for question in QUESTIONS}
    pages |= dict.fromkeys(OUTCOMES, "outcomes.md")
    pages |= dict.fromkeys(SYMPTOMS, "symptoms.md")
    pages |= {f"compare:{outcome.slug}": "comparisons.md" for outcome in COMPARED}
    return pages | dict.fromkeys(_lines(), "preflight.md")


def _lines() -> Iterator[str]:
    """Yield the lines of the lists, those that only fp16 has included."""
    run = stabdiag.diagnose({"step": np.arange(9), "loss": np.ones(9)}, manifest={"dtype": "fp16"})
    for checklist_report in (preflight(Manifest(), Limits()), checklist(run)):
        yield from (f"{checklist_report.name}:{item.slug}" for item in checklist_report.checks)


def _row(row: dict[str, Any]) -> str:
    by = ", ".join(f"`{name.replace(':', ' ')}`" for name in row["by"])
    return f"| {row['row']} | {by} | {row.get('but', '')} |"
