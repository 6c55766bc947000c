"""Open what the user names: files, folders, archives, URLs, or several of these for one run."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from stabdiag.errors import LogError, NoUsableRecord
from stabdiag.model.manifest import Manifest
from stabdiag.places.archives import is_tar, is_zip
from stabdiag.places.beside import Beside, beside_file, beside_url
from stabdiag.places.found import Asked, Found, note, with_beside
from stabdiag.readers.columns import every_column
from stabdiag.readers.source import STANDARD_INPUT, Stream, open_stream

if TYPE_CHECKING:
    from collections.abc import Sequence

    from stabdiag.places.listing import Place
    from stabdiag.readers.columns import Wanted

# How many bytes are looked at to recognise an archive: the header of its first member, packed.
_HEAD: Final = 1 << 16


def read_place(
    sources: Sequence[str | os.PathLike[str]],
    *,
    format: str | None = None,
    wanted: Wanted = every_column,
    grows: bool = False,
) -> Found:
    """Read the log that a place holds, or several places as one run; see ``Asked``.

    Raises:
        LogError: if there is none, or it cannot be read.
    """
    if not sources:
        raise LogError("no log is given; give a file, a folder or a URL")
    asked = Asked(format=format, wanted=wanted, grows=grows)
    found, empty = [], []
    for source in sources:
        try:
            found.append(_read(os.fspath(source), asked))
        except NoUsableRecord as error:  # an attempt may have ended before it logged
            empty.append(error)
    if not found:
        raise empty[0]
    left_out = [note(f"left out: {error}") for error in empty]
    if len(found) == 1:
        return with_beside(found[0].columns, Beside(manifest=found[0].manifest, events=left_out))
    from stabdiag.places.several import one_log

    known = Manifest()
    for one in reversed(found):  # a later attempt may have been configured anew
        known = known.beside(one.manifest)
    name = f"{found[0].columns.source} and {len(found) - 1} more"
    columns = one_log([one.columns for one in found], name)
    return with_beside(columns, Beside(manifest=known, events=left_out))


def _read(source: str, asked: Asked) -> Found:
    if not source:
        raise LogError("a log's name is empty; is a variable of the shell not set?")
    protocol, is_url, rest = source.partition("://")
    if is_url:
        return _remote(f"{protocol.lower()}://{rest}", asked)
    if source != "-" and _is_folder(Path(source)):
        from stabdiag.places.folder import Folder

        return _best_log(Folder(Path(source)), asked)
    with open_stream(source) as stream:
        archive = _archive(stream, asked)
        if archive is not None:
            return with_beside(archive.columns, Beside(manifest=archive.manifest, files=[source]))
        columns = asked.read(stream)
    if stream.name == STANDARD_INPUT:
        return Found(columns=columns)
    beside = beside_file(Path(source), Path(source).parent)
    return with_beside(columns, replace(beside, files=[source, *beside.files]))


def _is_folder(path: Path) -> bool:
    try:
        return path.is_dir()
    except OSError:  # a name too long, a folder above that is locked: opening it says so
        return False


def _remote(url: str, asked: Asked) -> Found:
    if url.startswith("mlflow://"):
        from stabdiag.readers.mlflow.tracking import read_url

        return Found(columns=read_url(url))
    from stabdiag.places.remote import Remote

    remote = Remote(url)
    if remote.is_folder():
        return _best_log(remote, asked)
    with remote.open() as stream:
        archive = _archive(stream, asked)
        if archive is not None:
            return archive
        columns = asked.read(stream)
    return with_beside(columns, beside_url(remote))


def _archive(stream: Stream, asked: Asked) -> Found | None:
    """Read an archive, which is a place of its own, or return None if it is none."""
    head = stream.peek(_HEAD)
    if is_tar(head):
        from stabdiag.places.tar import Tar

        with stream.on_disk() as path:
            return _best_log(Tar(stream.name, path), asked)
    if is_zip(head):
        from stabdiag.places.zip import Zip, open_zip

        with stream.on_disk() as path, open_zip(stream.name, path) as archive:
            return _best_log(Zip(stream.name, archive), asked)
    return None


def _best_log(place: Place, asked: Asked) -> Found:
    from stabdiag.places.best import best_log  # a lone file needs nothing of it

    return best_log(place, asked)
