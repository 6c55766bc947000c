"""Score stabdiag on the corpus.

python benchmarks/accuracy/score.py [--split dev|held|all] [--literal] [--failures]
"""

from __future__ import annotations

import argparse
from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import corpus
import numpy as np
import pyarrow as pa
from corpus import Run

import stabdiag
from stabdiag.report import Report

CAUSES = frozenset(
    {"spike-long-tail-batch", "spike-lr-jump", "spike-duplicate-batch", "spike-recovered"}
)
LASTING = frozenset({"spike-persistent", "spike-unresolved"})


@dataclass(frozen=True)
class Scored:
    """A run beside what was said of it."""

    run: Run
    report: Report
    points: int
    apart: float | None  # onset error, in logged points
    spikes: int  # spike findings, whatever the diagnosis

    @property
    def slug(self) -> str:
        """What was said."""
        return self.report.diagnosis.slug

    @property
    def right(self) -> bool:
        """Whether it is the right leaf."""
        return self.slug in (self.run.expect, *self.run.also_ok)

    @property
    def right_section(self) -> bool:
        """Whether it is a leaf of the right section; of a healthy run, a healthy one."""
        return self.right or (
            self.run.section != "" and self.report.diagnosis.section == self.run.section
        )


def score_one(run: Run, table: pa.Table, *, literal: bool) -> Scored:
    """Diagnose one run."""
    report = stabdiag.diagnose(table, manifest=run.manifest, literal=literal)
    steps = table["step"].to_numpy()
    apart = None
    if run.onset is not None and report.diagnosis.step is not None:
        stride = int(np.median(np.diff(steps)))
        apart = abs(report.diagnosis.step - run.onset) / stride
    spikes = sum(finding.slug.startswith("spike") for finding in report.findings)
    return Scored(run, report, int(steps[-1] - steps[0]) + 1, apart, spikes)


def share(name: str, runs: list[Scored], good: Callable[[Scored], bool]) -> None:
    """Print one line: how many of some runs are good."""
    hits = sum(good(one) for one in runs)
    percent = f"{100 * hits / len(runs):5.1f} %" if runs else "    - "
    print(f"{name:44} {percent}  {hits:4} of {len(runs)}")


def close(one: Scored) -> bool:
    """Whether the onset was found within five logged points."""
    return one.apart is not None and one.apart <= 5


def told_recovery(one: Scored) -> bool:
    """Whether a spike that came back was said to have, and one that did not was not."""
    return one.slug in (CAUSES if one.run.recovered else LASTING)


def print_table(scored: list[Scored]) -> None:
    """The shares."""
    healthy = [one for one in scored if one.run.expect == "healthy"]
    faulty = [one for one in scored if one.run.expect != "healthy"]
    share("right leaf", scored, lambda one: one.right)
    share("right section", scored, lambda one: one.right_section)
    share("right leaf, of the runs with a fault", faulty, lambda one: one.right)
    share("healthy: an error", healthy, lambda one: one.report.diagnosis.severity == "error")
    share("healthy: a warning", healthy, lambda one: one.report.diagnosis.severity == "warning")
    steps = sum(one.points for one in healthy)
    false = sum(one.spikes for one in healthy)
    rate = f"{1e4 * false / max(1, steps):.2f}"
    print(f"{'false spike findings per 10,000 healthy steps':44} {rate:>7}  {false} in {steps:,}")
    spiked = [one for one in scored if one.run.recovered is not None]
    share("recovered or not, of the spikes", spiked, told_recovery)
    for name, mark in (("§1", "§1"), ("§2", "§2"), ("§3", "§3"), ("§4", "§4")):
        dated = [o for o in faulty if o.run.section == mark and o.run.onset and o.right]
        share(f"onset within 5 points, right leaf, {name}", dated, close)
    print()
    leaves: dict[str, list[Scored]] = defaultdict(list)
    for one in scored:
        leaves[one.run.expect].append(one)
    for slug, runs in sorted(leaves.items()):
        share(slug, runs, lambda one: one.right)


def line(one: Scored) -> str:
    """A failure in one line."""
    run, said = one.run, one.report.diagnosis
    done = ", ".join(f"{f['name']} {f['size']:g} at {f['step']}" for f in run.faults) or "nothing"
    setting = run.setting
    context = (
        f"{run.task}/{setting['flavour']} {setting['optimizer']} {setting['schedule']} "
        f"{setting['dtype']} batch {setting['rows']} steps {setting['steps']} "
        f"stride {setting['stride']}{' mean' if setting['mean'] else ''}"
    )
    return (
        f"{run.run_id:5} {run.expect} → {said.slug}  onset {run.onset} → {said.step}  "
        f"size {run.size:g}  [{done}; {context}]"
    )


def print_failures(scored: list[Scored]) -> None:
    """The confusions, and each failure."""
    wrong = [one for one in scored if not one.right]
    print("\nconfusions")
    for (expect, said), count in Counter((o.run.expect, o.slug) for o in wrong).most_common():
        print(f"{count:4}  {expect} → {said}")
    print("\nfailures")
    for one in sorted(wrong, key=lambda o: (o.run.expect, o.slug)):
        print(line(one))


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description="Score stabdiag on the labelled corpus.")
    parser.add_argument("--split", choices=("dev", "held", "all"), default="dev")
    parser.add_argument("--literal", action="store_true", help="the decision tree to the letter")
    parser.add_argument("--failures", action="store_true", help="list what went wrong")
    parser.add_argument("--data", type=Path, default=corpus.DATA, help="folder of the corpus")
    options = parser.parse_args()
    scored = [
        score_one(run, table, literal=options.literal)
        for run, table in corpus.load(options.data)
        if options.split in (run.split, "all")
    ]
    print_table(scored)
    if options.failures:
        print_failures(scored)


if __name__ == "__main__":
    main()
