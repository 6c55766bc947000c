"""A look at the files of a place: which of them are logs, and how much of a run they hold."""

from __future__ import annotations

import io
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from stabdiag.errors import LogError
from stabdiag.places.beside import is_manifest
from stabdiag.readers import bare
from stabdiag.readers.registry import reader
from stabdiag.readers.sniff import recognised
from stabdiag.readers.source import Stream
from stabdiag.roles import assign, is_evaluation

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import PurePosixPath

    from stabdiag.places.listing import Entry, Place
    from stabdiag.readers.columns import Columns

# So many files are looked into, so many bytes each; some formats show nothing before their end.
_MOST_LOOKS: Final = 300
_HEAD: Final = 1 << 18
_WHOLE: Final = 1 << 26

# Where none of them shows that it is a log, some are looked into this far: a job may print its
# source code first.
_FEW: Final = 10
_FAR: Final = 1 << 24

# What is no log whatever it holds: weights, pictures, programs, arrays, packed folders.
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
    candidates = [one for one in entries if _may_be_log(one)]
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


def _may_be_log(entry: Entry) -> bool:
    name = entry.path.name.lower()
    return (
        entry.size != 0
        and not name.startswith(".")
        and entry.path.suffix.lower() not in _OTHER
        and _SUMMARY.search(name) is None
        and not is_manifest(name)
    )


def _promise(entry: Entry) -> tuple[bool, int, float]:
    """Return a key by which the files that are most likely logs come first, the newest of them."""
    unlikely = _PROMISING.search(entry.path.name) is None
    return unlikely, len(entry.path.parts), -(entry.written or 0.0)


def _look(entry: Entry, stream: Stream, size: int) -> Log | None:
    """Look at the first bytes of a file; at all of it where a format shows nothing before its end.

    A log that cannot be read stays a choice, where there is no other: it then says why itself.
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
    # A log that says itself what it holds goes before one that does not.
    losses = min(losses, 1) if columns.unnamed else losses * share
    return Log(entry=entry, format=name, losses=losses)
