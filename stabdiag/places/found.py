"""What a place was found to hold: a log's columns, and what lies beside it."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from stabdiag.model.history import Event, EventKind
from stabdiag.model.manifest import Manifest
from stabdiag.readers import read_stream

if TYPE_CHECKING:
    from stabdiag.places.beside import Beside
    from stabdiag.readers.columns import Columns, Wanted
    from stabdiag.readers.source import Stream


@dataclass(frozen=True, kw_only=True, eq=False)
class Found:
    """A log's columns, and the manifest that lies beside it."""

    columns: Columns
    manifest: Manifest = field(default_factory=Manifest)


@dataclass(frozen=True, kw_only=True)
class Asked:
    """How a log is to be read: its format, unless that is to be recognised, and which columns.

    Of one that still ``grows`` a last line without its end is left out.
    """

    format: str | None
    wanted: Wanted
    grows: bool = False

    def read(self, stream: Stream) -> Columns:
        """Read a log so."""
        return read_stream(stream, format=self.format, wanted=self.wanted, grows=self.grows)


def with_beside(columns: Columns, beside: Beside) -> Found:
    """Return columns with what lies beside them; the events of the place come first."""
    events, files = (*beside.events, *columns.events), (*columns.files, *beside.files)
    return Found(columns=replace(columns, events=events, files=files), manifest=beside.manifest)


def note(message: str) -> Event:
    """Return an event about a place."""
    return Event(kind=EventKind.PLACE, message=message)
