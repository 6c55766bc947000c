"""Diagnose the corpus and count the correct runs by several measures."""

from __future__ import annotations

from collections import defaultdict
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
LEAVES = frozenset(outcome.slug for outcome in OUTCOMES)
CLOSE = 5  # logged points


@dataclass(frozen=True, kw_only=True)
class Scored:
    """A run with its report."""

    run: Run
    report: Report
    steps: int  # from the first logged step to the last
    stride: int  # between two logged steps

    @property
    def slug(self) -> str:
        """The leaf of the tree, which the labels describe."""
        return self.report.tree.outcome.slug

    @property
    def severity(self) -> str:
        """The severity of the diagnosis, by the tree or by a symptom."""
        return str(self.report.diagnosis.severity)

    @property
    def alarm(self) -> bool:
        """Whether the diagnosis is an error or a warning."""
        return self.severity in ("error", "warning")

    @property
    def healthy(self) -> bool:
        """Whether the label is healthy."""
        return self.run.expect == "healthy"

    @property
    def right(self) -> bool:
        """Whether the leaf is right, or the diagnosis if a symptom is expected."""
        names = {self.run.expect, *self.run.also_ok}
        return self.slug in names or self.report.diagnosis.slug in names - LEAVES

    @property
    def right_section(self) -> bool:
        """Whether the leaf belongs to the right section, or to a healthy run is healthy."""
        return self.right or (
            self.run.section != "" and self.report.tree.outcome.section == self.run.section
        )

    @property
    def spikes(self) -> int:
        """The number of spike findings."""
        return sum(finding.slug.startswith("spike") for finding in self.report.findings)

    @property
    def apart(self) -> int | None:
        """The distance in steps between the reported and the true onset."""
        onset = self.report.tree.outcome.step
        return None if self.run.onset is None or onset is None else abs(onset - self.run.onset)

    @property
    def close(self) -> bool:
        """Whether the onset was found within five logged points."""
        return self.apart is not None and self.apart <= CLOSE * self.stride

    @property
    def has_right_recovery(self) -> bool:
        """Whether recovery, or its absence, is reported correctly."""
        return self.slug in (CAUSES if self.run.recovered else LASTING)


@dataclass(frozen=True, kw_only=True)
class Share:
    """The number of runs that pass a test."""

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
    healthy = [result for result in scored if result.healthy]
    faulty = [result for result in scored if not result.healthy]
    yield share("right leaf", scored, lambda result: result.right)
    yield share("right section", scored, lambda result: result.right_section)
    yield share("right leaf, of the runs with a fault", faulty, lambda result: result.right)
    yield share("healthy: an error", healthy, lambda result: result.severity == "error")
    yield share("healthy: a warning", healthy, lambda result: result.severity == "warning")
    spiked = [result for result in scored if result.run.recovered is not None]
    yield share("recovered or not, of the spikes", spiked, lambda result: result.has_right_recovery)
    yield share("onset within 5 points, right leaf", dated(scored), lambda result: result.close)
    for mark in SECTIONS:
        of_section = [result for result in dated(scored) if result.run.section == mark]
        yield share(
            f"onset within 5 points, right leaf, {mark}", of_section, lambda result: result.close
        )


def leaf_shares(scored: Sequence[Scored]) -> list[Share]:
    """How often each leaf is right, by its name."""
    leaves: dict[str, list[Scored]] = defaultdict(list)
    for result in scored:
        leaves[result.run.expect].append(result)
    return [share(slug, runs, lambda result: result.right) for slug, runs in sorted(leaves.items())]


def dated(scored: Sequence[Scored]) -> list[Scored]:
    """Runs with a fault that began at a known step, and whose leaf is right."""
    return [
        result
        for result in scored
        if not result.healthy and result.right and result.run.onset is not None
    ]


def share(name: str, runs: Sequence[Scored], good: Test) -> Share:
    """Return the number of runs that pass a test."""
    return Share(name=name, hits=sum(good(result) for result in runs), runs=len(runs))


def done(run: Run) -> str:
    """Describe the faults of a run."""
    return ", ".join(f"{f['name']} {f['size']:g} at {f['step']}" for f in run.faults) or "nothing"


def setting(run: Run) -> str:
    """Describe how a run was trained and logged."""
    values = run.setting
    return (
        f"{run.task}/{values['flavour']} {values['optimizer']} {values['schedule']} "
        f"{values['dtype']} "
        f"batch {values['rows']} steps {values['steps']} "
        f"stride {values['stride']}{' mean' if values['mean'] else ''}"
    )


def leaves(scored: Sequence[Scored]) -> tuple[list[str], list[str]]:
    """Return the true leaves, and the true or reported leaves, in order."""
    true = {result.run.expect for result in scored}
    reported = true | {result.slug for result in scored if not result.right}
    order = [outcome.slug for outcome in OUTCOMES]
    order += sorted(reported - set(order))  # symptoms
    return [slug for slug in order if slug in true], [slug for slug in order if slug in reported]
