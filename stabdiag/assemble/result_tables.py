"""Refuse tables with the results of several runs, models or trials, which are not one log."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from itertools import takewhile
from typing import Final

from stabdiag.assemble.records import MAX_SHOWN_COLUMNS, MIN_RECORDS, shown_name
from stabdiag.errors import NoUsableRecord
from stabdiag.model.patterns import lazy_pattern
from stabdiag.model.roles.loss_kinds import DISCRIMINATOR, GENERATOR, is_policy_loss, is_value_loss
from stabdiag.model.roles.names import find_split, last_word, name_words, names_results, normal
from stabdiag.model.roles.scores import score_direction
from stabdiag.model.text import and_more
from stabdiag.model.unique import unique_values
from stabdiag.readers.columns import Columns

# The formats of tables that people write.
_TABLES: Final = ("csv", "printed-table")
_DIGITS: Final = lazy_pattern(r"\d+")

_WHAT: Final = "this is a table of results, not the log of a run; pass the log of one of the runs"


def refuse_results(columns: Columns, names: Mapping[str, str]) -> None:
    """Raise an error if a table has one record or one section for each of several runs.

    Args:
        columns: the columns of the table.
        names: the columns by role.

    Raises:
        NoUsableRecord: if the records or sections belong to different models, teams or trials.
    """
    counter = names.get("step") or names.get("epoch")
    if columns.rows == 1 and counter is None:
        _refuse_sections(columns, names)
    counted = columns.load(counter).logged if counter else None
    # Compare instead of subtracting, since steps may be infinite.
    is_counter = (
        counted is not None and len(counted) > 1 and bool((counted[1:] >= counted[:-1]).all())
    )
    if is_counter or columns.rows < MIN_RECORDS:
        return
    has_measures = bool(names) or any(map(score_direction, columns.names))
    is_table = has_measures and counter is None and columns.format in _TABLES
    named = _names_of_rows(columns) if is_table else None
    for name in columns.names:
        if not (names_results(name) or name == named):
            continue
        column = columns.load(name)
        if column.present.all() and len(unique_values(column.values)) == columns.rows:
            raise NoUsableRecord(
                f"{columns.source}: each record has a different {shown_name(name)!r}: {_WHAT}"
            )


def _names_of_rows(columns: Columns) -> str | None:
    """Return the first column of a table if it has another word in each record, or None.

    Names that differ only in a number, as checkpoints do, count as one.
    """
    begin = takewhile(columns.is_parsed, columns.names)
    first = next((name for name in begin if columns.load(name).present.any()), None)
    column = None if first is None else columns.load(first)
    if column is None or not column.is_text or column.is_time:
        return None
    stems = {_DIGITS.sub("", word) for word in column.words}
    return first if 2 * len(stems) > columns.rows else None


def _refuse_sections(columns: Columns, names: Mapping[str, str]) -> None:
    """Raise an error if a single record has the same measures, a loss among them, in sections.

    ``{"resnet": {"loss": 0.3, "acc": 0.9}, "vgg": {"loss": 0.4, "acc": 0.8}}``. The sections of a
    run are its splits or networks.
    """
    loss = names.get("loss", names.get("eval_loss", "")).partition(" + ")[0]
    sections: dict[str, set[str]] = defaultdict(set)
    for name in columns.names:
        section, bar, measure = name.rpartition("/")
        if bar:
            sections[section].add(normal(measure))
    own = sections.get(loss.rpartition("/")[0], set())
    runs = [section for section, measures in sections.items() if measures == own]
    if len(own) > 1 and len(runs) > 1 and not any(map(_is_of_one_run, runs)):
        shown = and_more([*map(shown_name, runs)], MAX_SHOWN_COLUMNS)
        raise NoUsableRecord(f"{columns.source}: {shown} have the same measures: {_WHAT}")


def _is_of_one_run(section: str) -> bool:
    """Return True if a section is a split, or a network that trains with another one."""
    return (
        find_split(last_word(section)) is not None
        or is_policy_loss(section)
        or is_value_loss(section)
        or not (GENERATOR | DISCRIMINATOR).isdisjoint(name_words(section))
    )
