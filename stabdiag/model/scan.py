"""A scan of many runs: one flat row a run, and what the rows have in common, as data."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import field
from typing import Final

from stabdiag.model.findings import PARTLY_READ
from stabdiag.model.frozen import frozen

ANY_ERROR: Final = "error"
UNREAD: Final = "unread"


_TOLD: Final = {
    "error": "failed",
    "warning": "with a warning",
    "note": "with a note",
    "ok": "healthy",
    PARTLY_READ: "judged only in part",
    UNREAD: "not read",
}


def totals(counts: Mapping[str, int]) -> str:
    """Say how many runs there are of each severity, and how many logs that were not read."""
    told = [f"{counts[one]} {words}" for one, words in _TOLD.items() if counts.get(one)]
    return ", ".join(told) or "none"


@frozen(eq=True)
class Row:
    """What a scan keeps of one run. None is what the log does not tell.

    ``outcome`` is the slug of the diagnosis, or ``unread`` with the ``reason`` why. ``severity`` is
    that of the diagnosis and None for an unread log. ``loss_first``, ``loss_best`` and
    ``loss_last`` are finite losses as logged; ``curve`` is the course of the loss in at most a few
    dozen points, for a sparkline. ``lost_steps`` are the steps from the last sound one to the
    end of the log, which an error wasted. ``settings`` holds every other scalar of the manifest by
    its key, as text. ``modified`` is in seconds since 1970, ``etag`` what a store has instead of
    it. ``limits`` is the hash of all that decides a diagnosis besides the log: limits and options.
    ``key`` is the file, folder or archive that was read for it, by which the next scan knows it;
    the rows of one key with the latest ``scanned``, in seconds since 1970, are those that count.
    ``scan`` tells which scan it was.
    """

    path: str
    run: str
    outcome: str
    severity: str | None = None
    format: str | None = None
    section: str | None = None
    step: int | None = None
    headline: str = ""
    action_kind: str | None = None
    action: str = ""
    reason: str = ""
    errors: int = 0
    warnings: int = 0
    notes: int = 0
    losses: int = 0
    first_step: int | None = None
    last_step: int | None = None
    lost_steps: int | None = None
    loss_first: float | None = None
    loss_best: float | None = None
    loss_last: float | None = None
    eval_loss: float | None = None
    curve: tuple[float, ...] = ()
    dtype: str | None = None
    optimizer: str | None = None
    peak_lr: float | None = None
    batch_size: float | None = None
    seed: int | None = None
    settings: Mapping[str, str] = field(default_factory=dict)
    began: float | None = None
    ended: float | None = None
    size: int | None = None
    modified: float | None = None
    etag: str | None = None
    version: str = ""
    limits: str = ""
    seconds: float = 0.0
    key: str = ""
    scanned: float = 0.0
    scan: str = ""


@frozen(eq=True)
class Count:
    """How many runs have an outcome, and what they lost."""

    outcome: str
    severity: str | None
    runs: int
    lost_steps: int


@frozen(eq=True)
class Group:
    """Runs that failed alike: the same outcome, and the same kind of action against it.

    ``steps`` are the first, the median and the last step of what was found. ``near`` are the first
    and the last step, and the number, of those of them that lie next to each other, where that is
    most of them. ``worst`` is the run that lost most.
    """

    outcome: str
    severity: str
    runs: int
    lost_steps: int
    worst: Row
    steps: tuple[int, int, int] | None = None
    near: tuple[int, int, int] | None = None


@frozen(eq=True)
class Split:
    """One setting's values in two parts, and how many of the runs in each have the outcome.

    ``relation`` is ``≥``, ``<``, ``=`` or ``≠``; ``inside`` and ``outside`` are those that have the
    outcome and all that tell the setting.
    """

    setting: str
    relation: str
    value: str | float
    inside: tuple[int, int]
    outside: tuple[int, int]


@frozen(eq=True)
class Common:
    """What runs with an outcome, or with any error, have in common: that is no cause.

    ``chance`` is that of anything so clear among all that was looked at. ``along`` are settings
    that moved with this one, so that they cannot be told apart.
    """

    outcome: str
    split: Split
    chance: float
    along: tuple[Split, ...] = ()


@frozen(eq=True)
class Compared:
    """What was held against each other to find what runs have in common; if nothing, ``why``."""

    runs: int
    settings: int = 0
    outcomes: tuple[str, ...] = ()
    why: str = ""


@frozen(eq=True)
class Change:
    """A run that ended otherwise in the last scan."""

    path: str
    run: str
    before: str
    after: str


@frozen(eq=True)
class Changes:
    """What became otherwise since the last scan: runs that are new, gone, worse, better, other."""

    new: int = 0
    gone: int = 0
    worse: tuple[Change, ...] = ()
    better: tuple[Change, ...] = ()
    other: tuple[Change, ...] = ()


@frozen(eq=True)
class Unread:
    """Logs that could not be read for one reason, and one of them."""

    reason: str
    logs: int
    example: str


@frozen(eq=True)
class WorseThanPeers:
    """A run that is worse than the healthy runs with the same settings except the seed.

    ``peers`` is how many it was compared with, ``step`` where it left them.
    """

    path: str
    run: str
    outcome: str
    step: int | None
    peers: int
    summary: str


@frozen(eq=True)
class Peers:
    """How many of the runs had peers to compare with, and which are worse than theirs."""

    runs: int
    compared: int
    worse: tuple[WorseThanPeers, ...] = ()


@frozen
class Overview:
    """What a scan found.

    ``rows`` are all of its rows, the worst first; they may be gone through again and again, and
    are not held. ``root`` is the folder in which all of them lie, with the slash at its end, if
    there is one. ``reused`` is how many were known from the last scan. ``peers`` is set if runs
    were compared with those of the same settings.
    """

    places: tuple[str, ...]
    counts: tuple[Count, ...]
    worst: tuple[Row, ...]
    groups: tuple[Group, ...]
    common: tuple[Common, ...]
    compared: Compared
    unread: tuple[Unread, ...]
    rows: Iterable[Row]
    root: str = ""
    changes: Changes | None = None
    seconds: float | None = None
    reused: int = 0
    peers: Peers | None = None

    @property
    def runs(self) -> int:
        """How many rows there are, those of unread logs among them."""
        return sum(count.runs for count in self.counts)

    @property
    def lost_steps(self) -> int:
        """The steps that errors wasted."""
        return sum(count.lost_steps for count in self.counts)

    def of(self, severity: str | None) -> int:
        """Return how many runs are of a severity; None is that of unread logs."""
        return sum(count.runs for count in self.counts if count.severity == severity)
