"""The tree on one screen: its questions and leaves, and who follows whom.

A key of an edge is a question's verdict, or ``verdict:branch`` where there is more than one way to
express it. A target is a question, a section (its first question), or a slug, which is a leaf.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from stabdiag.model.findings import Severity, Verdict
from stabdiag.model.frozen import frozen
from stabdiag.model.limits import Limits
from stabdiag.model.text import filled


@frozen(eq=True)
class Question:
    """One numbered node of the tree.

    ``name`` is what it is about, in a word or two. ``asks`` may name limits, ``{spike.sigma}``, as
    the texts do. ``needs`` names the roles, each by itself or by groups, without which the answer
    is unknown; the walk decides that before it asks. ``limits`` names the limits that the answer
    depends on.
    """

    id: str
    name: str
    asks: str
    needs: tuple[str, ...] = ()
    limits: tuple[str, ...] = ()

    def text(self, limits: Limits) -> str:
        """Return the question with the limits in force."""
        return filled(self.asks, limits)


QUESTIONS: Final[tuple[Question, ...]] = (
    Question(
        id="Q1.1",
        name="NaN",
        asks="Is the loss NaN or infinite at any logged step?",
        needs=("loss",),
        limits=("nan.absent_records",),
    ),
    Question(id="Q1.2", name="dtype", asks="Which dtype was used?"),
    Question(id="Q1.3", name="origin", asks="Where did the NaN start?", limits=("nan.grad_surge",)),
    Question(
        id="Q1.4", name="fix", asks="Which fix fits the evidence?", limits=("nan.grad_surge",)
    ),
    Question(
        id="Q2.1",
        name="spike",
        asks="Does the loss spike above μ+{spike.sigma}σ of the previous steps?",
        needs=("loss",),
        limits=(
            "spike.sigma",
            "spike.window",
            "spike.min_points",
            "spike.false_alarm",
            "spike.min_rise",
        ),
    ),
    Question(
        id="Q2.2",
        name="recovery",
        asks="Did the loss recover within {spike.recovery_steps} steps?",
        needs=("loss",),
        limits=("spike.recovery_sigma", "spike.recovery_steps"),
    ),
    Question(
        id="Q2.3",
        name="cause",
        asks="What caused the spike?",
        limits=("spike.lr_jump", "spike.lookback", "spike.batch_lookback", "spike.grad_ratio"),
    ),
    Question(id="Q2.4", name="checkpoint", asks="Which checkpoint precedes the spike?"),
    Question(id="Q3.1", name="overflow", asks="Is the gradient norm NaN or infinite at any step?"),
    Question(
        id="Q3.2",
        name="loss scale",
        asks="What does the loss-scale history show?",
        limits=("precision.scale_floor", "precision.growth_interval", "precision.overflow_factor"),
    ),
    Question(id="Q3.3", name="fp16 overflow", asks="Does the NaN look like an fp16 overflow?"),
    Question(
        id="Q4.1",
        name="climb",
        asks="Did the loss rise over the last {divergence.window} steps?",
        needs=("loss",),
        limits=(
            "divergence.window",
            "divergence.min_points",
            "divergence.significance",
            "divergence.material",
            "divergence.material_below_noise",
        ),
    ),
    Question(
        id="Q4.2",
        name="learning rate",
        asks="Did the learning rate rise over the same window?",
        needs=("lr",),
        limits=("divergence.lr_rise",),
    ),
    Question(
        id="Q4.3",
        name="weight norm",
        asks="Did a weight norm change by more than {divergence.weight_norm_ratio}x in "
        "{divergence.window} steps?",
        needs=("weight_norm",),
        limits=("divergence.weight_norm_ratio", "divergence.window"),
    ),
    Question(
        id="Q4.4",
        name="gradient norm",
        asks="Does the mean gradient norm rise?",
        limits=("divergence.grad_norm_rise", "divergence.material"),
    ),
)

NAMES: Final = {question.id: question.name for question in QUESTIONS}

SECTIONS: Final = {"§1": "Q1.1", "§2": "Q2.1", "§3": "Q3.1", "§4": "Q4.1"}

END: Final = "end"

EDGES: Final[Mapping[str, Mapping[str, str]]] = {
    "Q1.1": {"yes": "Q1.2", "no": "§2", "unknown": "§2"},
    "Q1.2": {"yes:fp16": "Q3.3", "yes": "Q1.3", "unknown": "Q1.3"},
    "Q1.3": {"yes": "Q1.4", "unknown": "Q1.4"},
    "Q1.4": {
        "yes:fp32": "nan-fp32",
        "yes:fp64": "nan-fp32",
        "yes:bf16": "nan-bf16",
        "yes:fp8": "nan-bf16",
        "yes": "nan-dtype-unknown",
    },
    "Q2.1": {"yes": "Q2.2", "yes:recurring": "§3", "no": "§3", "unknown": "§3"},
    "Q2.2": {"yes": "Q2.3", "no": "Q2.4", "unknown": "spike-unresolved"},
    "Q2.3": {
        "yes:lr-jump": "spike-lr-jump",
        "yes:duplicate-batch": "spike-duplicate-batch",
        "yes:long-tail-batch": "spike-long-tail-batch",
        "no": "spike-recovered",
        "unknown": "spike-recovered",
    },
    "Q2.4": {"yes": "spike-persistent", "no": "spike-persistent", "unknown": "spike-persistent"},
    "Q3.1": {"yes": "Q3.2", "no": "§4", "unknown": "§4"},
    "Q3.2": {
        "yes:static": "loss-scale-static",
        "yes:collapsed": "loss-scale-collapsed",
        "yes:overflow": "gradient-overflow",
        "no": "§4",
        "unknown": "§4",
    },
    "Q3.3": {"yes": "nan-fp16-overflow", "no": "nan-fp16-overflow", "unknown": "nan-fp16-overflow"},
    "Q4.1": {"yes:material": "Q4.2", "yes:slight": "Q4.4", "no": END, "unknown": END},
    "Q4.2": {"yes": "divergence-lr-rising", "no": "Q4.3", "unknown": "Q4.3"},
    "Q4.3": {
        "yes:climbing": "divergence-weight-norm-climbing",
        "yes:collapsing": "divergence-weight-norm-collapsing",
        "no": "Q4.4",
        "unknown": "Q4.4",
    },
    "Q4.4": {
        "yes": "divergence-grad-norm-rising",
        "no:plateau": "plateau",
        "no:unexplained": "divergence-unexplained",
        "unknown:plateau": "plateau",
        "unknown:unexplained": "divergence-unexplained",
    },
}


def taken(question: str, verdict: Verdict, branch: str | None) -> str:
    """Return the key of the edge that a reply takes: by its branch if that has one, or verdict."""
    key = f"{verdict}:{branch}"
    return key if key in EDGES[question] else str(verdict)


class Outcome(NamedTuple):
    """A leaf: its slug, how bad it is, its section and its title."""

    slug: str
    severity: Severity
    section: str
    title: str


_ERROR, _WARNING = Severity.ERROR, Severity.WARNING

_LEAVES = (
    ("nan-fp32", _ERROR, "§1", "The loss went NaN in full precision"),
    ("nan-bf16", _ERROR, "§1", "The loss went NaN in bf16"),
    ("nan-fp16-overflow", _ERROR, "§1", "The loss went NaN in fp16"),
    ("nan-dtype-unknown", _ERROR, "§1", "The loss went NaN"),
    ("spike-long-tail-batch", _WARNING, "§2", "Loss spike from a long-tail batch"),
    ("spike-lr-jump", _WARNING, "§2", "Loss spike from a learning-rate jump"),
    ("spike-duplicate-batch", _WARNING, "§2", "Loss spike from a repeated batch"),
    ("spike-recovered", _WARNING, "§2", "Loss spike that recovered"),
    ("spike-persistent", _ERROR, "§2", "Loss spike that did not recover"),
    ("spike-unresolved", _ERROR, "§2", "Loss spike, recovery unknown"),
    ("gradient-overflow", _WARNING, "§3", "Gradients overflow"),
    ("loss-scale-static", _ERROR, "§3", "Gradients overflow under a static loss scale"),
    ("loss-scale-collapsed", _ERROR, "§3", "The loss scale collapsed"),
    ("divergence-lr-rising", _ERROR, "§4", "The loss diverged as the learning rate rose"),
    ("divergence-weight-norm-climbing", _ERROR, "§4", "The loss diverged as weights grew"),
    ("divergence-weight-norm-collapsing", _ERROR, "§4", "The loss diverged as weights shrank"),
    ("divergence-grad-norm-rising", _ERROR, "§4", "The loss diverged with the gradient norm"),
    ("divergence-unexplained", _ERROR, "§4", "The loss diverged; nothing logged explains it"),
    ("plateau", Severity.NOTE, "§4", "The loss has stopped falling"),
    ("healthy", Severity.OK, "", "No instability found"),
    ("insufficient-data", Severity.NOTE, "", "Too little was logged to tell"),
    ("earlier-run-failed", Severity.NOTE, "", "An earlier run in this log failed"),
    ("partly-read", _WARNING, "", "Only a part of the log was judged"),
)

OUTCOMES = tuple(map(Outcome._make, _LEAVES))

OUTCOME_BY_SLUG = {outcome.slug: outcome for outcome in OUTCOMES}
