"""JSON objects with the curves of a whole run, in contrast to one record of a run."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from stabdiag.model.roles.choice import assign
from stabdiag.model.roles.names import NameParts, find_split, is_a_loss, name_words, normal
from stabdiag.model.roles.scores import score_columns
from stabdiag.model.text import and_more
from stabdiag.readers.json.keyed import (
    Path,
    key_number,
    label_curves,
    list_in_text,
    shown_path,
)
from stabdiag.readers.lengths import SIMILAR_LENGTH
from stabdiag.readers.nested import Record
from stabdiag.readers.unnamed import FEWEST

# The counter of a record; a single number of epochs or steps belongs to the whole run.
_RECORD_COUNTERS: Final = frozenset({"step", "iter", "iteration", "epoch", "global_step", "update"})

# Words for the value of a measure at the end of a run.
_END_OF_RUN: Final = frozenset({"final", "last", "end"})

# A note names this many runs.
_MAX_NOTED_RUNS: Final = 3


def collect_runs(records: Sequence[Record]) -> dict[Path, list[Record]]:
    """Return the records inside records that are whole runs: [{"fold": 0, "history": [{…}]}]."""
    inner = [
        [
            (key, value)
            for key, value in record.items()
            if isinstance(value, list) and value and isinstance(value[0], dict)
        ]
        for record in records
    ]
    keys = {key for lists in inner for key, _ in lists}
    if len(keys) != 1 or not all(inner) or assign(records[0]).has("step", "epoch"):
        return {}
    if not assign(inner[0][0][1][0]).has("loss"):
        return {}
    return {
        (str(number), key): [record for record in value if isinstance(record, dict)]
        for number, lists in enumerate(inner)
        for key, value in lists
    }


def collect_histories(records: Sequence[Record]) -> dict[Path, list[object]]:
    """Return the curves of records that are whole runs, by the name or number of the run.

    A list in each step of a run is shorter than the run.
    """
    runs = [
        {path: value for path, value in values.items() if isinstance(value, list)}
        for values in (dict(leaves(record, ())) for record in records)
        if is_history(values)
    ]
    lengths = [len(values) for run in runs for values in run.values()]
    if len(runs) < len(records) or not runs or max(lengths) < max(FEWEST, len(records)):
        return {}
    curves = [{"/".join(path): values for path, values in run.items()} for run in runs]
    return label_curves(records, curves)


def is_numbered(value: object) -> bool:
    """Return True if a value is an object with numbered keys."""
    return isinstance(value, dict) and len(value) > 1 and all(map(key_number, value))


def join_runs(records: dict[Path, list[Record]], notes: list[str]) -> None:
    """Concatenate the records of several runs, {"fold_0": [{"epoch": 0, …}, …], "fold_1": …}.

    They have the same names, and a counter that begins again with each run. The lists of splits
    belong to one run.
    """
    groups: dict[tuple[str, ...], list[Path]] = defaultdict(list)
    for path, items in records.items():
        names = tuple(sorted(items[0])) if items else ()
        roles = assign(names)
        is_run = roles.has("loss") and roles.has("step", "epoch")
        if is_run and not any(map(find_split, path)):
            groups[names].append(path)
    for paths in groups.values():
        lengths = [len(records[path]) for path in paths]
        # A much shorter list may be an excerpt, such as the best epochs.
        if len(paths) < 2 or min(lengths) < SIMILAR_LENGTH * max(lengths):
            continue
        shown = and_more([shown_path(path) for path in paths], _MAX_NOTED_RUNS)
        notes.append(f"the records of {shown} are read as one run after the other")
        records[paths[0]] = [record for path in paths for record in records.pop(path)]


def join_splits(records: dict[Path, list[Record]]) -> None:
    """Join the records of splits: {"train": [{"loss": …}, …], "val": [{"loss": …}, …]}.

    An evaluation record is joined to the training record of the same step or epoch, or of the same
    index if it has neither. Its names begin with the split.
    """
    trained = training_path(records)
    if trained is None:
        return
    by_count = dict(zip(_counts(records[trained]), records[trained], strict=True))
    if len(by_count) < len(records[trained]):
        return
    for path in [path for path in records if path[:-1] == trained[:-1]]:
        counts = _counts(records[path])
        is_counted = len({*counts}) == len(counts) and by_count.keys() >= {*counts}
        if is_counted and is_of_evaluation(path):
            for count, record in zip(counts, records.pop(path), strict=True):
                by_count[count] |= {f"{path[-1]}_{name}": record[name] for name in record}


def training_path(records: Mapping[Path, list[Record]]) -> Path | None:
    """Return the path of the records of the training split if they have a loss, else None."""
    for path, items in records.items():
        is_training = bool(path) and find_split(path[-1]) is NameParts.TRAINING
        if is_training and items and assign(items[0]).has("loss"):
            return path
    return None


def is_of_evaluation(path: Path) -> bool:
    """Return True if a path ends with the name of a validation or test split."""
    split = find_split(path[-1]) if path else None
    return split in (NameParts.VALIDATION, NameParts.TEST)


def _counts(records: Sequence[Record]) -> list[object]:
    """Return the step or the epoch of each record, or else its number and how many there are."""
    roles = assign(next(iter(records), ())).columns
    counter = roles.get("step", roles.get("epoch"))
    if counter is None:
        return [(number, len(records)) for number in range(len(records))]
    return [record.get(counter) for record in records]


def leaves(value: object, path: Path) -> Iterator[tuple[Path, object]]:
    """Yield all values that are not objects, by their path of keys.

    An object with numbered keys counts as a list.
    """
    if not isinstance(value, dict):
        yield path, list_in_text(value) or value if isinstance(value, str) else value
    elif is_numbered(value):
        yield path, list(value.values())
    else:
        for key, member in value.items():
            yield from leaves(member, (*path, key))


def is_history(values: Mapping[Path, object]) -> bool:
    """Return True if lists have the measures of a run, and single values only its results.

    A record has a step or an epoch, or a loss of its own next to a list for layers or groups.
    """
    names = {path: "/".join(path) for path in values}
    singles = [names[path] for path, value in values.items() if not isinstance(value, list)]
    keys = {normal(name.rpartition("/")[2]) for name in singles}
    if not _RECORD_COUNTERS.isdisjoint(keys) or any(map(_is_own_loss, singles)):
        return False
    return any(
        isinstance(value, list) and _is_course(value) and _is_measure(names[path])
        for path, value in values.items()
    )


def _is_own_loss(name: str) -> bool:
    """Return True if a single value is the loss of a record, not the last of a run."""
    return is_a_loss(name) and _END_OF_RUN.isdisjoint(name_words(name))


def _is_course(values: list[object]) -> bool:
    return len(values) > 1 and all(isinstance(value, int | float | None) for value in values)


def _is_measure(name: str) -> bool:
    """Return True if a name is a loss, a reward or a score."""
    roles = assign([name])
    return roles.has("loss", "eval_loss", "reward") or bool(score_columns([name], ()))
