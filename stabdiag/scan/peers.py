"""Runs of a sweep against their peers: the healthy runs with the same settings except the seed."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final, TypeAlias

from stabdiag.baseline.judge import judge
from stabdiag.comparison.settings import find_relevance
from stabdiag.errors import StabdiagError
from stabdiag.model.baseline import BaselineStatus
from stabdiag.model.comparison import ComparisonKind, Relevance
from stabdiag.model.manifest.parsing import plain
from stabdiag.model.profile import RunProfile
from stabdiag.model.scan import Peers, WorseThanPeers
from stabdiag.scan.rows import StoredRows
from stabdiag.sources.names import identity
from stabdiag.sources.profiles import read_store
from stabdiag.symptoms.baseline.findings import baseline_finding

Settings: TypeAlias = tuple[tuple[str, str | float], ...]

# One healthy run shows only what differs a lot; two show how much good runs differ.
_MIN_PEERS: Final = 2

# More references do not improve the band.
_MAX_PEERS: Final = 100

_HEALTHY: Final = ("ok", "note")


def compare_peers(store: Path, rows: StoredRows) -> Peers:
    """Return the runs in a scan store that are worse than their peers, among those in some rows."""
    keys = {
        identity(path)
        for table in rows.batches("path")
        for path in table["path"].to_pylist()
        if path is not None
    }
    try:
        profiles = [profile for profile in read_store(store) if profile.key in keys]
    except StabdiagError:
        profiles = []  # every log was unread
    groups: dict[Settings, list[RunProfile]] = defaultdict(list)
    for profile in profiles:
        if settings := _shared_settings(profile):
            groups[settings].append(profile)
    worse: list[WorseThanPeers] = []
    compared = 0
    for group in groups.values():
        for profile, peers in _with_peers(group):
            compared += 1
            worse += _judged(profile, peers)
    worse.sort(key=lambda run: (run.step or 0, run.path))
    return Peers(runs=len(keys), compared=compared, worse=tuple(worse))


def _shared_settings(profile: RunProfile) -> Settings:
    """Return the settings that peers share; empty if none is known."""
    return tuple(
        sorted(
            (key, value)
            for key, value in profile.settings.items()
            if not plain(key).endswith("seed")
            and find_relevance(key, ComparisonKind.SEEDS) in (Relevance.EXPLAINS, Relevance.MAY)
        )
    )


def _with_peers(
    group: Sequence[RunProfile],
) -> Iterator[tuple[RunProfile, Sequence[RunProfile]]]:
    """Yield each run of a group with the healthy others, if there are at least two."""
    healthy = [profile for profile in group if profile.severity in _HEALTHY]
    for profile in group:
        peers = [peer for peer in healthy if peer is not profile][:_MAX_PEERS]
        if len(peers) >= _MIN_PEERS:
            yield profile, peers


def _judged(profile: RunProfile, peers: Sequence[RunProfile]) -> Iterable[WorseThanPeers]:
    comparison = replace(judge(profile, peers, refuse=False), reference_noun="its healthy peer")
    finding = baseline_finding(comparison)
    if finding is not None and comparison.status in (BaselineStatus.WORSE, BaselineStatus.UNLIKE):
        yield WorseThanPeers(
            path=profile.key,
            run=profile.name,
            outcome=profile.outcome,
            step=comparison.step,
            peers=len(comparison.references),
            summary=finding.summary,
        )
