"""What a run was configured to do, from files beside its log: on disk, in a place, on the web."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from stabdiag.manifest import Manifest
from stabdiag.places import beside

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from stabdiag.history import Event
    from stabdiag.places.listing import Entry, Place
    from stabdiag.places.remote import Remote


@dataclass(frozen=True, kw_only=True)
class Beside:
    """What lies beside a log: the manifest, what is to be told of it, the files that were read."""

    manifest: Manifest = field(default_factory=Manifest)
    events: Sequence[Event] = ()
    files: Sequence[str] = ()


def beside_file(log: Path, root: Path) -> Beside:
    """Look beside a file, and in the folders above it up to ``root``."""
    files = []

    def read(path: PurePosixPath) -> bytes | None:
        file = Path(path)
        try:
            if not file.is_file() or file.stat().st_size > beside.LARGEST or file == log:
                return None
            data = file.read_bytes()
        except OSError:
            return None
        files.append(str(file))
        return data

    paths = beside.paths(PurePosixPath(log.as_posix()), PurePosixPath(root.as_posix()))
    manifest, events = beside.manifest_beside(paths, read)
    return Beside(manifest=manifest, events=events, files=files)


def beside_member(place: Place, log: PurePosixPath, entries: Iterable[Entry]) -> Beside:
    """Look beside a log among the files of its place."""
    lying = {one.path: one for one in entries}
    paths = list(beside.paths(log, PurePosixPath()))
    texts: dict[PurePosixPath, bytes] = {}
    there = [lying[path] for names in paths for path in names if path in lying]
    for entry, stream in place.streams(there):
        text = stream.peek(beside.LARGEST + 1)
        if len(text) <= beside.LARGEST:
            texts[entry.path] = text
    manifest, events = beside.manifest_beside(paths, texts.get, lambda path: f"{place.name}/{path}")
    return Beside(manifest=manifest, events=events)


def beside_url(remote: Remote) -> Beside:
    """Look beside a file behind a URL for the manifest alone: each name is a request."""
    names = map(PurePosixPath, beside.written_for(remote.name))
    manifest, _ = beside.manifest_beside(
        [names],
        lambda path: remote.read_beside(str(path), beside.LARGEST),
        lambda path: f"{remote.name.rpartition('/')[0]}/{path}",
    )
    # Nothing is told: a server may answer with a page of its own, whatever is asked for.
    return Beside(manifest=manifest)
