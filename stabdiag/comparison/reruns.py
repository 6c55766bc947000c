"""Runs of one configuration and one seed: do they stay together?"""

from __future__ import annotations

from collections.abc import Iterator

from stabdiag.comparison.kind import span
from stabdiag.comparison.outcomes import NONDETERMINISM
from stabdiag.comparison.points import close, largest, measured, where
from stabdiag.comparison.settings import explaining, first_evaluation_difference, joined
from stabdiag.model.comparison import Comparison, Parting
from stabdiag.model.findings import Action, ActionKind, Finding, Severity
from stabdiag.model.text import num


def nondeterminism(comparison: Comparison) -> Iterator[Finding]:
    """Find losses that diverge although configuration and seed are the same."""
    if explaining(comparison.differences) or comparison.unrounded("lr"):
        return
    parted = comparison.parted("loss")
    if not parted:
        yield from _evaluation_differs(comparison)
        return
    worst = min(parted, key=lambda one: (one.lasting is None, one.unrounded is None, -one.largest))
    grows = worst.unrounded is not None
    cause, first = _source(comparison, worst)
    parts = (where(worst), _extent(worst), cause, _others(comparison, parted))
    yield NONDETERMINISM.found(
        " ".join(filter(None, parts)),
        first,
        then=None if grows else (),
        step=worst.step,
        severity=None if grows else Severity.NOTE,
        measured=measured(worst),
    )


def _evaluation_differs(comparison: Comparison) -> Iterator[Finding]:
    """Find evaluations that differ although all training losses are identical."""
    first = first_evaluation_difference(comparison)
    if first is None:
        return
    yield NONDETERMINISM.found(
        f"The training losses are identical, but {first.role} of {first.runs[0]} and "
        f"{first.runs[1]} differs from step {first.unrounded} on: {close(first.unrounded_values)}. "
        "The evaluation uses other data, or it is not deterministic.",
        Action(
            ActionKind.CHECK_EVALUATION,
            "Check that both runs evaluate the same data in a fixed order, and call model.eval() "
            "first.",
        ),
        then=(),
        step=first.unrounded,
        measured={"role": first.role, **measured(first)},
    )


def _extent(one: Parting) -> str:
    """Return the size of the difference, compared with rounding and noise."""
    noise = num(one.noise or 0.0)
    if one.unrounded is None:
        return f"The difference stays at rounding level: at most {num(one.largest)}."
    began = "" if one.unrounded == one.step else "It begins as rounding and grows. "
    if one.lasting is not None:
        return (
            f"{began}From step {one.lasting} on it exceeds the noise of the loss ({noise}): "
            f"{close(one.lasting_values)}."
        )
    few = "" if one.largest <= (one.noise or 0.0) else ", except for single points"
    return f"{began}It stays below the noise of the loss ({noise}){few}: {largest(one)}."


def _source(comparison: Comparison, one: Parting) -> tuple[str, Action]:
    """Return the cause that the pattern of differences points to, and the first action."""
    if one.unrounded is None:
        return "", Action(
            ActionKind.DO_NOTHING,
            "No action needed: sums in another order round differently.",
        )
    start = max(span(comparison.against)[0], span(comparison.run(one.runs[1]))[0])
    batch = comparison.of(one.runs[1]).get("batch_id")
    if batch is not None and batch.unrounded is not None and batch.unrounded <= one.unrounded:
        return (
            f"The batches differ from step {batch.step} on: the seed does not fix the data order.",
            Action(ActionKind.FIX_LOADER, "Seed the shuffle's generator and the loader's workers."),
        )
    if one.unrounded == one.step and one.step == start:
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
    if one.unrounded == one.step:
        return (
            "No rounding difference precedes it: the batch, a dropout mask or the update differs "
            "at "
            "that step.",
            Action(
                ActionKind.INSPECT_DATA,
                f"Print the batch, the random state and the gradient norm at step {one.step} in "
                "both runs.",
                step=one.step,
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


def _others(comparison: Comparison, parted: list[Parting]) -> str:
    """Return a sentence on the runs that equal the reference exactly, and those that do not."""
    if len(comparison.runs) == 2:
        return ""
    apart = [one.runs[1] for one in parted]
    equal = [run.label for run in comparison.runs if run.label not in apart]
    if len(equal) < 2:
        return "No two runs are identical."
    verb = "differs" if len(apart) == 1 else "differ"
    return f"{joined(equal)} are identical; {joined(apart)} {verb} from them."
