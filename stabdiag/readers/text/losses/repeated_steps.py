"""Lines that repeat the steps of the usual records: an evaluation without a name of its own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Final

from stabdiag.model.roles.choice import assign, can_judge_without_loss
from stabdiag.model.roles.names import is_evaluation
from stabdiag.readers.text.lines.counters import EPOCH, STEP
from stabdiag.readers.text.lines.evaluated import VALIDATED
from stabdiag.readers.text.lines.grammar import TextPart, is_a_loss, trains

# Counters of the batches of an epoch.
_BATCH_COUNTERS: Final = frozenset(
    {"batch", "minibatch", "mini-batch", "mini_batch", "iter", "iteration"}
)


def as_evaluation(usual: TextPart, part: TextPart) -> TextPart:
    """Rename a part to an evaluation if it repeats the steps of the usual part without rates.

    Step... (500 | Loss: 2.31, Learning Rate: 1e-4) and Step... (500 | Loss: 2.4, Acc: 0.4), as the
    Flax scripts of Hugging Face print them. Or only this part names an evaluation: train acc: 0.5,
    loss: 2.31 and eval acc: 0.4, loss: 2.4.
    """
    alike = {STEP} | {name for name in part.names if is_a_loss(name)}
    rates = {name for name in usual.names if goes_with_a_loss(name)}
    by_epoch = {STEP, EPOCH.decode()} <= {*usual.names} & {*part.names}
    evaluates = any(map(is_evaluation, part.names)) and not any(map(is_evaluation, usual.names))
    if STEP not in part.names or not rates.isdisjoint(part.names):
        return part
    if not ((rates or evaluates) and alike <= {*usual.names}):
        return part
    # The batches of an epoch, whose summary has the rate, or the summary of batches.
    is_batch = not _BATCH_COUNTERS.isdisjoint({*part.names} - {*usual.names})
    if is_batch or assign(part.names).has("lr"):
        return part
    usual_steps, steps = (_counts(lines, by_epoch) for lines in (usual, part))
    # A block may begin between the two lines of a step. A single line may lack its rate as well.
    if len({*steps} - {*usual_steps}) > min(1, len({*steps}) - 1):
        return part
    # Another rank prints the same losses, and its last line may break off.
    losses = [name for name in part.names if is_a_loss(name)]
    if losses and {*_cells(part, [STEP, *losses])} <= {*_cells(usual, [STEP, *losses])}:
        return replace(part, supplementary=True)
    names = (
        name if name == STEP or trains(name) or is_evaluation(name) else f"{VALIDATED}{name}"
        for name in part.names
    )
    return replace(part, names=tuple(names))


def _counts(part: TextPart, by_epoch: bool) -> list[tuple[object, ...]]:
    """Return the step of each line of a part, with its epoch if steps restart in each epoch."""
    return _cells(part, [EPOCH.decode(), STEP] if by_epoch else [STEP])


def _cells(part: TextPart, names: Sequence[str]) -> list[tuple[object, ...]]:
    """Return the values with these names on each line of a part."""
    return [*zip(*(part.cells[part.names.index(name)] for name in names), strict=True)]


@lru_cache(maxsize=1 << 10)
def goes_with_a_loss(name: str) -> bool:
    """Return True if a name is the name of a rate, a norm, a scale or a reward."""
    roles = assign([name])
    return roles.has("lr", "tokens_per_second") or can_judge_without_loss(roles.columns)
