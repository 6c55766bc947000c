"""The evidence that any text is a log: a loss on line after line, and a counter that rises."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from stabdiag.readers.text.asides import OVERFLOWS, alarms
from stabdiag.readers.text.counters import EPOCH, NTH, STEP, count_of
from stabdiag.readers.text.evaluations import Evaluation
from stabdiag.readers.text.grammar import Grammar
from stabdiag.readers.text.measured import Heading, Measured
from stabdiag.readers.text.names import LOSS

if TYPE_CHECKING:
    from stabdiag.readers.text.grammar import Kind


@dataclass(frozen=True, kw_only=True)
class Evidence:
    """The evidence: which counter there is, on how many lines, and how often it rises.

    The counter stands on the lines of the loss, or ``above`` them on lines of its own; it is None
    for losses without a counter. ``moves`` is how often it changes, ``restarts`` says that it
    starts again with each epoch, and ``epochs`` that lines above the losses name that epoch.
    ``total`` is the loss that is called just ``loss``, if there are several. ``word`` is what the
    log calls its loss.
    """

    counter: bytes | None
    loss: str
    lines: int
    rising: float
    moves: int = 0
    restarts: bool = False
    above: bool = False
    epochs: bool = False
    total: str | None = None
    word: bytes = LOSS

    @property
    def grammar(self) -> Grammar:
        """The grammar that finds the records."""
        counter = None if self.above else self.counter
        kinds: tuple[Kind, ...] = (Measured(counter=counter, word=self.word),)
        if counter is not None:
            kinds = (*kinds, Evaluation(counter=counter, word=self.word))
        kinds = (*kinds, *alarms(self.total or self.loss, STEP), *OVERFLOWS)
        if self.above and self.counter is not None:
            kinds = (Heading(counter=self.counter), *kinds)
        elif self.epochs:
            kinds = (Heading(counter=EPOCH, column=EPOCH.decode()), *kinds)
        return Grammar(step=STEP, kinds=kinds, joined=self.above)

    @property
    def epoch_length(self) -> int | None:
        """What a position counts up to, in case it restarts with each epoch: 600 for 10/600."""
        if self.counter is None or not self.counter.startswith(NTH):
            return None
        return count_of(self.counter.removeprefix(NTH))

    @property
    def certainty(self) -> str:
        """How certain it is that this is a log of a training, in one word."""
        if self.lines >= 50 and self.rising >= 0.99:
            return "sure"
        return "likely" if self.lines >= 10 and self.rising >= 0.9 else "unsure"
