"""The advisers to compare: this program, simpler rules and other tools."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

import written

import stabdiag

ALERT_SEVERITIES: Final = ("error", "warning")
MAX_ACTIONS = 3  # actions


@dataclass(frozen=True)
class Log:
    """A run's rows, its record and the way it is logged."""

    rows: list[dict[str, float]]
    about: dict[str, Any]
    way: str
    number: int


@dataclass(frozen=True, kw_only=True)
class Advised:
    """The advice on one log: severity, outcome and first three actions."""

    severity: str
    slug: str
    actions: list[dict[str, Any]]


def by_stabdiag(log: Log, *, literal: bool = False) -> Advised:
    """Return the diagnosis and its first three actions."""
    with tempfile.TemporaryDirectory() as name:
        path = written.write(log.rows, Path(name), log.about, log.way, log.number)
        diagnosis = stabdiag.diagnose(path, literal=literal).to_dict()["diagnosis"]
    return Advised(
        severity=diagnosis["severity"],
        slug=diagnosis["slug"],
        actions=diagnosis["actions"][:MAX_ACTIONS],
    )


def by_the_table(log: Log) -> Advised:
    """Return the diagnosis of the decision tree in literal mode."""
    return by_stabdiag(log, literal=True)


def by_a_tenth(log: Log) -> Advised:
    """Return the most common advice, regardless of the log."""
    to = log.about["manifest"]["peak_lr"] / 10
    action = {"kind": "lower-lr", "setting": "peak_lr", "to": to}
    return Advised(severity="warning", slug="", actions=[action])


def by_tool(answers: Mapping[str, list[dict[str, Any]]], log: Log) -> Advised:
    """Return the first advice of another tool, always as a warning without a slug."""
    actions = answers[log.about["run"]]
    return Advised(severity="warning" if actions else "ok", slug="", actions=actions)


def tools_of(folder: Path) -> dict[str, Callable[[Log], Advised]]:
    """Return the other tools that were run on the runs of a folder (``other_tools.py``)."""
    path = folder / "other_tools.json"
    answers = json.loads(path.read_text()) if path.exists() else {}
    return {tool: partial(by_tool, runs) for tool, runs in answers.items()}


ADVISERS: Final[dict[str, Callable[[Log], Advised]]] = {
    "stabdiag": by_stabdiag,
    "the tree to the letter": by_the_table,
    "a tenth of the rate": by_a_tenth,
}
