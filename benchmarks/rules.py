"""Put the rules that judge on trial: measure the worth of each on labeled runs.

python benchmarks/rules.py                 write docs/rules.md
python benchmarks/rules.py --check         end with 1 if a rule of docs/rules.md is missing or new
python benchmarks/rules.py RULE... [--logs FOLDER]
                                           try some rules, alone and together

A rule is switched off, and the corpus (without two parts), the fixtures and, if asked for, a
folder of logs are diagnosed again. The loss in correct answers is the worth of the rule.
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

from stabdiag.api.diagnosis import make_report
from stabdiag.assemble.inputs import Options, loaded_run
from stabdiag.errors import StabdiagError
from stabdiag.model.edges import OUTCOMES
from stabdiag.model.history import History
from stabdiag.model.limits import Limits
from stabdiag.model.manifest import Manifest, parse_manifest

HERE = Path(__file__).parent
ROOT = HERE.parent
PAGE = ROOT / "docs" / "rules.md"
CORPUS = HERE / "accuracy" / "data"
# A part drawn to be scored once, and one with recurring spikes only.
LEFT_OUT = ("tenth", "recurring")
LIMITS = Limits()
LEAVES = frozenset(outcome.slug for outcome in OUTCOMES)
ALARMS = ("error", "warning")
T = TypeVar("T")


@dataclass(frozen=True, kw_only=True)
class TrialRun:
    """A run with its labels, if any, and its origin."""

    name: str
    history: History
    manifest: Manifest
    right: tuple[str, ...] = ()
    origin: str = "corpus"

    @property
    def healthy(self) -> bool:
        """Whether the label is healthy."""
        return self.right[:1] == ("healthy",)


@dataclass(frozen=True, kw_only=True)
class Result:
    """The diagnosis of a run: its leaf, slug and severity."""

    leaf: str
    slug: str
    severity: str


Before = tuple[Result, frozenset[str]]


@dataclass(frozen=True, kw_only=True)
class Score:
    """The number of correct runs of the corpus, and of healthy ones with an error or warning."""

    right: int
    errors: int
    alarms: int
    wrong: tuple[str, ...]  # fixtures

    def difference(self, other: Score) -> str:
        """Return the changes from another score to this one, as cells of a table."""
        wrong = ", ".join(f"`{name}`" for name in self.wrong if name not in other.wrong)
        numbers = (self.right - other.right, self.errors - other.errors, self.alarms - other.alarms)
        return " | ".join([*(f"{number:+d}" if number else "0" for number in numbers), wrong])


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("rules", nargs="*", help="names of rules; all, for the page, if none")
    parser.add_argument("--logs", type=Path, help="a folder of logs without labels")
    parser.add_argument("--cache", type=Path, help="where to keep the histories that were read")
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args()
    if options.check:
        names = re.findall(r"^\| \*\*(.+?)\*\* \|", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
        sys.exit(names != [rule.name for rule in RULES])
    np.seterr(all="ignore")
    runs = _runs(options.logs, options.cache)
    before = _each(_diagnose_with_rules, runs)
    if options.rules:
        _try([rule for rule in RULES if rule.name in options.rules], runs, before)
    else:
        PAGE.write_text(_page(runs, before), encoding="utf-8")


def _runs(logs: Path | None, cache: Path | None) -> list[TrialRun]:
    if cache is not None and cache.exists():
        kept: list[TrialRun] = pickle.loads(cache.read_bytes())
        return kept
    runs = [*_corpus(), *_fixtures(), *(_logs(logs) if logs else ())]
    if cache is not None:
        cache.write_bytes(pickle.dumps(runs))
    return runs


def _read(source: Any, manifest: Manifest | None = None) -> tuple[History, Manifest]:
    return loaded_run(source, manifest, Options(limits=LIMITS))


def _corpus() -> Iterator[TrialRun]:
    sys.path.insert(0, str(HERE / "accuracy"))
    import corpus

    for labels in sorted(CORPUS.rglob("labels.json")):
        if labels.parent.name in LEFT_OUT:
            continue
        for run, table in corpus.load(labels.parent):
            history, manifest = _read(table, parse_manifest(run.manifest))
            right = (run.expect, *run.also_ok)
            yield TrialRun(name=run.run_id, history=history, manifest=manifest, right=right)


def _fixtures() -> Iterator[TrialRun]:
    for log in sorted((ROOT / "fixtures" / "runs").glob("*/log.[!r]*")):
        about = json.loads((log.parent / "about.json").read_text(encoding="utf-8"))
        history, manifest = _read(log)
        right, name = (about["expect"], *about["also_ok"]), log.parent.name
        yield TrialRun(
            name=name, history=history, manifest=manifest, right=right, origin="fixtures"
        )


def _logs(folder: Path) -> Iterator[TrialRun]:
    for log in sorted(path for path in folder.rglob("*") if path.is_file()):
        try:
            history, manifest = _read(log)
        except StabdiagError:
            continue
        yield TrialRun(name=log.name, history=history, manifest=manifest, origin="logs")


def _diagnose(run: TrialRun) -> Result:
    report = make_report(run.history, run.manifest, LIMITS)
    finding = report.diagnosis
    return Result(leaf=report.tree.outcome.slug, slug=finding.slug, severity=finding.severity.value)


def _diagnose_with_rules(run: TrialRun) -> tuple[Result, frozenset[str]]:
    """Diagnose a run; return the result and the rules that affected it."""
    effective: set[str] = set()
    with listening(RULES, effective):
        return _diagnose(run), frozenset(effective)


def _diagnosed(
    runs: Sequence[TrialRun], before: Sequence[Before], rules: Sequence[Rule]
) -> list[Result]:
    """Return all results without some rules; only runs that these affect are diagnosed again."""
    names = {rule.name for rule in rules}
    affected = [at for at, (_, effective) in enumerate(before) if names & effective]
    results = [result for result, _ in before]
    with switched_off(rules):
        for at, new in zip(affected, _each(_diagnose, [runs[at] for at in affected]), strict=True):
            results[at] = new
    return results


def _each(function: Callable[[TrialRun], T], runs: Sequence[TrialRun]) -> list[T]:
    # Forked processes inherit which rules are switched off.
    with multiprocessing.get_context("fork").Pool() as pool:
        return pool.map(function, runs, chunksize=20)


def _score(runs: Sequence[TrialRun], results: Sequence[Result]) -> Score:
    of_corpus = [(run, r) for run, r in zip(runs, results, strict=True) if run.origin == "corpus"]
    healthy = [result.severity for run, result in of_corpus if run.healthy]
    return Score(
        right=sum(_is_right(run, result) for run, result in of_corpus),
        errors=sum(severity == "error" for severity in healthy),
        alarms=sum(severity in ALARMS for severity in healthy),
        wrong=tuple(
            run.name
            for run, result in zip(runs, results, strict=True)
            if run.origin == "fixtures" and not {result.leaf, result.slug} & {*run.right}
        ),
    )


def _is_right(run: TrialRun, result: Result) -> bool:
    return result.leaf in run.right or result.slug in {*run.right} - LEAVES


def _try(rules: list[Rule], runs: Sequence[TrialRun], before: Sequence[Before]) -> None:
    """Print the effect of switching rules off, one by one and together."""
    original = [result for result, _ in before]
    groups = [[rule] for rule in rules] + ([rules] if len(rules) > 1 else [])
    for group in groups:
        results = _diagnosed(runs, before, group)
        difference = _score(runs, results).difference(_score(runs, original))
        print(f"without {', '.join(rule.name for rule in group)}: {difference}")
        for run, was, now in zip(runs, original, results, strict=True):
            if run.origin == "logs" and (was.leaf, was.slug) != (now.leaf, now.slug):
                print(f"    {run.name}: {was.leaf} → {now.leaf}")


def _page(runs: Sequence[TrialRun], before: Sequence[Before]) -> str:
    score = _score(runs, [result for result, _ in before])
    total = sum(run.origin == "corpus" for run in runs)
    healthy = sum(run.origin == "corpus" and run.healthy for run in runs)
    lines = [
        "# The rules that judge",
        "",
        "Written by `python benchmarks/rules.py`. The rules in `tree.classify` are the rows of its",
        "tables, in order: the first row that applies to an event decides. Each rule was switched",
        f"off, and the labeled corpus (without {' and '.join(f'`{part}`' for part in LEFT_OUT)}:",
        f"{total:,} runs, {healthy:,} of them healthy) and the fixtures were diagnosed again. With",
        f"all rules {score.right:,} runs have the right leaf, {score.errors} healthy ones have an",
        f"error and {score.alarms} an error or a warning. The columns say how these numbers change",
        "without the rule. A rule that is worth little here names the log that needs it.",
        "",
        "| rule | where | for | right | errors | alarms | fixtures that go wrong | needed by |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for rule in RULES:
        difference = _score(runs, _diagnosed(runs, before, [rule])).difference(score)
        lines.append(
            f"| **{rule.name}** | `{rule.where}` | {rule.purpose} | {difference} | {rule.needed} |"
        )
        print(lines[-1], flush=True)
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
