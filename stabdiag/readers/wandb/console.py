"""What a run of W&B printed, searched for messages: out of memory, a traceback."""

from __future__ import annotations

from bisect import bisect_right
from typing import TYPE_CHECKING, Final

from stabdiag.readers.text.clean import Text
from stabdiag.readers.text.messages import Messages

if TYPE_CHECKING:
    from stabdiag.model.history import Event

_BLOCK: Final = 1 << 20


class Console:
    """The text that a run printed, piece by piece."""

    def __init__(self) -> None:
        """Begin with nothing printed."""
        self._messages = Messages()
        self._waiting: list[bytes] = []
        self._held = 0
        self._looked = 0
        self._lines = 1
        self._places: list[int] = []
        self._steps: list[int] = []

    def printed(self, text: str) -> None:
        """Add what was printed next."""
        data = text.encode("utf-8", "replace")
        self._waiting.append(data)
        self._held += len(data)
        if self._held >= _BLOCK and data.endswith(b"\n"):
            self._look()

    def logged(self, step: int) -> None:
        """Note that a step was logged after what was printed so far."""
        self._places.append(self._looked + self._held)
        self._steps.append(step)

    def events(self) -> tuple[Event, ...]:
        """Return the messages, each with the step that was logged last before it."""
        self._look()
        return self._messages.events(self._step_at)

    def _look(self) -> None:
        block = b"".join(self._waiting)
        self._messages.look(Text(block, first_line=self._lines), self._looked)
        self._lines += block.count(b"\n")
        self._looked += len(block)
        self._waiting, self._held = [], 0

    def _step_at(self, place: int) -> int | None:
        before = bisect_right(self._places, place) - 1
        return self._steps[before] if before >= 0 else None
