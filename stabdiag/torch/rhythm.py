"""How regularly a training loop reports its losses."""

from __future__ import annotations

# After this many equal steps, the next ones are expected to be the same.
_MIN_EQUAL_STEPS = 4

# It does not pay to sleep for fewer steps.
MIN_SLEEP = 4


class Rhythm:
    """Counts the reported losses of each step: one, or one for each micro-batch.

    ``calls_per_step`` is their number if it has been the same for a while, else 0.
    """

    def __init__(self) -> None:
        self._calls = self._equal_steps = 0

    def note(self, calls: int) -> None:
        """Note the losses of a step that ended with the report of the last one."""
        self._equal_steps = self._equal_steps + 1 if calls == self._calls else 1
        self._calls = calls

    def restart(self) -> None:
        """Note a step that ended in another way."""
        self._equal_steps = 0

    @property
    def calls_per_step(self) -> int:
        """The number of losses in each step, or 0."""
        return self._calls if self._equal_steps >= _MIN_EQUAL_STEPS else 0
