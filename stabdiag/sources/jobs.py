"""Read the log of a run that was discovered in a folder or a bucket."""

from __future__ import annotations

from pathlib import Path, PurePosixPath

from stabdiag.sources.best import best_of, only_log
from stabdiag.sources.folder import Container, Entry, Folder, LoadedLog, ReadRequest
from stabdiag.sources.group import File, Job
from stabdiag.sources.read import read_source
from stabdiag.sources.remote import Remote


def path_of(root: str, one: File) -> str:
    """Return the path of a file below the root of its job."""
    return f"{root}/{one.path}" if root else one.path


def read_job(job: Job, asked: ReadRequest) -> LoadedLog:
    """Read the log of a run on a disk, in a bucket or behind a URL.

    Raises:
        LogError: if it cannot be read.
    """
    paths = [path_of(job.root, one) for one in job.logs]
    is_url = "://" in (job.root or paths[0])
    if (len(paths) == 1 and not (job.root and is_url)) or job.attempts:
        return read_source(paths, asked)
    place = Remote(job.root) if is_url else Folder(Path(job.root))
    return read_job_in(place, job, asked)


def read_job_in(place: Container, job: Job, asked: ReadRequest) -> LoadedLog:
    """Read the log of a run among the files of a place."""
    base = str(place.path) if isinstance(place, Folder | Remote) else ""
    root = f"{base.rstrip('/')}/" if base else ""
    keyed = [
        Entry(
            path=PurePosixPath(one.path),
            size=one.size,
            written=one.written or 0.0,
            key=f"{root}{one.path}",
        )
        for one in (*job.logs, *job.beside)
    ]
    if len(job.logs) == 1:
        return only_log(place, keyed[0], keyed, asked)
    return best_of(place, keyed, asked)
