"""Runs of the same configuration and seed: whether their losses agree."""

from __future__ import annotations

from collections.abc import Iterator

from stabdiag.comparison.kind import span
from stabdiag.comparison.outcomes import NONDETERMINISM
from stabdiag.comparison.points import (
    describe_first,
    describe_largest,
    divergence_evidence,
    format_values,
)
from stabdiag.comparison.settings import explaining, first_evaluation_difference, join_words
from stabdiag.model.comparison import Comparison, Divergence
from stabdiag.model.findings import Action, ActionKind, Finding, Severity
from stabdiag.model.text import num


def nondeterminism(comparison: Comparison) -> Iterator[Finding]:
    """Find losses that diverge although the configuration and the seed are the same."""
    if explaining(comparison.differences) or comparison.unrounded("lr"):
        return
    divergences = comparison.find_divergences("loss")
    if not divergences:
        yield from _evaluation_differs(comparison)
        return
    worst = min(
        divergences,
        key=lambda divergence: (
            divergence.lasting is None,
            divergence.unrounded is None,
            -divergence.largest,
        ),
    )
    grows = worst.unrounded is not None
    cause, first = _source(comparison, worst)
    parts = (describe_first(worst), _extent(worst), cause, _others(comparison, divergences))
    yield NONDETERMINISM.finding(
        " ".join(filter(None, parts)),
        first,
        next_actions=None if grows else (),
        step=worst.step,
        severity=None if grows else Severity.NOTE,
        measured=divergence_evidence(worst),
    )


def _evaluation_differs(comparison: Comparison) -> Iterator[Finding]:
    """Find evaluations that differ although all training losses are identical."""
    first = first_evaluation_difference(comparison)
    if first is None:
        return
    yield NONDETERMINISM.finding(
        f"The training losses are identical, but {first.role} of {first.runs[0]} and "
        f"{first.runs[1]} differs from step {first.unrounded} on: "
        f"{format_values(first.unrounded_values)}. The evaluation uses other data, or it is not "
        "deterministic.",
        Action(
            ActionKind.CHECK_EVALUATION,
            "Check that both runs evaluate the same data in a fixed order, and call model.eval() "
            "first.",
        ),
        next_actions=(),
        step=first.unrounded,
        measured={"role": first.role, **divergence_evidence(first)},
    )


def _extent(divergence: Divergence) -> str:
    """Return the size of the difference, compared with rounding and noise."""
    noise = num(divergence.noise or 0.0)
    if divergence.unrounded is None:
        return f"The difference stays at rounding level: at most {num(divergence.largest)}."
    beginning = (
        "" if divergence.unrounded == divergence.step else "It begins as rounding and grows. "
    )
    if divergence.lasting is not None:
        return (
            f"{beginning}From step {divergence.lasting} on it exceeds the noise of the loss "
            f"({noise}): {format_values(divergence.lasting_values)}."
        )
    exception = (
        "" if divergence.largest <= (divergence.noise or 0.0) else ", except for single points"
    )
    text = f"{beginning}It stays below the noise of the loss ({noise}){exception}"
    return f"{text}: {describe_largest(divergence)}."


def _source(comparison: Comparison, divergence: Divergence) -> tuple[str, Action]:
    """Return the cause that the pattern of differences points to, and the first action."""
    if divergence.unrounded is None:
        return "", Action(
            ActionKind.DO_NOTHING,
            "No action needed: sums in another order round differently.",
        )
    start = max(span(comparison.against)[0], span(comparison.run(divergence.runs[1]))[0])
    batch = comparison.of(divergence.runs[1]).get("batch_id")
    if (
        batch is not None
        and batch.unrounded is not None
        and batch.unrounded <= divergence.unrounded
    ):
        return (
            f"The batches differ from step {batch.step} on: the seed does not fix the data order.",
            Action(ActionKind.FIX_LOADER, "Seed the shuffle's generator and the loader's workers."),
        )
    if divergence.unrounded == divergence.step and divergence.step == start:
        return (
            "The first losses differ by more than rounding, so the initial weights or the first "
            "batch differ.",
            Action(
                ActionKind.INSPECT_DATA,
                "Print the first batch and the initial weight norm in both runs: the seed fails to "
                "fix one of them.",
                also=(ActionKind.CHECK_MODEL,),
            ),
        )
    if divergence.unrounded == divergence.step:
        return (
            "No rounding difference precedes it: the batch, a dropout mask or the update differs "
            "at that step.",
            Action(
                ActionKind.INSPECT_DATA,
                "Print the batch, the random state and the gradient norm at step "
                f"{divergence.step} in both runs.",
                step=divergence.step,
            ),
        )
    return (
        "Sums without a fixed order cause this: kernels with atomics, threads, reductions over "
        "ranks.",
        Action(
            ActionKind.RERUN,
            "Run both again with torch.use_deterministic_algorithms(True). If they then agree, "
            "kernels cause the difference.",
        ),
    )


def _others(comparison: Comparison, divergences: list[Divergence]) -> str:
    """Describe which runs are identical to the reference and which are not."""
    if len(comparison.runs) == 2:
        return ""
    different = [divergence.runs[1] for divergence in divergences]
    identical = [run.label for run in comparison.runs if run.label not in different]
    if len(identical) < 2:
        return "No two runs are identical."
    verb = "differs" if len(different) == 1 else "differ"
    return f"{join_words(identical)} are identical; {join_words(different)} {verb} from them."
