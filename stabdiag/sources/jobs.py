"""Read the log of a run found in a folder or a bucket."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path, PurePath, PurePosixPath

from stabdiag.errors import NoUsableRecord
from stabdiag.sources.best import only_log, read_best_log
from stabdiag.sources.folder import Container, Entry, Folder, LoadedLog, ReadRequest
from stabdiag.sources.group import File, Job
from stabdiag.sources.logs import count_losses, is_page_without_log
from stabdiag.sources.read import read_source
from stabdiag.sources.remote import Remote


def job_path(root: str, file: File) -> str:
    """Return the path of a file below the root of its job."""
    return f"{root}/{file.path}" if root else file.path


def read_job(job: Job, request: ReadRequest) -> LoadedLog:
    """Read the log of a run on a disk, in a bucket or behind a URL.

    Raises:
        LogError: if it cannot be read.
    """
    paths = [job_path(job.root, file) for file in job.logs]
    is_url = "://" in (job.root or paths[0])
    if (len(paths) == 1 and not (job.root and is_url)) or job.attempts:
        log = read_source(paths, replace(request, judged=None))
        if job.root and is_page_without_log(PurePath(paths[0]), count_losses(log.columns)):
            raise NoUsableRecord(f"{paths[0]}: a page with hardly any losses, not the log of a run")
        return log
    container = Remote(job.root) if is_url else Folder(Path(job.root))
    return read_job_files(container, job, request)


def read_job_files(container: Container, job: Job, request: ReadRequest) -> LoadedLog:
    """Read the log of a run among the files of a container."""
    base = str(container.path) if isinstance(container, Folder | Remote) else ""
    root = f"{base.rstrip('/')}/" if base else ""
    entries = [
        Entry(
            path=PurePosixPath(file.path),
            size=file.size,
            written=file.written or 0.0,
            key=f"{root}{file.path}",
        )
        for file in (*job.logs, *job.sidecars)
    ]
    if len(job.logs) == 1:
        return only_log(container, entries[0], entries, request)
    return read_best_log(container, entries, request)
