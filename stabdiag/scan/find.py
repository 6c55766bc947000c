"""Find all runs below folders, in globs, archives and buckets, while they are being read."""

from __future__ import annotations

import os
from collections.abc import Generator, Iterable, Iterator, Sequence
from glob import has_magic, iglob
from pathlib import Path
from stat import S_ISDIR, S_ISREG
from typing import Any, Final

from stabdiag.errors import LogError
from stabdiag.places.folder import VIRTUAL_ENVIRONMENT, is_skipped
from stabdiag.places.remote import Remote, fail, shown
from stabdiag.scan.group import INNER, PART, File, Job, Lister, Passed, jobs_in

# Nobody keeps runs deeper; a folder that is mounted in itself has no end.
_DEEPEST: Final = 64


def find(paths: Sequence[str], passed: Passed) -> Iterator[Job]:
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
            found = False
            for one in iglob(path, recursive=True):  # noqa: PTH207 - streams, and takes any path
                found = True
                yield from _local(one, passed)
            if not found:
                raise LogError(f"{path}: no match; check the path")
        else:
            yield from _local(path, passed)


def _local(path: str, passed: Passed) -> Iterator[Job]:
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


def jobs_below(root: str, lister: Lister, passed: Passed) -> Iterator[Job]:
    """Yield the runs below a folder.

    Raises:
        LogError: if the folder itself cannot be listed.
    """
    files = yield from _below(root, "", lister, passed, depth=0)
    yield from jobs_in(root, "", files)


def _below(
    folder: str, run: str, lister: Lister, passed: Passed, depth: int
) -> Generator[Job, None, list[File]]:
    """Yield the runs in the folders below one; return the files that may be its own."""
    try:
        files, folders = lister(folder, passed)
    except LogError as error:
        if not depth:
            raise
        passed.over(str(error).partition(": ")[2] or str(error), folder)
        return []
    if any(file.path == VIRTUAL_ENVIRONMENT for file in files):
        return []
    if {"plots", "metrics"} & set(folders):
        whole = yield from _of_one_metric_a_file(folder, run, lister, passed, files, folders)
        if whole:
            return []
    for name in folders:
        if is_skipped(name):
            continue
        if depth == _DEEPEST:
            passed.over("a folder that lies too deep", f"{folder}/{name}")
            continue
        inner = INNER.fullmatch(name) is not None
        below = f"{folder}/{name}"
        called = f"{run}/{name}" if run else name
        held = yield from _below(below, called, lister, passed, depth + 1)
        if inner:
            files += [File(f"{name}/{f.path}", f.size, f.written, f.etag) for f in held]
        else:
            yield from jobs_in(below, called, held)
    return files


def _of_one_metric_a_file(
    folder: str,
    run: str,
    lister: Lister,
    passed: Passed,
    files: list[File],
    folders: list[str],
) -> Generator[Job, None, bool]:
    """Yield the run of a folder in which each metric has a file, as MLflow and DVCLive write it."""
    if "metrics" in folders and any(file.path == "meta.yaml" for file in files):
        taken = ["metrics", *({"params"} & set(folders))]
    elif "plots" in folders and "metrics" in lister(f"{folder}/plots", passed)[1]:
        taken = ["plots/metrics"]
    else:
        return False
    logs = [file for name in taken for file in _all(folder, name, lister, passed)]
    if logs:
        yield Job(key=folder, root=folder, run=run or ".", logs=tuple(logs), beside=tuple(files))
    return bool(logs)


def _all(
    folder: str, inside: str, lister: Lister, passed: Passed, depth: int = 0
) -> Iterator[File]:
    files, folders = lister(f"{folder}/{inside}", passed)
    for file in files:
        yield File(f"{inside}/{file.path}", file.size, file.written, file.etag)
    for name in folders if depth < _DEEPEST else ():
        yield from _all(folder, f"{inside}/{name}", lister, passed, depth + 1)


def list_folder(folder: str, passed: Passed) -> tuple[list[File], list[str]]:
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
                    passed.over("a link to nowhere", one.path)
                    continue
                if S_ISDIR(status.st_mode):
                    folders.append(one.name)
                elif not S_ISREG(status.st_mode):
                    passed.over("neither a file nor a folder", one.path)
                elif not PART.fullmatch(one.name):
                    files.append(File(one.name, status.st_size, status.st_mtime))
    except OSError as error:
        raise LogError(
            f"{folder}: cannot be listed ({error.strerror}); check its permissions"
        ) from error
    folders.sort()
    return files, folders


def _is_linked_folder(one: os.DirEntry[str], folder: str, passed: Passed) -> bool:
    """Tell whether a link leads to a folder, or to a file beside it: both are found without it."""
    if one.is_dir():
        passed.over("a link to a folder: name it to have it scanned", one.path)
        return True
    return os.path.dirname(os.path.realpath(one.path)) == os.path.realpath(folder)  # noqa: PTH120


def _remote(url: str, passed: Passed) -> Iterator[Job]:
    """Yield the runs behind a URL: all of a folder, or those that match a pattern.

    Raises:
        LogError: if it cannot be listed.
    """
    if url.startswith("mlflow://"):  # a run that a server keeps
        yield _single(url)
        return
    from stabdiag.places.remote import Remote

    place = Remote(url)
    if "*" in url and not url.startswith(("http://", "https://")):
        yield from _matching(url, place, passed)
    elif place.is_folder():
        yield from _bucket(url, place, passed)
    else:
        yield _single(url, place)


def _matching(url: str, place: Remote, passed: Passed) -> Iterator[Job]:
    try:
        found: Iterable[str] = place.files.glob(place.path)
    except Exception as error:  # noqa: BLE001 - each file system has errors of its own
        fail(place.name, error)
    if not found:
        raise LogError(f"{place.name}: no match; check the URL")
    for path in found:
        yield from _remote(place.files.unstrip_protocol(path), passed)


def _single(url: str, place: Remote | None = None) -> Job:
    told: dict[str, Any] = {}
    if place is not None:
        try:
            told = place.files.info(place.path)
        except Exception:  # noqa: BLE001 - whoever reads it will be told why
            told = {}
    return Job(key=shown(url), root="", run=shown(url), logs=(_file(url, told),))


def _bucket(url: str, place: Remote, passed: Passed) -> Iterator[Job]:
    root, end = url.rstrip("/"), "/" if url.startswith(("http://", "https://")) else ""

    def listed(folder: str, passed: Passed) -> tuple[list[File], list[str]]:
        inside = f"{place.path.rstrip('/')}{folder.removeprefix(root)}{end}"
        try:
            there = place.listed(inside)
        except Exception as error:  # noqa: BLE001 - each file system has errors of its own
            fail(shown(folder), error)
        place.files.invalidate_cache()  # it keeps every listing, and there may be millions
        files, folders = [], []
        for one in there:
            path = str(one["name"]).rstrip("/")
            name = path.rpartition("/")[2]
            if path == inside.rstrip("/") or not path.startswith(inside.rstrip("/") + "/"):
                continue
            if one["type"] == "directory":
                folders.append(name)
            else:
                files.append(_file(name, one))
        return files, sorted(folders)

    yield from jobs_below(root, listed, passed)


def _file(path: str, told: dict[str, Any]) -> File:
    from stabdiag.places.remote import written

    tag = next((told[key] for key in ("ETag", "etag", "md5Hash", "generation") if key in told), "")
    return File(path, told.get("size"), written(told), str(tag).strip('"') or None)
