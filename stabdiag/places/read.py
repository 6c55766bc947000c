"""Open a place, choose and read the best log in it, and look for what lies beside that."""

from __future__ import annotations

import os
from contextlib import closing
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Final

from stabdiag.errors import LogError, NoUsableRecord
from stabdiag.history import Event, EventKind
from stabdiag.manifest import Manifest
from stabdiag.places import stores
from stabdiag.places.archives import is_tar, is_zip
from stabdiag.places.beside import Beside, beside_file, beside_member, beside_url
from stabdiag.readers import read_stream
from stabdiag.readers.columns import every_column
from stabdiag.readers.refusals import archive_of
from stabdiag.readers.registry import reader
from stabdiag.readers.source import STANDARD_INPUT, Stream, open_stream
from stabdiag.words import plural

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from stabdiag.places.listing import Entry, Place
    from stabdiag.readers.columns import Columns, Wanted

# How many bytes are looked at to recognise an archive: the header of its first member, packed.
_HEAD: Final = 1 << 16

# How many of the logs that were not taken are named.
_SHOWN: Final = 3

_ARCHIVES: Final = (".tar", ".tgz", ".zip", ".tar.gz", ".tar.bz2", ".tar.xz", ".tar.zst")


@dataclass(frozen=True, kw_only=True, eq=False)
class Found:
    """A log's columns, and the manifest that lies beside it."""

    columns: Columns
    manifest: Manifest = field(default_factory=Manifest)


@dataclass(frozen=True, kw_only=True)
class _Asked:
    """How a log is to be read: its format, unless that is to be recognised, and which columns."""

    format: str | None
    wanted: Wanted

    def read(self, stream: Stream) -> Columns:
        return read_stream(stream, format=self.format, wanted=self.wanted)


def read_place(
    sources: Sequence[str | os.PathLike[str]],
    *,
    format: str | None = None,
    wanted: Wanted = every_column,
) -> Found:
    """Read the log that a place holds, or several places as one run.

    Raises:
        LogError: if there is none, or it cannot be read.
    """
    if not sources:
        raise LogError("no log is given; give a file, a folder or a URL")
    asked = _Asked(format=format, wanted=wanted)
    found, empty = [], []
    for source in sources:
        try:
            found.append(_read(os.fspath(source), asked))
        except NoUsableRecord as error:  # an attempt may have ended before it logged
            empty.append(error)
    if not found:
        raise empty[0]
    told = [_event(f"left out: {error}") for error in empty]
    if len(found) == 1:
        return _with(found[0].columns, Beside(manifest=found[0].manifest, events=told))
    from stabdiag.places.several import one_log

    known = Manifest()
    for one in reversed(found):  # a later attempt may have been configured anew
        known = known.beside(one.manifest)
    name = f"{found[0].columns.source} and {len(found) - 1} more"
    columns = one_log([one.columns for one in found], name)
    return _with(columns, Beside(manifest=known, events=told))


def _read(source: str, asked: _Asked) -> Found:
    if not source:
        raise LogError("a log's name is empty; is a variable of the shell not set?")
    if source.startswith("mlflow://"):
        from stabdiag.readers.mlflow.tracking import read_url

        return Found(columns=read_url(source))
    if "://" in source:
        return _remote(source, asked)
    if source != "-" and _is_folder(Path(source)):
        from stabdiag.places.folder import Folder

        return _chosen(Folder(Path(source)), asked)
    with open_stream(source) as stream:
        archive = _archive(stream, asked)
        if archive is not None:
            return _with(archive.columns, Beside(manifest=archive.manifest, files=[source]))
        columns = asked.read(stream)
    if stream.name == STANDARD_INPUT:
        return Found(columns=columns)
    beside = beside_file(Path(source), Path(source).parent)
    return _with(columns, replace(beside, files=[source, *beside.files]))


def _is_folder(path: Path) -> bool:
    try:
        return path.is_dir()
    except OSError:  # a name too long, a folder above that is locked: opening it says so
        return False


def _remote(url: str, asked: _Asked) -> Found:
    from stabdiag.places.remote import Remote

    remote = Remote(url)
    if remote.is_folder():
        return _chosen(remote, asked)
    with remote.open() as stream:
        archive = _archive(stream, asked)
        if archive is not None:
            return archive
        columns = asked.read(stream)
    return _with(columns, beside_url(remote))


def _archive(stream: Stream, asked: _Asked) -> Found | None:
    """Read an archive, which is a place of its own, or return None if it is none."""
    head = stream.peek(_HEAD)
    if is_tar(head):
        from stabdiag.places.tar import Tar

        with stream.on_disk() as path:
            return _chosen(Tar(stream.name, path), asked)
    if is_zip(head):
        from stabdiag.places.zip import Zip, open_zip

        with stream.on_disk() as path, open_zip(stream.name, path) as archive:
            return _chosen(Zip(stream.name, archive), asked)
    return None


def _chosen(place: Place, asked: _Asked) -> Found:
    """Read the best log of a place with many files."""
    from stabdiag.places.choose import choose
    from stabdiag.places.folder import Folder
    from stabdiag.places.logs import logs_in

    entries = place.entries()
    logs = logs_in(place, entries)
    if asked.format is not None:
        logs = [log for log in logs if log.format == asked.format]
    if not logs:
        raise NoUsableRecord(_nothing(place, entries, asked.format))
    choice = choose(logs)
    log = choice.taken
    run = stores.run_of(log)
    files = [log.entry] if run is None else stores.files_of(run, log, logs, entries)
    if run is None or reader(log.format).missing:
        columns = _only(place, log.entry, asked)
    else:
        name = place.name if run == PurePosixPath() else f"{place.name}/{run}"
        columns = stores.read_run(log, run, place.streams(files), name)
    if isinstance(place, Folder):
        beside = beside_file(Path(log.entry.key), place.path)
        beside = replace(beside, files=[*(one.key for one in files), *beside.files])
    else:
        beside = beside_member(place, log.path, entries)
    taken = "the run of this folder" if run == PurePosixPath() else str(run or log.path)
    names = dict.fromkeys(str(stores.run_of(one) or one.path) for one in choice.others)
    others = [name for name in names if name != str(run or log.path)]
    told = [*_told(taken, others), *_archives(entries), *dict.fromkeys(place.notes)]
    return _with(columns, replace(beside, events=[*map(_event, told), *beside.events]))


def _only(place: Place, entry: Entry, asked: _Asked) -> Columns:
    with closing(place.streams([entry])) as streams:
        for _, stream in streams:
            return asked.read(stream)
    raise NoUsableRecord("; ".join([f"{place.name}: cannot be read", *place.notes]))


def _with(columns: Columns, beside: Beside) -> Found:
    """Return columns with what lies beside them; the events of the place come first."""
    events, files = (*beside.events, *columns.events), (*columns.files, *beside.files)
    return Found(columns=replace(columns, events=events, files=files), manifest=beside.manifest)


def _told(taken: str, others: Sequence[str]) -> Iterator[str]:
    """Say which of several logs was taken."""
    if others:
        shown = ", ".join(others[:_SHOWN])
        more = f" and {len(others) - _SHOWN} more" if len(others) > _SHOWN else ""
        yield f"took {taken} of {1 + len(others)} logs; not read: {shown}{more}"


def _archives(entries: Iterable[Entry]) -> Iterator[str]:
    packed = [str(one.path) for one in entries if one.path.name.lower().endswith(_ARCHIVES)]
    if packed:
        more = f" and {len(packed) - 1} more" if len(packed) > 1 else ""
        yield f"archives were not looked into: {packed[0]}{more}"


def _nothing(place: Place, entries: Sequence[Entry], format: str | None) -> str:
    from stabdiag.places.folder import Folder

    if not isinstance(place, Folder):
        archive = archive_of(place.name, [str(one.path) for one in entries])
        if archive is not None:
            return archive
    files = plural(len(entries), "file")
    what = "a log" if format is None else f"a log in the format {format}"
    told = [f"{place.name}: no file in it is {what} ({files} looked at)", *_archives(entries)]
    told += dict.fromkeys(place.notes)
    return "; ".join([*told, "stabdiag formats lists what can be read"])


def _event(message: str) -> Event:
    return Event(kind=EventKind.PLACE, message=message)
