"""What the tree says: answers to its questions, and the findings that they lead to."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import TYPE_CHECKING, TypeAlias

from stabdiag.words import in_epochs

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from stabdiag.arrays import Floats, Ints, Mask

Scalar: TypeAlias = str | int | float | bool | None


class Verdict(StrEnum):
    """The three answers to a question."""

    YES = "yes"
    NO = "no"
    UNKNOWN = "unknown"


class Severity(StrEnum):
    """How bad a finding is, worst first."""

    ERROR = "error"
    WARNING = "warning"
    NOTE = "note"
    OK = "ok"

    @property
    def rank(self) -> int:
        """0 for the worst, rising."""
        return list(Severity).index(self)


class AskedOf(StrEnum):
    """Which part of the history an answer is about."""

    RUN = "run"
    LEAD_UP = "lead-up"


class Remedy(StrEnum):
    """What an advice sets about."""

    RATE = "learning rate"
    CLIP = "clipping"
    DECAY = "weight decay"
    PRECISION = "precision"
    OPERATIONS = "operations"
    MODEL = "model"
    DATA = "data"


# Those about NaN, spikes and climbs: no run is called fine in which one of them is open.
_MAIN = ("Q1.1", "Q2.1", "Q4.1")

# To a question that asks which, yes is no answer.
_OPEN = ("What", "Where", "Which")


def in_a_word(asks: str, verdict: Verdict) -> str:
    """Return how the answer to a question is told to people."""
    if verdict is Verdict.UNKNOWN or not asks.startswith(_OPEN):
        return verdict.value
    return "found" if verdict is Verdict.YES else "none"


@dataclass(frozen=True, kw_only=True)
class Answer:
    """One question's answer.

    ``because`` is one sentence with the numbers in it; ``measured`` and ``limits`` hold those
    numbers by name (limits under the names that ``--limit`` takes). ``branch`` names the edge to
    take where a question has more than one way to say yes or no.
    """

    question: str
    asks: str
    verdict: Verdict
    because: str
    branch: str | None = None
    measured: Mapping[str, Scalar] = field(default_factory=dict)
    limits: Mapping[str, Scalar] = field(default_factory=dict)
    steps: tuple[int, ...] = ()
    asked_of: AskedOf = AskedOf.RUN

    @property
    def word(self) -> str:
        """The answer in one word, for people: yes, no or unknown; found or none, to a which."""
        return in_a_word(self.asks, self.verdict)

    def in_epochs(self) -> Answer:
        """Return the answer as told of a log whose steps are epochs."""
        return replace(self, because=in_epochs(self.because))


@dataclass(frozen=True, kw_only=True)
class Finding:
    """An outcome that holds for this run, with its evidence.

    ``step`` is the onset, or None where there is none; ``question`` the one whose answer led here.
    ``reload`` tells which checkpoint to go back to, as an imperative clause, where the advice knows
    better than by the step, and ``began`` the step that it is from before, where that is not
    ``step``; ``remedies`` what the first action sets about, first things first; ``back`` the step
    by which a loss had made good what it lost, where that took too long. ``unit`` is what a step of
    the log is called.
    """

    slug: str
    severity: Severity
    section: str
    question: str
    title: str
    summary: str
    first_action: str
    next_actions: tuple[str, ...] = ()
    step: int | None = None
    evidence: Mapping[str, Scalar] = field(default_factory=dict)
    asked_of: AskedOf = AskedOf.RUN
    reload: str = ""
    began: int | None = None
    remedies: tuple[Remedy, ...] = ()
    back: int | None = None
    unit: str = "step"

    @property
    def headline(self) -> str:
        """The title, and the step where there is one."""
        return self.title if self.step is None else f"{self.title}, {self.unit} {self.step}"

    def in_epochs(self) -> Finding:
        """Return the finding as told of a log whose steps are epochs."""
        return replace(
            self,
            title=in_epochs(self.title),
            summary=in_epochs(self.summary),
            first_action=in_epochs(self.first_action),
            next_actions=tuple(map(in_epochs, self.next_actions)),
            reload=in_epochs(self.reload),
            unit="epoch",
        )


def open_questions(answers: Iterable[Answer]) -> dict[str, Answer]:
    """Return those answers about NaN, spikes and climbs that are unknown, by question."""
    return {a.question: a for a in answers if a.question in _MAIN and a.verdict is Verdict.UNKNOWN}


def fails(severity: Severity, fail_on: str) -> bool:
    """Tell whether one severity is as bad as another, or worse; none is for ``never``."""
    return fail_on != "never" and severity.rank <= Severity(fail_on).rank


@dataclass(frozen=True, kw_only=True, eq=False)
class Baseline:
    """What Q2.1 holds each finite loss against: the mean of the losses before it.

    ``mean`` and ``deviation`` are those of the ``window`` losses before each, NaN for the first
    ones; ``above`` tells which losses exceed the mean by so many deviations as the limit allows.
    """

    window: int
    steps: Ints
    mean: Floats
    deviation: Floats
    above: Mask
