"""Diagnose the corpus, and count: which runs are right, by which measure."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

import corpus
import numpy as np
import pyarrow as pa
from corpus import Run

import stabdiag
from stabdiag.model.edges import OUTCOMES
from stabdiag.model.report import Report

SECTIONS = {"§1": "NaN", "§2": "spike", "§3": "mixed precision", "§4": "divergence"}
CAUSES = frozenset(
    {"spike-long-tail-batch", "spike-lr-jump", "spike-duplicate-batch", "spike-recovered"}
)
LASTING = frozenset({"spike-persistent", "spike-unresolved"})
CLOSE = 5  # logged points


@dataclass(frozen=True, kw_only=True)
class Scored:
    """A run beside what was said of it."""

    run: Run
    report: Report
    steps: int  # from the first logged step to the last
    stride: int  # between two logged steps

    @property
    def slug(self) -> str:
        """The tree's leaf: what the labels are about."""
        return self.report.tree.outcome.slug

    @property
    def severity(self) -> str:
        """How bad it was said to be, by the tree or by a symptom."""
        return str(self.report.diagnosis.severity)

    @property
    def alarm(self) -> bool:
        """Whether it is more than a note."""
        return self.severity in ("error", "warning")

    @property
    def healthy(self) -> bool:
        """Whether there is nothing to be said."""
        return self.run.expect == "healthy"

    @property
    def right(self) -> bool:
        """Whether it is the right leaf."""
        return self.slug in (self.run.expect, *self.run.also_ok)

    @property
    def right_section(self) -> bool:
        """Whether it is a leaf of the right section; of a healthy run, a healthy one."""
        return self.right or (
            self.run.section != "" and self.report.tree.outcome.section == self.run.section
        )

    @property
    def spikes(self) -> int:
        """Spike findings, whatever the diagnosis."""
        return sum(finding.slug.startswith("spike") for finding in self.report.findings)

    @property
    def apart(self) -> int | None:
        """How many steps the onset that was said lies from the true one."""
        said = self.report.tree.outcome.step
        return None if self.run.onset is None or said is None else abs(said - self.run.onset)

    @property
    def close(self) -> bool:
        """Whether the onset was found within five logged points."""
        return self.apart is not None and self.apart <= CLOSE * self.stride

    @property
    def told_recovery(self) -> bool:
        """Whether a spike that came back was said to have, and one that did not was not."""
        return self.slug in (CAUSES if self.run.recovered else LASTING)


@dataclass(frozen=True, kw_only=True)
class Share:
    """How many of some runs are good."""

    name: str
    hits: int
    runs: int


Test: TypeAlias = Callable[[Scored], bool]


def score(
    data: Path, split: str, *, literal: bool = False, limits: Mapping[str, object] | None = None
) -> list[Scored]:
    """Diagnose the runs of a split; of all, if it is called "all"."""
    runs = [(run, table) for run, table in corpus.load(data) if split in (run.split, "all")]
    return [score_one(run, table, literal=literal, limits=limits) for run, table in runs]


def score_one(
    run: Run, table: pa.Table, *, literal: bool, limits: Mapping[str, object] | None = None
) -> Scored:
    """Diagnose one run."""
    steps = table["step"].to_numpy()
    return Scored(
        run=run,
        report=stabdiag.diagnose(table, manifest=run.manifest, literal=literal, limits=limits),
        steps=int(steps[-1] - steps[0]) + 1,
        stride=int(np.median(np.diff(steps))),
    )


def shares(scored: Sequence[Scored]) -> Iterator[Share]:
    """The shares of the whole."""
    healthy = [one for one in scored if one.healthy]
    faulty = [one for one in scored if not one.healthy]
    yield share("right leaf", scored, lambda one: one.right)
    yield share("right section", scored, lambda one: one.right_section)
    yield share("right leaf, of the runs with a fault", faulty, lambda one: one.right)
    yield share("healthy: an error", healthy, lambda one: one.severity == "error")
    yield share("healthy: a warning", healthy, lambda one: one.severity == "warning")
    spiked = [one for one in scored if one.run.recovered is not None]
    yield share("recovered or not, of the spikes", spiked, lambda one: one.told_recovery)
    yield share("onset within 5 points, right leaf", dated(scored), lambda one: one.close)
    for mark in SECTIONS:
        of_section = [one for one in dated(scored) if one.run.section == mark]
        yield share(f"onset within 5 points, right leaf, {mark}", of_section, lambda one: one.close)


def leaf_shares(scored: Sequence[Scored]) -> list[Share]:
    """How often each leaf is right, by its name."""
    leaves: dict[str, list[Scored]] = defaultdict(list)
    for one in scored:
        leaves[one.run.expect].append(one)
    return [share(slug, runs, lambda one: one.right) for slug, runs in sorted(leaves.items())]


def dated(scored: Sequence[Scored]) -> list[Scored]:
    """Runs with a fault that began at a known step, and whose leaf is right."""
    return [one for one in scored if not one.healthy and one.right and one.run.onset is not None]


def share(name: str, runs: Sequence[Scored], good: Test) -> Share:
    """How many of some runs are good."""
    return Share(name=name, hits=sum(good(one) for one in runs), runs=len(runs))


def done(run: Run) -> str:
    """What was done to a run, in words."""
    return ", ".join(f"{f['name']} {f['size']:g} at {f['step']}" for f in run.faults) or "nothing"


def setting(run: Run) -> str:
    """How a run was trained and logged, in words."""
    how = run.setting
    return (
        f"{run.task}/{how['flavour']} {how['optimizer']} {how['schedule']} {how['dtype']} "
        f"batch {how['rows']} steps {how['steps']} "
        f"stride {how['stride']}{' mean' if how['mean'] else ''}"
    )


def leaves(scored: Sequence[Scored]) -> tuple[list[str], list[str]]:
    """The leaves that are true of some run, and those that are or were said, in order."""
    true = {one.run.expect for one in scored}
    said = true | {one.slug for one in scored if not one.right}
    order = [outcome.slug for outcome in OUTCOMES]
    order += sorted(said - set(order))  # symptoms
    return [slug for slug in order if slug in true], [slug for slug in order if slug in said]


def by_fault(scored: Sequence[Scored], least: int = 5) -> list[tuple[str, list[Scored]]]:
    """Runs with one fault that left a trace of some size: those of a section, then by the fault.

    A fault can lead to more than one section, and sizes are not alike between them: of each fault
    those of its most frequent section, if there are enough.
    """
    sections: dict[str, dict[str, list[Scored]]] = {"§2": {}, "§3": {}, "§4": {}}
    for one in scored:
        if len(one.run.faults) == 1 and one.run.section in sections and one.run.size > 0:
            sections[one.run.section].setdefault(one.run.faults[0]["name"], []).append(one)
    most: Counter[str] = Counter()
    for faults in sections.values():
        most |= Counter({name: len(runs) for name, runs in faults.items()})
    found = []
    for section, faults in sections.items():
        whole = [one for _, runs in sorted(faults.items()) for one in runs]
        own = [(f, runs) for f, runs in sorted(faults.items()) if len(runs) == most[f] >= least]
        found += [(f"any {SECTIONS[section]}", whole), *own] if whole else []
    return found
