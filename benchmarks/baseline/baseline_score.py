"""Score comparisons with a baseline: python benchmarks/baseline/baseline_score.py.

The fractions of broken and of healthy runs with a warning for 1, 2, 3, 5 and 10 references, with
the bars of the program and with bars calibrated on other tasks; how often a bad reference is left
out; the result for growing logs and for logs with another stride.
"""

from __future__ import annotations

import argparse
import random
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import combinations
from pathlib import Path
from typing import Final, TypeAlias

import numpy as np
from baseline_runs import (
    ALERT_SEVERITIES,
    ALL_COLUMNS,
    FORMS,
    FRESH,
    PARTS,
    Group,
    Run,
    cure_runs,
    form_of,
    reruns,
)

from stabdiag.baseline.judge import judge
from stabdiag.baseline.profile import run_profile
from stabdiag.model.baseline import BaselineComparison
from stabdiag.model.manifest import Manifest
from stabdiag.model.profile import RunProfile
from stabdiag.stats import bands
from stabdiag.symptoms.baseline.findings import baseline_finding

NUMBERS: Final = (1, 2, 3, 5, 10)
LOOKS: Final = 20  # at a growing log
DRAWS: Final = 3  # of references for each run
WAYS: Final = {ALL_COLUMNS: (ALL_COLUMNS,), "as people log": FORMS}

# Bars are calibrated to the lowest of these factors with at most this fraction of false alarms.
FACTORS: Final = (0.6, 0.7, 0.8, 0.9, 1.0, 1.15, 1.3, 1.5, 2.0, 3.0)
FALSE_ALARMS: Final = 0.01

Factors: TypeAlias = Mapping[int, float]
Comparisons: TypeAlias = Sequence[tuple[RunProfile, Sequence[RunProfile]]]


def main() -> None:
    """Score, and print tables in Markdown."""
    parser = argparse.ArgumentParser(description="Score comparisons with a baseline.")
    parser.add_argument("--reruns", type=Path, help="a folder with AlgoPerf logs")
    parser.add_argument("--fresh", type=Path, help="a folder of cure/train.py, scored by itself")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    random.seed(options.seed)
    fresh = FRESH if options.fresh is None else str(options.fresh.resolve())
    all_parts = tuple(dict.fromkeys((*PARTS, fresh)))
    runs = cure_runs(all_parts)
    parts = {"fresh part": (fresh,), "other parts": [part for part in all_parts if part != fresh]}
    factors = _calibrated_on_other_tasks(runs)
    for title, names in parts.items():
        scored = [run for run in runs if run.part in names]
        broken = sum(run.is_broken for run in scored)
        print(f"\n{title}: {broken} broken, {len(scored) - broken} healthy")
        print("| | " + " | ".join(map(str, NUMBERS)) + " |")
        print("| --- " * (len(NUMBERS) + 1) + "|")
        for way, forms in WAYS.items():
            _print_rows(way, _score(scored, runs, forms, {}))
            calibrated = _score(scored, runs, forms, factors)
            _print_rows(f"{way}, bars of other tasks", calibrated[:3])
    _bad_references(runs)
    _growing(runs)
    _strides(runs)
    if options.reruns is not None:
        _score_reruns([*reruns(options.reruns)])


@contextmanager
def scaled_bars(factor: float) -> Iterator[None]:
    """Multiply the bars of the program by a factor."""
    original = bands.BAND_BARS
    bands.BAND_BARS = tuple((number, factor * bar) for number, bar in original)  # type: ignore[misc]
    try:
        yield
    finally:
        bands.BAND_BARS = original  # type: ignore[misc]


def _halves(tasks: Iterable[str]) -> dict[str, int]:
    """Return the half of each task; they alternate in alphabetical order."""
    return {task: place % 2 for place, task in enumerate(sorted(set(tasks)))}


def _calibrate(comparisons: Comparisons) -> float:
    """Return the lowest factor of the bars with few false alarms on healthy runs."""
    for factor in FACTORS:
        with scaled_bars(factor):
            alarms = [_is_warned(judge(run, others)) for run, others in comparisons]
        if np.mean(alarms) <= FALSE_ALARMS:
            return factor
    return FACTORS[-1]


def _calibrated_on_other_tasks(runs: Sequence[Run]) -> dict[str, Factors]:
    """Return the factors of the bars for each task by number, from the other half of the tasks."""
    halves = _halves(run.task for run in runs)
    factors: list[Factors] = []
    for half in (0, 1):
        healthy = [run for run in runs if not run.is_broken and halves[run.task] == half]
        factors.append(
            {
                number: _calibrate(
                    [
                        (run.log(form).profile, _references(run, runs, number, form))
                        for run in healthy
                        for form in (ALL_COLUMNS, *FORMS)
                    ]
                )
                for number in NUMBERS
            }
        )
        tasks = [task for task, own in halves.items() if own == half]
        print(f"bars calibrated on {', '.join(tasks)}: {_bars_text(factors[half])}", flush=True)
    return {task: factors[1 - half] for task, half in halves.items()}


def _bars_text(factors: Factors) -> str:
    return ", ".join(
        f"{factor * bands.deviation_bar(number):.3g} for {number}"
        for number, factor in factors.items()
    )


def _references(run: Run, runs: Sequence[Run], number: int, form: str) -> list[RunProfile]:
    return [other.log(form).profile for other in _drawn(run, runs, number)]


def _drawn(run: Run, runs: Sequence[Run], number: int) -> list[Run]:
    """Return healthy runs of the same task, never the run itself."""
    healthy = [other for other in runs if other.task == run.task and not other.is_broken]
    return random.sample([other for other in healthy if other is not run], number)


def _is_warned(comparison: BaselineComparison) -> bool:
    finding = baseline_finding(comparison)
    return finding is not None and finding.severity.value in ALERT_SEVERITIES


def _score(
    scored: Sequence[Run], runs: Sequence[Run], forms: Sequence[str], factors: Mapping[str, Factors]
) -> list[tuple[str, list[float]]]:
    """Return the rows of a table by number of references."""
    rows: dict[str, list[float]] = defaultdict(list)
    for number in NUMBERS:
        warned, together, alone, healthy, onsets = [], [], [], [], []
        for run in [*scored] * DRAWS:
            for form in [form_of(run.number)] if run.is_broken and len(forms) > 1 else forms:
                references = _references(run, runs, number, form)
                log = run.log(form)
                with scaled_bars(factors.get(run.task, {}).get(number, 1.0)):
                    comparison = judge(log.profile, references)
                if not run.is_broken:
                    healthy.append(_is_warned(comparison))
                    continue
                warned.append(_is_warned(comparison))
                alone.append(log.alarm)
                together.append(_is_warned(comparison) or log.alarm)
                first = comparison.first_to_leave
                if warned[-1] and first is not None and first.step is not None:
                    onsets.append(first.step / log.profile.last_step)
        rows["broken with a warning"].append(float(np.mean(warned)))
        rows["together with the findings of one log"].append(float(np.mean(together)))
        rows["healthy with a warning"].append(float(np.mean(healthy)))
        rows["broken, without a baseline"].append(float(np.mean(alone)))
        rows["median onset, part of the run"].append(float(np.median(onsets)))
    return list(rows.items())


def _print_rows(title: str, rows: Iterable[tuple[str, Sequence[float]]]) -> None:
    for name, values in rows:
        cells = " | ".join(f"{value:.1%}" for value in values)
        print(f"| {title}: {name} | {cells} |", flush=True)


def _bad_references(runs: Sequence[Run]) -> None:
    """Print how often one bad reference among five is left out."""
    left_out, wrongly, warned = [], [], []
    for run in [other for other in runs if not other.is_broken] * DRAWS:
        bad = random.choice([other for other in runs if other.is_broken and other.task == run.task])
        references = _references(run, runs, 4, ALL_COLUMNS)
        references.append(bad.log(ALL_COLUMNS).profile)
        comparison = judge(run.log(ALL_COLUMNS).profile, references)
        names = {other.name for other in comparison.left_out}
        left_out.append(references[-1].name in names)
        wrongly.append(bool(names - {references[-1].name}))
        warned.append(_is_warned(comparison))
    print(
        f"\none bad reference of five: left out {np.mean(left_out):.1%}, a good one "
        f"{np.mean(wrongly):.1%}; healthy with a warning {np.mean(warned):.1%}"
    )


def _growing(runs: Sequence[Run]) -> None:
    """Print how many healthy runs ever get a warning, and how many broken ones at half the log."""
    ever: list[bool] = []
    half: list[bool] = []
    for run in runs:
        looks = [LOOKS // 2] if run.is_broken else range(1, LOOKS + 1)
        log = run.log(ALL_COLUMNS)
        last = log.profile.last_step
        seen = [
            run_profile(log.history.before(last * look // LOOKS + 1), Manifest(), key="seen")
            for look in looks
        ]
        for _ in range(DRAWS):
            references = _references(run, runs, 3, ALL_COLUMNS)
            is_warned = any(_is_warned(judge(profile, references)) for profile in seen)
            (half if run.is_broken else ever).append(is_warned)
    print(
        f"\n{LOOKS} looks at a growing log: healthy ever with a warning {np.mean(ever):.1%}; "
        f"broken with half of the log {np.mean(half):.1%}"
    )


def _strides(runs: Sequence[Run]) -> None:
    """Print how many healthy runs that log means over five steps get a warning."""
    warned = [
        _is_warned(
            judge(
                run.log("trainer_state").profile,
                _references(run, runs, number, ALL_COLUMNS),
            )
        )
        for run in runs
        if not run.is_broken
        for number in NUMBERS
    ]
    print(f"\nmeans over 5 steps against every step: healthy with a warning {np.mean(warned):.1%}")


def _score_reruns(groups: Sequence[Group]) -> None:
    """Print how many failed and good reruns get a warning, over all choices of references."""
    failures = sum(sum(group.failed) for group in groups)
    total = sum(len(group.failed) for group in groups)
    print(f"\nreruns: {total} in {len(groups)} groups, {failures} failed")
    half_of = _halves(group.workload for group in groups)
    halves = [[group for group in groups if half_of[group.workload] == half] for half in (0, 1)]
    for number in NUMBERS[:3]:
        factors = [_calibrate(_pairs(half, number, failed=False)) for half in halves]
        for title, own in (("", [1.0, 1.0]), (", bars of other workloads", factors[::-1])):
            rates = []
            for failed in (True, False):
                warned: list[bool] = []
                for half, factor in zip(halves, own, strict=True):
                    with scaled_bars(factor):
                        pairs = _pairs(half, number, failed=failed)
                        warned += [_is_warned(judge(run, others)) for run, others in pairs]
                rates.append(float(np.mean(warned)))
            bars = " and ".join(f"{factor * bands.deviation_bar(number):.3g}" for factor in own)
            print(
                f"{number} references{title} ({bars}): failures with a warning {rates[0]:.0%}, "
                f"good runs {rates[1]:.2%}",
                flush=True,
            )


def _pairs(groups: Sequence[Group], number: int, *, failed: bool) -> Comparisons:
    """Return each failed or good run with each choice of good references from its group."""
    pairs = []
    for group in groups:
        marked = [*zip(group.profiles, group.failed, strict=True)]
        good = [profile for profile, is_failure in marked if not is_failure]
        for profile, is_failure in marked:
            if is_failure == failed:
                others = [other for other in good if other is not profile]
                pairs += [(profile, references) for references in combinations(others, number)]
    return pairs


if __name__ == "__main__":
    main()
