"""Find the logs among the files of a place, and estimate how much of a run each holds."""

from __future__ import annotations

import io
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from stabdiag.errors import LogError
from stabdiag.model.roles import assign, is_evaluation
from stabdiag.places.beside import is_manifest
from stabdiag.readers import bare
from stabdiag.readers.registry import reader
from stabdiag.readers.sniff import recognised
from stabdiag.readers.source import Stream

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import PurePosixPath

    from stabdiag.places.listing import Entry, Place
    from stabdiag.readers.columns import Columns

# How many files are looked into, how many bytes of each, and the size up to which a file is read
# whole if its format shows nothing before its end.
_MOST_LOOKS: Final = 300
_HEAD: Final = 1 << 18
_WHOLE: Final = 1 << 26

# If none of them proves to be a log, how many are looked into further, and how far: a job may print
# its source code first.
_FEW: Final = 10
_FAR: Final = 1 << 24

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


@dataclass(frozen=True, kw_only=True)
class Log:
    """A file that is a log: its format, and about how many training losses it holds."""

    entry: Entry
    format: str
    losses: float

    @property
    def path(self) -> PurePosixPath:
        """The file's path in its place."""
        return self.entry.path

    @property
    def is_evaluation(self) -> bool:
        """Whether the name of the file, or of its folder, is that of an evaluation."""
        parts = (self.path.name, *self.path.parent.parts[-1:])
        return any(map(is_evaluation, parts)) and not any("train" in part for part in parts)


def logs_in(place: Place, entries: Sequence[Entry]) -> list[Log]:
    """Return the files that are logs, by their content."""
    candidates = [one for one in entries if one.size != 0 and may_be_log(one.path.name)]
    candidates.sort(key=_promise)
    if len(candidates) > _MOST_LOOKS:
        place.notes.append(f"{_MOST_LOOKS} of {len(candidates)} files were looked into")
    found = list(_looks(place, candidates[:_MOST_LOOKS], _HEAD))
    return found or list(_looks(place, candidates[:_FEW], _FAR))


def _looks(place: Place, candidates: Sequence[Entry], size: int) -> Iterator[Log]:
    for entry, stream in place.streams(candidates):
        log = _look(entry, stream, size)
        if log is not None:
            yield log


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
    return unlikely, len(entry.path.parts), -(entry.written or 0.0)


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
        name = recognised(start, whole=whole) if start else None
        if name is None:
            return None
        try:
            return _log(entry, name, reader(name).read(plain), len(head))
        except LogError:
            if whole or (entry.size or 0) > _WHOLE:
                raise
        return _log(entry, name, reader(name).read(bare(stream)), entry.size or size)
    except LogError:
        return None if name is None else Log(entry=entry, format=name, losses=0)


def _log(entry: Entry, name: str, columns: Columns, size: int) -> Log:
    loss = assign(columns.names).columns.get("loss")
    losses = 0.0 if loss is None else float(columns.load(loss).present.sum())
    share = max((entry.size or size) / size, 1.0)
    # A log that names its columns is preferred to one that does not.
    losses = min(losses, 1) if columns.unnamed else losses * share
    return Log(entry=entry, format=name, losses=losses)
