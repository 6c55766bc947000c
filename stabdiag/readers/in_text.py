"""Tables and JSON objects without a loss, in a text whose other lines have one."""

from __future__ import annotations

from typing import Final

from stabdiag.model.patterns import lazy_pattern
from stabdiag.readers.registry import reader

# The key of a number, or of a NaN, in a JSON object.
_NUMBER_KEY: Final = lazy_pattern(rb'"([^"\\]{1,60})" ?: ?(?=[-\dN]|"NaN|null)')


def is_table_in_text(head: bytes, *, is_complete: bool) -> bool:
    """Return True if a table has no loss, but other lines of its text have one.

    A Markdown table of names and values may be above the table of the epochs.
    """
    from stabdiag.readers.csv.dialect import detect_dialect, has_loss
    from stabdiag.readers.text.lines.grammar import is_a_loss

    dialect = detect_dialect(head, is_complete=is_complete)
    if dialect is None:
        return False
    is_of_names = dialect.delimiter == "|" and not any(map(is_a_loss, dialect.names))
    if is_of_names and reader("printed-table").sniff(head, is_complete=is_complete):
        return True
    return not has_loss(dialect) and reader("text").sniff(head, is_complete=is_complete)


def are_objects_in_text(head: bytes) -> bool:
    """Return True if no JSON object of a text may name a loss, and its other lines may be the log.

    More of them than objects may name a loss, or they are as many and no object has a measure. A
    program may print an event, the state of an epoch, or its configuration, as JSON between the
    lines of its log.
    """
    lines = [line.lstrip() for line in head.split(b"\n")]
    objects = [line for line in lines if line.startswith(b'{"')]
    if any(b"oss" in line for line in objects):
        return False
    if sum(b"oss" in line for line in lines) > len(objects):
        return True
    if 2 * len(objects) > sum(map(bool, lines)):
        return False
    from stabdiag.readers.text.lines.measure_words import is_measure

    keys = {key.decode("utf-8", "replace") for line in objects for key in _NUMBER_KEY.findall(line)}
    return bool(objects) and not any(map(is_measure, keys))
