"""One JSON document: a list of records, an object of columns, or the state of the HF Trainer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from stabdiag.errors import NothingLogged, NoUsableRecord
from stabdiag.model.events import EventCode, LeftOut
from stabdiag.model.roles.choice import assign, can_judge_without_loss
from stabdiag.readers.columns import Columns
from stabdiag.readers.json.config import with_config
from stabdiag.readers.json.histories import is_of_evaluation, join_runs, join_splits, training_path
from stabdiag.readers.json.keyed import Path, shown_path
from stabdiag.readers.json.shapes import holds_history, is_document
from stabdiag.readers.json.tables import (
    Tables,
    by_step,
    indexed,
    make_chunk,
    read_tables,
    side_by_side,
    with_own_steps,
)
from stabdiag.readers.json.unnamed_lists import name_lists
from stabdiag.readers.lengths import describe
from stabdiag.readers.log_builder import columns_from_chunks
from stabdiag.readers.nested import Record
from stabdiag.readers.pieces import Rows
from stabdiag.readers.source import Stream

# A message names this many lists that are empty or left out.
_MAX_NAMED_LISTS: Final = 3


def sniff(head: bytes, *, is_complete: bool) -> bool:
    """Return True if the head of a file is one JSON document, rather than one object per line."""
    return is_document(head, is_complete=is_complete) and not holds_history(head)


def read(stream: Stream) -> Columns:
    """Read the largest table with a loss, or else the largest table."""
    tables = read_tables(stream)
    config = {".".join(path): value for path, value in tables.values.items()}
    events = name_lists(tables, stream.name)
    if tables.columns.get(()):
        raise NoUsableRecord(
            f'{stream.name}: a list of values without a name; add one: {{"loss": [2.5, 2.25, …]}}'
        )
    stepped = by_step(indexed(tables) | with_own_steps(tables), tables.counter)
    listed = side_by_side(tables, stream.notes)
    join_splits(tables.records)
    join_runs(tables.records, stream.notes)
    trained = training_path(tables.records)
    best = max(tables.records, key=lambda path: len(tables.records[path]), default=())
    if trained is not None and trained[:-1] == best[:-1] and is_of_evaluation(best):
        best = trained
    records = make_chunk(complete_last(tables.records.get(best, [])))
    if listed.rows == records.rows:
        _widen(records, listed)
    # Among tables of the same size, records come first, and lists without steps last.
    by_size = sorted((records, stepped, listed), key=lambda table: table.rows, reverse=True)
    taken = max(by_size, key=_usefulness)
    if taken is records:
        _note_others(tables, best, stream.notes)
        config = config if best else {}
    columns = _columns(stream, taken, tables, "json", config)
    columns = replace(columns, events=events, unnamed=True) if events else columns
    if taken is not listed:
        return columns
    lengths = {"/".join(path): len(values) for path, values in tables.columns.items()}
    return replace(columns, events=(*columns.events, *describe(lengths, listed.rows)))


def _usefulness(table: Rows) -> int:
    """Return 2 for a table with a loss, 1 for other measures of a run, else 0."""
    roles = assign(table.names)
    return 2 if roles.has("loss", "eval_loss") else int(can_judge_without_loss(roles.columns))


def _widen(records: Rows, listed: Rows) -> None:
    """Add to records the lists outside them that have a number for each record."""
    for name, parts in listed.parts.items():
        if not any(piece.words for _, piece in parts):
            records.parts.setdefault(name, parts)


def _columns(
    stream: Stream, table: Rows, tables: Tables, format: str, config: Mapping[str, object]
) -> Columns:
    if not table.rows:
        raise NoUsableRecord(f"{stream.name}: {_why_nothing(tables)}")
    columns = columns_from_chunks(
        [table], source=stream.name, format=format, bad=tables.bad, notes=stream.notes
    )
    if tables.is_cut:
        remainder = LeftOut(code=EventCode.BYTES_LEFT_OUT, message="the JSON document breaks off")
        columns = replace(columns, left_out=(*columns.left_out, remainder))
    return with_config(replace(columns, config=config, distinguishes_null=True))


def _why_nothing(tables: Tables) -> str:
    empty = [path for path, pieces in tables.columns.items() if not pieces]
    if empty and not tables.bad:
        names = ", ".join(shown_path(path) for path in empty[:_MAX_NAMED_LISTS] if path)
        be = "are" if "," in names else "is"
        return f"no record could be read: nothing was logged yet, {names or 'its list'} {be} empty"
    reason = f" (line {tables.bad[0].line}: {tables.bad[0].reason})" if tables.bad else ""
    if not all(tables.records.values()) and not reason:
        reason = " (its lists of lists are not [step, value] pairs)"
    return (
        f"no record could be read{reason}; expected a JSON list of records, such as"
        ' [{"step": 1, "loss": 2.5}, …], or lists of values by name'
    )


def _note_others(tables: Tables, taken: Path, notes: list[str]) -> None:
    others = [shown_path(path) for path in tables.records if path != taken]
    if others:
        notes.append(f"other lists of records are left out: {', '.join(others[:_MAX_NAMED_LISTS])}")


# The default checkpoint interval. The state contains it even if checkpoints are saved by the epoch
# or not at all, and does not contain the strategy.
_DEFAULT_SAVE_STEPS: Final = 500


class TrainerState:
    """``trainer_state.json`` of the HF Trainer, with its records in ``log_history``."""

    @staticmethod
    def sniff(head: bytes, *, is_complete: bool) -> bool:
        """Return True if the head of a file is one JSON document with a ``log_history``."""
        return is_document(head, is_complete=is_complete) and holds_history(head)

    @staticmethod
    def read(stream: Stream) -> Columns:
        """Read the history. The other fields belong to the configuration."""
        tables = read_tables(stream)
        paths = [path for path in tables.records if path[-1:] == ("log_history",)]
        records = make_chunk(tables.records[paths[0]] if paths else [])
        above = paths[0][:-1] if paths else ()
        values = tables.values.items()
        fields = {path[-1]: value for path, value in values if path and path[:-1] == above}
        if not records.rows and not tables.bad:
            facts = (
                f", {name} is {value:g}"
                for name in ("global_step", "logging_steps")
                if isinstance(value := fields.get(name), float)
            )
            raise NothingLogged(
                f"{stream.name}: nothing was logged: 'log_history' is empty{''.join(facts)}; log "
                "every few steps"
            )
        if fields.get("save_steps") == _DEFAULT_SAVE_STEPS:
            del fields["save_steps"]
        return _without_the_summary(_columns(stream, records, tables, "trainer-state", fields))


def _without_the_summary(columns: Columns) -> Columns:
    """Remove the mean loss of the whole run, found in the last record with the run time."""
    mean, time = "train_loss", "train_runtime"
    if mean not in columns.names or time not in columns.names:
        return columns
    if (columns.load(mean).present & ~columns.load(time).present).any():
        return columns
    return replace(columns, names=tuple(name for name in columns.names if name != mean))


# The counters of the last record of a paste, which may break off above them.
_COUNTERS = ("step", "epoch")


def complete_last(records: list[Record]) -> list[Record]:
    """Return the records; the last one has the next counts if it breaks off above them.

    Without a count its values would not be in order, and a loss that is not finite would be lost.
    """
    if len(records) < 2 or not _is_start(records[-1], records[-2]):
        return records
    last = dict(records[-1])
    columns = assign(records[-2]).columns
    for name in (columns[role] for role in _COUNTERS if role in columns):
        counts = [record[name] for record in records[-3:-1] if name in record]
        numbers = [count for count in counts if isinstance(count, float)]
        if name not in last and numbers:
            last[name] = numbers[-1] + (numbers[-1] - numbers[0] if len(numbers) > 1 else 1.0)
    return [*records[:-1], last]


def _is_start(cut: Record, complete: Record) -> bool:
    """Return True if a record has only the first names of a complete record."""
    names = list(complete)
    return bool(cut) and len(cut) < len(names) and list(cut) == names[: len(cut)]
