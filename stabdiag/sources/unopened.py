"""Files and folders that may hold logs but are not opened: a report names them."""

from __future__ import annotations

import os
import re
from contextlib import suppress
from pathlib import Path
from typing import Final

from stabdiag.model.patterns import lazy_pattern
from stabdiag.model.text import word_list

# Folders of programs. They are not searched; their logs are named.
NO_LOGS: Final = frozenset({"__pycache__", "node_modules", "site-packages", "__MACOSX"})

# A folder with this file is a Python virtual environment and contains no logs.
VIRTUAL_ENVIRONMENT: Final = "pyvenv.cfg"

# Hidden folders of tools, which contain no logs of a run.
_TOOL_FOLDERS: Final = frozenset(
    word_list(
        ".git .hg .svn .github .gitlab .venv .env .tox .nox .mypy_cache .ruff_cache .pytest_cache "
        ".hypothesis .ipynb_checkpoints .idea .vscode .eggs .npm .cargo .ssh .hydra .terraform "
        ".conda .Trash .snapshot"
    )
)
# Hidden folders where a program may keep anything: only the content shows a log of a training.
_STORE_FOLDERS: Final = frozenset(word_list(".cache .config .local .dvc .aim .neptune .guild"))

# Maximum number of files in a hidden folder whose names are checked, and whose heads are.
_MAX_HIDDEN: Final = 1000
_MAX_HEADS: Final = 50
_CHECKED_HEAD: Final = 1 << 12
_LOSS_AT_HEAD: Final = lazy_pattern(
    rb"(?:(?<![a-z])l|L)oss\b(?:[^\n]{0,400}?|[^\n]{0,200}\n[^\n]{0,200})\d\.\d"
)

# Names of files that are certainly logs.
_LOG_NAMES: Final = lazy_pattern(
    r"\.(?:jsonl|ndjson|csv|tsv|parquet|log|wandb)(?:\.(?:gz|bz2|xz|zst))?$|tfevents",
    re.IGNORECASE,
)

# Archives, and single files that are packed or encrypted.
_CLOSED_ARCHIVE: Final = lazy_pattern(
    r"\.(?:7z|rar|arj|lzh|zpaq|ace|sqsh|squashfs|cpio|iso|dmg|wim|xar|tlz|taz|tlz4)$"
    r"|\.t(?:ar|gz)\.(?:lz|lz4|lzma|lzo|z|br|sz|gpg|age|enc)$|\.zip\.(?:gpg|age|enc)$",
    re.IGNORECASE,
)
_CLOSED_LOG: Final = lazy_pattern(
    r"\.(?:lz|lz4|lzma|lzo|z|br|sz|snappy|gpg|age|enc|aes)$", re.IGNORECASE
)
# Files of values that are not opened, with the losses of a run by their name: loss_history.pkl
_CLOSED_VALUES: Final = lazy_pattern(
    r"^(?:[a-z]{2,12}[-_. ]?){0,3}(?<![a-z])(?:loss|losses|history)(?:[-_. ]\w{1,12}|\d{1,4}){0,2}"
    r"\.(?:pkl|pickle|joblib|np[yz]|pth?|h5|hdf5|mat|rds|rda|xlsx?|feather|arrow)$",
    re.IGNORECASE,
)
_INCOMPLETE: Final = lazy_pattern(
    r"\.(?:part|partial|crdownload|download|filepart)$", re.IGNORECASE
)
_ARCHIVE_NAME: Final = lazy_pattern(r"\.(?:tar|zip|t[gbx]z2?|7z|rar)(?:\.\w{1,4})?$", re.IGNORECASE)


def looks_like_log(name: str) -> bool:
    """Return True if the name of a file alone shows that it is a log."""
    return _LOG_NAMES.search(name) is not None


def is_hidden_log(name: str) -> bool:
    """Return True if a hidden file, which is not read, is named like a log.

    Files that begin with ``._`` are what macOS keeps about other files.
    """
    return name.startswith(".") and not name.startswith("._") and looks_like_log(name)


def is_closed_archive(name: str) -> bool:
    """Return True if a file has the name of an archive or a packed log that cannot be opened."""
    if _CLOSED_ARCHIVE.search(name) is not None:
        return True
    packed = _CLOSED_LOG.search(name)
    return packed is not None and looks_like_log(name[: packed.start()])


def is_closed_history(name: str) -> bool:
    """Return True if a file is named like the losses of a run, and its values are not opened."""
    return _CLOSED_VALUES.search(name) is not None


def is_incomplete_download(name: str) -> bool:
    """Return True if a file has the name of a part of a log or of an archive."""
    match = _INCOMPLETE.search(name)
    if match is None:
        return False
    full_name = name[: match.start()]
    return looks_like_log(full_name) or _ARCHIVE_NAME.search(full_name) is not None


def hides_logs(folder: Path) -> bool:
    """Return True if a folder that is not read contains files named like logs.

    Settings of tools are excluded. In a cache and below a program, a file counts if its head shows
    a loss.
    """
    if folder.name in _TOOL_FOLDERS:
        return False
    is_store = folder.name in _STORE_FOLDERS or folder.name in NO_LOGS
    count = heads = 0
    for path, folders, names in os.walk(folder):
        if VIRTUAL_ENVIRONMENT in names:
            return False
        logs = [name for name in names if looks_like_log(name)]
        if logs and not is_store:
            return True
        if any(_shows_loss(Path(path, name)) for name in logs[: _MAX_HEADS - heads]):
            return True
        heads += len(logs)
        skipped = _TOOL_FOLDERS | NO_LOGS | (frozenset() if is_store else _STORE_FOLDERS)
        folders[:] = [name for name in folders if name not in skipped]
        count += len(names) + len(folders)
        if count > _MAX_HIDDEN or heads >= _MAX_HEADS:
            break
    return False


def _shows_loss(path: Path) -> bool:
    """Return True if the head of a file names a loss with a value."""
    # Opening a pipe waits for its writer.
    if not path.is_file():
        return False
    with suppress(OSError), path.open("rb") as file:
        return _LOSS_AT_HEAD.search(file.read(_CHECKED_HEAD)) is not None
    return False
