"""The logs of several ranks of one job, in one folder."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import os

    from stabdiag.places.look import Log

_RANK: Final = re.compile(r"(?<![a-z])rank[-_.=]?(\d{1,6})(?!\d)", re.IGNORECASE)


def rank_in(name: str) -> int | None:
    """Return the rank that a name tells last, 3 of ``job/run.rank3.jsonl``; None for no rank."""
    found = _RANK.findall(name)
    return int(found[-1]) if found else None


def ranks_in(source: str | os.PathLike[str]) -> list[Path]:
    """Return the log of each rank in a folder, by rank; none where there are not two ranks.

    Raises:
        LogError: if the folder cannot be opened.
    """
    folder = Path(source)
    if not folder.is_dir():
        return []
    from stabdiag.places.choose import choose
    from stabdiag.places.folder import Folder
    from stabdiag.places.look import logs_in

    place = Folder(folder)
    ranks: dict[int, list[Log]] = {}
    for log in logs_in(place, place.entries()):
        rank = rank_in(str(log.path))
        if rank is not None:
            ranks.setdefault(rank, []).append(log)
    if len(ranks) < 2:
        return []
    return [Path(choose(logs).taken.entry.key) for _, logs in sorted(ranks.items())]
