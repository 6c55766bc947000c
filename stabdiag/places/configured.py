"""What a run was configured to do, from files beside its log: on disk, in a place, on the web."""

from __future__ import annotations

from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from stabdiag.places import beside

if TYPE_CHECKING:
    from collections.abc import Iterable

    from stabdiag.history import Event
    from stabdiag.manifest import Manifest
    from stabdiag.places.listing import Entry, Place
    from stabdiag.places.remote import Remote


def beside_file(log: Path, root: Path) -> tuple[Manifest, list[Event]]:
    """Look beside a file, and in the folders above it up to ``root``."""

    def read(path: PurePosixPath) -> bytes | None:
        file = Path(path)
        try:
            small = file.is_file() and file.stat().st_size <= beside.LARGEST
            return file.read_bytes() if small and file != log else None
        except OSError:
            return None

    paths = beside.paths(PurePosixPath(log.as_posix()), PurePosixPath(root.as_posix()))
    return beside.manifest_beside(paths, read)


def beside_member(
    place: Place, log: PurePosixPath, entries: Iterable[Entry]
) -> tuple[Manifest, list[Event]]:
    """Look beside a log among the files of its place."""
    lying = {one.path: one for one in entries}
    paths = list(beside.paths(log, PurePosixPath()))
    texts: dict[PurePosixPath, bytes] = {}
    there = [lying[path] for names in paths for path in names if path in lying]
    for entry, stream in place.streams(there):
        text = stream.peek(beside.LARGEST + 1)
        if len(text) <= beside.LARGEST:
            texts[entry.path] = text
    return beside.manifest_beside(paths, texts.get, lambda path: f"{place.name}/{path}")


def beside_url(remote: Remote) -> tuple[Manifest, list[Event]]:
    """Look beside a file behind a URL for the manifest alone: each name is a request."""
    names = map(PurePosixPath, beside.written_for(remote.name))
    manifest, _ = beside.manifest_beside(
        [names],
        lambda path: remote.read_beside(str(path), beside.LARGEST),
        lambda path: f"{remote.name.rpartition('/')[0]}/{path}",
    )
    return manifest, []  # a server may answer with a page of its own, whatever is asked for
