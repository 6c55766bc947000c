"""The logs of several ranks of one job, in one folder."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Final

from stabdiag.errors import LogError

if TYPE_CHECKING:
    import os
    from collections.abc import Collection

    from stabdiag.places.logs import Log

# The rank of a low-rank adapter is not that of a process.
_RANK: Final = re.compile(r"(?<![a-z])(?<!lora.)rank[-_.=]?(\d{1,6})(?!\d)", re.IGNORECASE)


def rank_in(name: str) -> int | None:
    """Return the last rank in a name, such as 3 in ``job/run.rank3.jsonl``, or None."""
    found = _RANK.findall(name)
    return int(found[-1]) if found else None


def are_of_a_job(ranks: Collection[int | None]) -> bool:
    """Tell whether numbers are the ranks of one job: all different, and rank 0 among them.

    Other numbers may be anything that is called a rank, such as a size that was tried.
    """
    return 0 in ranks and None not in ranks and 1 < len(ranks) == len(set(ranks))


def ranks_in(source: str | os.PathLike[str]) -> list[Path]:
    """Return the logs of the ranks in a folder, in their order; none if there are not two.

    Raises:
        LogError: if the folder cannot be opened, or holds the ranks of several jobs.
    """
    folder = Path(source)
    if not folder.is_dir():
        return []
    from stabdiag.places.choose import choose
    from stabdiag.places.folder import Folder
    from stabdiag.places.logs import logs_in

    place = Folder(folder)
    jobs: dict[str, dict[int, list[Log]]] = {}
    for log in logs_in(place, place.entries()):
        path = str(log.path)
        rank = rank_in(path)
        if rank is not None:
            jobs.setdefault(_job(path), {}).setdefault(rank, []).append(log)
    ranks = _one_job(jobs, place.name)
    return [Path(choose(logs).taken.entry.key) for _, logs in sorted(ranks.items())]


def _job(path: str) -> str:
    """Return what stands before the rank in a path, which the ranks of a job share."""
    *_, last = _RANK.finditer(path)
    return path[: last.start()]


def _one_job(jobs: dict[str, dict[int, list[Log]]], name: str) -> dict[int, list[Log]]:
    """Return the logs of the only job, by rank; each node may have a folder of its own."""
    several = [ranks for ranks in jobs.values() if are_of_a_job(ranks)]
    if len(several) > 1:
        shown = ", ".join(repr(job) for job in list(jobs)[:3])
        raise LogError(
            f"{name}: it holds the ranks of several jobs (named {shown}, …); name the folder of one"
        )
    if several:
        return several[0]
    alone = [item for ranks in jobs.values() for item in ranks.items()]
    return dict(alone) if are_of_a_job([rank for rank, _ in alone]) else {}
