"""How regularly a training loop reports its losses, and its steps while the recorder sleeps."""

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


class Sleep:
    """A period when a recorder only counts the calls of the training loop.

    ``calls_left`` is the number of calls until it ends.
    """

    def __init__(self, steps: int, calls_per_step: int, optimizer_steps: int | None) -> None:
        """Begin a sleep; the optimizer may count its steps."""
        self.calls_left = self._calls = steps * calls_per_step
        self._calls_per_step = calls_per_step
        self._optimizer_steps = optimizer_steps

    def steps(self, optimizer_steps: int | None) -> int:
        """Return the number of steps so far, also if the loop has changed its rhythm."""
        steps = (self._calls - self.calls_left) // self._calls_per_step
        if self._optimizer_steps is None or optimizer_steps is None:
            return steps
        done = optimizer_steps - self._optimizer_steps
        # An optimizer counts no skipped steps, so fewer may be right.
        return steps if steps / 2 < done <= steps else max(done, 1)
