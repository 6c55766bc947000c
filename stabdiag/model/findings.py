"""The results of the tree: answers to its questions, and findings."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import KW_ONLY, dataclass, field, replace
from datetime import date
from enum import StrEnum
from typing import Final, Self, TypeAlias, TypedDict

from stabdiag.model.arrays import Floats, Ints, Mask
from stabdiag.model.frozen import frozen

# Outcomes that are about the log and not about the run that is diagnosed.
EARLIER_RUN_FAILED: Final = "earlier-run-failed"
PARTLY_READ: Final = "partly-read"
INSUFFICIENT_DATA: Final = "insufficient-data"

UNTESTED: Final = frozenset({PARTLY_READ, INSUFFICIENT_DATA})

# The outcome of a run if everything was tested and nothing was found.
HEALTHY: Final = "healthy"

Scalar: TypeAlias = str | int | float | bool | None


class Verdict(StrEnum):
    """The three answers to a question."""

    YES = "yes"
    NO = "no"
    UNKNOWN = "unknown"


class Severity(StrEnum):
    """The severity of a finding, worst first."""

    ERROR = "error"
    WARNING = "warning"
    NOTE = "note"
    OK = "ok"

    @property
    def rank(self) -> int:
        """0 for the worst, rising."""
        return list(Severity).index(self)


class Confidence(StrEnum):
    """The probability that a finding is right, not its severity."""

    HIGH = "high"
    MEDIUM = "medium"
    LOW = "low"

    @property
    def words(self) -> str:
        """The confidence in words: ``high confidence``."""
        return f"{self.value} confidence"


class AnswerScope(StrEnum):
    """The part of the history that an answer is about."""

    RUN = "run"
    LEAD_UP = "lead-up"


class ActionKind(StrEnum):
    """The kind of an action; ``about`` says what to do."""

    about: str

    def __new__(cls, value: str, about: str) -> Self:
        """Make a kind of its name and of what it says to do."""
        kind = str.__new__(cls, value)
        kind._value_, kind.about = value, about
        return kind

    # The learning rate and the steps that the optimizer takes.
    LOWER_LR = "lower-lr", "lower the learning rate"
    RAISE_LR = "raise-lr", "raise the learning rate"
    TEST_LR = "test-lr", "run a learning-rate range test"
    ADD_WARMUP = "add-warmup", "add a warm-up, or lengthen the one there is"
    FIX_SCHEDULE = "fix-schedule", "make the learning rate follow the schedule that was meant"
    CLIP_GRADIENTS = "clip-gradients", "clip the gradient, or at a lower threshold"
    RAISE_CLIP = "raise-clip", "raise the clip threshold, or clip unscaled gradients"
    RAISE_WEIGHT_DECAY = "raise-weight-decay", "turn weight decay on, or up"
    LOWER_WEIGHT_DECAY = "lower-weight-decay", "lower the weight decay"
    FIX_WEIGHT_DECAY = "fix-weight-decay", "check the decay's sign, and which weights it reaches"
    CHANGE_OPTIMIZER = "change-optimizer", "change another setting of the optimizer: epsilon, β2"
    CHANGE_BATCH = "change-batch", "change the size of the batch"
    # Precision.
    CHANGE_DTYPE = "change-dtype", "train in another dtype"
    DYNAMIC_LOSS_SCALE = (
        "dynamic-loss-scale",
        "scale the loss dynamically, or set the scaler otherwise",
    )
    CHECK_PRECISION = "check-precision", "run in fp32 what failed, to see whether that is why"
    SAFE_OPERATIONS = "safe-operations", "compute in a safer way: in fp32, with an epsilon"
    # Model, loss and data.
    INSPECT_LAYERS = "inspect-layers", "find the layer or the operation where it begins"
    CHECK_MODEL = "check-model", "check the model: initialization, wiring, what is trained"
    CHANGE_MODEL = "change-model", "change the model: its size, its layers, its activations"
    REGULARIZE = "regularize", "regularize more, or train on more data"
    REGULARIZE_LESS = "regularize-less", "regularize less"
    CHECK_LOSS_FUNCTION = (
        "check-loss-function",
        "check the loss or the reward: reduction, mask, sign",
    )
    CHECK_LABELS = "check-labels", "check that labels belong to their inputs"
    INSPECT_DATA = "inspect-data", "look at the batches, or at where the data comes from"
    SKIP_BATCHES = "skip-batches", "leave batches out"
    SHUFFLE_DATA = "shuffle-data", "shuffle or mix the data"
    FIX_LOADER = "fix-loader", "fix the order, the position or the shards of the data loader"
    TRY_SMALL = "try-small", "train on a few examples alone: their loss has to fall"
    CHECK_EVALUATION = "check-evaluation", "check the evaluation, or compare with it"
    # The run and the position to continue from.
    RELOAD_CHECKPOINT = "reload-checkpoint", "go back to a checkpoint"
    KEEP_CHECKPOINT = "keep-checkpoint", "keep a checkpoint, or save them otherwise"
    RESTORE_STATE = "restore-state", "see that a resume brings back all that it has to"
    KEEP_GOING = "keep-going", "let the run go on"
    STOP_EARLY = "stop-early", "stop the run"
    RERUN = "rerun", "run once more, or on several seeds"
    DO_NOTHING = "do-nothing", "nothing has to be done"
    # Investigations.
    LOG_MORE = "log-more", "log what is missing"
    CHECK_SETTINGS = "check-settings", "check or name a setting"
    SEE_FINDING = "see-finding", "see to another finding, or diagnose another log"
    INSPECT_LOG = "inspect-log", "look at the part of the log that was not read"
    READ_LOGS = "read-logs", "look for the cause in the logs of every rank"
    # The machines.
    CHECK_MACHINES = "check-machines", "check machines, network and disks"
    CHECK_RANKS = "check-ranks", "check that all ranks do the same"
    SPEED_UP = "speed-up", "find and fix the slow part"
    FREE_MEMORY = "free-memory", "use less memory, or find what holds it"


class Change(TypedDict):
    """The change that an action makes: see ``Action``."""

    setting: str
    from_: float | str | None
    to: float | str | None


@dataclass(frozen=True)
class Action:
    """Something to do about a finding.

    ``text`` is one sentence with this run's numbers that says what to do.
    ``kind`` is the kind of the change or check; ``also`` are the kinds of further or alternative
    actions in the sentence. A sentence that begins with a reload has the kind of its fix, and
    ``checkpoint`` is the step of the checkpoint, 0 for the start of the run. Its kind is
    reload-checkpoint only if the sentence says nothing else.

    ``setting`` is the changed setting, by the name of the manifest's field or of the role
    (``peak_lr``, ``grad_clip``, ``lr``). ``from_`` is its current value and ``to`` the new one, if
    they are known. ``step`` is the step that the action refers to.
    """

    kind: ActionKind
    text: str
    _: KW_ONLY
    also: tuple[ActionKind, ...] = ()
    setting: str | None = None
    from_: float | str | None = None
    to: float | str | None = None
    step: int | None = None
    checkpoint: int | None = None

    @property
    def kinds(self) -> tuple[ActionKind, ...]:
        """The kinds of all actions in the sentence, in order."""
        return (self.kind, *self.also)


# Kinds that change the learning rate.
RATE: Final = frozenset(
    {ActionKind.LOWER_LR, ActionKind.RAISE_LR, ActionKind.ADD_WARMUP, ActionKind.FIX_SCHEDULE}
)

# Questions about NaN, spikes and climbs: a run is healthy only if all of them are answered.
_HEALTH_QUESTIONS = ("Q1.1", "Q2.1", "Q4.1")

# Questions that cannot be answered with yes or no.
_OPEN = ("What", "Where", "Which")


@frozen(eq=True)
class Answer:
    """The answer to a question.

    ``because`` is one sentence with the numbers; ``measured`` and ``limits`` have these numbers by
    name (limits by the names of ``--limit``). ``branch`` names the edge to take if a question has
    several edges for yes or no.
    """

    question: str
    asks: str
    verdict: Verdict
    because: str
    branch: str | None = None
    measured: Mapping[str, Scalar] = field(default_factory=dict)
    limits: Mapping[str, Scalar] = field(default_factory=dict)
    steps: tuple[int, ...] = ()
    scope: AnswerScope = AnswerScope.RUN

    @property
    def word(self) -> str:
        """The answer in one word: yes, no or unknown; found or none for what, where and which."""
        if self.verdict is Verdict.UNKNOWN or not self.asks.startswith(_OPEN):
            return self.verdict.value
        return "found" if self.verdict is Verdict.YES else "none"


@frozen(eq=True)
class Panel:
    """One panel of Q2.3: whether it names the cause (None if unknown), why, and the numbers.

    ``usual`` marks a jump that belongs to the schedule.
    """

    branch: str
    holds: bool | None
    because: str
    measured: Mapping[str, Scalar] = field(default_factory=dict)
    steps: tuple[int, ...] = ()
    usual: bool = False


@frozen(eq=True)
class IgnoreRule:
    """A rule that ignores a finding until a date, with the reason.

    ``severity`` is the severity of the finding without the rule.
    """

    slug: str
    reason: str
    until: date
    severity: Severity | None = None

    @property
    def note(self) -> str:
        """The date and the reason, as a sentence."""
        return f"Ignored until {self.until}: {self.reason.rstrip('.')}."


@frozen(eq=True)
class Finding:
    """An outcome of this run, with its evidence.

    ``actions`` are in the order to try them. ``step`` is the onset, or None. ``question`` is the
    question whose answer led to the finding. ``reload`` is an imperative clause that names the
    checkpoint to go back to, if the step alone does not determine it. ``began`` is the step that
    this checkpoint precedes, if it is not ``step``. ``back`` is the step of a late recovery.
    ``epoch`` is the logged epoch of the step, if the log counts the steps of each epoch from 0.
    ``panels`` are the panels of Q2.3 for any spike. ``unit`` is the name of a step of the log. An
    ``ignored`` finding is a note at most. ``confidence`` is how likely the finding is to be right.
    ``roles`` are the series that a symptom is about.
    """

    slug: str
    severity: Severity
    section: str
    question: str
    title: str
    summary: str
    actions: tuple[Action, ...] = ()
    step: int | None = None
    evidence: Mapping[str, Scalar] = field(default_factory=dict)
    scope: AnswerScope = AnswerScope.RUN
    reload: str = ""
    began: int | None = None
    back: int | None = None
    epoch: int | None = None
    panels: tuple[Panel, ...] = ()
    unit: str = "step"
    ignored: IgnoreRule | None = None
    confidence: Confidence = Confidence.MEDIUM
    roles: tuple[str, ...] = ()

    @property
    def first_action(self) -> str:
        """The first action, as a sentence; empty if there is none."""
        return self.actions[0].text if self.actions else ""

    @property
    def next_actions(self) -> tuple[str, ...]:
        """The other actions, as sentences, in the order to try them."""
        return tuple(action.text for action in self.actions[1:])

    @property
    def headline(self) -> str:
        """The title, and the step if there is one."""
        at = "" if self.step is None else f", {self.unit} {self.step}"
        at += "" if self.epoch is None else f" (epoch {self.epoch})"
        return f"{self.title}{at}{f', ignored until {self.ignored.until}' if self.ignored else ''}"

    def ignoring(self, rule: IgnoreRule) -> Self:
        """Return the finding as ignored."""
        severity = max(self.severity, Severity.NOTE, key=lambda severity: severity.rank)
        return replace(
            self,
            severity=severity,
            summary=f"{rule.note} {self.summary}",
            ignored=replace(rule, severity=self.severity),
        )


@frozen
class RankedFindings:
    """The findings of one or several runs, the worst first."""

    findings: tuple[Finding, ...] = ()

    @property
    def diagnosis(self) -> Finding:
        """The worst finding."""
        return self.findings[0]

    @property
    def also_found(self) -> tuple[Finding, ...]:
        """All findings except the diagnosis."""
        return self.findings[1:]

    def ignoring(self, rules: Iterable[IgnoreRule]) -> Self:
        """Return the result with the findings that match the rules reduced to notes."""
        by_slug = {rule.slug: rule for rule in rules}
        findings = [
            finding.ignoring(by_slug[finding.slug]) if finding.slug in by_slug else finding
            for finding in self.findings
        ]
        findings.sort(key=lambda finding: finding.severity.rank)
        return replace(self, findings=tuple(findings))


def without_repeats(actions: Iterable[Action]) -> tuple[Action, ...]:
    """Return the actions without later ones that change a setting to the same value."""
    kept: list[Action] = []
    for action in actions:
        change = (action.kind, action.setting, action.to)
        is_repeat = action.to is not None and any(
            change == (earlier.kind, earlier.setting, earlier.to) for earlier in kept
        )
        if not is_repeat:
            kept.append(action)
    return tuple(kept)


def open_questions(answers: Iterable[Answer]) -> dict[str, Answer]:
    """Return the unknown answers about NaN, spikes and climbs, by question."""
    return {
        a.question: a
        for a in answers
        if a.question in _HEALTH_QUESTIONS and a.verdict is Verdict.UNKNOWN
    }


@frozen
class RollingBaseline:
    """The baseline of Q2.1 for each finite loss: the mean of the losses before it.

    ``mean`` and ``deviation`` are computed over the ``window`` losses before each loss, NaN for the
    first ones. ``above`` marks the losses that exceed the limit.
    """

    window: int
    steps: Ints
    mean: Floats
    deviation: Floats
    above: Mask
