"""A scan of many runs: one flat row a run, and what the rows have in common, as data."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

UNREAD: Final = "unread"


@dataclass(frozen=True, kw_only=True)
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
