"""A scan of many runs as data: one flat row per run, and what the rows have in common."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import field
from typing import Final

from stabdiag.model.findings import PARTLY_READ
from stabdiag.model.frozen import frozen
from stabdiag.model.text import plural

ANY_ERROR: Final = "error"
UNREAD: Final = "unread"


_SEVERITY_LABELS: Final = {
    "error": "failed",
    "warning": "with a warning",
    "note": "with a note",
    "ok": "healthy",
    PARTLY_READ: "judged only in part",
    UNREAD: "not read",
}


def summarize(counts: Mapping[str, int]) -> str:
    """Describe the number of runs, and of each severity among them."""
    runs = sum(counts.values())
    return f"{plural(runs, 'run')}: {totals(counts)}" if runs else "no runs"


def totals(counts: Mapping[str, int]) -> str:
    """Describe the number of runs of each severity, and of unread logs."""
    parts = [
        f"{counts[name]} {label}" for name, label in _SEVERITY_LABELS.items() if counts.get(name)
    ]
    return ", ".join(parts) or "none"


@frozen(eq=True)
class Row:
    """The result of a scan for one run; None if the log does not state a value.

    ``outcome`` is the slug of the diagnosis, or ``unread`` with the ``reason`` why. ``title`` is
    its title, ``headline`` the title with the step. ``severity`` is the severity of the diagnosis,
    None for an unread log. ``loss_first``, ``loss_best`` and
    ``loss_last`` are finite losses as logged; ``curve`` is the course of the loss in at most a few
    dozen points, for a sparkline. ``lost_steps`` are the steps from the last sound one to the
    end of the log, which an error wasted. ``settings`` holds every other scalar of the manifest by
    its key, as text. ``modified`` is in seconds since 1970, ``etag`` what a store has instead of
    it. ``limits`` is the hash of the limits and options, which affect the diagnosis.
    ``key`` is the file, folder or archive that was read; the next scan recognizes the run by it.
    Only the rows of a key with the latest ``scanned``, in seconds since 1970, count. ``scan``
    identifies the scan.
    """

    path: str
    run: str
    outcome: str
    severity: str | None = None
    format: str | None = None
    section: str | None = None
    step: int | None = None
    title: str = ""
    headline: str = ""
    confidence: str | None = None
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
    """The number of runs with an outcome, and the steps they lost."""

    outcome: str
    severity: str | None
    runs: int
    lost_steps: int
    title: str = ""


@frozen(eq=True)
class Group:
    """Runs with the same outcome and the same kind of action.

    ``steps`` are the first, the median and the last step of the findings. If most of the steps are
    close together, ``near`` has the first and the last of these, and their number. ``worst`` is the
    run that lost most steps.
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
    """A division of the runs by the value of a setting, with the outcomes on each side.

    ``relation`` is ``≥``, ``<``, ``=`` or ``≠``. ``inside`` and ``outside`` count the runs with the
    outcome and all runs that state the setting.
    """

    setting: str
    relation: str
    value: str | float
    inside: tuple[int, int]
    outside: tuple[int, int]


@frozen(eq=True)
class Common:
    """A property shared by runs with an outcome, or with any error. It is not a proven cause.

    ``chance`` is the probability of an equally clear pattern by coincidence among all comparisons.
    ``along`` are settings that change together with this one and cannot be separated from it.
    """

    outcome: str
    split: Split
    chance: float
    along: tuple[Split, ...] = ()


@frozen(eq=True)
class ComparedSettings:
    """The runs, settings and outcomes that were compared; ``why`` if there were none."""

    runs: int
    settings: int = 0
    outcomes: tuple[str, ...] = ()
    why: str = ""


@frozen(eq=True)
class ScanChange:
    """A run with another outcome than in the last scan."""

    path: str
    run: str
    before: str
    after: str


@frozen(eq=True)
class Changes:
    """The changes since the last scan: runs that are new, gone, worse, better or different."""

    new: int = 0
    gone: int = 0
    worse: tuple[ScanChange, ...] = ()
    better: tuple[ScanChange, ...] = ()
    other: tuple[ScanChange, ...] = ()


@frozen(eq=True)
class UnreadLogs:
    """Logs that could not be read for the same reason, with an example."""

    reason: str
    logs: int
    example: str


@frozen(eq=True)
class WorseThanPeers:
    """A run that is worse than the healthy runs with the same settings except the seed.

    ``peers`` is the number of these runs, ``step`` the step where it diverged from them.
    """

    path: str
    run: str
    outcome: str
    step: int | None
    peers: int
    summary: str


@frozen(eq=True)
class Peers:
    """The number of runs that had peers, and the runs that are worse than their peers."""

    runs: int
    compared: int
    worse: tuple[WorseThanPeers, ...] = ()


@frozen
class Overview:
    """The result of a scan.

    ``rows`` are all rows, the worst first; they can be iterated repeatedly and are not kept in
    memory. ``root`` is the common folder of all rows with a trailing slash, if there is one.
    ``reused`` is the number of rows from the last scan. ``peers`` is set if runs were compared with
    runs of the same settings.
    """

    places: tuple[str, ...]
    counts: tuple[Count, ...]
    worst: tuple[Row, ...]
    groups: tuple[Group, ...]
    common: tuple[Common, ...]
    compared: ComparedSettings
    unread: tuple[UnreadLogs, ...]
    rows: Iterable[Row]
    root: str = ""
    changes: Changes | None = None
    seconds: float | None = None
    reused: int = 0
    peers: Peers | None = None

    def __repr__(self) -> str:
        """Name the overview in one line; all of its data would fill a screen."""
        severities = ("error", "warning", "note", "ok", None)
        counts = {severity or UNREAD: self.of(severity) for severity in severities}
        return f"<Overview of {summarize(counts)}>"

    @property
    def runs(self) -> int:
        """The number of rows, including unread logs."""
        return sum(count.runs for count in self.counts)

    @property
    def lost_steps(self) -> int:
        """The steps that errors wasted."""
        return sum(count.lost_steps for count in self.counts)

    def of(self, severity: str | None) -> int:
        """Return the number of runs of a severity; None counts unread logs."""
        return sum(count.runs for count in self.counts if count.severity == severity)
