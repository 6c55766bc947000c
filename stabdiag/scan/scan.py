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
from stabdiag.assemble.inputs import limits_from
from stabdiag.errors import NoUsableRecord
from stabdiag.model.limits import Limits
from stabdiag.model.scan import Overview
from stabdiag.model.text import and_more
from stabdiag.scan.executors import Pool, open_pool
from stabdiag.scan.overview import overview_of
from stabdiag.scan.overview import where as select
from stabdiag.scan.peers import compare_peers
from stabdiag.scan.run import BatchReader, JobQueue
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
    r"""Diagnose every run below some paths, and say what they have in common.

    Args:
        paths: folders, logs, archives, URLs of buckets or files, and patterns of these.
        store: a folder that keeps the rows; what has not changed is not read again.
        executor: where logs are read: a ``concurrent.futures.Executor``, what makes one, ``"dask"``
            with the address of its ``scheduler``; processes of this machine if not given.
        scheduler: the address of Dask's scheduler.
        jobs: how many logs are read at a time; as many as there are cores if not given.
        timeout: seconds after which a log is given up.
        settings: manifest fields that go before those of the manifests.
        limits: thresholds, or values by dotted name.
        columns: column names by role, where they are not recognised.
        format: how the logs are to be read, by a name of ``stabdiag formats``.
        literal: apply the decision tree to the letter, and nothing beside it.
        top: how many of the worst runs the overview names.
        baseline: earlier good runs to compare each run with: what ``baseline()`` takes or returns.
        peers: compare each run with the healthy runs that have the same settings except the seed.

    Raises:
        NoUsableRecord: if there is no log to be found.
        StabdiagError: if a path cannot be listed, the store is none, or the executor is not there.

    >>> losses = [3.0 * 0.99**step + 0.01 * (step * 7 % 5) for step in range(300)]
    >>> for name, last in (("good", 0.2), ("bad", float("nan"))):
    ...     _ = Path(f"{name}.csv").write_text("\n".join(map(str, ["loss", *losses, last])))
    >>> overview = scan(["good.csv", "bad.csv"])
    >>> sorted((count.outcome, count.runs) for count in overview.counts)
    [('healthy', 1), ('nan-dtype-unknown', 1)]
    """
    options = ScanOptions(
        settings=settings or {},
        limits=limits_from(limits),
        columns=columns or {},
        format=format,
        literal=literal,
        timeout=timeout,
    ).checked()
    if baseline is not None:
        options = replace(options, references=read_baseline(baseline, options, ()))
    with ExitStack() as stack:
        if store is None:
            store = stack.enter_context(TemporaryDirectory(prefix="stabdiag-scan-"))
        overview, _ = scan_into(
            [paths] if isinstance(paths, str | os.PathLike) else paths,
            Path(store),
            options,
            open_pool(executor, jobs, scheduler),
            top=top,
            peers=peers,
        )
        # The rows are read from there for as long as there is an overview.
        weakref.finalize(overview.rows, stack.pop_all().close)
    return overview


def scan_into(
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
) -> tuple[Overview, SkippedEntries]:
    """Scan into a store, with the executor that is opened for it.

    Returns the overview, and what was no log of a run. With ``peers`` runs of the same settings are
    compared with each other. ``show`` gets the rows that came in last,
    and how many runs there are in all, once they have all been found.

    Raises:
        KeyboardInterrupt: once it is ``stopped``, with all that was read kept.
    """
    began = time.monotonic()
    names = [os.fspath(path) for path in paths]
    if not names:
        raise NoUsableRecord("nothing to scan; give a folder or a URL")
    whole = [name if "://" in name else os.path.abspath(name) for name in names]  # noqa: PTH100
    store = Store(folder, whole)
    passed, listed = SkippedEntries(), SkippedEntries()  # by two threads
    wanted = (job for job in find(names, listed) if store.wants(job, __version__, options.stamp))
    with opening as pool, closing(JobQueue(wanted)) as queue:
        reader = BatchReader(pool=pool, options=options, found=queue, stopped=stopped)
        try:
            for batch in reader.batches():
                store.add(batch.rows, batch.profiles)
                passed.add(batch.passed)
                show(batch.rows, queue.total)
        except BaseException:  # Ctrl-C as well: the next scan goes on from here
            store.flush()
            raise
    store.flush(ended=True)
    passed.add(listed)
    rows, before = store.rows()
    if not len(rows):
        raise passed.no_log_error(and_more(names))
    if where is not None:
        rows, before = select(rows, where), None
    overview = overview_of(
        rows,
        places=names,
        before=before,
        top=top,
        seconds=time.monotonic() - began,
        reused=store.reused,
    )
    if peers:
        overview = replace(overview, peers=compare_peers(folder, rows))
    return overview, passed
