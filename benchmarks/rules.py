"""Put the rules that judge on trial: what each is worth on labelled runs.

python benchmarks/rules.py                 write docs/rules.md
python benchmarks/rules.py --check         end with 1 if a rule of docs/rules.md is missing or new
python benchmarks/rules.py RULE... [--logs FOLDER]
                                           try some rules, alone and together

A rule is switched off, and the corpus (all but its last part), the fixtures and, if asked for, a
folder of logs are diagnosed again. What is lost is what the rule is worth.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import pickle
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from rules_on_trial import RULES, Rule, listening, switched_off

from stabdiag.api.diagnosis import report_on
from stabdiag.assemble.inputs import Options, loaded_run
from stabdiag.errors import StabdiagError
from stabdiag.model.history import History
from stabdiag.model.limits import Limits
from stabdiag.model.manifest import Manifest, parse_manifest

HERE = Path(__file__).parent
ROOT = HERE.parent
PAGE = ROOT / "docs" / "rules.md"
CORPUS = HERE / "accuracy" / "data"
UNSEEN = "tenth"  # drawn to be scored once
LIMITS = Limits()
ALARMS = ("error", "warning")
T = TypeVar("T")


@dataclass(frozen=True, kw_only=True)
class Tried:
    """A run, what it is labelled with if it is, and where it comes from."""

    name: str
    history: History
    manifest: Manifest
    right: tuple[str, ...] = ()
    of: str = "corpus"

    @property
    def healthy(self) -> bool:
        """Whether there is nothing to be said."""
        return self.right[:1] == ("healthy",)


@dataclass(frozen=True, kw_only=True)
class Said:
    """What a run was told: its leaf, its diagnosis, and how bad that is."""

    leaf: str
    slug: str
    severity: str


Before = tuple[Said, frozenset[str]]


@dataclass(frozen=True, kw_only=True)
class Score:
    """How many runs of the corpus are right, and how many healthy ones have an error or alarm."""

    right: int
    errors: int
    alarms: int
    wrong: tuple[str, ...]  # fixtures

    def less(self, other: Score) -> str:
        """Return what is lost from another score to this one, as cells of a table."""
        wrong = ", ".join(f"`{one}`" for one in self.wrong if one not in other.wrong)
        numbers = (self.right - other.right, self.errors - other.errors, self.alarms - other.alarms)
        return " | ".join([*(f"{one:+d}" if one else "0" for one in numbers), wrong])


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("rules", nargs="*", help="names of rules; all, for the page, if none")
    parser.add_argument("--logs", type=Path, help="a folder of logs without labels")
    parser.add_argument("--cache", type=Path, help="where to keep the histories that were read")
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args()
    if options.check:
        told = re.findall(r"^\| \*\*(.+?)\*\* \|", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
        sys.exit(told != [rule.name for rule in RULES])
    np.seterr(all="ignore")
    runs = _runs(options.logs, options.cache)
    before = _each(_said_and_heard, runs)
    if options.rules:
        _try([rule for rule in RULES if rule.name in options.rules], runs, before)
    else:
        PAGE.write_text(_page(runs, before), encoding="utf-8")


def _runs(logs: Path | None, cache: Path | None) -> list[Tried]:
    if cache is not None and cache.exists():
        kept: list[Tried] = pickle.loads(cache.read_bytes())
        return kept
    runs = [*_corpus(), *_fixtures(), *(_logs(logs) if logs else ())]
    if cache is not None:
        cache.write_bytes(pickle.dumps(runs))
    return runs


def _read(source: Any, manifest: Manifest | None = None) -> tuple[History, Manifest]:
    return loaded_run(source, manifest, Options(limits=LIMITS))


def _corpus() -> Iterator[Tried]:
    sys.path.insert(0, str(HERE / "accuracy"))
    import corpus

    for labels in sorted(CORPUS.rglob("labels.json")):
        if labels.parent.name == UNSEEN:
            continue
        for run, table in corpus.load(labels.parent):
            history, manifest = _read(table, parse_manifest(run.manifest))
            right = (run.expect, *run.also_ok)
            yield Tried(name=run.run_id, history=history, manifest=manifest, right=right)


def _fixtures() -> Iterator[Tried]:
    for log in sorted((ROOT / "fixtures" / "runs").glob("*/log.*")):
        about = json.loads((log.parent / "about.json").read_text(encoding="utf-8"))
        history, manifest = _read(log)
        right, name = (about["expect"], *about["also_ok"]), log.parent.name
        yield Tried(name=name, history=history, manifest=manifest, right=right, of="fixtures")


def _logs(folder: Path) -> Iterator[Tried]:
    for log in sorted(path for path in folder.rglob("*") if path.is_file()):
        try:
            history, manifest = _read(log)
        except StabdiagError:
            continue
        yield Tried(name=log.name, history=history, manifest=manifest, of="logs")


def _said(run: Tried) -> Said:
    report = report_on(run.history, run.manifest, LIMITS)
    found = report.diagnosis
    return Said(leaf=report.tree.outcome.slug, slug=found.slug, severity=found.severity.value)


def _said_and_heard(run: Tried) -> tuple[Said, frozenset[str]]:
    """Diagnose a run, and tell which rules had a say in it."""
    heard: set[str] = set()
    with listening(RULES, heard):
        return _said(run), frozenset(heard)


def _diagnosed(
    runs: Sequence[Tried], before: Sequence[Before], rules: Sequence[Rule]
) -> list[Said]:
    """Diagnose without some rules the runs in which they had a say."""
    names = {rule.name for rule in rules}
    asked = [at for at, (_, heard) in enumerate(before) if names & heard]
    said = [one for one, _ in before]
    with switched_off(rules):
        for at, new in zip(asked, _each(_said, [runs[at] for at in asked]), strict=True):
            said[at] = new
    return said


def _each(told: Callable[[Tried], T], runs: Sequence[Tried]) -> list[T]:
    # Forked processes share what was switched off.
    with multiprocessing.get_context("fork").Pool() as pool:
        return pool.map(told, runs, chunksize=20)


def _score(runs: Sequence[Tried], said: Sequence[Said]) -> Score:
    of_corpus = [(run, one) for run, one in zip(runs, said, strict=True) if run.of == "corpus"]
    healthy = [one.severity for run, one in of_corpus if run.healthy]
    return Score(
        right=sum(one.leaf in run.right for run, one in of_corpus),
        errors=sum(one == "error" for one in healthy),
        alarms=sum(one in ALARMS for one in healthy),
        wrong=tuple(
            run.name
            for run, one in zip(runs, said, strict=True)
            if run.of == "fixtures" and not {one.leaf, one.slug} & {*run.right}
        ),
    )


def _try(rules: list[Rule], runs: Sequence[Tried], before: Sequence[Before]) -> None:
    """Print what switching rules off changes, one by one and together."""
    at_first = [one for one, _ in before]
    groups = [[rule] for rule in rules] + ([rules] if len(rules) > 1 else [])
    for group in groups:
        said = _diagnosed(runs, before, group)
        less = _score(runs, said).less(_score(runs, at_first))
        print(f"without {', '.join(rule.name for rule in group)}: {less}")
        for run, was, now in zip(runs, at_first, said, strict=True):
            if run.of == "logs" and (was.leaf, was.slug) != (now.leaf, now.slug):
                print(f"    {run.name}: {was.leaf} → {now.leaf}")


def _page(runs: Sequence[Tried], before: Sequence[Before]) -> str:
    score = _score(runs, [one for one, _ in before])
    total = sum(run.of == "corpus" for run in runs)
    healthy = sum(run.of == "corpus" and run.healthy for run in runs)
    lines = [
        "# The rules that judge",
        "",
        "Written by `python benchmarks/rules.py`. Each rule was switched off, and the labelled",
        f"corpus (all but its last part: {total:,} runs, {healthy:,} of them healthy) and the",
        f"fixtures were diagnosed again. With all rules {score.right:,} runs have the right leaf,",
        f"{score.errors} healthy ones have an error and {score.alarms} an error or a warning. The",
        "columns say how these numbers change without the rule. A rule that is worth little here",
        "names the log that needs it.",
        "",
        "| rule | where | for | right | errors | alarms | fixtures that go wrong | needed by |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for rule in RULES:
        less = _score(runs, _diagnosed(runs, before, [rule])).less(score)
        lines.append(
            f"| **{rule.name}** | `{rule.where}` | {rule.purpose} | {less} | {rule.needed} |"
        )
        print(lines[-1], flush=True)
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
