"""Open files, folders, archives and URLs, or several of these for one run."""

from __future__ import annotations

import io
import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from stabdiag.errors import LogError, NoUsableRecord
from stabdiag.model.manifest import Manifest
from stabdiag.model.text import and_more
from stabdiag.readers.columns import Columns
from stabdiag.readers.source import STANDARD_INPUT, Stream, open_stream
from stabdiag.readers.unwrapping.compressed import unpacked
from stabdiag.sources.folder import Container, Folder, LoadedLog, ReadRequest, note
from stabdiag.sources.names import identity
from stabdiag.sources.neighbors import describe_neighbors, unread_parts
from stabdiag.sources.outputs import with_outputs
from stabdiag.sources.sidecars import Sidecars, file_sidecars, url_sidecars

# Bytes read to detect an archive: enough for the compressed header of its first member.
_HEAD: Final = 1 << 16

# The size of a tar header, and the position of the format name in it.
_TAR_HEADER_SIZE: Final = 512
_USTAR: Final = slice(257, 262)

_DEFAULT_REQUEST: Final = ReadRequest()


def read_source(
    sources: Sequence[str | os.PathLike[str]], request: ReadRequest = _DEFAULT_REQUEST
) -> LoadedLog:
    """Read a log from a source, or from several sources as one run.

    Raises:
        LogError: if no log is found, or it cannot be read.
    """
    if not sources:
        raise LogError("no log given; give a file, a folder or a URL")
    logs, empty = [], []
    for source in sources:
        try:
            logs.append(_read(os.fspath(source), request))
        except NoUsableRecord as error:  # an attempt may end before its first record
            empty.append(error)
    if not logs:
        raise empty[0]
    columns, manifest = logs[0].columns, Manifest()
    checkpoints: Mapping[str, tuple[int, ...]] = {}
    if len(logs) > 1:
        from stabdiag.sources.merge import merge_logs

        name = and_more([log.columns.source for log in logs])
        columns = merge_logs([log.columns for log in logs], name)
    for log in reversed(logs):  # the configuration of the last attempt takes precedence
        manifest = manifest.fill_gaps(log.manifest)
        checkpoints = checkpoints or log.checkpoints
    notes = [note(f"left out: {error}") for error in empty]
    if (
        request.judged is not None
        and len(sources) == 1
        and not request.grows
        and os.path.isfile(sources[0])  # noqa: PTH113
    ):
        path, read = Path(sources[0]), {*request.judged, *map(identity, columns.files)}
        neighbors = describe_neighbors(path, read)
        parts = None if _are_ranks(columns) else unread_parts(path, read)
        notes += [note(neighbors)] if neighbors else []
        left_out = () if parts is None else (parts,)
        columns = replace(columns, left_out=(*columns.left_out, *left_out))
    return Sidecars(manifest=manifest, events=notes, checkpoints=checkpoints).attach(columns)


def is_archive(stream: Stream) -> bool:
    """Return True if a stream is a ZIP archive or a (compressed) tar archive."""
    head = stream.peek(_HEAD)
    if head.startswith((b"PK\x03\x04", b"PK\x05\x06")):
        return True
    return unpacked(Stream("", io.BytesIO(head))).peek(_TAR_HEADER_SIZE)[_USTAR] == b"ustar"


def _read(source: str, request: ReadRequest) -> LoadedLog:
    if not source:
        raise LogError("the name of the log is empty; is a shell variable not set?")
    protocol, is_url, address = source.partition("://")
    if is_url:
        return _remote(f"{protocol.lower()}://{address}", request)
    # A name that is too long is not a folder; opening it reports the error.
    if source != "-" and os.path.isdir(source):  # noqa: PTH112
        return _best_log(Folder(Path(source)), request)
    with open_stream(source) as stream:
        if is_archive(stream):
            archive = _in_archive(stream, request)
            return Sidecars(manifest=archive.manifest, files=[source]).attach(archive.columns)
        columns = request.read(stream)
    if stream.name == STANDARD_INPUT:
        return LoadedLog(columns=columns)
    if isinstance(columns.config.get("config"), Mapping):
        columns = _with_ranks(Path(source), columns, request)
    if not request.grows:
        columns = with_outputs(columns, Path(source))
    return file_sidecars(Path(source), Path(source).parent, [source]).attach(columns)


def _with_ranks(path: Path, columns: Columns, request: ReadRequest) -> Columns:
    """Return the columns joined with the recorder's logs of other ranks in the folder."""
    from stabdiag.sources.ranks import has_ranks, merge_ranks, rank_files

    if not has_ranks(columns):
        return columns
    paths = {other.name: other for other in path.parent.glob(f"*.rank*{path.suffix}")}
    others = []
    for other in rank_files(path.name, paths):
        with open_stream(str(other)) as stream:
            others.append(request.read(stream))
    return merge_ranks(columns, others) if others else columns


def _are_ranks(columns: Columns) -> bool:
    """Return True if the recorder's logs of all ranks were joined."""
    if not isinstance(columns.config.get("config"), Mapping):
        return False
    from stabdiag.sources.ranks import RANKS

    return RANKS in columns.names


def _remote(url: str, request: ReadRequest) -> LoadedLog:
    if url.startswith("mlflow://"):
        from stabdiag.readers.stores.mlflow import read_url

        return LoadedLog(columns=read_url(url))
    from stabdiag.sources.remote import Remote

    remote = Remote(url)
    if remote.is_folder():
        return _best_log(remote, request)
    with remote.file() as stream:
        if is_archive(stream):
            return _in_archive(stream, request)
        columns = request.read(stream)
    return url_sidecars(remote.name, remote.open_sibling).attach(columns)


# Imported on use, so that small logs do not wait for these modules.


def _in_archive(stream: Stream, request: ReadRequest) -> LoadedLog:
    from stabdiag.sources.archives import open_archive

    with open_archive(stream) as archive:
        return _best_log(archive, request)


def _best_log(container: Container, request: ReadRequest) -> LoadedLog:
    from stabdiag.sources.best import read_best_log, with_unread_siblings

    return with_unread_siblings(read_best_log(container, container.entries(), request))
