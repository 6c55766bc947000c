"""A row of the table of text formats: a grammar, or the module that has the code for it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from stabdiag.readers.reader import Reader, Turn

if TYPE_CHECKING:
    from stabdiag.readers.columns import Columns
    from stabdiag.readers.reader import Growing
    from stabdiag.readers.source import Stream
    from stabdiag.readers.text.grammar import Grammar


@dataclass(frozen=True, kw_only=True)
class TextReader(Reader):
    """A format of text logs: with a grammar, or else with a module.

    ``grows`` says that it can be read block by block.
    """

    module: str = "stabdiag.readers.text.log"
    turn: Turn = Turn.TEXT
    grammar: Grammar | None = None
    grows: bool = True

    def recognises(self, head: bytes, *, whole: bool) -> bool:
        """Return whether the head of a file has a line that only this framework writes."""
        if self.grammar is None:
            return super().recognises(head, whole=whole)
        from stabdiag.readers.text.clean import cleaned

        return self.grammar.recognises(cleaned(head))

    def growing(self) -> Growing | None:
        """Return what reads such a log as it grows; None if it has to be read anew each time."""
        if self.grammar is None:
            return super().growing()
        from stabdiag.readers.text.log import TextLog

        return TextLog(self.name, self.grammar) if self.grows else None

    def read(self, stream: Stream) -> Columns:
        """Read a stream."""
        if self.grammar is None:
            return super().read(stream)
        from stabdiag.readers.text.log import read_log

        return read_log(stream, self.name, self.grammar)
