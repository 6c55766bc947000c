"""URLs: a log, an archive, a bucket or a folder in one, or a pattern of these."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from stabdiag.errors import LogError
from stabdiag.places.remote import Remote, fail, shown, written
from stabdiag.scan.group import File, Job

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from stabdiag.scan.group import Below, Passed


def find_remote(url: str, passed: Passed, below: Below) -> Iterator[Job]:
    """Yield the runs behind a URL: all of a folder, or those that match a pattern.

    Raises:
        LogError: if it cannot be listed.
    """
    if url.startswith("mlflow://"):  # a run that a server keeps
        yield _single(url)
        return
    place = Remote(url)
    if "*" in url and not url.startswith(("http://", "https://")):
        yield from _matching(url, place, passed, below)
    elif place.is_folder():
        yield from _below(url, place, passed, below)
    else:
        yield _single(url, place)


def _matching(url: str, place: Remote, passed: Passed, below: Below) -> Iterator[Job]:
    try:
        found: Iterable[str] = place.files.glob(place.path)
    except Exception as error:  # noqa: BLE001 - each file system has errors of its own
        fail(place.name, error)
    if not found:
        raise LogError(f"{place.name}: nothing is called so; check the URL")
    for path in found:
        yield from find_remote(place.files.unstrip_protocol(path), passed, below)


def _single(url: str, place: Remote | None = None) -> Job:
    told: dict[str, Any] = {}
    if place is not None:
        try:
            told = place.files.info(place.path)
        except Exception:  # noqa: BLE001 - whoever reads it will be told why
            told = {}
    return Job(key=shown(url), root="", run=shown(url), logs=(_file(url, told),))


def _below(url: str, place: Remote, passed: Passed, below: Below) -> Iterator[Job]:
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

    yield from below(root, listed, passed)


def _file(path: str, told: dict[str, Any]) -> File:
    tag = next((told[key] for key in ("ETag", "etag", "md5Hash", "generation") if key in told), "")
    return File(path, told.get("size"), written(told), str(tag).strip('"') or None)
