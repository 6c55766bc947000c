"""Open what the user names: files, folders, archives, URLs, or several of these for one run."""

from __future__ import annotations

import io
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from stabdiag.errors import LogError, NoUsableRecord
from stabdiag.model.manifest import Manifest
from stabdiag.model.text import and_more
from stabdiag.readers.compressed import unpacked
from stabdiag.readers.source import STANDARD_INPUT, Stream, open_stream
from stabdiag.sources.folder import Container, Folder, LoadedLog, ReadRequest, note
from stabdiag.sources.sidecars import Sidecars, file_sidecars, url_sidecars

# How many bytes are looked at to recognize an archive: the header of its first member, packed.
_HEAD: Final = 1 << 16

# The size of a tar header, and where in it the format is named.
_BLOCK: Final = 512
_USTAR: Final = slice(257, 262)

_AS_IT_IS: Final = ReadRequest()


def read_source(
    sources: Sequence[str | os.PathLike[str]], asked: ReadRequest = _AS_IT_IS
) -> LoadedLog:
    """Read the log that a place holds, or several places as one run.

    Raises:
        LogError: if there is none, or it cannot be read.
    """
    if not sources:
        raise LogError("no log is given; give a file, a folder or a URL")
    found, empty = [], []
    for source in sources:
        try:
            found.append(_read(os.fspath(source), asked))
        except NoUsableRecord as error:  # an attempt may have ended before it logged
            empty.append(error)
    if not found:
        raise empty[0]
    columns, known = found[0].columns, Manifest()
    saved: Mapping[str, tuple[int, ...]] = {}
    if len(found) > 1:
        from stabdiag.sources.merge import merge_logs

        name = and_more([one.columns.source for one in found])
        columns = merge_logs([one.columns for one in found], name)
    for one in reversed(found):  # a later attempt may have another configuration
        known, saved = known.beside(one.manifest), saved or one.checkpoints
    left_out = [note(f"left out: {error}") for error in empty]
    return Sidecars(manifest=known, events=left_out, checkpoints=saved).of(columns)


def is_archive(stream: Stream) -> bool:
    """Tell whether a stream is a ZIP archive, or a tar archive, packed or not."""
    head = stream.peek(_HEAD)
    if head.startswith((b"PK\x03\x04", b"PK\x05\x06")):
        return True
    return unpacked(Stream("", io.BytesIO(head))).peek(_BLOCK)[_USTAR] == b"ustar"


def _read(source: str, asked: ReadRequest) -> LoadedLog:
    if not source:
        raise LogError("the name of the log is empty; is a shell variable not set?")
    protocol, is_url, rest = source.partition("://")
    if is_url:
        return _remote(f"{protocol.lower()}://{rest}", asked)
    # What cannot be asked, since its name is too long, is opened, which says so.
    if source != "-" and os.path.isdir(source):  # noqa: PTH112
        return _best_log(Folder(Path(source)), asked)
    with open_stream(source) as stream:
        if is_archive(stream):
            archive = _in_archive(stream, asked)
            return Sidecars(manifest=archive.manifest, files=[source]).of(archive.columns)
        columns = asked.read(stream)
    if stream.name == STANDARD_INPUT:
        return LoadedLog(columns=columns)
    return file_sidecars(Path(source), Path(source).parent, [source]).of(columns)


def _remote(url: str, asked: ReadRequest) -> LoadedLog:
    if url.startswith("mlflow://"):
        from stabdiag.readers.mlflow import read_url

        return LoadedLog(columns=read_url(url))
    from stabdiag.sources.remote import Remote

    remote = Remote(url)
    if remote.is_folder():
        return _best_log(remote, asked)
    with remote.file() as stream:
        if is_archive(stream):
            return _in_archive(stream, asked)
        columns = asked.read(stream)
    return url_sidecars(remote.name, remote.beside).of(columns)


# What follows is imported where it is needed: a small log does not wait for it.


def _in_archive(stream: Stream, asked: ReadRequest) -> LoadedLog:
    from stabdiag.sources.archives import open_archive

    with open_archive(stream) as place:
        return _best_log(place, asked)


def _best_log(place: Container, asked: ReadRequest) -> LoadedLog:
    from stabdiag.sources.best import best_of, with_unread_siblings

    return with_unread_siblings(best_of(place, place.entries(), asked))
