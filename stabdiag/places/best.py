"""Read the best log of a place with many files, and look for what lies beside that."""

from __future__ import annotations

import re
from contextlib import closing
from dataclasses import replace
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Final

from stabdiag.errors import NoUsableRecord
from stabdiag.model.text import plural
from stabdiag.places import stores
from stabdiag.places.beside import beside_file, beside_member
from stabdiag.places.choose import choose
from stabdiag.places.folder import Folder
from stabdiag.places.found import note, with_beside
from stabdiag.places.logs import logs_in
from stabdiag.readers.refusals import archive_of
from stabdiag.readers.registry import reader

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from stabdiag.places.found import Asked, Found
    from stabdiag.places.listing import Entry, Place
    from stabdiag.places.logs import Log
    from stabdiag.readers.columns import Columns

# How many of the logs that were not taken are named.
_SHOWN: Final = 3

# What tells files of one run apart: its ranks, its checkpoints, and what was rotated away.
_PART: Final = re.compile(
    r"(rank|gpu|node|worker|process|proc|host|checkpoint|ckpt|epoch|step)[-_.]?\d+|\.\d{1,3}$",
    re.IGNORECASE,
)

ARCHIVES: Final = (".tar", ".tgz", ".zip", ".tar.gz", ".tar.bz2", ".tar.xz", ".tar.zst")


def best_log(place: Place, asked: Asked) -> Found:
    """Read the best log of a place with many files."""
    return best_of(place, place.entries(), asked)


def best_of(place: Place, entries: Sequence[Entry], asked: Asked) -> Found:
    """Read the best log among some files of a place."""
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
        place.notes.extend(_elsewhere(place.path, beside.files))
    else:
        beside = beside_member(place, log.path, entries)
    taken = "the run of this folder" if run == PurePosixPath() else str(run or log.path)
    names = dict.fromkeys(str(stores.run_of(one) or one.path) for one in choice.others)
    others = [name for name in names if name != str(run or log.path)]
    notes = [*_told(taken, others), *_archives(entries), *dict.fromkeys(place.notes)]
    columns = replace(columns, runs_beside=_runs_beside(log, choice.others))
    return with_beside(columns, replace(beside, events=[*map(note, notes), *beside.events]))


def _runs_beside(log: Log, others: Iterable[Log]) -> int:
    """Return how many of the others are runs of their own: of the same format, on its level."""

    def run(one: Log) -> str:
        return _PART.sub("", str(stores.run_of(one) or one.path))

    level = len(log.path.parts)
    beside = (one for one in others if one.format == log.format and len(one.path.parts) == level)
    return len({run(one) for one in beside if one.losses and not one.is_evaluation} - {run(log)})


def only_log(place: Place, entry: Entry, entries: Sequence[Entry], asked: Asked) -> Found:
    """Read a file of a place that is a log by its name, with what lies beside it."""
    columns = _only(place, entry, asked)
    return with_beside(columns, beside_member(place, entry.path, entries))


def _only(place: Place, entry: Entry, asked: Asked) -> Columns:
    with closing(place.streams([entry])) as streams:
        for _, stream in streams:
            return asked.read(stream)
    raise NoUsableRecord("; ".join([f"{place.name}: cannot be read", *place.notes]))


def _elsewhere(folder: Path, files: Sequence[str]) -> Iterator[str]:
    """Say which of the files that were read lie outside the folder, behind links in it."""
    root = folder.resolve()
    there = ((file, Path(file).resolve()) for file in files if Path(file).is_relative_to(folder))
    out = [(file, real) for file, real in there if not real.is_relative_to(root)]
    if out:
        file, real = out[0]
        more = f" and {len(out) - 1} more" if len(out) > 1 else ""
        shown = f"{Path(file).relative_to(folder)} to {real}{more}"
        yield f"links that lead out of the folder were followed: {shown}"


def _told(taken: str, others: Sequence[str]) -> Iterator[str]:
    """Say which of several logs was taken."""
    if others:
        shown = ", ".join(others[:_SHOWN])
        more = f" and {len(others) - _SHOWN} more" if len(others) > _SHOWN else ""
        yield f"took {taken} of {1 + len(others)} logs; not read: {shown}{more}"


def _archives(entries: Iterable[Entry]) -> Iterator[str]:
    packed = [str(one.path) for one in entries if one.path.name.lower().endswith(ARCHIVES)]
    if packed:
        more = f" and {len(packed) - 1} more" if len(packed) > 1 else ""
        yield f"archives were not looked into: {packed[0]}{more}"


def _nothing(place: Place, entries: Sequence[Entry], format: str | None) -> str:
    if not isinstance(place, Folder):
        archive = archive_of(place.name, [str(one.path) for one in entries])
        if archive is not None:
            return archive
    files = plural(len(entries), "file")
    what = "a log" if format is None else f"a log in the format {format}"
    told = [f"{place.name}: no file in it is {what} ({files} looked at)", *_archives(entries)]
    told += dict.fromkeys(place.notes)
    return "; ".join([*told, "stabdiag formats lists what can be read"])
