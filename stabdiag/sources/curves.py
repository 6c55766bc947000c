"""Folders of PyTorch's ``SummaryWriter.add_scalars``, which writes each curve into its own.

``add_scalars("loss", {"train": 0.5, "val": 0.6}, step)`` writes the tag ``loss`` into the folders
``loss_train`` and ``loss_val`` next to the event file of the run. They look like separate runs.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from pathlib import PurePosixPath
from typing import Final

from stabdiag.model.patterns import lazy_pattern

# The host and the process in the name of an event file: time, host, process, number.
_WRITER: Final = lazy_pattern(r"^events\.out\.tfevents\.\d+\.(?P<writer>.+\.\d+)\.\d+")

# Names of curves: a metric and what it was measured on. A process may also train several
# configurations and log each into a folder like lr_0.1.
_CURVE: Final = lazy_pattern(
    r"(loss|losses|acc|accuracy|error|metrics?|score|reward|f1)_.*[a-z].*"
    r"|.+_(train|training|val|valid|validation|dev|eval|test|loss|acc|accuracy)",
    re.IGNORECASE,
)


def is_curve_folder(name: str, files: Collection[str], above: Iterable[str]) -> bool:
    """Return True if a folder has a curve of the run whose event file is in the folder above.

    ``files`` and ``above`` are the names of the files in both folders. The same process has written
    them.
    """
    if not files or _CURVE.fullmatch(name) is None:
        return False
    writers = {_writer(file) for file in files}
    return None not in writers and writers <= {_writer(file) for file in above}


def curve_folders(paths: Iterable[PurePosixPath]) -> frozenset[PurePosixPath]:
    """Return the folders of curves among the folders of some files."""
    names: dict[PurePosixPath, list[str]] = {}
    for path in paths:
        names.setdefault(path.parent, []).append(path.name)
    return frozenset(
        folder
        for folder, files in names.items()
        if is_curve_folder(folder.name, files, names.get(folder.parent, ()))
    )


def _writer(file: str) -> str | None:
    match = _WRITER.match(file)
    return match["writer"] if match else None
