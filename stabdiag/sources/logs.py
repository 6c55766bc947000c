"""Find the logs among the files of a place, and choose the run's.

1. Training goes before evaluation, and logs with losses go before those without.
2. Files of one format on the same level of folders are runs beside each other, as in
   ``version_0/metrics.csv`` and ``version_1/metrics.csv``: the newest is taken. Those written
   within a minute of it, as after a copy, go by their names: the last in the order of their
   numbers, but the first of several ranks, and ``log.jsonl`` before the rotated ``log.jsonl.1``.
3. What then remains, and was written within an hour of the newest, are views of one run: the one
   with the most losses is taken. Text printed for people goes after what was written for programs,
   where that has about as many.
"""

from __future__ import annotations

import io
import os
import re
from collections.abc import Callable, Collection, Iterable, Sequence
from pathlib import Path
from typing import Final

from stabdiag.errors import LogError
from stabdiag.model.frozen import frozen
from stabdiag.model.roles.choice import assign
from stabdiag.model.roles.names import is_evaluation
from stabdiag.readers import bare
from stabdiag.readers.columns import Columns
from stabdiag.readers.registry import reader
from stabdiag.readers.sniff import detect_format
from stabdiag.readers.source import Stream
from stabdiag.sources.folder import Container, Entry, Folder
from stabdiag.sources.sidecars import is_manifest

# How many files are looked into, how many bytes of each, and the size up to which a file is read
# whole if its format shows nothing before its end.
_MOST_LOOKS: Final = 300
_HEAD: Final = 1 << 18
_WHOLE: Final = 1 << 26

# If none of them proves to be a log, how many are looked into further, and how far: a job may print
# its source code first.
_FEW_LOOKS: Final = 10
_FAR: Final = 1 << 24

# With fewer losses than this, a log is a summary, if there is one with more.
_FEW_LOSSES: Final = 2

# The number of losses in a file is only estimated from its head.
_ABOUT_AS_MANY: Final = 0.8

_A_MINUTE: Final = 60.0
_AN_HOUR: Final = 3600.0

# Suffixes of files that are no logs: weights, arrays, pictures, programs, archives, configurations.
_OTHER: Final = frozenset(
    """
    .bin .safetensors .pt .pth .ckpt .onnx .msgpack .h5 .hdf5 .keras .pb .tflite .gguf .distcp
    .npy .npz .pkl .pickle .joblib .model .arrow .idx .mmap .lock .pid .metadata
    .png .jpg .jpeg .gif .svg .webp .bmp .tif .tiff .pdf .mp4 .avi .wav .flac .mp3
    .py .pyc .ipynb .sh .md .rst .html .css .js .cpp .cu .h .so .o .patch .diff
    .tar .tgz .zip .7z .rar .yaml .yml .toml .cfg .ini
    """.split()  # noqa: SIM905 - so that it can be read
)
_PROMISING: Final = re.compile(
    r"log|metric|train|loss|result|progress|history|scalars|tfevents|wandb|stdout|stderr|slurm"
    r"|\.(jsonl|ndjson|csv|tsv|parquet|out|err|wandb|db)(\.|$)",
    re.IGNORECASE,
)
_SUMMARY: Final = re.compile(r"^(all|train|eval|test|predict)_results\.json$|summary\.json$")
_PROCESS: Final = re.compile(r"(rank|gpu|node|worker|process|proc|host)[-_.]?\d+", re.IGNORECASE)
_ROTATED: Final = re.compile(r"\.\d{1,3}(\.(gz|bz2|xz|zst))?$")

# The rank of a low-rank adapter is not that of a process.
RANK: Final = re.compile(r"(?<![a-z])(?<!lora.)rank[-_.=]?(\d{1,6})(?!\d)", re.IGNORECASE)


@frozen
class Log(Entry):
    """A file that is a log: its format, and about how many training losses it holds."""

    format: str
    losses: float

    @property
    def is_evaluation(self) -> bool:
        """Whether the name of the file, or of its folder, is that of an evaluation."""
        parts = (self.path.name, *self.path.parent.parts[-1:])
        return any(map(is_evaluation, parts)) and not any("train" in part for part in parts)


def logs_in(place: Container, entries: Sequence[Entry]) -> list[Log]:
    """Return the files that are logs, by their content."""
    candidates = [one for one in entries if one.size != 0 and may_be_log(one.path.name)]
    candidates.sort(key=_promise)
    if len(candidates) > _MOST_LOOKS:
        place.notes.append(f"looked into {_MOST_LOOKS} of {len(candidates)} files")
    found: list[Log] = []
    for most, size in ((_MOST_LOOKS, _HEAD), (_FEW_LOOKS, _FAR)):
        if not found:
            looks = (_look(*one, size) for one in place.streams(candidates[:most]))
            found = [log for log in looks if log is not None]
    return found


def may_be_log(name: str) -> bool:
    """Tell whether a file of this name may be a log: many are weights, pictures, programs."""
    name = name.lower()
    suffix = f".{name.rpartition('.')[2]}" if "." in name[1:] else ""
    return (
        not name.startswith(".")
        and suffix not in _OTHER
        and _SUMMARY.search(name) is None
        and not is_manifest(name)
    )


def _promise(entry: Entry) -> tuple[bool, int, float]:
    """Return a sort key: the most likely logs first, and of those the newest."""
    unlikely = _PROMISING.search(entry.path.name) is None
    return unlikely, len(entry.path.parts), -entry.written


def _look(entry: Entry, stream: Stream, size: int) -> Log | None:
    """Look at the first bytes of a file, or at all of it if its format needs that.

    A log that cannot be read may still be chosen, if there is no other: its reader then says why.
    """
    name = None
    try:
        head = stream.peek(size)
        whole = len(head) < size
        plain = bare(Stream(stream.name, io.BytesIO(head)))
        start = plain.peek(size)
        name = detect_format(start, is_complete=whole) if start else None
        if name is None:
            return None
        try:
            return _log(entry, name, reader(name).read(plain), len(head))
        except LogError:
            if whole or (entry.size or 0) > _WHOLE:
                raise
        return _log(entry, name, reader(name).read(bare(stream)), entry.size or size)
    except LogError:
        return None if name is None else Log(**vars(entry), format=name, losses=0)


def _log(entry: Entry, name: str, columns: Columns, size: int) -> Log:
    loss = assign(columns.names).columns.get("loss")
    losses = 0.0 if loss is None else float(columns.load(loss).present.sum())
    share = max((entry.size or size) / size, 1.0)
    # A log that names its columns is preferred to one that does not.
    losses = min(losses, 1) if columns.unnamed else losses * share
    return Log(**vars(entry), format=name, losses=losses)


def choose(logs: Sequence[Log]) -> tuple[Log, list[Log]]:
    """Choose one of several logs, by the rules above; return the others too, the newest first."""
    logs = _those(logs, lambda log: log.losses > 0)
    if not logs[0].losses:  # a format whose packages are missing may hold some: say what to install
        logs = _those(logs, lambda log: bool(reader(log.format).missing))
    left = _those(logs, lambda log: not log.is_evaluation)
    left = _those(left, lambda log: log.losses >= _FEW_LOSSES)
    levels: dict[tuple[int, str], list[Log]] = {}
    for log in left:
        levels.setdefault((len(log.path.parts), log.format), []).append(log)
    views = [_newest(beside) for beside in levels.values()]
    newest = max(log.written for log in views)
    views = [log for log in views if log.written >= newest - _AN_HOUR]
    most = max(log.losses for log in views)
    views = _those(
        views, lambda log: not reader(log.format).text and log.losses >= _ABOUT_AS_MANY * most
    )
    taken = max(views, key=lambda log: (log.losses, log.written, -len(log.path.parts)))
    others = [log for log in logs if log is not taken]
    return taken, sorted(others, key=lambda log: (-log.written, natural(str(log.path))))


def natural(name: str) -> tuple[tuple[str, int], ...]:
    """Return a key that sorts names by their numbers: ``version_2`` before ``version_10``."""
    pieces = re.findall(r"(\D*)(\d*)", name)
    return tuple((text.lower(), int(digits[:18] or -1)) for text, digits in pieces)


def _newest(logs: Sequence[Log]) -> Log:
    last = max(log.written for log in logs)
    fresh = [log for log in logs if log.written >= last - _A_MINUTE]
    names = {str(log.path) for log in fresh}
    # A file with a number after the name of another one is an older part of that.
    fresh = _those(fresh, lambda log: _ROTATED.sub("", name := str(log.path)) not in names - {name})
    fresh.sort(key=lambda log: natural(str(log.path)))
    # Rank 0 is the one that logs; where several ranks do, it is the one that frameworks rely on.
    if all(_PROCESS.search(str(log.path)) for log in fresh):
        return max(fresh, key=lambda log: log.losses)
    return fresh[-1]


def _those(logs: Iterable[Log], holds: Callable[[Log], bool]) -> list[Log]:
    """Return the logs for which something holds; all of them where it holds for none."""
    logs = list(logs)
    return [log for log in logs if holds(log)] or logs


def rank_in(name: str) -> int | None:
    """Return the last rank in a name, such as 3 in ``job/run.rank3.jsonl``, or None."""
    found = RANK.findall(name)
    return int(found[-1]) if found else None


def are_of_a_job(ranks: Collection[int | None]) -> bool:
    """Tell whether numbers are the ranks of one job: all different, and rank 0 among them.

    Other numbers may be anything that is called a rank, such as a size that was tried.
    """
    return 0 in ranks and None not in ranks and 1 < len(ranks) == len(set(ranks))


def ranks_in(source: str | os.PathLike[str]) -> list[Path]:
    """Return the logs of the ranks in a folder, in their order; none if there are not two.

    Raises:
        LogError: if the folder cannot be opened, or holds the ranks of several jobs.
    """
    folder = Path(source)
    if not folder.is_dir():
        return []
    place = Folder(folder)
    jobs: dict[str, dict[int, list[Log]]] = {}
    for log in logs_in(place, place.entries()):
        path = str(log.path)
        for last in list(RANK.finditer(path))[-1:]:  # what stands before it, a job's ranks share
            job = jobs.setdefault(path[: last.start()], {})
            job.setdefault(int(last[1]), []).append(log)
    ranks = _one_job(jobs, place.name)
    return [Path(choose(logs)[0].key) for _, logs in sorted(ranks.items())]


def _one_job(jobs: dict[str, dict[int, list[Log]]], name: str) -> dict[int, list[Log]]:
    """Return the logs of the only job, by rank; each node may have a folder of its own."""
    several = [ranks for ranks in jobs.values() if are_of_a_job(ranks)]
    if len(several) > 1:
        shown = ", ".join(repr(job) for job in list(jobs)[:3])
        raise LogError(
            f"{name}: it holds the ranks of several jobs (named {shown}, …); name the folder of one"
        )
    if several:
        return several[0]
    alone = [item for ranks in jobs.values() for item in ranks.items()]
    return dict(alone) if are_of_a_job([rank for rank, _ in alone]) else {}
