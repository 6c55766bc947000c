"""Scan many runs: from paths to an overview."""

from __future__ import annotations

import os
import time
import weakref
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor
from contextlib import AbstractContextManager, ExitStack, closing
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import pyarrow as pa

from stabdiag._version import __version__
from stabdiag.api.baselines import read_baseline
from stabdiag.assemble.inputs import as_limits
from stabdiag.errors import NoUsableRecord
from stabdiag.model import scan as scanned
from stabdiag.model.limits import Limits
from stabdiag.model.text import and_more
from stabdiag.scan.executors import Pool, open_pool
from stabdiag.scan.overview import make_overview
from stabdiag.scan.overview import where as select
from stabdiag.scan.peers import compare_peers
from stabdiag.scan.run import BatchReader, JobQueue
from stabdiag.scan.shown import Overview
from stabdiag.scan.store import Store
from stabdiag.scan.work import ScanOptions
from stabdiag.sources.find import find
from stabdiag.sources.group import SkippedEntries


def scan(
    paths: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    *,
    store: str | os.PathLike[str] | None = None,
    executor: str | Executor | Callable[[], Executor] | None = None,
    scheduler: str | None = None,
    jobs: int | None = None,
    timeout: float = 300.0,
    settings: Mapping[str, object] | None = None,
    limits: Limits | Mapping[str, object] | None = None,
    columns: Mapping[str, str] | None = None,
    format: str | None = None,
    literal: bool = False,
    top: int = 10,
    baseline: object = None,
    peers: bool = False,
) -> Overview:
    r"""Diagnose every run in some paths, and return an overview of them.

    Args:
        paths: folders, logs, archives, URLs of buckets or files, and patterns of these.
        store: a folder that stores the rows; logs that have not changed are not read again.
        executor: where to read logs: a ``concurrent.futures.Executor``, a function that returns
            one, or ``"dask"`` with its ``scheduler``. Default: processes on this machine.
        scheduler: the address of Dask's scheduler.
        jobs: the number of logs read in parallel. Default: one per core.
        timeout: seconds after which to give up on a log.
        settings: manifest fields that override the manifests.
        limits: thresholds, or values by dotted name.
        columns: column names by role, if they are not detected.
        format: the log format, a name from ``stabdiag formats``.
        literal: apply the published decision tree verbatim, without calibration.
        top: the number of worst runs that the overview lists.
        baseline: earlier good runs to compare each run with: what ``baseline()`` takes or returns.
        peers: compare each run with the healthy runs that have the same settings except the seed.

    Raises:
        NoUsableRecord: if no log is found.
        StabdiagError: if a path cannot be listed, or the store or the executor is invalid.

    >>> losses = [3.0 * 0.99**step + 0.01 * (step * 7 % 5) for step in range(300)]
    >>> for name, last in (("good", 0.2), ("bad", float("nan"))):
    ...     _ = Path(f"{name}.csv").write_text("\n".join(map(str, ["loss", *losses, last])))
    >>> overview = scan(["good.csv", "bad.csv"])
    >>> sorted((count.outcome, count.runs) for count in overview.counts)
    [('healthy', 1), ('nan-dtype-unknown', 1)]
    """
    options = ScanOptions(
        settings=settings or {},
        limits=as_limits(limits),
        columns=columns or {},
        format=format,
        literal=literal,
        timeout=timeout,
        keeps_profiles=store is not None or peers,
    ).checked()
    if baseline is not None:
        options = replace(options, references=read_baseline(baseline, options, ()))
    with ExitStack() as stack:
        if store is None:
            store = stack.enter_context(TemporaryDirectory(prefix="stabdiag-scan-"))
        overview, _ = scan_and_store(
            [paths] if isinstance(paths, str | os.PathLike) else paths,
            Path(store),
            options,
            open_pool(executor, jobs, scheduler),
            top=top,
            peers=peers,
        )
        # The overview reads its rows from this folder, so the folder lives as long.
        weakref.finalize(overview.rows, stack.pop_all().close)
    return Overview(**vars(overview))


def scan_and_store(
    paths: Sequence[str | os.PathLike[str]],
    folder: Path,
    options: ScanOptions,
    opening: AbstractContextManager[Pool],
    *,
    where: str | None = None,
    top: int = 10,
    show: Callable[[pa.Table, int | None], None] = lambda *_: None,
    stopped: Callable[[], bool] = lambda: False,
    peers: bool = False,
) -> tuple[scanned.Overview, SkippedEntries]:
    """Scan into a store; return the overview and the skipped entries.

    With ``peers``, runs with the same settings are compared with each other. ``show`` gets each new
    table of rows and the number of runs, None until all are listed.

    Raises:
        KeyboardInterrupt: when ``stopped`` returns True; all rows so far are stored.
    """
    began = time.monotonic()
    names = [os.fspath(path) for path in paths]
    if not names:
        raise NoUsableRecord("nothing to scan; give a folder or a URL")
    absolute = [name if "://" in name else os.path.abspath(name) for name in names]  # noqa: PTH100
    store = Store(folder, absolute)
    skipped, listed = SkippedEntries(), SkippedEntries()  # used by different threads
    changed = (job for job in find(names, listed) if store.wants(job, __version__, options.stamp))
    with opening as pool, closing(JobQueue(changed)) as queue:
        reader = BatchReader(pool=pool, options=options, queue=queue, stopped=stopped)
        try:
            for batch in reader.batches():
                store.add(batch.rows, batch.profiles)
                skipped.merge(batch.skipped)
                show(batch.rows, queue.total)
        except BaseException:  # also after Ctrl-C: the next scan continues from here
            store.flush()
            raise
    store.flush(ended=True)
    skipped.merge(listed)
    rows, before = store.rows()
    if not len(rows):
        raise skipped.no_log_error(and_more(names))
    if where is not None:
        rows, before = select(rows, where), None
    overview = make_overview(
        rows,
        places=names,
        before=before,
        top=top,
        seconds=time.monotonic() - began,
        reused=store.reused,
    )
    if peers:
        overview = replace(overview, peers=compare_peers(folder, rows))
    return overview, skipped
