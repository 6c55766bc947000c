"""Find the files next to a log that are named like it.

The files of other ranks and of other attempts belong to the same run. Files that only have another
number may be other runs.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path, PurePosixPath
from typing import Final

from stabdiag.model.events import EventCode, LeftOut
from stabdiag.model.patterns import lazy_pattern
from stabdiag.model.roles.names import is_evaluation
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


# run.jsonl, run.bak, run.jsonl.old and run.jsonl~ have the stem run.
_LOG_SUFFIX: Final = lazy_pattern(
    r"\.(?:jsonl|json|ndjson|log|txt|csv|tsv|out|err|yaml|parquet)$", re.IGNORECASE
)
_BACKUP_SUFFIX: Final = lazy_pattern(
    r"(?:\.(?:bak|backup|old|orig|prev|previous|copy|save|saved|tmp)\d{0,3}|~)$", re.IGNORECASE
)
_ANY_SUFFIX: Final = ".*"
_COPY_OF: Final = lazy_pattern(r"^(?:copy|kopie) (?:\(\d{1,3}\) )?(?:of|von) ", re.IGNORECASE)
# The words of a name, except those that tell a version of it from another.
_STEM_WORD: Final = lazy_pattern(r"[^\W_]+")
_VERSION_WORDS: Final = frozenset(
    """
    copy bak backup old new prev previous last first final best rerun redo again orig original tmp
    draft fix fixed bad good
    """.split()  # noqa: SIM905 - so that it can be read
)
_VERSION_WORD: Final = lazy_pattern(r"v?\d{1,14}|[a-z]", re.IGNORECASE)
# What else is stored next to a log under its name.
_OTHER_CONTENT: Final = frozenset(
    """
    config configs conf cfg args arguments settings options params parameters hparams flags vocab
    tokenizer tokens readme notes requirements env environment summary report meta metadata info
    predictions prediction preds samples labels classes data dataset index manifest schema status
    """.split()  # noqa: SIM905 - so that it can be read
)


def describe_neighbors(log: Path, read: Collection[str] = ()) -> str:
    """Return a note about the files that are named like a log, or "".

    ``read`` are the identities of logs that are read as well. The files of other ranks and attempts
    are left to ``unread_parts``.
    """
    parts = {*_parts(log)}
    others = sorted(
        name
        for name, is_file in list_names(log.parent).items()
        if name != log.name and name not in parts
        if is_file or _is_dangling(log.parent / name)
        if identity(str(log.parent / name)) not in read
    )
    own = _without_number(log.name)
    plain = without_packed_suffix(log.name)
    numbered = [
        name
        for name in others
        if own and _without_number(name) == own and without_packed_suffix(name) != plain
    ]
    similar = [name for name in others if name not in numbered and is_similar(name, log.name)]
    notes = (
        _unread(numbered, "the same name with another number"),
        _unread(similar, "a similar name"),
    )
    return "; ".join(filter(None, notes))


def _unread(names: Sequence[str], likeness: str) -> str:
    if not names:
        return ""
    have, were = ("has", "was") if len(names) == 1 else ("have", "were")
    return f"{and_more(names, _MAX_NAMED_NEIGHBORS)} {have} {likeness} and {were} not read"


def _is_dangling(path: Path) -> bool:
    return path.is_symlink() and not path.exists()


def is_similar(name: str, own: str) -> bool:
    """Return True if a file may be another version of a log, or another run, by its name."""
    stem, suffix = _stem(name)
    own_stem, own_suffix = _stem(own)
    is_of_format = suffix == own_suffix or _ANY_SUFFIX in (suffix, own_suffix)
    if not (stem and suffix and own_suffix and is_of_format):
        return False
    from stabdiag.sources.logs import may_be_log

    words, own_words = _words(stem), _words(own_stem)
    added = {*words} ^ {*own_words}
    if not (may_be_log(f"{stem}{own_suffix.rstrip('.*')}") and added.isdisjoint(_OTHER_CONTENT)):
        return False
    if is_evaluation(stem) != is_evaluation(own_stem):
        return False
    shorter, longer = sorted((words, own_words), key=len)
    names = [[*filter(_is_name, each)] for each in (words, own_words)]
    return longer[: len(shorter)] == shorter != [] or names[0] == names[1] != []


def _stem(name: str) -> tuple[str, str]:
    """Return the name of a log without its suffixes, and the suffix of its format.

    A backup may have lost it.
    """
    plain = without_packed_suffix(_COPY_OF.sub("", name)).lstrip(".")
    own = _BACKUP_SUFFIX.sub("", plain)
    suffix = _LOG_SUFFIX.search(own)
    if suffix is None:
        return own, _ANY_SUFFIX if own != plain else ""
    return own[: suffix.start()], suffix[0].lower()


def _words(stem: str) -> list[str]:
    return _STEM_WORD.findall(stem.lower())


def _is_name(word: str) -> bool:
    return word not in _VERSION_WORDS and _VERSION_WORD.fullmatch(word) is None


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
