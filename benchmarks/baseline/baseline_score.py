"""Score comparisons with a baseline: python benchmarks/baseline/baseline_score.py.

How many broken runs are warned of, and how many healthy ones, with 1, 2, 3, 5 and 10 references;
how often a bad reference is left out; how a growing log fares, and one with another stride.
"""

from __future__ import annotations

import argparse
import random
from collections import defaultdict
from collections.abc import Sequence
from itertools import combinations
from pathlib import Path
from typing import Final

import numpy as np
from baseline_runs import ALL_COLUMNS, FORMS, PARTS, Run, cure_runs, form_of, reruns

from stabdiag.baseline.judge import judge
from stabdiag.baseline.profile import profile_of
from stabdiag.model.baseline import BaselineComparison, BaselineStatus
from stabdiag.model.manifest import Manifest

NUMBERS: Final = (1, 2, 3, 5, 10)
WARNED: Final = (BaselineStatus.WORSE, BaselineStatus.UNLIKE)
LOOKS: Final = 20  # at a log while it grows
DRAWS: Final = 3  # of references for each run
WAYS: Final = {ALL_COLUMNS: (ALL_COLUMNS,), "as people log": FORMS}


def main() -> None:
    """Score, and print tables in Markdown."""
    parser = argparse.ArgumentParser(description="Score comparisons with a baseline.")
    parser.add_argument("--reruns", type=Path, help="a folder with AlgoPerf logs")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    random.seed(options.seed)
    runs = cure_runs()
    for title, parts in (("first part", PARTS[:1]), ("other parts", PARTS[1:])):
        scored = [run for run in runs if run.part in parts]
        print(f"\n{title}: {_count(scored, broken=True)} broken, {_count(scored, broken=False)} ok")
        print("| | " + " | ".join(map(str, NUMBERS)) + " |")
        for way, forms in WAYS.items():
            _table(way, forms, scored, runs)
    _bad_references(runs)
    _growing(runs)
    _strides(runs)
    if options.reruns is not None:
        _reruns(options.reruns)


def _count(runs: Sequence[Run], *, broken: bool) -> int:
    return sum(run.is_broken == broken for run in runs)


def _drawn(run: Run, runs: Sequence[Run], number: int) -> list[Run]:
    """Return healthy runs of the same task, never the run itself."""
    pool = [
        other
        for other in runs
        if other.task == run.task and not other.is_broken and other is not run
    ]
    return random.sample(pool, number)


def _warned(comparison: BaselineComparison) -> bool:
    return comparison.status in WARNED


def _table(way: str, forms: Sequence[str], scored: Sequence[Run], runs: Sequence[Run]) -> None:
    rows: dict[str, list[float]] = defaultdict(list)
    for number in NUMBERS:
        warned, together, alone, healthy, onsets = [], [], [], [], []
        for run in scored:
            for form in [form_of(run.number)] if run.is_broken and len(forms) > 1 else forms:
                references = [other.logs[form].profile for other in _drawn(run, runs, number)]
                log = run.logs[form]
                comparison = judge(log.profile, references)
                if not run.is_broken:
                    healthy.append(_warned(comparison))
                    continue
                warned.append(_warned(comparison))
                alone.append(log.alarm)
                together.append(_warned(comparison) or log.alarm)
                first = comparison.first_to_leave
                if warned[-1] and first is not None and first.step is not None:
                    onsets.append(first.step / log.profile.last_step)
        rows["broken warned of"].append(float(np.mean(warned)))
        rows["together with the findings of one log"].append(float(np.mean(together)))
        rows["without a baseline"].append(float(np.mean(alone)))
        rows["healthy warned of"].append(float(np.mean(healthy)))
        rows["median onset, part of the run"].append(float(np.median(onsets)))
    for name, shares in rows.items():
        print(f"| {way}: {name} | " + " | ".join(f"{share:.1%}" for share in shares) + " |")


def _bad_references(runs: Sequence[Run]) -> None:
    """Print how often one bad reference among five is left out."""
    out, wrong, warned = [], [], []
    for run in [other for other in runs if not other.is_broken] * DRAWS:
        bad = random.choice([other for other in runs if other.is_broken and other.task == run.task])
        references = [other.log(ALL_COLUMNS).profile for other in [*_drawn(run, runs, 4), bad]]
        comparison = judge(run.log(ALL_COLUMNS).profile, references)
        names = {other.name for other in comparison.left_out}
        out.append(references[-1].name in names)
        wrong.append(bool(names - {references[-1].name}))
        warned.append(_warned(comparison))
    print(
        f"\none bad reference of five: left out {np.mean(out):.1%}, a good one "
        f"{np.mean(wrong):.1%}; healthy warned of {np.mean(warned):.1%}"
    )


def _growing(runs: Sequence[Run]) -> None:
    """Print how many runs are ever warned of, and how many broken ones with half of the log."""
    ever: list[bool] = []
    half: list[bool] = []
    for run in runs:
        log = run.log(ALL_COLUMNS)
        references = [other.log(ALL_COLUMNS).profile for other in _drawn(run, runs, 3)]
        last = log.profile.last_step
        looks = range(1, LOOKS + 1) if not run.is_broken else [LOOKS // 2]
        warned = []
        for look in looks:
            seen = log.history.before(last * look // LOOKS + 1)
            warned.append(_warned(judge(profile_of(seen, Manifest(), key="seen"), references)))
        (half if run.is_broken else ever).append(any(warned))
    print(
        f"\n{LOOKS} looks at a growing log: healthy ever warned of {np.mean(ever):.1%}; "
        f"broken warned of with half of the log {np.mean(half):.1%}"
    )


def _strides(runs: Sequence[Run]) -> None:
    """Print how many healthy runs that log means over five steps are warned of."""
    warned = []
    for run in [other for other in runs if not other.is_broken]:
        for number in NUMBERS:
            references = [other.log(ALL_COLUMNS).profile for other in _drawn(run, runs, number)]
            warned.append(_warned(judge(run.logs["trainer_state"].profile, references)))
    print(f"\nmeans over 5 steps against every step: healthy warned of {np.mean(warned):.1%}")


def _reruns(folder: Path) -> None:
    """Print how many failed and good reruns are warned of, over all choices of references."""
    groups = list(reruns(folder))
    failures = sum(sum(failed) for _, failed in groups)
    total = sum(len(failed) for _, failed in groups)
    print(f"\nreruns: {total} in {len(groups)} groups, {failures} failed")
    for number in NUMBERS[:3]:
        bad: list[bool] = []
        good: list[bool] = []
        for profiles, failed in groups:
            sound = [other for other, is_bad in zip(profiles, failed, strict=True) if not is_bad]
            for profile, is_bad in zip(profiles, failed, strict=True):
                others = [other for other in sound if other is not profile]
                for references in combinations(others, number):
                    (bad if is_bad else good).append(_warned(judge(profile, references)))
        print(
            f"{number} references: failures warned of {np.mean(bad):.0%}, "
            f"good runs {np.mean(good):.2%}"
        )


if __name__ == "__main__":
    main()
