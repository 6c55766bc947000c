"""The formats of logs that can be read, as Markdown and JSON."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from stabdiag.formats.json_text import dumps
from stabdiag.formats.markdown_text import own_table

if TYPE_CHECKING:
    from collections.abc import Sequence

    from stabdiag.formats.json_text import Json


@dataclass(frozen=True, kw_only=True)
class LogFormat:
    """A format: what it is, how it is told, and whether it can be read here.

    ``state`` is ``built in``, ``installed``, or ``missing`` where the ``extra`` is needed.
    """

    name: str
    title: str
    recognised: str
    state: str
    extra: str | None
    loses: str
    example: str

    @property
    def install(self) -> str | None:
        """The command that installs what is missing."""
        return f"pip install 'stabdiag[{self.extra}]'" if self.state == "missing" else None


def markdown(formats: Sequence[LogFormat]) -> str:
    """Return the formats as a Markdown table."""
    rows = []
    for one in formats:
        state = f"missing: `{one.install}`" if one.install else one.state
        rows.append((f"`{one.name}`", one.title, state, one.recognised))
    head = ("Name", "What it is", "State", "How it is recognised")
    return own_table(head, rows) + "\n"


def as_json(formats: Sequence[LogFormat]) -> str:
    """Return the formats as strict JSON."""
    rows: list[Json] = [
        {
            "name": one.name,
            "title": one.title,
            "state": one.state,
            "extra": one.extra,
            "install": one.install,
            "recognised": one.recognised,
            "loses": one.loses,
            "example": one.example,
        }
        for one in formats
    ]
    return dumps({"schema": 1, "formats": rows})
