"""Short names for the runs of a comparison: their own file or folder names."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import takewhile
from typing import Final

# A label is at most this long. Longer ones are cut where all runs have the same text.
_MAX_LABEL_LENGTH: Final = 24

# Number of characters kept at both ends of a label that is cut.
_KEPT_CHARS: Final = 4

_SUFFIXES: Final = re.compile(
    r"(\.(jsonl|ndjson|json|csv|tsv|txt|log|out|parquet|db|wandb|gz|zst|bz2|xz|zip|tar))+$",
    re.IGNORECASE,
)

# Generated file names, which are not labels: event files and time stamps.
_GENERATED: Final = re.compile(r"tfevents|^\w{3}\d{2}_\d{2}-\d{2}-\d{2}_|^\d{4,8}[-_]?\d{2,6}")

# Names that programs give to the log of every run.
_STANDARD: Final = re.compile(
    r"(logs?|metrics|train(ing|er_state|er_log)?|(log_)?history|progress|results|output|events"
    r"|scalars|stdout)$"
)


def make_labels(names: Sequence[str], ranks: Sequence[int | None]) -> list[str]:
    """Return a distinct label for each run.

    Args:
        names: the names of the logs, usually paths.
        ranks: the rank of each run, if known. Distinct ranks become labels.

    >>> make_labels(["runs/base/log.jsonl", "runs/low/log.jsonl"], [None, None])
    ['base', 'low']
    """
    if None not in ranks and len(set(ranks)) == len(ranks):
        return [f"rank {rank}" for rank in ranks]
    labels = _shortened(_own_names(names))
    if len(set(labels)) == len(labels):
        return labels
    return [f"run {number}" for number in range(1, len(names) + 1)]


def _own_names(names: Sequence[str]) -> list[str]:
    """Return the part of each path that distinguishes the runs: a file or folder name."""
    paths = [[part for part in re.split(r"[/\\]", name) if part] or [name] for name in names]
    stems = [_SUFFIXES.sub("", path[-1]) or path[-1] for path in paths]
    is_named = not any(_GENERATED.search(stem) for stem in stems)
    if is_named and len(set(stems)) == len(stems) and not all(map(_STANDARD.match, stems)):
        return stems
    depth = min(map(len, paths))
    columns = [[path[i] for path in paths] for i in range(depth - 1)]
    columns += [[path[-i] for path in paths] for i in range(depth, 0, -1)]
    distinct = (column for column in columns if len(set(column)) == len(column))
    return next(distinct, list(names))


def _shortened(labels: list[str]) -> list[str]:
    """Return labels without most of their common text, if any is too long."""
    if max(map(len, labels)) <= _MAX_LABEL_LENGTH:
        return labels
    first = _common_length(labels)
    endings = [label[first:] for label in labels]
    last = _common_length([text[::-1] for text in endings])
    cut = []
    for label, text in zip(labels, endings, strict=True):
        head = (
            label[:first]
            if first <= 2 * _KEPT_CHARS
            else f"{label[:_KEPT_CHARS]}…{label[first - _KEPT_CHARS : first]}"
        )
        middle, tail = text[: len(text) - last], text[len(text) - last :]
        if len(tail) > 2 * _KEPT_CHARS:
            tail = f"{tail[:_KEPT_CHARS]}…{tail[-_KEPT_CHARS:]}"
        cut.append(_clipped(f"{head}{middle}{tail}"))
    return cut


def _common_length(texts: Sequence[str]) -> int:
    """Return the length of the common prefix."""
    columns = zip(*texts, strict=False)
    return sum(1 for _ in takewhile(lambda column: len(set(column)) == 1, columns))


def _clipped(label: str) -> str:
    """Cut a label in the middle if it is too long."""
    if len(label) <= _MAX_LABEL_LENGTH:
        return label
    half = (_MAX_LABEL_LENGTH - 1) // 2
    return f"{label[:half]}…{label[-half:]}"
