"""All findings of comparisons."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from stabdiag.model.comparison import ComparisonKind
from stabdiag.model.findings import Action, ActionKind, Finding, Scalar, Severity
from stabdiag.model.frozen import frozen


@frozen
class ComparisonOutcome:
    """A possible finding.

    ``severity`` is the default severity, ``kinds`` the comparisons that can find it, ``limits`` the
    thresholds it depends on, and ``next_actions`` follow the first action.
    """

    slug: str
    severity: Severity
    title: str
    kinds: tuple[ComparisonKind, ...] = tuple(ComparisonKind)
    limits: tuple[str, ...] = ()
    next_actions: tuple[Action, ...] = ()

    def finding(
        self,
        because: str,
        first: Action,
        *,
        step: int | None = None,
        measured: Mapping[str, Scalar] | None = None,
        severity: Severity | None = None,
        next_actions: tuple[Action, ...] | None = None,
        title: str | None = None,
    ) -> Finding:
        """Return the finding for a comparison; severity and next actions have defaults."""
        return Finding(
            slug=self.slug,
            severity=severity or self.severity,
            section="compare",
            question="",
            title=title or self.title,
            summary=because,
            actions=(first, *(self.next_actions if next_actions is None else next_actions)),
            step=step,
            evidence=measured or {},
        )


_DIVERGENCE_LIMITS: Final = ("compare.rounding", "compare.noise_sigma", "compare.sustained_points")

RANK_DIED: Final = ComparisonOutcome(
    slug="rank-died",
    severity=Severity.ERROR,
    title="A rank died",
    kinds=(ComparisonKind.RANKS,),
    limits=("compare.rank_gap",),
    next_actions=(
        Action(
            ActionKind.CHECK_MACHINES,
            "Check the node's kernel log and the scheduler for out of memory (exit code 137), a "
            "lost node or a lost GPU.",
        ),
        Action(
            ActionKind.READ_LOGS,
            "Set NCCL_DEBUG=INFO and TORCH_DISTRIBUTED_DEBUG=DETAIL to see which collective the "
            "other ranks waited in.",
        ),
        Action(
            ActionKind.RELOAD_CHECKPOINT,
            "Restart from the last checkpoint, and save often enough that losing a node costs "
            "little.",
            also=(ActionKind.KEEP_CHECKPOINT,),
        ),
    ),
)

RANKS_DISAGREE: Final = ComparisonOutcome(
    slug="ranks-disagree",
    severity=Severity.ERROR,
    title="The ranks train different networks",
    kinds=(ComparisonKind.RANKS,),
    limits=(*_DIVERGENCE_LIMITS, "compare.rank_sigma", "compare.min_points"),
    next_actions=(
        Action(
            ActionKind.CHECK_RANKS,
            "Compare the weight norm on all ranks after the first step: it must be identical to "
            "the last bit.",
        ),
        Action(
            ActionKind.CHECK_RANKS,
            "Look for parameters outside DDP, frozen on some ranks, or updated before gradients "
            "are averaged.",
        ),
        Action(
            ActionKind.DYNAMIC_LOSS_SCALE,
            "Share the loss scaler's found-overflow flag between ranks: all skip a step, or none.",
            also=(ActionKind.CHECK_RANKS,),
        ),
    ),
)

RUN_FAILS: Final = ComparisonOutcome(
    slug="run-fails",
    severity=Severity.ERROR,
    title="A run fails where another does not",
    kinds=(ComparisonKind.SEEDS, ComparisonKind.RERUNS),
    limits=("compare.min_points",),
)

CONFIG_DIFFERS: Final = ComparisonOutcome(
    slug="config-differs",
    severity=Severity.WARNING,
    title="The configurations differ",
    limits=("compare.rounding",),
    next_actions=(
        Action(
            ActionKind.RERUN,
            "Change one setting at a time: the effects of two changes cannot be separated.",
        ),
        Action(
            ActionKind.CHECK_SETTINGS,
            "Save the resolved configuration and the commit next to every log.",
        ),
    ),
)

NONDETERMINISM: Final = ComparisonOutcome(
    slug="nondeterminism",
    severity=Severity.WARNING,
    title="Same configuration and seed, different losses",
    kinds=(ComparisonKind.RERUNS,),
    limits=(*_DIVERGENCE_LIMITS, "compare.min_points"),
    next_actions=(
        Action(
            ActionKind.RERUN,
            "Fix every seed (Python, NumPy, framework, loader workers) and run on one device with "
            "one worker. If the runs then agree, look for a race in data or ranks.",
        ),
        Action(
            ActionKind.CHECK_SETTINGS,
            "Call torch.use_deterministic_algorithms(True): it names nondeterministic kernels. "
            "Some on CUDA have no deterministic version.",
        ),
        Action(
            ActionKind.INSPECT_DATA, "Print the sample indices of the first batches in both runs."
        ),
    ),
)

RESUME_DIVERGES: Final = ComparisonOutcome(
    slug="resume-diverges",
    severity=Severity.WARNING,
    title="The resumed run does not continue where the first run was",
    kinds=(ComparisonKind.RESUME,),
    limits=(
        *_DIVERGENCE_LIMITS,
        *("resume.points", "resume.jump_sigma", "resume.lr_ratio", "resume.gap_ratio"),
        "spike.min_rise",
    ),
    next_actions=(
        Action(
            ActionKind.RESTORE_STATE,
            "Save and load weights, optimizer, schedule, loss scaler and data position together.",
        ),
        Action(
            ActionKind.RERUN,
            "Test resuming before you need it: resume from one checkpoint twice, and compare.",
        ),
        Action(
            ActionKind.ADD_WARMUP,
            "If the optimizer state is lost, warm the learning rate up again.",
        ),
    ),
)

SEED_VARIANCE: Final = ComparisonOutcome(
    slug="seed-variance",
    severity=Severity.WARNING,
    title="The runs end at different losses",
    kinds=(ComparisonKind.SEEDS,),
    limits=("compare.final_fraction", "compare.seed_significance", "compare.seed_fraction"),
    next_actions=(
        Action(
            ActionKind.RERUN,
            "Run the outlier again with its own seed. If it repeats, initialization or data order "
            "is the cause; if not, a race.",
        ),
        Action(
            ActionKind.CHECK_RANKS,
            "Check that all runs accumulate gradients over the same number of batches, and that "
            "loader and ranks use the seed.",
        ),
        Action(
            ActionKind.LOWER_LR,
            "Lower the peak learning rate or warm up longer: near the stability limit, the seed "
            "decides.",
            also=(ActionKind.ADD_WARMUP,),
            setting="peak_lr",
        ),
        Action(ActionKind.CLIP_GRADIENTS, "Clip the gradient norm."),
        Action(ActionKind.RERUN, "Report the median and the range over seeds, not the best seed."),
    ),
)

NOT_COMPARABLE: Final = ComparisonOutcome(
    slug="not-comparable",
    severity=Severity.NOTE,
    title="Too few common steps to compare",
    limits=("compare.min_points",),
    next_actions=(
        Action(
            ActionKind.CHECK_SETTINGS, "Pass --limit compare.min_points=N to compare fewer steps."
        ),
    ),
)

AGREE: Final = ComparisonOutcome(slug="agree", severity=Severity.OK, title="The runs agree")

COMPARISON_OUTCOMES: tuple[ComparisonOutcome, ...] = (
    RANK_DIED,
    RANKS_DISAGREE,
    RUN_FAILS,
    CONFIG_DIFFERS,
    NONDETERMINISM,
    RESUME_DIVERGES,
    SEED_VARIANCE,
    NOT_COMPARABLE,
    AGREE,
)

COMPARISON_OUTCOME_BY_SLUG = {outcome.slug: outcome for outcome in COMPARISON_OUTCOMES}
