"""What the name of a log and its manifest say about a run: its rank, its seed, its label."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from stabdiag.model.manifest.other import NUMBERS
from stabdiag.model.manifest.spelling import plain
from stabdiag.places.logs import rank_in

if TYPE_CHECKING:
    from collections.abc import Sequence

    from stabdiag.model.manifest import Manifest

_SEED: Final = re.compile(r"(?<![a-z])seed[-_.=]?(\d{1,12})(?!\d)", re.IGNORECASE)


def rank_of(name: str, manifest: Manifest) -> int | None:
    """Return the rank that the manifest tells, else the one in the name: ``run.rank3.jsonl``."""
    for key, value in manifest.also.items():
        if plain(key.rpartition(".")[2]) in NUMBERS["rank"] and str(value).isdecimal():
            return int(str(value)[:9])
    return rank_in(name)


def seed_of(name: str, manifest: Manifest) -> int | None:
    """Return the seed that the manifest tells, else the one in the name: ``seed7.csv``."""
    if manifest.seed is not None:
        return manifest.seed
    found = _SEED.findall(name)
    return int(found[-1]) if found else None


def labels(ranks: Sequence[int | None]) -> list[str]:
    """Return a short label for each run: its rank, where each has one of its own, else a letter.

    After Z come numbers.
    """
    if None not in ranks and len(set(ranks)) == len(ranks):
        return [f"rank {rank}" for rank in ranks]
    return [chr(ord("A") + i) if i < 26 else f"run {i + 1}" for i in range(len(ranks))]
