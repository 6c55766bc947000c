"""Find all runs in folders, glob patterns, archives and buckets, one at a time."""

from __future__ import annotations

import os
from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from glob import has_magic, iglob
from pathlib import Path
from stat import S_ISDIR, S_ISREG
from typing import Any, Final

from stabdiag.errors import LogError, unreadable
from stabdiag.model.frozen import frozen
from stabdiag.model.text import shown
from stabdiag.readers.source import MLFLOW_RUN_NAME
from stabdiag.sources.curves import is_curve_folder
from stabdiag.sources.folder import is_skipped
from stabdiag.sources.group import (
    INNER,
    PROFILES,
    STORE_PART,
    File,
    Job,
    Lister,
    SkippedEntries,
    UnreadReason,
    folder_jobs,
    local_file,
)
from stabdiag.sources.remote import Remote, fail, written
from stabdiag.sources.unopened import (
    VIRTUAL_ENVIRONMENT,
    hides_logs,
    is_closed_archive,
    is_closed_history,
    is_hidden_log,
    is_incomplete_download,
    looks_like_log,
)

# Deeper folders are skipped; a folder mounted in itself would never end.
_MAX_FOLDER_DEPTH: Final = 64


def find(paths: Sequence[str], skipped: SkippedEntries) -> Iterator[Job]:
    """Yield the runs to read, folder by folder.

    Raises:
        LogError: if a path does not exist or a folder cannot be listed.
    """
    for path in paths:  # check all paths before reading the first, which may take hours
        if "://" not in path and not has_magic(path):
            _status(path)
    for path in paths:
        if "://" in path:
            yield from _remote(path, skipped)
        elif has_magic(path) and not os.path.lexists(path):
            match = ""
            for match in iglob(path, recursive=True):  # noqa: PTH207 - streams any path
                yield from _local(match, skipped)
            if not match:
                raise LogError(f"{path}: no file or folder matches this pattern")
        else:
            yield from _local(path, skipped)


def _local(path: str, skipped: SkippedEntries) -> Iterator[Job]:
    status = _status(path)
    absolute = os.path.abspath(path)  # noqa: PTH100 - keeps the names of links
    if S_ISDIR(status.st_mode):
        yield from walk_jobs(absolute, list_folder, skipped)
        return
    file = local_file(absolute, status)
    yield Job(key=absolute, root="", run=path, logs=(file,))


def _status(path: str) -> os.stat_result:
    if not path or path == "-":
        raise LogError("a scan takes folders, logs, archives and URLs, not standard input")
    try:
        return Path(path).stat()
    except (OSError, ValueError) as error:
        raise LogError(unreadable(path, error)) from None


def walk_jobs(root: str, lister: Lister, skipped: SkippedEntries) -> Iterator[Job]:
    """Yield the runs in a folder and its subfolders.

    Raises:
        LogError: if the folder itself cannot be listed.
    """
    files = yield from _FolderWalk(lister=lister, skipped=skipped).jobs(root, "")
    yield from folder_jobs(root, "", files)


@frozen
class _FolderWalk:
    """Options for listing folders, and the counts of skipped files."""

    lister: Lister
    skipped: SkippedEntries

    def jobs(self, folder: str, run: str, depth: int = 0) -> Generator[Job, None, list[File]]:
        """Yield the runs in the subfolders; return files that may belong to its own run."""
        try:
            files, folders = self.lister(folder, self.skipped)
        except LogError:
            if not depth:
                raise
            self.skipped.skip(UnreadReason.UNLISTED, folder)
            return []
        if any(file.path == VIRTUAL_ENVIRONMENT for file in files):
            return []
        closed = [file.path for file in files if is_closed_history(file.path)]
        # Next to a log, they are usually its values in another format.
        if closed and not any(looks_like_log(file.path) for file in files):
            self.skipped.skip(UnreadReason.CLOSED_HISTORY, f"{folder}/{closed[0]}", len(closed))
        metrics = self._metric_files(folder, files, folders)
        if metrics:
            logs, sidecars = tuple(metrics), tuple(files)
            yield Job(key=folder, root=folder, run=run or ".", logs=logs, sidecars=sidecars)
            return []
        for name in folders:
            below, run_below = f"{folder}/{name}", f"{run}/{name}" if run else name
            if is_skipped(name):
                if "://" not in folder and hides_logs(Path(below)):
                    is_hidden = name.startswith(".")
                    reason = UnreadReason.HIDDEN if is_hidden else UnreadReason.OF_A_PROGRAM
                    self.skipped.skip(reason, below)
                continue
            if depth == _MAX_FOLDER_DEPTH:
                self.skipped.skip(UnreadReason.TOO_DEEP, below)
                continue
            files_below = yield from self.jobs(below, run_below, depth + 1)
            is_curve = is_curve_folder(
                name, [file.path for file in files_below], [file.path for file in files]
            )
            if is_curve or INNER.fullmatch(name):
                files += [file.in_folder(name) for file in files_below]
            else:
                yield from folder_jobs(below, run_below, files_below)
        return files

    def _metric_files(self, folder: str, files: list[File], folders: list[str]) -> list[File]:
        """Return the logs of a run with one file per metric, as in MLflow and DVCLive."""
        inside: list[str] = []
        if "metrics" in folders and any(file.path == "meta.yaml" for file in files):
            inside = ["metrics", *({"params"} & set(folders))]
        elif "plots" in folders and "metrics" in self.lister(f"{folder}/plots", self.skipped)[1]:
            inside = ["plots/metrics"]
        metric_files = [file for name in inside for file in self._all(folder, name)]
        if "metrics" in inside and "tags" in folders:
            tags = self._all(folder, "tags")
            metric_files += [file for file in tags if file.path == MLFLOW_RUN_NAME]
        return metric_files

    def _all(self, folder: str, inside: str, depth: int = 0) -> Iterator[File]:
        files, folders = self.lister(f"{folder}/{inside}", self.skipped)
        yield from (file.in_folder(inside) for file in files)
        for name in folders if depth < _MAX_FOLDER_DEPTH else ():
            yield from self._all(folder, f"{inside}/{name}", depth + 1)


def list_folder(folder: str, skipped: SkippedEntries) -> tuple[list[File], list[str]]:
    """List a folder on disk. Links to folders are not followed, so that none is read twice."""
    files, folders = [], []
    try:
        with os.scandir(folder) as listed:
            for item in listed:
                status = _entry_status(item, folder, skipped)
                if status is None:
                    continue
                if S_ISDIR(status.st_mode):
                    folders.append(item.name)
                elif reason := _skip_reason(item.name, status):
                    skipped.skip(reason, item.path)
                elif not (STORE_PART.fullmatch(item.name) or PROFILES.fullmatch(item.name)):
                    files.append(local_file(item.name, status))
    except OSError as error:
        raise LogError(
            f"{folder}: cannot be listed ({error.strerror}); check its permissions"
        ) from error
    folders.sort()
    return files, folders


def _entry_status(
    item: os.DirEntry[str], folder: str, skipped: SkippedEntries
) -> os.stat_result | None:
    """Return the status of an entry, or None for a link that is redundant or broken."""
    try:
        if item.is_symlink() and _is_redundant_link(item, folder, skipped):
            return None
        return item.stat()
    except OSError:
        if looks_like_log(item.name):
            skipped.skip(UnreadReason.BROKEN_LINK, item.path)
        return None


def _skip_reason(name: str, status: os.stat_result) -> str:
    """Return the reason why an entry that is not a folder is skipped, or ""."""
    if not S_ISREG(status.st_mode):
        return "not a file or folder"
    if not status.st_size:
        return ""
    if is_hidden_log(name):
        return UnreadReason.HIDDEN_FILE
    if is_closed_archive(name):
        return UnreadReason.CLOSED_ARCHIVE
    return UnreadReason.INCOMPLETE_DOWNLOAD if is_incomplete_download(name) else ""


def _is_redundant_link(item: os.DirEntry[str], folder: str, skipped: SkippedEntries) -> bool:
    """Return True if a link points to a folder, or to an existing file in this folder or below.

    W&B links the latest run and its logs next to the folders of all runs. A hidden folder below is
    not listed, so that links into it count.
    """
    inside = os.path.relpath(os.path.realpath(item.path), os.path.realpath(folder))
    parts = Path(inside).parts
    is_below = parts[:1] != ("..",) and not any(map(is_skipped, parts[:-1]))
    if item.is_dir() and not is_below:
        skipped.skip(UnreadReason.LINK_TO_FOLDER, item.path)
    return item.is_dir() or (is_below and Path(item.path).exists())


def _remote(url: str, skipped: SkippedEntries) -> Iterator[Job]:
    """Yield the runs behind a URL: all of a folder, or those that match a pattern.

    Raises:
        LogError: if it cannot be listed.
    """
    info: dict[str, Any] = {}
    if not url.startswith("mlflow://"):  # an MLflow URL is one run on a server
        remote = Remote(url)
        if "*" in url and not url.startswith(("http://", "https://")):
            try:
                matches: Iterable[str] = remote.files.glob(remote.path)
            except Exception as error:  # noqa: BLE001 - file systems raise any exception
                fail(remote.name, error)
            if not matches:
                raise LogError(f"{remote.name}: no match; check the URL")
            for path in matches:
                yield from _remote(remote.files.unstrip_protocol(path), skipped)
            return
        if remote.is_folder():
            yield from walk_jobs(url.rstrip("/"), partial(_list_bucket, remote, url), skipped)
            return
        with suppress(Exception):  # the reader reports the error
            info = remote.files.info(remote.path)
    yield Job(key=shown(url), root="", run=shown(url), logs=(_file(url, info),))


def _list_bucket(
    remote: Remote, url: str, folder: str, _: SkippedEntries
) -> tuple[list[File], list[str]]:
    end = "/" if url.startswith(("http://", "https://")) else ""
    inside = f"{remote.path.rstrip('/')}{folder.removeprefix(url.rstrip('/'))}"
    try:
        items = remote.listed(inside + end)
    except Exception as error:  # noqa: BLE001 - file systems raise any exception
        fail(shown(folder), error)
    remote.files.invalidate_cache()  # it would keep every listing
    files, folders = [], []
    for path, info in items:
        name = path.rstrip("/").rpartition("/")[2]
        if info["type"] == "directory":
            folders.append(name)
        else:
            files.append(_file(name, info))
    return files, sorted(folders)


def _file(path: str, info: dict[str, Any]) -> File:
    tag = next((info[key] for key in ("ETag", "etag", "md5Hash", "generation") if key in info), "")
    return File(path, info.get("size"), written(info), str(tag).strip('"') or None)
