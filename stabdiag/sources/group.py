"""Which files of a folder are one run, by their names alone: nothing is opened for it.

1. A log that is called by what it is, such as ``metrics.csv`` or ``train.log``, is that of its
   folder. All of those are views of one run, and so is what lies in the folders in which a run
   keeps its logs, such as ``checkpoint-500`` or ``tensorboard``.
2. Where two or more files of one format have names of their own, each file with such a name is a
   run, or a view of the run of that name. Text is not counted where the folder has a log by rule 1:
   it is what its jobs printed.
3. What then remains goes with the run of its folder.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from itertools import groupby
from typing import Final, TypeAlias

from stabdiag.errors import NoUsableRecord
from stabdiag.sources.best import ARCHIVES
from stabdiag.sources.logs import RANK, may_be_log
from stabdiag.sources.sidecars import is_manifest

# Folders in which a run keeps a part of its logs.
INNER: Final = re.compile(
    r"logs?|tensorboard|tb|events|csv|metrics|stats|vis_data|runs|files|train|training|val|valid"
    r"|validation|eval|test|plots|params|(checkpoint|ckpt|epoch|step|global_step)[-_]?\d+.*"
    r"|rank[-_]?\d+|\d{9,11}\.\d+|(?P<begun>[A-Z][a-z]{2}\d{2}_\d{2}-\d{2}-\d{2}_.+)",
)

# How parts of a store of rows are called: they are no logs.
PART: Final = re.compile(r"stabdiag-\d+-[0-9a-f]+\.parquet")

# The profiles next to the rows of the same name; readers of a folder of Parquet skip these names.
PROFILES: Final = re.compile(r"_stabdiag-\d+-[0-9a-f]+\.profiles")

_WORDS: Final = frozenset(
    """
    train training trainer eval evaluation val valid validation test log logs metric metrics scalar
    scalars history progress loss losses result results output out err stdout stderr debug internal
    console event events state stats run raw main
    """.split()  # noqa: SIM905 - so that it can be read
)
_STRUCTURED: Final = frozenset(
    {".jsonl", ".ndjson", ".csv", ".tsv", ".parquet", ".pq", ".wandb", ".tfevents"}
)
_PACKED: Final = re.compile(r"(\.(gz|bz2|xz|zst|lz4))?$", re.IGNORECASE)
_ROTATED: Final = re.compile(r"(\.[a-z]\w{1,7})\.\d{1,3}$", re.IGNORECASE)
_ATTEMPT: Final = re.compile(r"(attempt|restart|retry|part)[-_.]?\d{1,4}(?!\d)", re.IGNORECASE)
_EVENTS: Final = "tfevents"


@dataclass(frozen=True, slots=True, eq=False)
class File:
    """A file in a folder: its path from there, its size, when it was written, and its etag."""

    path: str
    size: int | None
    written: float | None
    etag: str | None = None

    def in_folder(self, name: str) -> File:
        """Return the file as it is called from the folder above."""
        return replace(self, path=f"{name}/{self.path}")


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Job:
    """One run to be read, or an archive of runs, as far as names tell.

    ``root`` is the folder or its URL, and empty where the file was named by the user. ``sure`` says
    that its name is that of a log; ``attempts`` that its files are to be read one after the other.
    ``key`` is what it is known by in the next scan, ``run`` what people call it.
    """

    key: str
    root: str
    run: str
    logs: tuple[File, ...]
    beside: tuple[File, ...] = ()
    sure: bool = True
    attempts: bool = False

    @property
    def size(self) -> int | None:
        """The bytes of all its logs, where they are known."""
        sizes = [file.size for file in self.logs]
        return None if None in sizes else sum(size or 0 for size in sizes)

    @property
    def modified(self) -> float | None:
        """When the last of its files was written, what lies beside its logs among them."""
        return max((f.written for f in (*self.logs, *self.beside) if f.written), default=None)

    @property
    def etag(self) -> str | None:
        """What a store has instead: the tags of all its files."""
        return " ".join(f.etag for f in (*self.logs, *self.beside) if f.etag)[:200] or None


class UnreadReason(StrEnum):
    """Why a file or a folder that may hold a run was not looked into."""

    LINK_TO_FOLDER = "a link to a folder: name it to have it scanned"
    LINK_TO_NOWHERE = "a link to nowhere"
    HIDDEN = "a hidden folder that may hold logs: name it to have it scanned"
    TOO_DEEP = "a folder that lies too deep"
    UNLISTED = "a folder that cannot be listed"
    CUT_ARCHIVE = "an archive that breaks off or is damaged"


@dataclass
class SkippedEntries:
    """What was passed over: how often, for which reason, and an example of each."""

    counts: Counter[str] = field(default_factory=Counter)
    examples: dict[str, str] = field(default_factory=dict)

    def over(self, why: str, what: str, times: int = 1) -> None:
        """Note one more, or several."""
        self.counts[why] += times
        self.examples.setdefault(why, what)

    def add(self, other: SkippedEntries) -> None:
        """Note what another part of the scan passed over."""
        for why, times in other.counts.items():
            self.over(why, other.examples[why], times)

    def no_log_error(self, place: str) -> NoUsableRecord:
        """Return the error for a place in which no run was found."""
        told = [f"{place}: no log of a run found", *self.told()]
        return NoUsableRecord("; ".join([*told, "stabdiag formats lists what can be read"]))

    def told(self) -> list[str]:
        """Say what was passed over, a line for each reason."""
        return [self._line(why, count) for why, count in self.counts.most_common()]

    def unseen(self) -> list[str]:
        """Return a line for each kind of file or folder that may hold a run and was not read."""
        counts = self.counts.most_common()
        return [self._line(why, count) for why, count in counts if isinstance(why, UnreadReason)]

    def _line(self, why: str, count: int) -> str:
        more = f" and {count - 1} more" if count > 1 else ""
        return f"skipped, {why}: {self.examples[why]}{more}"


# What lists the files and the names of the folders in a folder.
Lister: TypeAlias = "Callable[[str, SkippedEntries], tuple[list[File], list[str]]]"


@dataclass(frozen=True, slots=True, eq=False)
class _Named:
    """What the name of a file tells: whose log it is, of what format, and how far to trust it."""

    file: File
    stem: str
    suffix: str
    own: bool
    structured: bool
    attempt: bool


def jobs_in(root: str, run: str, files: Sequence[File]) -> Iterator[Job]:
    """Yield the runs among the files of one folder and of those in which a run keeps its logs."""
    beside: dict[str | None, list[File]] = {}  # manifests by the name of a log; None: of all
    named = []
    for file in files:
        if file.path.lower().endswith(ARCHIVES):
            key = f"{root}/{file.path}"
            yield Job(key=key, root=root, run=_joined(run, file.path), logs=(file,))
        elif may_be_log(file.path.rpartition("/")[2]):
            one = _named(file)
            # A run may have ended before its first record; what else is empty tells of no run.
            if file.size or one.structured:
                named.append(one)
        stem = file.path.removesuffix(".manifest.json")
        if stem != file.path or is_manifest(file.path.rpartition("/")[2]):
            beside.setdefault(stem if stem != file.path else None, []).append(file)
    named.sort(key=lambda one: (one.stem, one.suffix, one.file.path))
    apart = _apart(named)
    rest = [one for one in named if one.stem not in apart]
    sets = [list(same) for stem, same in groupby(named, lambda one: one.stem) if stem in apart]
    for same in [*sets, rest] if rest else sets:
        yield _job(root, run, same, beside, alone=same is not rest)


def _apart(named: list[_Named]) -> set[str]:
    """Return the names of the runs that lie beside each other."""
    is_run = any(one.own and one.structured for one in named)
    apart = [one for one in named if not one.own]
    kinds = {(one.suffix, one.stem) for one in apart if one.structured or not is_run}
    are_beside = len(kinds) > len({suffix for suffix, _ in kinds})
    return {one.stem for one in apart if are_beside}


def _job(
    root: str,
    run: str,
    same: list[_Named],
    beside: Mapping[str | None, list[File]],
    *,
    alone: bool,
) -> Job:
    is_attempt = all(one.attempt for one in same) and len({one.suffix for one in same}) == 1
    name = same[0].file.path if len(same) == 1 else same[0].stem if alone else ""
    stems = set()
    for one in same:
        folder, slash, file = one.file.path.rpartition("/")
        stems |= {
            f"{folder}{slash}{part[0]}" for part in (file.rpartition("."), file.partition("."))
        }
    return Job(
        key=f"{root}/{name}" if name else root,
        root=root,
        run=run if run and all(one.own for one in same) else _joined(run, name),
        logs=tuple(one.file for one in same),
        beside=tuple(file for stem in [*sorted(stems), None] for file in beside.get(stem, ())),
        sure=any(one.structured for one in same),
        attempts=is_attempt and len(same) > 1,
    )


def _joined(run: str, name: str) -> str:
    return "/".join(filter(None, (run, name))) or "."


def _named(file: File) -> _Named:
    folder, _, name = file.path.rpartition("/")
    if name.startswith("events.out") or (_EVENTS in name and not name.endswith(f".{_EVENTS}")):
        begun = next((p for p in folder.split("/") if (m := INNER.match(p)) and m["begun"]), "")
        return _Named(file, begun, _EVENTS, not begun, not begun, attempt=False)
    plain = _ROTATED.sub(r"\1", _PACKED.sub("", name))
    stem, dot, suffix = plain.rpartition(".")
    stem, suffix = (stem, f".{suffix.lower()}") if dot and stem else (plain, "")
    if suffix[1:].isdigit():  # lr0.001 is a name, not a suffix
        stem, suffix = plain, ""
    bare = _ATTEMPT.sub("", RANK.sub("", stem)).strip("-_. ")
    own = set(filter(None, re.split(r"[-_. ]+", bare.lower()))) <= _WORDS
    structured = suffix in _STRUCTURED or (own and suffix == ".json")
    attempt = _ATTEMPT.search(stem) is not None
    return _Named(file, bare or stem, suffix, own, structured, attempt)
