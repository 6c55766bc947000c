"""How often something may be done that takes time, beside a job that needs the processor."""

from __future__ import annotations

import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator


class Pace:
    """Work that is to take no more than a share of one processor; each piece of it is measured."""

    def __init__(self, *, share: float) -> None:
        """Leave after each piece of work as long a pause as the share asks for."""
        self._share = share
        self._next = 0.0

    @property
    def is_due(self) -> bool:
        """Whether the pause since the last piece of work is over."""
        return time.monotonic() >= self._next

    @contextmanager
    def work(self) -> Iterator[None]:
        """Measure a piece of work, by the time that all threads of this process spend on it."""
        begun = time.process_time()
        yield
        spent = time.process_time() - begun
        self._next = time.monotonic() + spent * (1 / self._share - 1)
