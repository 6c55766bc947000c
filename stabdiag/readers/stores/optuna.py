"""Optuna: the intermediate values of the trials in a database or a journal.

Each trial is a run. If its study minimizes, its values are a loss, else a reward: what a run
maximizes.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final

from stabdiag.errors import NoUsableRecord
from stabdiag.model.events import Event, EventKind
from stabdiag.model.text import word_list
from stabdiag.readers.blocks import blocks
from stabdiag.readers.columns import Columns
from stabdiag.readers.json.lines import JOURNAL_KEYS
from stabdiag.readers.nested import parse_record
from stabdiag.readers.points import Points
from stabdiag.readers.source import Stream
from stabdiag.readers.stores.stored import stored_runs

if TYPE_CHECKING:  # detection does not need the database, and a text log tries this module
    import sqlite3

TABLES: Final = frozenset(word_list("studies study_directions trials trial_intermediate_values"))

# The columns of the values, by whether the study minimizes them.
_VALUE_COLUMNS: Final = {True: "objective_loss", False: "reward"}

_TRIALS_QUERY: Final = """
    SELECT trials.trial_id, trials.number, studies.study_name, directions.direction
    FROM trials NOT INDEXED
    JOIN studies ON studies.study_id = trials.study_id
    LEFT JOIN study_directions AS directions
        ON directions.study_id = trials.study_id AND directions.objective = 0
    WHERE trials.trial_id IN (SELECT trial_id FROM trial_intermediate_values NOT INDEXED)
    ORDER BY trials.trial_id DESC
"""
_VALUES: Final = (
    "SELECT step, intermediate_value, intermediate_value_type FROM trial_intermediate_values"
    " WHERE trial_id = ? ORDER BY step"
)
_TRIAL_PARAMETERS_QUERY: Final = (
    "SELECT param_name, param_value, distribution_json FROM trial_params WHERE trial_id = ?"
)
_SPECIAL: Final = {"NAN": math.nan, "INF_POS": math.inf, "INF_NEG": -math.inf}


@dataclass
class _Trial:
    """One trial: its id, its study, the direction, its values by step, and its parameters."""

    id: str
    study: str
    number: int
    minimizes: bool
    values: dict[int, float] = field(default_factory=dict)
    parameters: dict[str, object] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """The study and the number of the trial in it."""
        return f"{self.study}/trial-{self.number}"


def read_database(
    database: sqlite3.Connection, source: str, notes: list[str], run_id: str | None
) -> Columns:
    """Read a trial of a database, by default the newest with intermediate values."""
    trials = [
        _Trial(id=str(trial), study=str(study), number=number, minimizes=direction != "MAXIMIZE")
        for trial, number, study, direction in database.execute(_TRIALS_QUERY)
        if isinstance(number, int)
    ]
    chosen = _chosen(trials, run_id, source)
    for step, value, kind in database.execute(_VALUES, [int(chosen.id)]):
        number = _SPECIAL.get(kind, value)
        if isinstance(step, int) and isinstance(number, int | float):
            chosen.values[step] = float(number)
    for name, value, distribution in database.execute(_TRIAL_PARAMETERS_QUERY, [int(chosen.id)]):
        chosen.parameters[str(name)] = _parameter(value, distribution)
    return _columns(chosen, trials, source, "sqlite", tuple(notes), run_id)


def _chosen(trials: list[_Trial], run_id: str | None, source: str) -> _Trial:
    """Return the trial with an id, by default the first one with values to minimize.

    Raises:
        NoUsableRecord: If there is none.
    """
    for trial in sorted(trials, key=lambda trial: not trial.minimizes):
        if run_id in (None, trial.id):
            return trial
    raise NoUsableRecord(
        f"{source}: no record could be read; no trial in it has intermediate values"
        " (trial.report(value, step))"
    )


def _parameter(value: object, distribution: object) -> object:
    """Return the value of a parameter; the database has the position of a choice."""
    content = parse_record(distribution) if isinstance(distribution, str) else {}
    attributes = content.get("attributes")
    choices = attributes.get("choices") if isinstance(attributes, Mapping) else None
    if not isinstance(choices, list) or not isinstance(value, int | float):
        return value
    return choices[int(value)] if 0 <= value < len(choices) else value


def _columns(
    trial: _Trial,
    trials: list[_Trial],
    source: str,
    format_name: str,
    notes: tuple[str, ...],
    run_id: str | None,
) -> Columns:
    points = Points()
    for step, value in sorted(trial.values.items()):
        points.add(_VALUE_COLUMNS[trial.minimizes], step, value)
    meaning = "minimized: a loss" if trial.minimizes else "maximized: a reward"
    message = f"the values are the intermediate values of {trial.name}, which are {meaning}"
    events = [Event(kind=EventKind.COLUMN, message=message)]
    others = [other for other in trials if other is not trial]
    if others and run_id is None:
        message = f"the study has {len(trials)} trials with intermediate values; this is the latest"
        events.append(Event(kind=EventKind.ATTEMPT, message=message))
    columns = points.columns(
        source=source,
        format=format_name,
        notes=notes,
        events=tuple(events),
        config=trial.parameters,
    )
    stored = stored_runs((item.id, item.name) for item in (trial, *others))
    return replace(columns, stored=stored if run_id is None else ())


# The codes of operations in a journal: optuna.storages.journal.JournalOperation.
_CREATE_STUDY, _CREATE_TRIAL, _SET_PARAM, _SET_VALUE = 0, 4, 5, 7
_MAXIMIZE: Final = 2


def sniff(head: bytes, *, is_complete: bool) -> bool:
    """Return True if the first line is an operation of a journal."""
    first = head.partition(b"\n")[0]
    is_whole = is_complete or b"\n" in head
    return first.startswith(b"{") and is_whole and all(key in first for key in JOURNAL_KEYS)


def read(stream: Stream) -> Columns:
    """Read a trial of a journal, by default the newest with intermediate values."""
    trials, unreadable = _replayed(_operations(stream))
    notes = [*stream.notes]
    if unreadable:
        notes.append(f"{unreadable} lines of the journal were not readable")
    reported = [trial for trial in reversed(trials) if trial.values]
    chosen = _chosen(reported, stream.run_id, stream.name)
    return _columns(chosen, reported, stream.name, "optuna-journal", tuple(notes), stream.run_id)


def _operations(stream: Stream) -> Iterator[dict[str, Any] | None]:
    """Yield the operations of a journal, None for a line that is not one."""
    unfinished = b""
    for block in blocks(stream):
        *lines, unfinished = (unfinished + block).split(b"\n")
        for line in lines:
            if line.strip():
                yield _operation(line)
    if unfinished.strip():
        yield _operation(unfinished)


def _operation(line: bytes) -> dict[str, Any] | None:
    try:
        content = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return content if isinstance(content, dict) else None


def _replayed(operations: Iterator[dict[str, Any] | None]) -> tuple[list[_Trial], int]:
    """Return the trials that the operations create, and the number of unreadable lines."""
    studies: list[tuple[str, bool]] = []
    counts: list[int] = []
    trials: list[_Trial] = []
    unreadable = 0
    for operation in operations:
        if operation is None:
            unreadable += 1
            continue
        code, trial_id = operation.get("op_code"), operation.get("trial_id")
        trial = (
            trials[trial_id] if isinstance(trial_id, int) and 0 <= trial_id < len(trials) else None
        )
        if code == _CREATE_STUDY:
            directions = operation.get("directions")
            maximizes = isinstance(directions, list) and directions[:1] == [_MAXIMIZE]
            studies.append((str(operation.get("study_name")), not maximizes))
            counts.append(0)
        elif code == _CREATE_TRIAL:
            study = operation.get("study_id")
            if not isinstance(study, int) or not 0 <= study < len(studies):
                unreadable += 1
                continue
            name, minimizes = studies[study]
            trials.append(
                _Trial(id=str(len(trials)), study=name, number=counts[study], minimizes=minimizes)
            )
            counts[study] += 1
        elif trial is not None and code == _SET_PARAM:
            value, distribution = (
                operation.get("param_value_internal"),
                operation.get("distribution"),
            )
            trial.parameters[str(operation.get("param_name"))] = _parameter(value, distribution)
        elif trial is not None and code == _SET_VALUE:
            step, value = operation.get("step"), operation.get("intermediate_value")
            if isinstance(step, int) and isinstance(value, int | float):
                trial.values[step] = float(value)
    return trials, unreadable
