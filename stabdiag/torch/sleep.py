"""The steps of a training loop while a recorder follows none of them."""

from __future__ import annotations


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
