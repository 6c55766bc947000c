"""Scan many runs: from paths to an overview."""

from __future__ import annotations

import json
import os
import tempfile
import time
from contextlib import ExitStack
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING

from stabdiag import __version__
from stabdiag.errors import NoUsableRecord
from stabdiag.given import check_options, limits_from
from stabdiag.scan.executors import opened
from stabdiag.scan.find import Passed, find
from stabdiag.scan.run import Found, Reading
from stabdiag.scan.store import Store
from stabdiag.scan.work import Ask

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from concurrent.futures import Executor

    import pyarrow as pa

    from stabdiag.limits import Limits
    from stabdiag.scan.group import Job


@dataclass(kw_only=True)
class Progress:
    """How far a scan has come: runs read, runs known from the last scan, and whether all is listed."""

    read: int = 0
    reused: int = 0
    found: int = 0
    errors: int = 0
    listed: bool = False


def read_all(
    paths: Sequence[str | os.PathLike[str]],
    store: Store,
    ask: Ask,
    *,
    executor: str | Executor | Callable[[], Executor] | None = None,
    scheduler: str | None = None,
    jobs: int | None = None,
    show: Callable[[Progress], None] = lambda _: None,
) -> Passed:
    """Read every run that is not known into a store; return what was passed over.

    Raises:
        StabdiagError: if a path cannot be listed, or an executor does not answer.
    """
    passed, progress = Passed(), Progress()

    def wanted() -> Iterator[Job]:
        for job in find([os.fspath(path) for path in paths], passed):
            progress.found += 1
            if store.wants(job, __version__, ask.stamp):
                yield job
        progress.listed = True

    with opened(executor, jobs, scheduler) as (made, width):
        found = Found(wanted())
        try:
            reading = Reading(executor=made, ask=ask, width=width, found=found)
            for batch in reading.batches():
                store.add(batch.rows)
                for why, times in batch.passed.counts.items():
                    passed.over(why, batch.passed.examples[why], times)
                progress.read += batch.rows.num_rows
                progress.reused = store.reused
                progress.errors += batch.rows["severity"].to_pylist().count("error")
                show(progress)
        except BaseException:
            store.flush()
            raise
        finally:
            found.close()
    store.flush(ended=True)
    return passed
