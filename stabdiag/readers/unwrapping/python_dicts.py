"""Results that a program prints as nested Python dicts, on one line each or on many.

RLlib returns a dict for each iteration:

    {'episode_reward_mean': 21.3,
     'info': {'learner': {'default_policy': {'learner_stats': {'vf_loss': 9.1}}}},
     'training_iteration': 1}

They become JSON lines. Flat dicts, as of the HF Trainer, are read as text.
"""

from __future__ import annotations

import ast
import json
from collections.abc import Iterator
from contextlib import suppress
from itertools import chain
from typing import Final, NoReturn

from stabdiag.model.patterns import lazy_pattern
from stabdiag.model.roles.choice import assign, can_judge_without_loss
from stabdiag.readers.nested import Record, flattened
from stabdiag.readers.source import Stream

# A longer text is read as it is. A dict is searched for in the head.
_MAX_DICT_BYTES: Final = 1 << 22
_DICT_HEAD: Final = 1 << 16
_LONGEST_DICT: Final = 1 << 19

# A dict begins a line, and has others in it.
_BEGIN: Final = lazy_pattern(r"(?m)^[ \t]{0,8}(?=\{['\"])")
_NESTED: Final = lazy_pattern(rb"['\"]: \{['\"]")
_DICT_TOKEN: Final = lazy_pattern(
    r"'(?:[^'\\\n]|\\.){0,4000}'?|\"(?:[^\"\\\n]|\\.){0,4000}\"?|[{}]"
)

# Nearly all of the text is dicts: the settings of a run are printed above its log.
_MIN_DICTS: Final = 0.8

# Values that are not literals: a number or a list in a call, an object, a non-finite value. Each
# contains one of the signs.
_NO_LITERALS: Final = (
    (
        ("(",),
        lazy_pattern(r"(?<![\w'\"])[A-Za-z_][\w.]{0,40}\(([-+\w.]{1,40})(?:, [^()\n]{0,80})?\)"),
        r"\1",
    ),
    (
        ("([",),
        lazy_pattern(
            r"(?<![\w'\"])[A-Za-z_][\w.]{0,40}\((\[[^()]{0,100000}\])(?:, [^()\n]{0,80})?\)"
        ),
        r"\1",
    ),
    (("<",), lazy_pattern(r"(?<=[:,\[] )<[^<>\n]{1,400}>|(?<=[\[(])<[^<>\n]{1,400}>"), "None"),
    (("nan", "inf"), lazy_pattern(r"(?<![\w.'\"])([-+]?)(nan|inf)(?![\w.'\"])"), r"'\1\2'"),
)
# The strings in their place.
_NONFINITE_WORDS: Final = frozenset(
    sign + word for sign in ("", "+", "-") for word in ("nan", "inf")
)


def with_json_lines(stream: Stream) -> Stream:
    """Return the stream with nested Python dicts as JSON lines, or the stream itself."""
    head = stream.peek(_DICT_HEAD)
    if b"\0" in head or b"{'" not in head or _NESTED.search(head) is None:
        return stream
    data = stream.peek(_MAX_DICT_BYTES)
    if len(data) == _MAX_DICT_BYTES:
        return stream
    text = data.decode("utf-8", "replace")
    places = [*_dicts(text)]
    size = sum(end - begin for begin, end in places)
    records = [_record(text[begin:end]) for begin, end in places]
    results = [record for record in records if record is not None]
    if size < _MIN_DICTS * len(text) or len(results) < len(records) or not _are_results(results):
        return stream
    # The text between the dicts may report a failure, and the last dict may be cut.
    ends = [0, *(end for _, end in places)]
    begins = [*(begin for begin, _ in places), len(text)]
    between = [text[end:begin].strip() for end, begin in zip(ends, begins, strict=True)]
    lines = chain(between[:1], *zip(map(json.dumps, results), between[1:], strict=True))
    return stream.rewritten(iter(f"{line}\n".encode() for line in lines if line))


def _are_results(records: list[Record]) -> bool:
    """Return True if records have a counter and a measure of a training."""
    roles = assign(flattened(records)[1])
    return roles.has("step", "epoch") and (
        roles.has("loss", "eval_loss") or can_judge_without_loss(roles.columns)
    )


def _dicts(text: str) -> Iterator[tuple[int, int]]:
    """Yield where each dict at the start of a line begins and ends."""
    end = 0
    while (match := _BEGIN.search(text, end)) is not None:
        begin, depth = match.end(), 0
        for token in _DICT_TOKEN.finditer(text, begin):
            depth += {"{": 1, "}": -1}.get(token[0], 0)
            if depth == 0:
                end = token.end()
                yield begin, end
                break
        else:
            return  # the last one is cut


def _record(text: str) -> Record | None:
    """Return the dict that a text spells, or None."""
    if len(text) > _LONGEST_DICT:
        return None
    for signs, pattern, replacement in _NO_LITERALS:
        if any(sign in text for sign in signs):
            text = pattern.sub(replacement, text)
    try:
        record = _value(text)
        json.dumps(record)
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        return None
    return _with_numbers(record) if isinstance(record, dict) else None


def _value(text: str) -> object:
    """Return the value of a literal. One that is JSON except for its quotes takes far less time."""
    if '"' not in text and "\\" not in text:
        with suppress(ValueError):
            return json.loads(text.replace("'", '"'), parse_constant=_refuse)
    return ast.literal_eval(text)


def _refuse(word: str) -> NoReturn:
    """Refuse a word that is a number in JSON, such as ``NaN``, and no literal in Python."""
    raise ValueError(word)


def _with_numbers(record: Record) -> Record:
    """Return a record with numbers in place of the strings for values that are not finite."""
    return {key: _as_number(value) for key, value in record.items()}


def _as_number(value: object) -> object:
    if isinstance(value, dict):
        return _with_numbers(value)
    if isinstance(value, list | tuple):
        return [*map(_as_number, value)]
    return float(value) if isinstance(value, str) and value in _NONFINITE_WORDS else value
