"""The lines of logs without a known format: losses, evaluations, and headings."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import cached_property, lru_cache
from itertools import accumulate, chain, compress
from typing import Final

from stabdiag.model.frozen import frozen
from stabdiag.model.patterns import lazy_pattern
from stabdiag.model.roles.names import is_evaluation
from stabdiag.model.roles.other_losses import is_part_of_loss
from stabdiag.model.roles.scores import score_direction
from stabdiag.readers.text.lines.counters import (
    DIGIT,
    EPOCH,
    FIRST,
    NTH,
    POSITION,
    STEP,
    counter_matches,
    counter_word,
    is_word,
    line_counters,
)
from stabdiag.readers.text.lines.evaluated import (
    evaluation_of_loss,
    evaluation_prefix,
    under_its_heading,
)
from stabdiag.readers.text.lines.grammar import Kind, TextPart, make_parts
from stabdiag.readers.text.lines.line_forms import ALL_DIGITS, outline
from stabdiag.readers.text.lines.measure_words import LOSS_STEM, makes_a_record
from stabdiag.readers.text.lines.prefix import LONGEST_LABEL
from stabdiag.readers.text.lines.shapes import Cells, KnownShapes, LineValues, by_names
from stabdiag.readers.text.lines.spans import find_spans, fixed_spans
from stabdiag.readers.text.lines.tokens import (
    LONGEST,
    SAVES,
    Span,
    has_number,
    line_fields,
    lines_with_a_loss,
)
from stabdiag.readers.text.losses.best_models import without_best_models
from stabdiag.readers.text.losses.companions import companion_lines
from stabdiag.readers.text.losses.final_result import mark_final_result
from stabdiag.readers.text.losses.repeated_steps import as_evaluation, goes_with_a_loss
from stabdiag.readers.text.messages.failures import classify_failure

_BLANKS: Final = (b" ", b"\t")
# A record without its loss has its counter and at least two more values.
_MIN_VALUES: Final = 3

# An arrow or a bullet begins a statement: → saved (reward: 5.2), - best loss 0.31, ✓ Saved.
_NEW_STATEMENT: Final = lazy_pattern(rb"[ \t]{0,40}(?:[\xc2-\xf4]|[-=]{0,3}>|[-*+~] )")


@frozen
class Heading(Kind):
    """Lines without a loss that give the lines below them a step or another column."""

    counter: bytes
    column: str = STEP
    holds_below: bool = True

    def find(self, data: bytes) -> list[TextPart]:
        """Return all lines of this kind."""
        if self.counter.startswith(NTH):
            counts = (
                match.span(1) for match in POSITION.finditer(data) if NTH + match[2] == self.counter
            )
        else:
            counts = (
                match.span(2)
                for match in counter_matches(data)
                if counter_word(match) == self.counter
            )
        lines = ((at[0], {self.column: data[slice(*at)]}) for at in counts)
        return [replace(part, supplementary=True) for part in make_parts(lines)]


# Stage 2 (128x128), === PHASE 3: fine-tuning ===, and [stage 2] on each line of a loss. The loss of
# a stage is a part of the model: stage 2 loss: 0.31.
# A search for a fixed text is far faster than one for a letter.
_STAGES: Final = tuple(
    (
        text,
        lazy_pattern(
            rb"%b(?<=%b%b)(?<![A-Za-z].%b)[ #:=]{1,3}(\d{1,2})"
            rb"(?![\d.]|[ _]{1,2}(?:train |val )?[Ll]oss)" % (text, first, text, text)
        ),
    )
    for first, text in ((b"[Ss]", b"tage"), (b"S", b"TAGE"), (b"[Pp]", b"hase"), (b"P", b"HASE"))
)
# It is near the start of its line, behind a time or the name of a logger.
_BEFORE_STAGE: Final = 100


@frozen
class StageHeading(Kind):
    """Lines that give the lines below them the number of a stage: its data or objective differ."""

    is_record: bool = False
    holds_below: bool = True

    def find(self, data: bytes) -> list[TextPart]:
        """Return all lines of this kind."""
        spans = sorted(
            match.span(1)
            for text, pattern in _STAGES
            if text in data
            for match in pattern.finditer(data)
        )
        stages = (at for at in spans if data.rfind(b"\n", 0, at[0]) >= at[0] - _BEFORE_STAGE)
        return make_parts((at[0], {"stage": data[slice(*at)]}) for at in stages)


def _with_splits(lines: list[tuple[int, bytes]], word: bytes) -> list[tuple[int, bytes]]:
    """Prefix scores directly below the loss of an evaluation with its split.

    Test loss: 2.4 above Top1: 0.6. If the log names the split of any such score, the others are of
    the training.
    """
    scores = [line for _, line in lines if word not in line]
    if not scores:
        return lines
    others = chain.from_iterable(map(line_fields, scores))
    if any(is_evaluation(item.name) and score_direction(item.name) for item in others):
        return lines
    # The split is only looked up above a score: it takes far longer than the rest.
    result, above, end = [], b"", -1
    for at, line in lines:
        if word in line:
            above = line
        elif at > end + 1 or not all(score_direction(f.name) for f in line_fields(line)):
            above = b""
        split = evaluation_of_loss(above) if above and word not in line else ""
        result.append((at, b"%b%b" % (split.encode(), line) if split else line))
        end = at + len(line)
    return result


@frozen
class MeasuredLines(Kind):
    """Lines with a loss and the counter, or with a loss alone without a counter.

    Lines near them may have other values of the same step, such as the learning rate. ``word`` is
    part of the name of the loss. With ``skips_saved``, lines that repeat the loss of a saved model
    are left out.
    """

    counter: bytes | None
    word: bytes = LOSS_STEM
    counter_alias: bytes | None = None
    skips_saved: bool = False

    @cached_property
    def _known(self) -> KnownShapes:
        return KnownShapes()

    def find(self, data: bytes) -> list[TextPart]:
        """Return all lines of this kind; those with the same names make one part."""
        written = self._lines_with_values(data)
        lines = [line for _, line in written]
        if self.counter is None:
            lines = [
                line if self.word not in line else under_its_heading(data, at, line)
                for at, line in _with_splits(written, self.word)
            ]
        if self.counter == FIRST:
            starts = [at for at, _ in written]
        else:  # without a call for each line
            starts = [
                at + (LONGEST_LABEL if len(line) > LONGEST_LABEL else len(line) - 1)
                for at, line in written
            ]
        shapes = list(by_names(lines, self._look, fixed_spans, self._known))
        without_loss = self._names_without_loss([(names, len(rows)) for names, rows, _ in shapes])
        parts = [
            self._part(
                names,
                [starts[row] for row in rows],
                cells,
                is_record=len(names) >= _MIN_VALUES and without_loss.issuperset(names),
            )
            for names, rows, cells in shapes
        ]
        first_lines = [lines[rows[0]] for _, rows, _ in shapes]
        parts = without_best_models(parts, first_lines, self.word)
        records = [part for part in parts if not part.supplementary]
        usual = max(records, key=lambda part: len(part.starts), default=None)
        if usual is None:
            return parts
        parts = [part if part.supplementary else as_evaluation(usual, part) for part in parts]
        return parts if self.counter is not None else mark_final_result(parts, usual, data)

    def _lines_with_values(self, data: bytes) -> list[tuple[int, bytes]]:
        """Return the lines that may have the counter and a value; cheap for each line."""
        lines = self._lines_in_usual_forms(data) or [
            (at, line)
            for at, line in self._lines(data)
            if _may_have_value(line) and self._may_have_counter(line)
        ]
        if self.skips_saved:
            lines = [(at, line) for at, line in lines if not self._repeats_saved(line)]
        return lines

    @cached_property
    def _counter_texts(self) -> tuple[bytes, ...]:
        """Texts in small letters: each line with the counter has one. Empty if they are unknown."""
        counters = [counter for counter in (self.counter, self.counter_alias) if counter]
        # The word for an epoch has several forms.
        if EPOCH in counters or not all(is_word(c) or c.startswith(NTH) for c in counters):
            return ()
        return (*(counter.removeprefix(NTH).lower() for counter in counters),)

    def _may_have_counter(self, line: bytes) -> bool:
        """Return True if a line has the word of the counter in any spelling, or its total."""
        texts = self._counter_texts
        return not texts or any(map(line.lower().__contains__, texts))

    def _repeats_saved(self, line: bytes) -> bool:
        """Return True if a line without a counter has the loss of a saved model."""
        place = line.find(self.word)
        return place > 0 and SAVES.search(line, 0, place) is not None and not line_counters(line)

    def _lines_in_usual_forms(self, data: bytes) -> list[tuple[int, bytes]]:
        """Return all lines of a text if each has the word, and may have the counter and a value.

        This takes a look at each form of a line. Return no lines if one of them lacks something, is
        long, or may continue the line above.
        """
        # A form has other digits than its lines: it does not show that a line has F1.
        words = [word for word in (self.counter, self.counter_alias) if word and is_word(word)]
        if any(map(DIGIT.search, (self.word, *words))):
            return []
        forms = filter(None, outline(data).split(b"\n"))
        if not all(map(self._is_usual, forms)):
            return []
        lines = data.removesuffix(b"\n").split(b"\n")[1:]
        if not all(lines):
            return []
        return [*zip(accumulate((len(line) + 1 for line in lines), initial=1), lines, strict=False)]

    def _is_usual(self, form: bytes) -> bool:
        """Return True if a line has the word, and may have the counter and a value."""
        if self.word not in form or form[:1] in _BLANKS or len(form) > LONGEST:
            return False
        return _may_have_value(form) and self._may_have_counter(form)

    def _lines(self, data: bytes) -> list[tuple[int, bytes]]:
        """Return lines with a loss, and lines in between that may have values of the same step.

        An indented line below the counter of a record is the end of its line: many terminals and
        mails break long lines.
        """
        lines: list[tuple[int, bytes]] = []
        lowered = data.lower()
        end = 0
        for begin, line in lines_with_a_loss(data, self.word):
            if begin > end + 1:
                lines += self._companions(data, lowered, end, begin)
            elif begin == end + 1 and lines and self._is_rest(lines[-1][1], line):
                record_begin, record = lines[-1]
                lines[-1] = (record_begin, b"%b %b" % (record, line))
                end = begin + len(line)
                continue
            lines.append((begin, line))
            end = begin + len(line)
        lines += self._companions(data, lowered, end, len(data))
        return lines

    def _companions(
        self, data: bytes, lowered: bytes, end: int, until: int
    ) -> Iterable[tuple[int, bytes]]:
        """Return the lines of a stretch without a loss that may have other values of its step."""
        texts = self._counter_texts
        if texts and not any(lowered.find(text, end, until) >= 0 for text in texts):
            return ()
        return companion_lines(data, end, until, are_below=self.counter is None)

    def _is_rest(self, record: bytes, line: bytes) -> bool:
        """Return True if an indented line without a counter is the rest of the record above it.

        The rest of a record has other values than the line above.
        """
        # Most lines with a blank before them are whole records, such as a bar below 10%.
        if line[:1] not in _BLANKS or line.translate(ALL_DIGITS) == record.translate(ALL_DIGITS):
            return False
        if self.counter is None or self.counter not in line_counters(record):
            return False
        if _NEW_STATEMENT.match(line) or classify_failure(line) is not None:
            return False
        if line_counters(line) or evaluation_prefix(line, len(line)):
            return False
        if len(record) + len(line) >= LONGEST:
            return False
        names = {item.name for item in line_fields(line)}
        return names.isdisjoint(item.name for item in line_fields(record))

    def _names_without_loss(self, shapes: Sequence[tuple[tuple[str, ...], int]]) -> set[str]:
        """Return the names on the usual line of a record, without its losses.

        A line with several of these names is a record whose loss was dropped, maybe together with
        the gradient norm.
        """
        records = [
            (count, names)
            for names, count in shapes
            if any(makes_a_record(name, self.word) for name in names)
        ]
        usual = max(records, default=(0, ()))[1]
        return {name for name in usual if not makes_a_record(name, self.word)}

    def _part(
        self,
        names: tuple[str, ...],
        starts: list[int],
        cells: Sequence[Cells],
        *,
        is_record: bool = False,
    ) -> TextPart:
        """Return a part. Of lines without a loss, only the values that belong to one are kept.

        ``is_record`` means that only the loss is missing on otherwise usual lines.
        """
        if is_record or any(makes_a_record(name, self.word) for name in names):
            return TextPart(names=names, starts=starts, cells=cells)
        kept = [name == STEP or self._goes_along(name) for name in names]
        names = tuple(compress(names, kept))
        return TextPart(
            names=names, starts=starts, cells=[*compress(cells, kept)], supplementary=True
        )

    def _goes_along(self, name: str) -> bool:
        """Return True if a value without a loss belongs to the loss near it."""
        is_named = self.counter is None and (
            score_direction(name) is not None or is_part_of_loss(name)
        )
        return is_named or goes_with_a_loss(name) or _is_evaluated(name)

    def _look(self, line: bytes) -> LineValues:
        """Return the values of a line, without names if it is not a line of this kind."""
        spans = find_spans(line, self.counter, self.word, self.counter_alias)
        if self.counter is None:
            spans = {name: at for name, at in spans.items() if not _is_partial(name, line, at)}
        counted = self.counter is None or STEP in spans
        values = sorted(spans.items(), key=lambda item: item[1])
        # Most lines have a loss, and the other question takes far longer.
        is_used = counted and (
            any(makes_a_record(name, self.word) for name in spans)
            or any(map(self._goes_along, spans))
        )
        names = (*(name for name, _ in values),) if is_used else ()
        return LineValues(names, [span for _, span in values])


def _may_have_value(line: bytes) -> bool:
    """Return True if a line may have a value. Most lines end with a number."""
    return line[-1:].isdigit() or has_number(line)


def _is_partial(name: str, line: bytes, at: Span) -> bool:
    """Return True if a score is the best so far, or the first of several, one for each class."""
    if score_direction(name) is None:
        return False
    is_first = line[at[0] - 1 : at[0]] == b"[" and line[at[1] : at[1] + 1] == b","
    return is_first or b"best" in line[: at[0]].lower()


@lru_cache(maxsize=1 << 10)
def _is_evaluated(name: str) -> bool:
    """Return True if a name is the name of a score of an evaluation, such as val_mAP."""
    return is_evaluation(name) and score_direction(name) is not None
