"""Steps for records that were only counted, where the manifest tells how often one is written."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from stabdiag.model.history import EventCode
from stabdiag.model.manifest.other import other_number
from stabdiag.model.manifest.spelling import by_spelling
from stabdiag.model.roles import assign
from stabdiag.model.text import plural

if TYPE_CHECKING:
    from stabdiag.model.manifest import Manifest
    from stabdiag.readers.columns import Column, Columns


def in_steps(columns: Columns, manifest: Manifest) -> Columns:
    """Return the columns with steps for numbers of records, if one is written every so many steps.

    The first record is written when so many steps are done.
    """
    every = other_number(by_spelling(manifest.also), "log_every")
    # Below 1 it is a share of the run.
    counted = any(event.code is EventCode.COUNTED for event in columns.events)
    if every is None or every < 1 or not counted:
        return columns
    between, counter = int(every), assign(columns.names).columns.get("step")

    def load(name: str) -> Column:
        column = columns.load(name)
        if name != counter:
            return column
        return replace(column, values=(column.values + 1) * between)

    told = (
        "no step was logged: the records are counted, one every "
        f"{plural(between, 'step')} (logging_steps)"
    )
    events = tuple(
        replace(event, message=told, code=None) if event.code is EventCode.COUNTED else event
        for event in columns.events
    )
    return replace(columns, load=load, events=events)
