"""The names of runs and of their files, from the paths of their logs."""

from __future__ import annotations

import os
import re
from typing import Final

from stabdiag.model.patterns import lazy_pattern

# The number of a rank, of a rotated log or of a run in the name of a file.
_NUMBER_IN_NAME: Final = lazy_pattern(r"[-_.]?\d+")
_PACKED_SUFFIX: Final = lazy_pattern(r"\.(?:gz|bz2|xz|zst|lz4)$", re.IGNORECASE)


def identity(source: str) -> str:
    """Return the identity of a log: its real path, or its URL."""
    if not source or "://" in source:
        return source
    return os.path.realpath(source)


def without_packed_suffix(name: str) -> str:
    """Return the name of a file without the suffix of its compression."""
    return _PACKED_SUFFIX.sub("", name)


def without_numbers(name: str) -> str:
    """Return the name of a file without its numbers, because the files of a job differ in them."""
    return _NUMBER_IN_NAME.sub("", name)


# File and folder names that many runs share.
_PLAIN_NAMES: Final = frozenset(
    """
    log logs metrics train training run history scalars progress results output trainer_state
    events tensorboard wandb-history log_history csv files stats
    """.split()  # noqa: SIM905 - so that it can be read
)


def run_name(source: str, *, parents: int | None = None) -> str:
    """Return a readable name of a run: its file, or its folder if many runs share the file name.

    With ``parents``, numbered folders below it and that many folders above it are included.

    >>> run_name("good/run_b/log.jsonl"), run_name("good/run_b.csv"), run_name("metrics.csv")
    ('run_b', 'run_b', 'metrics.csv')
    >>> run_name("good/run_b/7/log.jsonl"), run_name("good/run_b/7/log.jsonl", parents=0)
    ('run_b', 'run_b/7')
    """
    parts = [part for part in source.split("/") if part not in ("", ".")]
    stems = [part.partition(".")[0] or part for part in parts]
    named = [at for at, stem in enumerate(stems) if stem.lower() not in _PLAIN_NAMES]
    at = next((at for at in reversed(named) if not stems[at].isdigit()), None)
    if at is None:
        return parts[-1] if parts else source
    if parents is None:
        return stems[at]
    return "/".join([*parts[max(at - parents, 0) : named[-1]], stems[named[-1]]])
