"""The results of other tools on the corpus, and how often they were right."""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from scoring import Scored

from stabdiag.model.edges import OUTCOME_BY_SLUG

LITERAL = "the tree to the letter"
OWN_NAME = "stabdiag"


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """The result of a tool for a run, or its crash."""

    warned: bool = False  # of anything at all
    families: str = ""  # the sections that its first finding with any can mean: "§1§3"
    spikes: int = 0  # findings of a spike of the loss
    failed: bool = False


@dataclass(frozen=True, kw_only=True)
class Row:
    """A tool's counts."""

    tool: str
    healthy: int
    faulty: int
    steps: int  # of the healthy runs
    silent: int  # healthy, and no warning of any kind
    quiet: int  # healthy, and none of the four families
    flagged: int  # faulty, and a warning of any kind
    families: Mapping[str, tuple[int, int]]  # section: right, runs
    spikes: int  # on healthy runs
    failed: int

    @property
    def family(self) -> int:
        """Faulty, and the family is right."""
        return sum(right for right, _ in self.families.values())

    @property
    def both(self) -> int:
        """Healthy and quiet, or faulty and the family is right."""
        return self.quiet + self.family

    @property
    def runs(self) -> int:
        """All of them."""
        return self.healthy + self.faulty


def tree_verdict(result: Scored) -> tuple[bool, str, int]:
    """The diagnosis of the tree in the form used for the other tools."""
    section = result.report.tree.outcome.section if result.alarm else ""
    return result.alarm, section, result.spikes


def save(data: Path, tools: Mapping[str, Mapping[str, Any]]) -> None:
    """Write the answers: one line for each run of each tool."""
    parts = []
    for tool, answer in tools.items():
        runs = ",\n".join(
            f"{json.dumps(k)}: {json.dumps(v, ensure_ascii=False)}"
            for k, v in answer["runs"].items()
        )
        version = json.dumps(answer["version"])
        parts.append(f'{json.dumps(tool)}: {{"version": {version}, "runs": {{\n{runs}\n}}}}')
    tail = ",\n".join(parts)
    text = f'{{"logs": "{fingerprint(data)}", "tools": {{\n{tail}\n}}}}\n'
    (data / "peers.json").write_text(text, encoding="utf-8")


def load(data: Path) -> tuple[dict[str, str], dict[str, dict[str, Verdict]]]:
    """Each tool's version, and its verdict on each run."""
    path = data / "peers.json"
    saved: dict[str, Any] = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    if saved.get("logs") != fingerprint(data):
        sys.exit(f"{path}: not of these logs; run make accuracy-peers")
    versions = {tool: answer["version"] for tool, answer in saved["tools"].items()}
    verdicts = {
        tool: {run_id: verdict(result) for run_id, result in answer["runs"].items()}
        for tool, answer in saved["tools"].items()
    }
    return versions, verdicts


def verdict(answer: tuple[bool, str, int] | str) -> Verdict:
    """The verdict from one saved answer."""
    if isinstance(answer, str):
        return Verdict(failed=True)
    warned, families, spikes = answer
    return Verdict(warned=warned, families=families, spikes=spikes)


def fingerprint(data: Path) -> str:
    """The digest of the logs."""
    return hashlib.sha256((data / "logs.parquet").read_bytes()).hexdigest()


def stabdiag_verdicts(scored: Sequence[Scored]) -> dict[str, Verdict]:
    """The verdicts of stabdiag."""
    return {result.run.run_id: verdict(tree_verdict(result)) for result in scored}


def count(tool: str, verdicts: Mapping[str, Verdict], scored: Sequence[Scored]) -> Row:
    """How often a tool was right about these runs."""
    pairs = [(result, verdicts[result.run.run_id]) for result in scored]
    well = [(result, tool_verdict) for result, tool_verdict in pairs if result.healthy]
    ill = [(result, tool_verdict) for result, tool_verdict in pairs if not result.healthy]
    sections = sorted({result.run.section for result, _ in ill})
    of_section = {mark: [pair for pair in ill if pair[0].run.section == mark] for mark in sections}
    return Row(
        tool=tool,
        healthy=len(well),
        faulty=len(ill),
        steps=sum(result.steps for result, _ in well),
        silent=sum(not tool_verdict.warned and not tool_verdict.failed for _, tool_verdict in well),
        quiet=sum(
            not tool_verdict.families and not tool_verdict.failed for _, tool_verdict in well
        ),
        flagged=sum(tool_verdict.warned for _, tool_verdict in ill),
        families={
            mark: (
                sum(right_family(result, tool_verdict) for result, tool_verdict in them),
                len(them),
            )
            for mark, them in of_section.items()
        },
        spikes=sum(tool_verdict.spikes for _, tool_verdict in well),
        failed=sum(tool_verdict.failed for _, tool_verdict in pairs),
    )


def right_family(result: Scored, tool_verdict: Verdict) -> bool:
    """Whether a tool named a section that is right."""
    slugs = (result.run.expect, *result.run.also_ok)
    return any(OUTCOME_BY_SLUG[slug].section in tool_verdict.families for slug in slugs)
