"""Tables of rules: the first row that applies decides."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import Enum
from typing import Generic, TypeVar

from stabdiag.model.frozen import frozen


class EventVerdict(Enum):
    """The classes of events.

    ``USUAL`` is noise that the run has elsewhere as well: events that overlap it are skipped.
    """

    SPIKE = "spike"
    NOISE = "noise"
    USUAL = "usual noise"
    EXPECTED = "expected"
    CLIMB = "climb"


Context = TypeVar("Context")


@frozen
class Rule(Generic[Context]):
    """A row of a table: its name, its purpose, the condition, and the verdict if it applies."""

    name: str
    purpose: str
    applies: Callable[[Context], bool]
    verdict: EventVerdict


def classify(rules: Sequence[Rule[Context]], context: Context) -> EventVerdict:
    """Return the verdict of the first rule that applies; a spike if none does."""
    return next((rule.verdict for rule in rules if rule.applies(context)), EventVerdict.SPIKE)
