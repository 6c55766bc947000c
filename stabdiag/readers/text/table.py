"""Combine the lines that a grammar found into records, in the order of the log."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

import numpy as np

from stabdiag.model.arrays import AnyArray, Floats, Ints, Mask
from stabdiag.model.frozen import frozen
from stabdiag.model.patterns import lazy_pattern
from stabdiag.model.roles.names import is_an_lr, is_evaluation
from stabdiag.model.unique import unique_values
from stabdiag.readers.columns import EXACT
from stabdiag.readers.copyable import Copyable
from stabdiag.readers.pieces import Piece, Rows, piece_of_numbers
from stabdiag.readers.text.lines.cells import make_cell_piece
from stabdiag.readers.text.lines.grammar import Grammar, Kind, Line, StatusLine, TextPart, is_a_loss
from stabdiag.readers.text.lines.prefix import (
    CLOCK,
    NO_RANK,
    line_ranks,
    line_seconds,
    select_lines,
)
from stabdiag.readers.text.lines.shapes import Cells
from stabdiag.readers.text.messages.failure_search import Failures
from stabdiag.readers.text.steps import (
    TOTAL,
    extrapolate_rounded,
    fill_steps,
    find_training_totals,
    neighbors,
)
from stabdiag.readers.words import ABSENT, NUMBER, WORD

# The name of the training loss in logs with progress bars.
BAR_LOSS: Final = "loss"

# The column with the row numbers of another table.
ROW: Final = "row"
_OTHER_TABLE: Final = Line(pattern=b"")

# A rate that was rounded to zero. Python prints a true zero as 0.0.
_ROUNDED_TO_ZERO: Final = lazy_pattern(rb"0\.00{1,20}")

# If a rate was this many units of its last digit before, a rounded zero is below a twentieth of it:
# a cosine is that low for the last seventh of its steps.
_UNITS_ABOVE_ZERO: Final = 10

# 1K: LeRobot's form of steps from 1000 on.
_IN_THOUSANDS: Final = lazy_pattern(r"(\d{1,4}(?:\.\d{1,3})?)([KMBkmb])")


@frozen
class _StoredLines:
    """Lines of one kind with the same columns, and their positions in the log.

    Steps are written in multiples of their ``unit``; 0 means that they are written in full.
    """

    kind: Kind
    at: Ints
    steps: Floats
    unit: Floats
    ranks: Ints
    pieces: Mapping[str, Piece]
    supplementary: bool


@frozen
class TableRecords:
    """All records, their positions in the log, and the steps at rising positions."""

    rows: Rows
    at: Ints
    places: Ints
    steps: Floats
    ranks: int

    def reached_step(self, place: int) -> tuple[int | None, int]:
        """Return the step that the log had reached at a position, and the number of records.

        If no record names a step, the step is the number of the last record, from 0. There is none
        before the first record: what was printed there did not end the run.
        """
        above = int(np.searchsorted(self.at, place, side="right"))
        if not len(self.places) and len(self.at):
            return above - 1 if above else None, above
        before = int(np.searchsorted(self.places, place, side="right")) - 1
        return int(self.steps[before]) if before >= 0 else None, above


class Table(Copyable):
    """Collects the lines of all blocks."""

    def __init__(self, grammar: Grammar) -> None:
        """Take the lines of ``grammar``."""
        self._grammar = grammar
        self._stored: list[_StoredLines] = []
        self._highest_rates: dict[str, float] = {}

    def __bool__(self) -> bool:
        kinds = (stored.kind for stored in self._stored)
        return any(kind.is_record and not isinstance(kind, Failures) for kind in kinds)

    def add(self, kind: Kind, part: TextPart, data: bytes, offset: int) -> None:
        """Keep lines that were found in ``data``, which begins ``offset`` bytes into the log."""
        at = np.array(part.starts, dtype=np.int64)
        ranks = line_ranks(data, part.starts)
        pieces = {
            name: self._rate_piece(name, cells) if is_an_lr(name) else make_cell_piece(cells)
            for name, cells in zip(part.names, part.cells, strict=True)
        }
        clock = line_seconds(data, part.starts) if kind.is_record else None
        if clock is not None:
            pieces.setdefault(CLOCK, piece_of_numbers(clock, np.isnan(clock), gap=ABSENT))
        given = pieces.get(self._grammar.step)
        steps, unit = np.full(len(at), np.nan), np.zeros(len(at))
        if given is not None:
            exact = (given.states == NUMBER) & (np.abs(given.values) < EXACT)
            steps[exact] = given.values[exact]
            words = (_IN_THOUSANDS.fullmatch(word) for word in given.words)
            for row, word in zip(np.flatnonzero(given.states == WORD), words, strict=True):
                unit[row] = 1000.0 ** " KMB".index(word[2].upper()) if word is not None else 0.0
                steps[row] = float(word[1]) * unit[row] if word is not None else np.nan
        self._stored.append(
            _StoredLines(
                kind=kind,
                at=at + offset,
                steps=steps,
                unit=unit,
                ranks=np.full(len(at), NO_RANK) if ranks is None else ranks,
                pieces=pieces,
                supplementary=part.supplementary,
            )
        )

    def _rate_piece(self, name: str, cells: Cells) -> Piece:
        """Return the rates of a column without those that were rounded to zero.

        0.0000 may be 0.00005. It stays after a rate of 0.001 or more, which is far above both.
        """
        piece = make_cell_piece(cells)
        rates = piece.values[piece.states == NUMBER]
        highest = max(self._highest_rates.get(name, 0.0), float(rates.max(initial=0.0)))
        self._highest_rates[name] = highest
        if not (rates == 0).any():
            return piece
        zeros = {cell for cell in {*cells} if cell is not None and _ROUNDED_TO_ZERO.fullmatch(cell)}
        unknown = {cell for cell in zeros if highest * _units_in_one(cell) < _UNITS_ABOVE_ZERO}
        if not unknown:
            return piece
        return make_cell_piece([None if cell in unknown else cell for cell in cells])

    def among(self, at: Ints, steps: Floats) -> TableRecords:
        """Return the records together with others at these positions.

        ``ROW`` has the row numbers of the others. At the same position, the other comes first.
        """
        other = _StoredLines(
            kind=_OTHER_TABLE,
            at=at,
            steps=steps,
            unit=np.zeros(len(at)),
            ranks=np.full(len(at), NO_RANK),
            pieces={ROW: piece_of_numbers(np.arange(float(len(at))))},
            supplementary=False,
        )
        both = Table(self._grammar)
        both._stored = [other, *self._stored]
        return both.finished()

    def finished(self, total: float | None = None) -> TableRecords:
        """Return the records in the order of the log, with the lines of one rank only.

        ``total`` is the number of steps that the log announces.
        """
        stored = _without_other_bars(self._stored, total)
        at = np.concatenate([part.at for part in stored])
        order = np.argsort(at, kind="stable")
        kinds = {id(part.kind): number for number, part in enumerate(stored)}
        lines = [len(part.at) for part in stored]

        def of_lines(values: list[int] | list[bool]) -> AnyArray:
            """Repeat the value of each part for its lines, in the order of the log."""
            return np.repeat(values, lines)[order]

        kind = of_lines([kinds[id(part.kind)] for part in stored])
        steps = np.concatenate([part.steps for part in stored])[order]
        ranks = np.concatenate([part.ranks for part in stored])[order]
        failed = np.zeros(len(at), dtype=bool)
        if (ranks != NO_RANK).any():
            failed = np.concatenate([_failed_lines(part) for part in stored])[order]
        step_rules = of_lines([part.kind.step.value for part in stored])
        own_steps = steps
        if (failed & np.isnan(steps)).any():
            own_steps = _steps_of_ranks(steps, step_rules, ranks)
        kept = select_lines(kind, own_steps, ranks, failed)
        steps = np.where(kept & failed, own_steps, steps)
        unit = np.concatenate([part.unit for part in stored])[order]
        named = neighbors(~np.isnan(steps))[0] >= 0
        steps[kept] = fill_steps(extrapolate_rounded(steps[kept], unit[kept]), step_rules[kept])
        if not named.any():
            # Records without steps are numbered later, and reports of failures among them.
            report = StatusLine if any(map(_holds_loss, stored)) else Failures
            steps[of_lines([isinstance(part.kind, report) for part in stored])] = np.nan
        supplementary = of_lines([part.supplementary for part in stored])
        in_record = kept & of_lines([part.kind.is_record for part in stored])
        record = in_record & ~supplementary
        new = record.copy()
        is_report = of_lines([_reports_loss(part) for part in stored])
        if self._grammar.joined:
            begins = of_lines([part.kind.begins for part in stored])
            new[record] = _new_records(steps[record], begins[record])
        else:
            new[record] = _without_reported(steps[record], is_report[record])
        owner = _owning_lines(steps, record, in_record & supplementary & named)
        row = np.full(len(at), -1)
        row[order] = np.where(owner < 0, -1, (np.cumsum(new) - 1)[owner])
        rows = self._rows(stored, row, int(new.sum()), steps[new])
        _add_heading_values(stored, at[order][new], self._grammar.step, rows)
        reached = kept & ~np.isnan(steps)
        return TableRecords(
            rows=rows,
            at=at[order][new],
            places=at[order][reached],
            steps=steps[reached],
            ranks=len(unique_values(ranks[ranks != NO_RANK])),
        )

    def _rows(self, stored: list[_StoredLines], row: Ints, count: int, steps: Floats) -> Rows:
        """Spread the pieces over ``count`` rows. ``row`` is the row of each line, -1 for none."""
        rows = Rows(rows=count)
        has_step = ~np.isnan(steps)
        if has_step.any():
            rows.parts[self._grammar.step] = [
                (None, piece_of_numbers(steps, ~has_step, gap=ABSENT))
            ]
        ends = np.cumsum([len(part.at) for part in stored])
        # A reported loss counts more than a printed one: 0.0 may be printed in place of NaN.
        for last, part in sorted(
            zip(ends, stored, strict=True), key=lambda at: _reports_loss(at[1])
        ):
            where = row[last - len(part.at) : last]
            for name, piece in part.pieces.items():
                # Another line of the same record may have a value that this line lacks.
                taken = (where >= 0) & (piece.states != ABSENT)
                if name == self._grammar.step or not taken.any():
                    continue
                used = piece if taken.all() else _taken(piece, taken)
                rows.parts.setdefault(name, []).append((where[taken], used))
        return rows


def _without_other_bars(stored: list[_StoredLines], announced: float | None) -> list[_StoredLines]:
    """Remove the steps of bars whose total differs from the total of the training bars."""
    bars = [part for part in stored if not part.kind.is_record and TOTAL in part.pieces]
    if not bars:
        return stored
    losses = [part.at for part in stored if part.kind.is_record and BAR_LOSS in part.pieces]
    training_totals = find_training_totals(
        np.concatenate([part.at for part in bars]),
        np.concatenate([part.steps for part in bars]),
        np.concatenate([part.pieces[TOTAL].values for part in bars]),
        np.concatenate(losses) if losses else np.array([], dtype=np.int64),
        announced,
    )
    return [
        replace(
            part,
            steps=np.where(np.isin(part.pieces[TOTAL].values, training_totals), part.steps, np.nan),
        )
        if not part.kind.is_record and TOTAL in part.pieces
        else part
        for part in stored
    ]


def _steps_of_ranks(steps: Floats, rules: Ints, ranks: Ints) -> Floats:
    """Return the steps of lines, which the lines of their own rank or of no rank may name.

    Arrays are of shape (lines,), in the order of the log.
    """
    own_steps = steps.copy()
    for rank in unique_values(ranks[ranks != NO_RANK]):
        lines = (ranks == rank) | (ranks == NO_RANK)
        if not np.isnan(steps[lines]).all():
            own_steps[lines] = fill_steps(steps[lines], rules[lines])
    return np.where(ranks == NO_RANK, steps, own_steps)


def _add_heading_values(stored: list[_StoredLines], places: Ints, step: str, rows: Rows) -> None:
    """Add values to records from the lines above them that hold for all records below.

    If such lines are below the first record and below the last one, each ends its records.
    """
    parts_by_name: dict[str, list[_StoredLines]] = {}
    for part in stored:
        for name in part.pieces if part.kind.holds_below else ():
            if name != step:
                parts_by_name.setdefault(name, []).append(part)
    for name, parts in parts_by_name.items():
        at = np.concatenate([part.at for part in parts])
        values = np.concatenate([part.pieces[name].values for part in parts])
        line = np.searchsorted(at, places, side="right")
        ends_records = len(places) > 0 and at[0] > places[0] and at[-1] > places[-1]
        line -= 0 if ends_records else 1
        where = np.flatnonzero(line >= 0)
        piece = piece_of_numbers(values[line[where]])
        rows.parts.setdefault(name, []).append((where, piece))


def _taken(piece: Piece, which: Mask) -> Piece:
    words = np.array(piece.words, dtype=object)[which[piece.states == WORD]]
    return Piece(values=piece.values[which], states=piece.states[which], words=words.tolist())


def _failed_lines(part: _StoredLines) -> Mask:
    """Return a mask of the lines with a training loss that is not finite."""
    failed = np.zeros(len(part.at), dtype=bool)
    for name, piece in part.pieces.items():
        if is_a_loss(name) and not is_evaluation(name):
            failed |= (piece.states == NUMBER) & ~np.isfinite(piece.values)
    return failed


def _holds_loss(part: _StoredLines) -> bool:
    """Return True if lines are records of a loss, rather than reports of failures."""
    return not isinstance(part.kind, StatusLine) and any(map(is_a_loss, part.pieces))


def _reports_loss(part: _StoredLines) -> bool:
    """Return True if lines report in words that the loss of the next step is not finite."""
    kind = part.kind
    return isinstance(kind, StatusLine) and (
        isinstance(kind, Failures) or not kind.fixed or b"nan" in kind.fixed.values()
    )


def _without_reported(steps: Floats, is_report: Mask) -> Mask:
    """Return a mask of new records: all lines except those right after a report of their loss."""
    new = np.ones(len(steps), dtype=bool)
    new[1:] = ~(is_report[:-1] & ~is_report[1:] & (steps[1:] == steps[:-1]))
    return new


def _owning_lines(steps: Floats, records: Mask, supplementary: Mask) -> Ints:
    """Return the record line that each line belongs to, -1 for none.

    Supplementary lines belong to the record above or below them with the same step.
    """
    owners = np.where(records, np.arange(len(steps)), -1)
    for record in neighbors(records):
        is_same_step = np.append(steps, np.nan)[record] == steps
        owners = np.where(supplementary & is_same_step, record, owners)
    return owners


def _new_records(steps: Floats, begins: Mask) -> Mask:
    """Return a mask of the lines that begin a record: marked lines, and lines of another step."""
    new = begins.copy()
    if len(new):
        new[0] = True
        here, before = steps[1:], steps[:-1]
        new[1:] |= (here != before) & ~(np.isnan(here) & np.isnan(before))
    return new


def _units_in_one(zero: bytes) -> float:
    """Return the number of units of the last digit in 1: 10,000 for 0.0000."""
    return 10.0 ** (len(zero) - len(b"0."))
