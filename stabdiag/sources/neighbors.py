"""Find the files next to a log that are named like it.

The files of other ranks and of other attempts belong to the same run. Files that only have another
number may be other runs.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from pathlib import Path, PurePosixPath
from typing import Final

from stabdiag.model.events import EventCode, LeftOut
from stabdiag.model.patterns import lazy_pattern
from stabdiag.model.text import and_more, plural
from stabdiag.sources.folder import Entry, Folder
from stabdiag.sources.names import identity, without_numbers, without_packed_suffix
from stabdiag.sources.sidecars import list_names

_MAX_NAMED_NEIGHBORS: Final = 3

# The rank of a low-rank adapter is not the rank of a process.
_PROCESS_NUMBER: Final = lazy_pattern(
    r"[-_. ]?(?<![a-z])(?<!lora.)(?:rank|gpu|node|worker|process|proc|host)[-_.=]?(\d{1,6})(?!\d)",
    re.IGNORECASE,
)
# train-resumed.log, run_part2.csv, attempt_1/log.jsonl, and the older part of a log: train.log.1
_ATTEMPT_WORD: Final = lazy_pattern(
    r"[-_. ]?(?<![a-z])(?:attempt|restart(?:ed)?|retry|part|resumed?|continued?|cont)(?![a-z])"
    r"(?:[-_. ]?\d{1,4}(?!\d))?|(?<=\.[a-z]{3})\.\d{1,3}$|(?<=\.jsonl)\.\d{1,3}$",
    re.IGNORECASE,
)


def describe_neighbors(log: Path, read: Collection[str] = ()) -> str:
    """Return a note about the files that are named like a log, or "".

    ``read`` are the identities of logs that are read as well. The files of other ranks and attempts
    are left to ``unread_parts``.
    """
    own = _without_number(log.name)
    if not own:
        return ""
    parts = {*_parts(log)}
    names = sorted(
        name
        for name, is_file in list_names(log.parent).items()
        if is_file and name != log.name and _without_number(name) == own
        if name not in parts and identity(str(log.parent / name)) not in read
    )
    if not names:
        return ""
    have, were = ("has", "was") if len(names) == 1 else ("have", "were")
    shown = and_more(names, _MAX_NAMED_NEIGHBORS)
    return f"{shown} {have} the same name with another number and {were} not read"


def unread_parts(log: Path, read: Collection[str] = ()) -> LeftOut | None:
    """Return the entry for the logs of other ranks and attempts of a run, or None.

    ``read`` are the identities of logs that are read as well.
    """
    paths = {name: log.parent / name for name in _parts(log)}
    entries = [
        Entry(path=PurePosixPath(name), size=path.stat().st_size, written=0.0, key=str(path))
        for name, path in paths.items()
        if identity(str(path)) not in read
    ]
    if not entries:
        return None
    from stabdiag.sources.logs import MIN_LOSSES, find_logs

    folder = Folder(log.parent)
    logs = find_logs(folder, entries)
    names = sorted(str(other.path) for other in logs if other.losses >= MIN_LOSSES)
    if not names:
        return None
    # A note says that only a part of many files was inspected.
    at_least = "at least " if folder.notes else ""
    return LeftOut(
        code=EventCode.LOGS_LEFT_OUT,
        message=f"{at_least}{plural(len(names), 'other log')} of the run: "
        f"{and_more(names, _MAX_NAMED_NEIGHBORS)}",
        count=len(names),
    )


def _parts(log: Path) -> Iterator[str]:
    """Yield the files of other ranks and attempts, by their paths from the folder of the log."""
    folder = log.parent.resolve()
    above = f"{folder.name}/" if _names_part(folder.name) else ""
    files = {name: f"{above}{name}" for name, is_file in list_names(log.parent).items() if is_file}
    own = files.pop(log.name, log.name)
    start = "../" if above else ""
    for name, is_file in list_names(log.parent / start).items():
        path = f"{start}{name}/{log.name}"
        is_other = not is_file and _names_part(name) and name != folder.name
        if is_other and (log.parent / path).is_file():
            files[path] = f"{name}/{log.name}"
    yield from (path for path, name in files.items() if _is_attempt(name, own))
    plain = _without(_PROCESS_NUMBER, own)
    ranks = {path: name for path, name in files.items() if _without(_PROCESS_NUMBER, name) == plain}
    # node0/log_rank1.txt has two numbers.
    numbers = [(*map(int, _PROCESS_NUMBER.findall(name)),) for name in (own, *ranks.values())]
    lasts = [number[-1] if number else None for number in numbers]
    # The first rank may have no number. Other numbers may count the processes of each job.
    is_job = 0 in lasts or (None in lasts and 1 in lasts)
    if is_job and len({*numbers}) == len(numbers):
        yield from ranks


def _is_attempt(name: str, own: str) -> bool:
    """Return True if two paths differ in the words and numbers of attempts."""
    plain, own_plain = without_packed_suffix(name), without_packed_suffix(own)
    return plain != own_plain and _without(_ATTEMPT_WORD, plain) == _without(
        _ATTEMPT_WORD, own_plain
    )


def _names_part(name: str) -> bool:
    return (_PROCESS_NUMBER.search(name) or _ATTEMPT_WORD.search(name)) is not None


def _without(part: re.Pattern[str], name: str) -> str:
    return "/".join(filter(None, part.sub("", without_packed_suffix(name)).split("/")))


def _without_number(name: str) -> str:
    """Return a name without its numbers, or "" if nothing but a suffix is left of it.

    These are log.0 and log.1, train.log and train.log.2, out_rank0.txt.
    """
    plain = without_numbers(without_packed_suffix(name))
    return "" if plain.startswith(".") else plain
