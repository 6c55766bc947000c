"""Tables and JSON objects without a loss, in a text whose other lines have one."""

from __future__ import annotations

from stabdiag.readers.registry import reader


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
    """Return True if more lines of a text may name a loss than are JSON objects, and no object may.

    A program may print an event, or its configuration, as JSON between the lines of its log.
    """
    if b"oss" not in head:
        return False
    lines = [line.lstrip() for line in head.split(b"\n")]
    objects = [line for line in lines if line.startswith(b'{"')]
    may_name_loss = any(b"oss" in line for line in objects)
    return not may_name_loss and sum(b"oss" in line for line in lines) > len(objects)
