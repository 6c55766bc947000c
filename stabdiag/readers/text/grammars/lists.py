"""Read lists of losses as Python and NumPy print them.

::

    {'loss': [0.69, 0.65, 0.61, 0.58], 'val_loss': [0.69, 0.66, 0.67, 0.71]}
    train_loss = [2.302, 2.295, 2.281]      losses: [array(2.3, dtype=float32), array(nan, …), …]
    [2.30258512 2.29541016 2.28012085
     1.99871159 1.88761234        nan]

A list without a name is one of losses if the text above names a loss, or if it is the whole text
and the name of the file does not contradict. It may be printed again each time it has grown. The
longest list of losses counts, with all lists of the same length, and others with a measure, such as
one validation loss of each epoch. Without losses, a long list of rewards or scores does.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Final

from stabdiag.model.events import Event, EventKind
from stabdiag.model.patterns import lazy_pattern
from stabdiag.model.roles.names import is_a_reward, is_evaluation, is_setting, name_words
from stabdiag.model.roles.scores import score_direction
from stabdiag.readers.columns import Columns
from stabdiag.readers.lengths import align, describe, name_columns, table_length
from stabdiag.readers.log_builder import columns_from_chunks
from stabdiag.readers.pieces import Rows
from stabdiag.readers.source import Stream
from stabdiag.readers.text.grammars.plain_lists import (
    MIN_LONG_LIST,
    is_list_of_scores,
    list_values,
    with_plain_lists,
)
from stabdiag.readers.text.lines.cells import make_cell_piece
from stabdiag.readers.text.lines.grammar import as_float, is_a_loss
from stabdiag.readers.text.lines.measure_words import OTHER_LOSSES, renamed
from stabdiag.readers.text.names.printed_statements import name_printed_lists
from stabdiag.readers.unnamed import (
    find_loss,
    is_course,
    is_named_score,
    may_be_losses,
    name_of_course,
    name_of_values,
)

# The search covers this many bytes. A shorter list may be a setting, such as weights of losses, if
# no list of an evaluation or a score is as long.
_MAX_BYTES: Final = 1 << 22
_MIN_SHORT: Final = 2

# A name and the characters between it and its list, such as = np.array( or ': [
_NAME_BYTES: Final = 80
_NAME: Final = lazy_pattern(
    rb"(?<![\w.])([A-Za-z][\w./-]{0,40}(?: [a-z]\w{0,20})?)[\"']?\]?[ \t]{0,4}[:=]\s{0,4}"
    rb"(?:(?:np\.|numpy\.|torch\.)?(?:[Aa]rray|tensor|deque|list)\()?\[?$"
)
# accuracy per epoch: [
_OF_EACH: Final = lazy_pattern(
    rb"(?i)[ _](?:per|by|over|(?:for|of|in|after|at)[ _](?:each|every|all|the))[ _]?"
    rb"(?:epoch|iteration|step|episode|game|round|batch)(?:e?s)?(?=[ \t]{0,4}[:=])"
)
# A measure is named in this many bytes above a list without a name. A function returns a list.
_ABOVE_BYTES: Final = 400
_MEASURES_ABOVE: Final = lazy_pattern(
    rb"(?i)(?P<loss>loss)|\b(?:(?P<reward>rewards?|(?:average|avg|mean|episode|episodic|cumulative"
    rb"|discounted|total|sum of)[ _-]returns?)|(?P<accuracy>accurac(?:y|ies)))\b"
)
_LOSS_OF_RESULT: Final = lazy_pattern(
    rb"(?i)loss[\"']?[ \t]?[:=][ \t]{0,4}(\d{1,9}\.\d{2,20})(?![\w.])"
)
# A sentence above the list ends with a colon.
_SENTENCE: Final = lazy_pattern(rb":\s{0,4}\n\s{0,4}\[?$")

# A list, or its beginning: a paste may end within it. Its last number may be cut.
_PRINTED_LIST: Final = lazy_pattern(rb"\[([^\[\]]{3,1000000})(\]|\Z)")
# The end of the name of a list: costs, mse_history.
_LIST_ENDING: Final = lazy_pattern(r"(?:_?(?:list|hist|history|values|curve|log)|(?<=[^s])s)$")


def find_lists(data: bytes, source: str) -> Mapping[str, list[bytes]]:
    """Return the longest list of losses of a text, and the lists that go with it, by name.

    A list that is the whole text is named after its file, the ``source``.
    """
    data, fewest = with_plain_lists(name_printed_lists(data[:_MAX_BYTES]), source)
    lists: dict[str, list[bytes]] = {}
    short: dict[str, list[bytes]] = {}
    for name, values in _named_lists(data, source, lists):
        (lists if len(values) >= fewest else short)[name] = values
    lists = lists or _short_history(short)
    scored = name_of_values(source) if is_named_score(source) else None
    losses = [n for n, values in lists.items() if n == scored or _are_losses(n, values)]
    if not losses:
        lists = _with_falling_losses(lists)
        losses = [n for n, values in lists.items() if _are_losses(n, values)]
    losses = losses or [name for name, values in lists.items() if _are_scores(name, values)]
    longest = max((len(lists[name]) for name in losses), default=0)
    return {
        name: values
        for name, values in ({**short, **lists} if losses else lists).items()
        if len(values) == longest or (losses and align(name, len(values), longest) is not None)
    }


def _named_lists(
    data: bytes, source: str, lists: Mapping[str, list[bytes]]
) -> Iterator[tuple[str, list[bytes]]]:
    """Yield the lists of a text with their names; ``lists`` has the long ones so far."""
    lengths: dict[str, int] = {}
    begin = len(data) - len(data.lstrip())
    ended = 0
    for match in _PRINTED_LIST.finditer(data) if b"[" in data else ():
        values = list_values(match[1] if match[2] else match[1].rpartition(b",")[0])
        if len(values) < _MIN_SHORT:
            continue
        name = _own_name(data, match.start())
        if name in lists and _is_of_evaluation(data[ended : match.start()]):
            name = f"val_{name}"
        ended = match.end()
        if name is not None and not _is_end_of_sentence(name, data, match.start()):
            lengths[name] = len(values)
        elif (name := _assumed_name(data, match.start())) is not None:
            # A list of this name may be printed above.
            if _is_result(data, match.start(), values) or len(values) <= lengths.get(name, 0):
                continue
        elif match.start() <= begin or _grows(lists, values):
            name = name_of_course(source, [*map(as_float, values)])
        if name is None:
            continue
        name = "reward" if _is_score_of_games(name) else name
        is_scored = is_named_score(source) or is_list_of_scores(name)
        is_history = is_scored and (is_course([*map(as_float, values)]) or _is_constant(values))
        if is_history or not _may_be_other_scores(data, *match.span(), name):
            yield name, values


def _short_history(lists: Mapping[str, list[bytes]]) -> dict[str, list[bytes]]:
    """Return the lists as long as a list of losses, if one of them belongs to an evaluation."""
    loss = next((values for name, values in lists.items() if _are_losses(name, values)), [])
    alike = {name: values for name, values in lists.items() if len(values) == len(loss)}
    is_history = any(
        not is_setting(name) and (is_evaluation(name) or score_direction(name) is not None)
        for name in alike
    )
    return alike if is_history and len(alike) > 1 else {}


def read_lists(stream: Stream, lists: Mapping[str, list[bytes]]) -> Columns:
    """Return the columns of lists."""
    lengths = {name: len(values) for name, values in lists.items()}
    rows = table_length(lengths)
    names = ", ".join(repr(name) for name, length in lengths.items() if length == rows)
    event = Event(kind=EventKind.COLUMN, message=f"read from lists of {rows} values: {names}")
    columns = columns_from_chunks(
        [_aligned(lists, rows)], source=stream.name, format="text", notes=stream.notes
    )
    return replace(columns, events=(event, *describe(lengths, rows)))


def _aligned(lists: Mapping[str, list[bytes]], rows: int) -> Rows:
    """Return lists as columns of a table of this many rows."""
    columns = name_columns({name: len(values) for name, values in lists.items()}, rows)
    table = Rows(rows=rows)
    for name, values in lists.items():
        alignment = align(name, len(values), rows)
        if alignment is not None:
            piece = make_cell_piece([values[at] for at in alignment.values])
            table.parts[columns[name]] = [(alignment.rows, piece)]
    return table


def _own_name(data: bytes, begin: int) -> str | None:
    """Return the name before a list, or None."""
    match = _NAME.search(_OF_EACH.sub(b"", data[max(begin - _NAME_BYTES, 0) : begin]))
    return None if match is None else match[1].decode("ascii", "replace")


def _is_of_evaluation(above: bytes) -> bool:
    """Return True if a short line between two lists names an evaluation, as info.val does."""
    lines = [line.strip(b" \t\r=:") for line in above.split(b"\n")[:-1]]
    return any(
        len(line) <= _NAME_BYTES and is_evaluation(line.decode("ascii", "replace"))
        for line in lines
    )


def _is_end_of_sentence(name: str, data: bytes, begin: int) -> bool:
    """Return True if the name of no measure ends the line above a list: the losses that I get:."""
    before = data[max(begin - _NAME_BYTES, 0) : begin]
    is_measure = is_a_loss(name) or is_evaluation(name) or is_list_of_scores(name)
    return _SENTENCE.search(before) is not None and not (is_measure or is_setting(name))


def _assumed_name(data: bytes, begin: int) -> str | None:
    """Return the measure that is named last above a list without a name, or None."""
    before = data[max(begin - _NAME_BYTES, 0) : begin]
    if before.rpartition(b"\n")[2].strip() not in (b"", b"[", b"array(", b"tensor("):
        return None
    above = data[max(begin - _ABOVE_BYTES, 0) : begin]
    named = [match.lastgroup for match in _MEASURES_ABOVE.finditer(above)]
    return "loss" if "loss" in named else next(reversed(named), None)


def _is_result(data: bytes, begin: int, values: list[bytes]) -> bool:
    """Return True for the list that evaluate() returns: it begins with the loss printed above."""
    above = data[max(begin - _ABOVE_BYTES, 0) : begin]
    return any(
        round(as_float(values[0]), len(loss.partition(b".")[2])) == as_float(loss)
        for loss in _LOSS_OF_RESULT.findall(above)
    )


def _grows(lists: Mapping[str, list[bytes]], values: list[bytes]) -> bool:
    """Return True if a list is the last one with more values: some programs print it each time."""
    last = [*lists.values()][-1] if lists else []
    return 0 < len(last) < len(values) and values[: len(last)] == last


def _with_falling_losses(lists: Mapping[str, list[bytes]]) -> dict[str, list[bytes]]:
    """Return the lists with those named losses that are called costs, objectives or errors.

    Only the first of these words counts whose list falls as a loss does. Its name may be val_costs,
    train.objective or mse_history.
    """
    plain = {name: _LIST_ENDING.sub("", name.replace(".", "_")) for name in lists}
    for word in OTHER_LOSSES:
        names = {name: next(iter(renamed({plain[name]: (0, 0)}, word))) for name in lists}
        matches = [name for name in lists if names[name] != plain[name]]
        if any(find_loss([[*map(as_float, lists[name])]]) is not None for name in matches):
            return {names[n] if n in matches else n: values for n, values in lists.items()}
    return dict(lists)


def _are_losses(name: str, values: list[bytes]) -> bool:
    return is_a_loss(name) and not is_setting(name) and may_be_losses([*map(as_float, values)])


def _are_scores(name: str, values: list[bytes]) -> bool:
    return len(values) >= MIN_LONG_LIST and is_list_of_scores(name) and not is_setting(name)


def _is_constant(values: list[bytes]) -> bool:
    return len(values) >= MIN_LONG_LIST and len({*values}) == 1


def _is_score_of_games(name: str) -> bool:
    """Return True for episode scores: other scores may belong to examples."""
    words = name_words(name)
    return is_a_reward(name, of_episodes=True) and not {"episode", "game"}.isdisjoint(words)


def _may_be_other_scores(data: bytes, begin: int, end: int, name: str) -> bool:
    """Return True if scores may belong to classes or folds, or to a variable of a program.

    No epoch is named above the scores, or more is below an assignment.
    """
    above = data[max(begin - _ABOVE_BYTES, 0) : begin].lower()
    if is_list_of_scores(name) and not is_a_reward(name):
        return b"epoch" not in above and b"loss" not in above
    is_assigned = above.rstrip().endswith(b"=") and bool(data[end:].strip())
    return is_assigned and is_list_of_scores(name)
