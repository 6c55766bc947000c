"""What a notebook printed."""

from __future__ import annotations

import json
from collections.abc import Iterator
from html.parser import HTMLParser
from typing import Any

from stabdiag.readers.source import Stream


def printed(stream: Stream) -> bytes | None:
    """Read all of a stream; return what the notebook printed, or None if it is none after all."""
    data = stream.read_all()
    try:
        cells = json.loads(data)["cells"]
        text = "\n".join(line for cell in cells for line in _outputs(cell))
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
        stream.push_back(data)
        return None
    return text.encode("utf-8", "replace")


def _outputs(cell: dict[str, Any]) -> Iterator[str]:
    for output in cell.get("outputs", []):
        shown = output.get("data", {})
        tables = [*_rows(_text(shown.get("text/html", "")))]
        # The plain text of an output that is shown as a table only repeats it.
        yield from tables or [_text(output.get("text", shown.get("text/plain", "")))]
        if "ename" in output:
            yield f"{output['ename']}: {output.get('evalue', '')}"


def _text(lines: object) -> str:
    if isinstance(lines, list):
        return "".join(line for line in lines if isinstance(line, str))
    return lines if isinstance(lines, str) else ""


def _rows(html: str) -> Iterator[str]:
    """Yield the rows of the tables in a piece of HTML, as Markdown."""
    parser = _Tables()
    parser.feed(html)
    for table in parser.tables:
        for number, row in enumerate(table):
            yield f"| {' | '.join(row)} |"
            if number == 0:
                yield f"|{'---|' * len(row)}"
        yield ""


class _Tables(HTMLParser):
    """The cells of all tables, row by row."""

    def __init__(self) -> None:
        super().__init__()
        self.tables: list[list[list[str]]] = []
        self._in_cell = False

    def handle_starttag(self, tag: str, attrs: object) -> None:
        if tag == "table":
            self.tables.append([])
        elif self.tables and tag == "tr":
            self.tables[-1].append([])
        elif self.tables and self.tables[-1] and tag in ("td", "th"):
            self.tables[-1][-1].append("")
            self._in_cell = True

    def handle_endtag(self, tag: str) -> None:
        self._in_cell = self._in_cell and tag not in ("td", "th")

    def handle_data(self, data: str) -> None:
        if self._in_cell:
            # A bar within a cell would be the end of it.
            self.tables[-1][-1][-1] += " ".join(data.replace("|", " ").split())
