"""Put the rules that judge on trial: measure the worth of each on labeled runs.

python benchmarks/rules.py                 write docs/rules.md
python benchmarks/rules.py --check         end with 1 if a rule of docs/rules.md is missing or new
python benchmarks/rules.py RULE... [--logs FOLDER]
                                           try some rules, alone and together

A rule is switched off, and the corpus (without two parts), the fixtures and, if asked for, a
folder of logs are diagnosed again. The loss in correct answers is the worth of the rule. A run is
only diagnosed again if the rule has an effect on it, and its symptoms are only checked again if the
tree measured or answered something else.

The page takes about ten minutes of one processor; ``--processes`` sets how many are used.
"""

from __future__ import annotations

import argparse
import hashlib
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
from stabdiag.assemble.inputs import Options, infer, loaded_run, match_step_unit
from stabdiag.errors import StabdiagError
from stabdiag.model.edges import OUTCOMES
from stabdiag.model.history import History
from stabdiag.model.limits import Limits
from stabdiag.model.manifest import Manifest, parse_manifest
from stabdiag.tree.case import Case
from stabdiag.tree.walk import walk

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


@dataclass(frozen=True, kw_only=True)
class Before:
    """The result of a run with all rules, the rules that affected it, and a digest of its tree."""

    result: Result
    effective: frozenset[str]
    digest: bytes


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
    parser.add_argument("--processes", type=int, help="default: one for each processor")
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args()
    if options.check:
        names = re.findall(r"^\| \*\*(.+?)\*\* \|", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
        sys.exit(names != [rule.name for rule in RULES])
    np.seterr(all="ignore")
    trial = Trial(runs=_runs(options.logs, options.cache), processes=options.processes)
    if options.rules:
        _try([rule for rule in RULES if rule.name in options.rules], trial)
    else:
        PAGE.write_text(_page(trial), encoding="utf-8")


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


def _digest(run: TrialRun) -> bytes:
    """Return a digest of all that the tree measured and answered."""
    manifest, history = match_step_unit(run.manifest, run.history)
    case = Case(history=history, manifest=infer(manifest, history), limits=LIMITS)
    tree = walk(case)
    content = pickle.dumps((case.measures, tree.answers, tree.findings))
    return hashlib.sha256(content).digest()


class Trial:
    """Runs, their results with all rules, and their results without some of them."""

    def __init__(self, *, runs: Sequence[TrialRun], processes: int | None) -> None:
        self.runs, self.processes = runs, processes
        self.before = self._each(self._diagnose_with_rules, range(len(runs)))

    @property
    def results(self) -> list[Result]:
        """The results with all rules."""
        return [before.result for before in self.before]

    def without(self, rules: Sequence[Rule]) -> list[Result]:
        """Return all results without some rules."""
        names = {rule.name for rule in rules}
        affected = [at for at, before in enumerate(self.before) if names & before.effective]
        is_complete = any(rule.reaches_symptoms for rule in rules)
        diagnose = self._diagnose if is_complete else self._diagnose_if_different
        results = self.results
        with switched_off(rules):
            for at, result in zip(affected, self._each(diagnose, affected), strict=True):
                results[at] = result
        return results

    def _diagnose_with_rules(self, at: int) -> Before:
        run, effective = self.runs[at], set[str]()
        with listening(RULES, effective):
            result = _diagnose(run)
        return Before(result=result, effective=frozenset(effective), digest=_digest(run))

    def _diagnose(self, at: int) -> Result:
        return _diagnose(self.runs[at])

    def _diagnose_if_different(self, at: int) -> Result:
        run, before = self.runs[at], self.before[at]
        # Symptoms of a reward measure it again.
        is_equal = not run.history.has("reward") and _digest(run) == before.digest
        return before.result if is_equal else _diagnose(run)

    def _each(self, function: Callable[[int], T], positions: Sequence[int]) -> list[T]:
        """Return the results of a function for some runs, in order."""
        if self.processes == 1:
            return [function(at) for at in positions]
        # Forked processes inherit the runs, and which rules are switched off.
        context = multiprocessing.get_context("fork")
        with context.Pool(self.processes, _INHERITED.append, (function,)) as pool:
            return pool.map(_call, positions, chunksize=20)


_INHERITED: list[Callable[[int], Any]] = []


def _call(at: int) -> Any:
    return _INHERITED[-1](at)


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


def _try(rules: list[Rule], trial: Trial) -> None:
    """Print the effect of switching rules off, one by one and together."""
    original = _score(trial.runs, trial.results)
    groups = [[rule] for rule in rules] + ([rules] if len(rules) > 1 else [])
    for group in groups:
        results = trial.without(group)
        difference = _score(trial.runs, results).difference(original)
        print(f"without {', '.join(rule.name for rule in group)}: {difference}")
        for run, was, now in zip(trial.runs, trial.results, results, strict=True):
            if run.origin == "logs" and (was.leaf, was.slug) != (now.leaf, now.slug):
                print(f"    {run.name}: {was.leaf} → {now.leaf}")


def _page(trial: Trial) -> str:
    runs, score = trial.runs, _score(trial.runs, trial.results)
    total = sum(run.origin == "corpus" for run in runs)
    healthy = sum(run.origin == "corpus" and run.healthy for run in runs)
    lines = [
        "# The rules that judge",
        "",
        "Written by `python benchmarks/rules.py`. The rules in `tree.classify` and in",
        "`tree.spike_rules` are the rows of tables: the first row that applies decides. Each was",
        "switched off, and the labeled corpus (without"
        f" {' and '.join(f'`{part}`' for part in LEFT_OUT)}:",
        f"{total:,} runs, {healthy:,} of them healthy) and the fixtures were diagnosed again. With",
        f"all rules {score.right:,} runs have the right leaf, {score.errors} healthy ones have an",
        f"error and {score.alarms} an error or a warning. The columns say how these numbers change",
        "without the rule. A rule that is worth little here names the log that needs it.",
        "",
        "| rule | where | for | right | errors | alarms | fixtures that go wrong | needed by |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for rule in RULES:
        difference = _score(runs, trial.without([rule])).difference(score)
        lines.append(
            f"| **{rule.name}** | `{rule.where}` | {rule.purpose} | {difference} | {rule.needed} |"
        )
        print(lines[-1], flush=True)
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
