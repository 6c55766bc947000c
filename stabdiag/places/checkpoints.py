"""The checkpoints beside a log: how far each had come, by its name alone. None is opened."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator
from itertools import islice, pairwise
from pathlib import PurePosixPath
from typing import Final

# What lies in a folder, and whether it is a file.
Listing = dict[str, bool]

# A folder with more names is not one run's: thousands of logs may share it, and each lists it.
_MOST: Final = 1000

# Where a run keeps them, in its own folder.
_BELOW: Final = re.compile(r"(checkpoint|ckpt|weight|model)s?", re.IGNORECASE)

# A file has to be one of weights: there are pictures of step 100, too.
_WEIGHTS: Final = re.compile(
    r"\.(pt|pth|pth\.tar|ckpt|safetensors|bin|pkl|npz|h5|hdf5|keras|msgpack|tar)$", re.IGNORECASE
)

# ``step=120``, ``global_step120``, ``iter_0000120``, ``ba120``; and ``epoch=3``, ``ep3``.
_COUNTED: Final = re.compile(
    r"(?<![a-z])(?:(?P<step>(?:global_?)?steps?|iter(?:ation)?s?|updates?|ba)|ep(?:och)?s?)"
    r"[-_=]?(?P<count>\d{1,12})(?![\d.]*\d)",
    re.IGNORECASE,
)

# ``checkpoint-120``, which counts either, and fairseq's ``checkpoint_3_120``, which counts both.
_BARE: Final = re.compile(
    r"(?:checkpoint|ckpt|model|weights)[-_=]?(?P<one>\d{1,12})(?:_(?P<step>\d{1,12}))?",
    re.IGNORECASE,
)

# What else the name of a folder that is one may hold.
_WORDS: Final = re.compile(r"checkpoint|ckpt|model|unsharded|[-_]", re.IGNORECASE)


def checkpoints_in(
    folders: Iterable[PurePosixPath], listed: Callable[[PurePosixPath], Listing | None]
) -> dict[str, tuple[int, ...]]:
    """Return the checkpoints in the first of some folders that has any, or in folders below it.

    They are told by ``step`` and by ``epoch``, as their names tell, and rise. ``listed`` lists a
    folder as ``listing`` does.
    """
    for folder in folders:
        names = [*(listed(folder) or {}).items()]
        below = [name for name, is_file in names if not is_file and _BELOW.fullmatch(name)]
        for name in below:
            names += (listed(folder / name) or {}).items()
        found = _counts(_stems(names))
        if found:
            return found
    return {}


def listing(folder: PurePosixPath) -> Listing | None:
    """Return the names in a folder, and whether each is a file's; None if there are too many."""
    try:
        with os.scandir(folder) as listed:
            names = {one.name: one.is_file() for one in islice(listed, _MOST + 1)}
    except OSError:  # it is not there, or locked
        return {}
    return names if len(names) <= _MOST else None


def _stems(names: Iterable[tuple[str, bool]]) -> Iterator[str]:
    """Yield the names that may be those of checkpoints, without the suffixes of files."""
    for name, is_file in names:
        if not is_file:
            if _BARE.fullmatch(name) or not _WORDS.sub("", _COUNTED.sub("", name)):
                yield name
        elif (suffix := _WEIGHTS.search(name)) is not None:
            yield name[: suffix.start()]


def _counts(stems: Iterable[str]) -> dict[str, tuple[int, ...]]:
    steps: set[int] = set()
    epochs: set[int] = set()
    either: set[int] = set()
    for stem in stems:
        bare = _BARE.fullmatch(stem)
        if bare is None:
            for one in _COUNTED.finditer(stem):
                (epochs if one["step"] is None else steps).add(int(one["count"]))
        elif bare["step"] is None:
            either.add(int(bare["one"]))
        else:
            epochs.add(int(bare["one"]))
            steps.add(int(bare["step"]))
    # Nobody saves at one step after the other: such numbers count epochs.
    if any(right - left == 1 for left, right in pairwise(sorted(either))):
        epochs |= either
    else:
        steps, epochs = steps | either, epochs | either
    found = {"step": tuple(sorted(steps)), "epoch": tuple(sorted(epochs))}
    return {unit: counts for unit, counts in found.items() if counts}
