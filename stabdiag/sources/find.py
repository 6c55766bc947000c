"""Find all runs below folders, in globs, archives and buckets, while they are being read."""

from __future__ import annotations

import os
from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from glob import has_magic, iglob
from pathlib import Path
from stat import S_ISDIR, S_ISREG
from typing import Any, Final

from stabdiag.errors import LogError
from stabdiag.model.frozen import frozen
from stabdiag.model.text import shown
from stabdiag.sources.folder import VIRTUAL_ENVIRONMENT, hides_logs, is_skipped, looks_like_log
from stabdiag.sources.group import (
    INNER,
    PART,
    PROFILES,
    File,
    Job,
    Lister,
    SkippedEntries,
    UnreadReason,
    jobs_in,
)
from stabdiag.sources.remote import Remote, fail, written

# Nobody keeps runs deeper; a folder that is mounted in itself has no end.
_DEEPEST: Final = 64


def find(paths: Sequence[str], passed: SkippedEntries) -> Iterator[Job]:
    """Yield what there is to read, folder by folder.

    Raises:
        LogError: for a path that is not there or a folder that cannot be listed.
    """
    for path in paths:  # at once, and not after the hours that the first may take
        if "://" not in path and not has_magic(path):
            _status(path)
    for path in paths:
        if "://" in path:
            yield from _remote(path, passed)
        elif has_magic(path) and not os.path.lexists(path):
            one = ""
            for one in iglob(path, recursive=True):  # noqa: PTH207 - streams, and takes any path
                yield from _local(one, passed)
            if not one:
                raise LogError(f"{path}: no match; check the path")
        else:
            yield from _local(path, passed)


def _local(path: str, passed: SkippedEntries) -> Iterator[Job]:
    status = _status(path)
    whole = os.path.abspath(path)  # noqa: PTH100 - a link stays what it is called
    if S_ISDIR(status.st_mode):
        yield from jobs_below(whole, list_folder, passed)
        return
    file = File(whole, status.st_size, status.st_mtime)
    yield Job(key=whole, root="", run=path, logs=(file,))


def _status(path: str) -> os.stat_result:
    if not path or path == "-":
        raise LogError("a scan takes folders, logs, archives and URLs, not standard input")
    try:
        return Path(path).stat()
    except (OSError, ValueError) as error:
        told = getattr(error, "strerror", None) or error
        raise LogError(f"{path}: cannot be opened ({told}); check the path") from None


def jobs_below(root: str, lister: Lister, passed: SkippedEntries) -> Iterator[Job]:
    """Yield the runs below a folder.

    Raises:
        LogError: if the folder itself cannot be listed.
    """
    files = yield from _Below(lister=lister, passed=passed).jobs(root, "")
    yield from jobs_in(root, "", files)


@frozen
class _Below:
    """How folders are listed, and what becomes of what is no log."""

    lister: Lister
    passed: SkippedEntries

    def jobs(self, folder: str, run: str, depth: int = 0) -> Generator[Job, None, list[File]]:
        """Yield the runs in the folders below one; return the files that may be its own."""
        try:
            files, folders = self.lister(folder, self.passed)
        except LogError:
            if not depth:
                raise
            self.passed.over(UnreadReason.UNLISTED, folder)
            return []
        if any(file.path == VIRTUAL_ENVIRONMENT for file in files):
            return []
        metrics = self._one_metric_a_file(folder, files, folders)
        if metrics:
            logs, beside = tuple(metrics), tuple(files)
            yield Job(key=folder, root=folder, run=run or ".", logs=logs, beside=beside)
            return []
        for name in folders:
            below, called = f"{folder}/{name}", f"{run}/{name}" if run else name
            if is_skipped(name):
                if name.startswith(".") and "://" not in folder and hides_logs(Path(below)):
                    self.passed.over(UnreadReason.HIDDEN, below)
                continue
            if depth == _DEEPEST:
                self.passed.over(UnreadReason.TOO_DEEP, below)
                continue
            held = yield from self.jobs(below, called, depth + 1)
            if INNER.fullmatch(name):
                files += [file.in_folder(name) for file in held]
            else:
                yield from jobs_in(below, called, held)
        return files

    def _one_metric_a_file(self, folder: str, files: list[File], folders: list[str]) -> list[File]:
        """Return the logs of a run with a file for each metric, as MLflow and DVCLive write it."""
        taken: list[str] = []
        if "metrics" in folders and any(file.path == "meta.yaml" for file in files):
            taken = ["metrics", *({"params"} & set(folders))]
        elif "plots" in folders and "metrics" in self.lister(f"{folder}/plots", self.passed)[1]:
            taken = ["plots/metrics"]
        return [file for name in taken for file in self._all(folder, name)]

    def _all(self, folder: str, inside: str, depth: int = 0) -> Iterator[File]:
        files, folders = self.lister(f"{folder}/{inside}", self.passed)
        yield from (file.in_folder(inside) for file in files)
        for name in folders if depth < _DEEPEST else ():
            yield from self._all(folder, f"{inside}/{name}", depth + 1)


def list_folder(folder: str, passed: SkippedEntries) -> tuple[list[File], list[str]]:
    """List a folder on a disk. Links to folders are not followed: so none is gone through twice."""
    files, folders = [], []
    try:
        with os.scandir(folder) as listed:
            for one in listed:
                try:
                    if one.is_symlink() and _is_linked_folder(one, folder, passed):
                        continue
                    status = one.stat()
                except OSError:
                    if looks_like_log(one.name):
                        passed.over(UnreadReason.LINK_TO_NOWHERE, one.path)
                    continue
                if S_ISDIR(status.st_mode):
                    folders.append(one.name)
                elif not S_ISREG(status.st_mode):
                    passed.over("neither a file nor a folder", one.path)
                elif not (PART.fullmatch(one.name) or PROFILES.fullmatch(one.name)):
                    files.append(File(one.name, status.st_size, status.st_mtime))
    except OSError as error:
        raise LogError(
            f"{folder}: cannot be listed ({error.strerror}); check its permissions"
        ) from error
    folders.sort()
    return files, folders


def _is_linked_folder(one: os.DirEntry[str], folder: str, passed: SkippedEntries) -> bool:
    """Tell whether a link leads to a folder, or to a file beside it: both are found without it."""
    if one.is_dir():
        passed.over(UnreadReason.LINK_TO_FOLDER, one.path)
        return True
    return os.path.dirname(os.path.realpath(one.path)) == os.path.realpath(folder)  # noqa: PTH120


def _remote(url: str, passed: SkippedEntries) -> Iterator[Job]:
    """Yield the runs behind a URL: all of a folder, or those that match a pattern.

    Raises:
        LogError: if it cannot be listed.
    """
    told: dict[str, Any] = {}
    if not url.startswith("mlflow://"):  # that is a run that a server keeps
        place = Remote(url)
        if "*" in url and not url.startswith(("http://", "https://")):
            try:
                found: Iterable[str] = place.files.glob(place.path)
            except Exception as error:  # noqa: BLE001 - each file system has errors of its own
                fail(place.name, error)
            if not found:
                raise LogError(f"{place.name}: no match; check the URL")
            for path in found:
                yield from _remote(place.files.unstrip_protocol(path), passed)
            return
        if place.is_folder():
            yield from jobs_below(url.rstrip("/"), partial(_list_bucket, place, url), passed)
            return
        with suppress(Exception):  # whoever reads it will be told why
            told = place.files.info(place.path)
    yield Job(key=shown(url), root="", run=shown(url), logs=(_file(url, told),))


def _list_bucket(
    place: Remote, url: str, folder: str, _: SkippedEntries
) -> tuple[list[File], list[str]]:
    end = "/" if url.startswith(("http://", "https://")) else ""
    inside = f"{place.path.rstrip('/')}{folder.removeprefix(url.rstrip('/'))}"
    try:
        there = place.listed(inside + end)
    except Exception as error:  # noqa: BLE001 - each file system has errors of its own
        fail(shown(folder), error)
    place.files.invalidate_cache()  # it keeps every listing, and there may be millions
    files, folders = [], []
    for path, one in there:
        name = path.rstrip("/").rpartition("/")[2]
        if one["type"] == "directory":
            folders.append(name)
        else:
            files.append(_file(name, one))
    return files, sorted(folders)


def _file(path: str, told: dict[str, Any]) -> File:
    tag = next((told[key] for key in ("ETag", "etag", "md5Hash", "generation") if key in told), "")
    return File(path, told.get("size"), written(told), str(tag).strip('"') or None)
