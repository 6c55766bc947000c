"""Which log of a place is the run's.

1. Training goes before evaluation, and logs with losses go before those without.
2. Files of one format on the same level of folders are runs beside each other, as in
   ``version_0/metrics.csv`` and ``version_1/metrics.csv``: the newest is taken. Those that were
   written within a minute of it, as after a copy, go by their names: the last in the order of
   their numbers, but of several ranks the first, and ``log.jsonl`` before the ``log.jsonl.1`` that
   was rotated away.
3. What then remains, and was written within an hour of the newest, are views of one run: the one
   with the most losses is taken. What was printed for people goes after what was written for
   programs, where that has about as many.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from stabdiag.readers.registry import reader

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from typing import TypeVar

    from stabdiag.places.logs import Log

    Item = TypeVar("Item")

# With fewer losses than this, a log is a summary, if there is one with more.
_FEW: Final = 2

# The number of losses in a file is only estimated from its head.
_ABOUT_AS_MANY: Final = 0.8

_A_MINUTE: Final = 60.0
_AN_HOUR: Final = 3600.0

_RANK: Final = re.compile(r"(rank|gpu|node|worker|process|proc|host)[-_.]?\d+", re.IGNORECASE)
_ROTATED: Final = re.compile(r"\.\d{1,3}(\.(gz|bz2|xz|zst))?$")


@dataclass(frozen=True, kw_only=True)
class Choice:
    """The log that was chosen, and the logs that were not, the newest first."""

    taken: Log
    others: tuple[Log, ...]


def choose(logs: Sequence[Log]) -> Choice:
    """Choose one of several logs, by the rules above."""
    logs = _best(logs, lambda log: log.losses > 0)
    if not logs[0].losses:  # a format whose packages are missing may hold some: say what to install
        logs = _best(logs, lambda log: bool(reader(log.format).missing))
    left = _best(logs, lambda log: not log.is_evaluation)
    left = _best(left, lambda log: log.losses >= _FEW)
    levels: dict[tuple[int, str], list[Log]] = {}
    for log in left:
        levels.setdefault((len(log.path.parts), log.format), []).append(log)
    views = [_newest(beside) for beside in levels.values()]
    newest = max(_written(log) for log in views)
    views = [log for log in views if _written(log) >= newest - _AN_HOUR]
    most = max(log.losses for log in views)
    views = _best(
        views, lambda log: not reader(log.format).text and log.losses >= _ABOUT_AS_MANY * most
    )
    taken = max(views, key=lambda log: (log.losses, _written(log), -len(log.path.parts)))
    others = [log for log in logs if log is not taken]
    others.sort(key=lambda log: (-_written(log), natural(str(log.path))))
    return Choice(taken=taken, others=tuple(others))


def natural(name: str) -> tuple[tuple[str, int], ...]:
    """Return a key that sorts names by their numbers: ``version_2`` before ``version_10``."""
    pieces = re.findall(r"(\D*)(\d*)", name)
    return tuple((text.lower(), int(digits[:18] or -1)) for text, digits in pieces)


def _newest(logs: Sequence[Log]) -> Log:
    """Return the newest of several runs."""
    last = max(map(_written, logs))
    fresh = [log for log in logs if _written(log) >= last - _A_MINUTE]
    names = {str(log.path) for log in fresh}
    fresh = _best(fresh, lambda log: not _is_rotated(str(log.path), names))
    fresh.sort(key=lambda log: natural(str(log.path)))
    # Rank 0 is the one that logs; where several ranks do, it is the one that frameworks rely on.
    if all(_RANK.search(str(log.path)) for log in fresh):
        return max(fresh, key=lambda log: log.losses)
    return fresh[-1]


def _is_rotated(name: str, names: set[str]) -> bool:
    """Tell whether a file is an older part of another one, with a number after its name."""
    kept = _ROTATED.sub("", name)
    return kept != name and kept in names


def _best(items: Iterable[Item], holds: Callable[[Item], bool]) -> list[Item]:
    """Return the items for which something holds; all of them where it holds for none."""
    items = list(items)
    return [item for item in items if holds(item)] or items


def _written(log: Log) -> float:
    return log.entry.written or 0.0
