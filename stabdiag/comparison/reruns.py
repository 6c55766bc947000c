"""Runs of one configuration and one seed: do they stay together?"""

from __future__ import annotations

from typing import TYPE_CHECKING

from stabdiag.comparison.kind import span
from stabdiag.comparison.points import before_the_loss
from stabdiag.comparison.settings import explaining, joined
from stabdiag.comparison.study import Study, finding
from stabdiag.comparison.words import close, largest, measured, where
from stabdiag.model.findings import Action, ActionKind, Severity
from stabdiag.model.text import num

if TYPE_CHECKING:
    from collections.abc import Iterator

    from stabdiag.model.comparison import Parting
    from stabdiag.model.findings import Finding

_THEN = (
    Action(
        ActionKind.RERUN,
        "Freeze all seeds (Python, NumPy, the framework, the workers of the loader), on one "
        "device and with one worker; if the runs then agree, it is a race of data or of ranks.",
    ),
    Action(
        ActionKind.CHECK_SETTINGS,
        "torch.use_deterministic_algorithms(True) names the kernels that are not; some on CUDA "
        "stay so, which is expected.",
    ),
    Action(
        ActionKind.INSPECT_DATA,
        "Print the indices of the samples of the first batches in both runs.",
    ),
)
_NOTHING = Action(
    ActionKind.DO_NOTHING, "Nothing needs to be done: sums in another order round otherwise."
)


def nondeterminism(study: Study) -> Iterator[Finding]:
    """Find losses that part although configuration and seed are the same."""
    parted = study.parted("loss")
    if not parted or explaining(study.differences) or study.unrounded("lr"):
        return
    worst = min(parted, key=_severity)
    grows = worst.unrounded is not None
    cause, first = _source(study, worst)
    others = _others(study, parted)
    yield finding(
        "nondeterminism",
        because=" ".join(filter(None, (where(worst), _extent(worst), cause, others))),
        first=first if grows else _NOTHING,
        then=_THEN if grows else (),
        step=worst.step,
        severity=None if grows else Severity.NOTE,
        measured=measured(worst),
    )


def _severity(one: Parting) -> tuple[bool, bool, float]:
    return one.lasting is None, one.unrounded is None, -one.largest


def _extent(one: Parting) -> str:
    if one.unrounded is None:
        return f"It stays at the level of rounding: {num(one.largest)} at most."
    began = "" if one.unrounded == one.step else "What begins as rounding grows. "
    if one.lasting is None:
        noise = one.noise or 0.0
        stays = "It stays below" if one.largest <= noise else "But for single points it is below"
        return f"{began}{stays} the noise of the loss ({num(noise)}): {largest(one)}."
    return (
        f"{began}From step {one.lasting} on it is more than the noise of the loss "
        f"({num(one.noise or 0.0)}): {close(one.lasting_values)} there."
    )


def _source(study: Study, one: Parting) -> tuple[str, Action]:
    """Return what the pattern of the differences points at, and what to do about it first."""
    found = list(study.partings[one.runs[1]].values())
    earlier = before_the_loss(found)
    start = max(span(study.reference)[0], span(study.run(one.runs[1]))[0])
    if earlier is not None and earlier.role == "batch_id":
        return (
            f"The batches differ from step {earlier.step} on: the order of the data does not "
            "follow from the seed.",
            Action(
                ActionKind.FIX_LOADER,
                "Seed the generator of the shuffle and of the loader's workers.",
            ),
        )
    if one.unrounded is None:
        return "", _NOTHING
    if one.unrounded == one.step and one.step == start:
        return (
            "They differ from the first loss on, by more than rounding: the first weights or the "
            "first batch are not the same.",
            Action(
                ActionKind.INSPECT_DATA,
                "Print the first batch and the norm of the first weights in both runs: one of them "
                "does not follow from the seed.",
                also=(ActionKind.CHECK_MODEL,),
            ),
        )
    if one.unrounded == one.step:
        return (
            "There is no rounding before it: from one step to the next another batch, another "
            "dropout mask or another update came in.",
            Action(
                ActionKind.INSPECT_DATA,
                f"Print the batch, the random state and the gradient norm at step {one.step} in "
                "both runs.",
                step=one.step,
            ),
        )
    return (
        "Sums whose order is not fixed do this: kernels that use atomics, threads, reductions over "
        "ranks.",
        Action(
            ActionKind.RERUN,
            "Run both once more with torch.use_deterministic_algorithms(True) and compare; if they "
            "then agree, the difference is the kernels'.",
        ),
    )


def _others(study: Study, parted: list[Parting]) -> str:
    """Return which other runs are equal to the reference to the last bit, and which are not."""
    if len(study.runs) == 2:
        return ""
    apart = [one.runs[1] for one in parted]
    equal = [run.label for run in study.runs if run.label not in apart]
    if len(equal) < 2:
        return "No two of the runs are the same."
    return f"{joined(equal)} are equal to the last bit; {joined(apart)} part from them."
