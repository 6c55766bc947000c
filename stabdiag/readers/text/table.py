"""Put the lines that a grammar found together into records, in the order of the log."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Final

import numpy as np

from stabdiag.model.arrays import AnyArray, Floats, Ints, Mask
from stabdiag.model.frozen import frozen
from stabdiag.model.roles.names import is_an_lr
from stabdiag.readers.columns import (
    EXACT,
    Piece,
    Rows,
    piece_of_meanings,
    piece_of_numbers,
)
from stabdiag.readers.text.failures import Failures
from stabdiag.readers.text.grammar import Aside, Grammar, Kind, Line, Part
from stabdiag.readers.text.prefix import CLOCK, NO_RANK, of_one_rank, ranks_of, seconds_at
from stabdiag.readers.text.shapes import Cells
from stabdiag.readers.text.steps import TOTAL, counted_on, filled, neighbours, totals_of_training
from stabdiag.readers.text.values import NULL_CELL
from stabdiag.readers.words import ABSENT, NULL, NUMBER, WORD, meaning

# The name of the loss of training in the logs that have bars.
LOSS: Final = "loss"

# The column of the rows that another table has.
ROW: Final = "row"
_ANOTHER: Final = Line(pattern=b"")

# Python itself prints a rate of zero as 0.0.
_ROUNDED: Final = re.compile(rb"0\.00{1,20}")

# 1K, as LeRobot writes the steps from 1000 on.
_IN_THOUSANDS: Final = re.compile(r"(\d{1,4})([KMB])")

_THOUSANDS: Final = re.compile(rb",(?=\d{3}(?:\D|$))")


@frozen
class _Stored:
    """Lines of one kind with the same columns, by their places in the log.

    Steps are written in whole multiples of their ``unit``, 0 for one.
    """

    kind: Kind
    at: Ints
    steps: Floats
    unit: Floats
    ranks: Ints
    pieces: Mapping[str, Piece]
    beside: bool


@frozen
class Finished:
    """All records, where each stands in the log, and the steps at rising places in it."""

    rows: Rows
    at: Ints
    places: Ints
    steps: Floats
    ranks: int

    def step_at(self, place: int) -> int | None:
        """Return the step that the log had reached at a place.

        If no record names a step, it is the number of the last record, from 0.
        """
        if not len(self.places) and len(self.at):
            return max(int(np.searchsorted(self.at, place, side="right")) - 1, 0)
        before = int(np.searchsorted(self.places, place, side="right")) - 1
        return int(self.steps[before]) if before >= 0 else None


class Table:
    """Gathers the lines of all blocks."""

    def __init__(self, grammar: Grammar) -> None:
        """Take the lines of ``grammar``."""
        self._grammar = grammar
        self._stored: list[_Stored] = []

    def __bool__(self) -> bool:
        kinds = (stored.kind for stored in self._stored)
        return any(kind.is_record and not isinstance(kind, Failures) for kind in kinds)

    def add(self, kind: Kind, part: Part, data: bytes, offset: int) -> None:
        """Keep lines that were found in ``data``, which begins ``offset`` bytes into the log."""
        at = np.array(part.starts, dtype=np.int64)
        ranks = ranks_of(data, part.starts)
        pieces = {
            name: piece_of(_as_far_as_known(cells) if is_an_lr(name) else cells)
            for name, cells in zip(part.names, part.cells, strict=True)
        }
        clock = seconds_at(data, part.starts) if kind.is_record else None
        if clock is not None:
            pieces.setdefault(CLOCK, piece_of_numbers(clock, np.isnan(clock), gap=ABSENT))
        given = pieces.get(self._grammar.step)
        steps, unit = np.full(len(at), np.nan), np.zeros(len(at))
        if given is not None:
            whole = (given.states == NUMBER) & (np.abs(given.values) < EXACT)
            steps[whole] = given.values[whole]
            words = (_IN_THOUSANDS.fullmatch(word) for word in given.words)
            for row, word in zip(np.flatnonzero(given.states == WORD), words, strict=True):
                unit[row] = 1000.0 ** " KMB".index(word[2]) if word is not None else 0.0
                steps[row] = float(word[1]) * unit[row] if word is not None else np.nan
        self._stored.append(
            _Stored(
                kind=kind,
                at=at + offset,
                steps=steps,
                unit=unit,
                ranks=np.full(len(at), NO_RANK) if ranks is None else ranks,
                pieces=pieces,
                beside=part.beside,
            )
        )

    def copy(self) -> Table:
        """Return a table of the same lines, to which others can be added."""
        other = Table(self._grammar)
        other._stored = [*self._stored]
        return other

    def among(self, at: Ints, steps: Floats) -> Finished:
        """Return the records together with others at these places; ``ROW`` has the rows of those.

        Of two at one place the other comes first.
        """
        other = _Stored(
            kind=_ANOTHER,
            at=at,
            steps=steps,
            unit=np.zeros(len(at)),
            ranks=np.full(len(at), NO_RANK),
            pieces={ROW: piece_of_numbers(np.arange(float(len(at))))},
            beside=False,
        )
        both = Table(self._grammar)
        both._stored = [other, *self._stored]
        return both.finished()

    def finished(self, total: float | None = None) -> Finished:
        """Return the records in the order of the log; of the lines of several ranks, one counts.

        ``total`` is how many steps the log announces.
        """
        stored = _without_other_bars(self._stored, total)
        at = np.concatenate([one.at for one in stored])
        order = np.argsort(at, kind="stable")
        kinds = {id(one.kind): number for number, one in enumerate(stored)}
        lines = [len(one.at) for one in stored]

        def of_lines(values: list[int] | list[bool]) -> AnyArray:
            """Return one value a stored part as one a line, in the order of the log."""
            return np.repeat(values, lines)[order]

        kind = of_lines([kinds[id(one.kind)] for one in stored])
        steps = np.concatenate([one.steps for one in stored])[order]
        ranks = np.concatenate([one.ranks for one in stored])[order]
        kept = of_one_rank(kind, steps, ranks)
        how = of_lines([one.kind.step.value for one in stored])
        unit = np.concatenate([one.unit for one in stored])[order]
        named = neighbours(~np.isnan(steps))[0] >= 0
        steps[kept] = filled(counted_on(steps[kept], unit[kept]), how[kept])
        if not named.any():
            # Records without steps are numbered later, and reports of failures among them.
            steps[of_lines([isinstance(one.kind, Failures) for one in stored])] = np.nan
        beside = of_lines([one.beside for one in stored])
        of_a_record = kept & of_lines([one.kind.is_record for one in stored])
        record = of_a_record & ~beside
        new = record.copy()
        aside = of_lines([_is_aside(one) for one in stored])
        if self._grammar.joined:
            begins = of_lines([one.kind.begins for one in stored])
            new[record] = _new_records(steps[record], begins[record])
        else:
            new[record] = _told_of(steps[record], aside[record])
        home = _homes(steps, record, of_a_record & beside & named)
        row = np.full(len(at), -1)
        row[order] = np.where(home < 0, -1, (np.cumsum(new) - 1)[home])
        rows = self._rows(stored, row, int(new.sum()), steps[new])
        _tell_what_stands_above(stored, at[order][new], self._grammar.step, rows)
        reached = kept & ~np.isnan(steps)
        return Finished(
            rows=rows,
            at=at[order][new],
            places=at[order][reached],
            steps=steps[reached],
            ranks=len(np.unique(ranks[ranks != NO_RANK])),
        )

    def _rows(self, stored: list[_Stored], row: Ints, count: int, steps: Floats) -> Rows:
        """Spread the pieces over ``count`` rows; ``row`` is that of each line, -1 for none."""
        rows = Rows(rows=count)
        known = ~np.isnan(steps)
        if known.any():
            rows.parts[self._grammar.step] = [(None, piece_of_numbers(steps, ~known, gap=ABSENT))]
        ends = np.cumsum([len(one.at) for one in stored])
        # What an aside says of a loss counts: 0.0 may be printed in the place of NaN.
        for last, one in sorted(zip(ends, stored, strict=True), key=lambda at: _is_aside(at[1])):
            where = row[last - len(one.at) : last]
            for name, piece in one.pieces.items():
                # Another line of the same record may have what this one lacks.
                taken = (where >= 0) & (piece.states != ABSENT)
                if name == self._grammar.step or not taken.any():
                    continue
                whole = piece if taken.all() else _taken(piece, taken)
                rows.parts.setdefault(name, []).append((where[taken], whole))
        return rows


def _without_other_bars(stored: list[_Stored], told: float | None) -> list[_Stored]:
    """Remove the steps of bars that count to another total than those of training."""
    bars = [one for one in stored if not one.kind.is_record and TOTAL in one.pieces]
    if not bars:
        return stored
    losses = [one.at for one in stored if one.kind.is_record and LOSS in one.pieces]
    of_training = totals_of_training(
        np.concatenate([one.at for one in bars]),
        np.concatenate([one.steps for one in bars]),
        np.concatenate([one.pieces[TOTAL].values for one in bars]),
        np.concatenate(losses) if losses else np.array([], dtype=np.int64),
        told,
    )
    return [
        replace(
            one,
            steps=np.where(np.isin(one.pieces[TOTAL].values, of_training), one.steps, np.nan),
        )
        if not one.kind.is_record and TOTAL in one.pieces
        else one
        for one in stored
    ]


def _tell_what_stands_above(stored: list[_Stored], places: Ints, step: str, rows: Rows) -> None:
    """Give records the columns of the lines above them that hold for all below."""
    told: dict[str, list[_Stored]] = {}
    for one in stored:
        for name in one.pieces if one.kind.holds_below else ():
            if name != step:
                told.setdefault(name, []).append(one)
    for name, parts in told.items():
        at = np.concatenate([part.at for part in parts])
        values = np.concatenate([part.pieces[name].values for part in parts])
        above = np.searchsorted(at, places, side="right") - 1
        where = np.flatnonzero(above >= 0)
        piece = piece_of_numbers(values[above[where]])
        rows.parts.setdefault(name, []).append((where, piece))


def _taken(piece: Piece, which: Mask) -> Piece:
    words = np.array(piece.words, dtype=object)[which[piece.states == WORD]]
    return Piece(values=piece.values[which], states=piece.states[which], words=words.tolist())


def _is_aside(one: _Stored) -> bool:
    """Tell whether lines say in words what the loss of the next step is: no number, so NaN."""
    kind = one.kind
    return isinstance(kind, Aside) and (
        isinstance(kind, Failures) or not kind.fixed or b"nan" in kind.fixed.values()
    )


def _told_of(steps: Floats, aside: Mask) -> Mask:
    """Tell which lines are records of their own: all but those that an aside just spoke of."""
    new = np.ones(len(steps), dtype=bool)
    new[1:] = ~(aside[:-1] & ~aside[1:] & (steps[1:] == steps[:-1]))
    return new


def _homes(steps: Floats, records: Mask, beside: Mask) -> Ints:
    """Return the line of the record to which each line belongs, -1 for none.

    Lines ``beside`` records belong to the one above or below them that has the same step.
    """
    homes = np.where(records, np.arange(len(steps)), -1)
    for near in neighbours(records):
        homes = np.where(beside & (np.append(steps, np.nan)[near] == steps), near, homes)
    return homes


def _new_records(steps: Floats, begins: Mask) -> Mask:
    """Tell which lines begin a record: those marked so, and those of another step."""
    new = begins.copy()
    if len(new):
        new[0] = True
        here, before = steps[1:], steps[:-1]
        new[1:] |= (here != before) & ~(np.isnan(here) & np.isnan(before))
    return new


def piece_of(cells: Cells) -> Piece:
    """Return the piece that cells make; None is a cell that its line does not have."""
    # int() takes half the time of float(), and gives up at the first cell that is no whole number.
    for number in (int, float) if NULL_CELL not in cells else ():
        try:
            read = map(number, cells)  # type: ignore[arg-type]  # None is caught
            return piece_of_numbers(np.fromiter(read, np.float64, len(cells)))
        except (TypeError, ValueError, OverflowError):
            continue
    return piece_of_meanings(map(_meaning, cells))


def _as_far_as_known(cells: Cells) -> Cells:
    """Return rates without those of which only zeros are printed: 0.0000 may be 0.00005."""
    return [None if one is not None and _ROUNDED.fullmatch(one) else one for one in cells]


def _meaning(cell: bytes | None) -> tuple[int, float, str]:
    """Return what a cell means; the thousands of a number may be set apart: 7,012."""
    if cell is None:
        return ABSENT, np.nan, ""
    if cell == NULL_CELL:
        return NULL, np.nan, ""
    return meaning((_THOUSANDS.sub(b"", cell) if b"," in cell else cell).decode("utf-8", "replace"))
