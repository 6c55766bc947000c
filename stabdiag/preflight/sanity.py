"""What to try before a long run: no manifest tells whether it was done."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from stabdiag.ticks import Line
from stabdiag.words import num

if TYPE_CHECKING:
    from stabdiag.preflight.settings import Launch
    from stabdiag.ticks import Tick


def sanity_checks(at: Launch) -> tuple[Tick, ...]:
    """Return the checks to tick by hand, with this run's numbers where the manifest has them."""
    return (
        Line(slug="overfit-one-batch", title="The model can overfit one batch").unknown(
            "Its loss has to go to nearly zero; if not, the model, the loss or the data is wired "
            "wrongly, and no setting will fix it.",
            "Train on one batch of 32 examples again and again, without regularisation.",
        ),
        Line(slug="gradients-flow", title="Gradients reach every parameter").unknown(
            "A parameter without one is frozen, detached, or not in the optimizer.",
            "After one backward pass print the parameters whose grad is None or all zero.",
        ),
        _initial_loss(at),
        Line(slug="known-recipe", title="A published recipe gives the published result").unknown(
            "Matching a published number shows that the whole pipeline is right.",
            "Train a published recipe with your code before you change anything in it.",
        ),
        Line(slug="batches", title="Batches hold what they should").unknown(
            "Token indices in range, labels that belong to their inputs, lengths that do not "
            "explode, masks where they belong.",
            "Write unit tests of a batch, and decode one and read it.",
        ),
        Line(slug="same-twice", title="Two short runs with one seed are the same").unknown(
            "Otherwise no failure can be reproduced later.",
            "Run 100 steps twice: `stabdiag compare FIRST SECOND --as reruns`.",
        ),
        Line(slug="resume", title="A resume continues where the run stopped").unknown(
            "Weights, optimizer, schedule, scaler and the position in the data all come back.",
            "Stop a short run and resume it, beside a run in one go: `stabdiag compare WHOLE "
            "RESUMED --as resume`.",
        ),
        Line(slug="ranks", title="Ranks see different data, and take as many steps").unknown(
            "A sampler without set_epoch shows all the same; an uneven last batch leaves the "
            "others waiting.",
            "Print the sample indices of the first batch on every rank.",
        ),
        Line(slug="signals", title="The health signals are logged").unknown(
            "Loss, gradient norm before clipping, learning rate, throughput, MFU and evaluation "
            "loss; by layer where it costs little, and the loss scale in fp16.",
            "Log ten steps and run `stabdiag checklist` on the log.",
        ),
    )


def _initial_loss(at: Launch) -> Tick:
    classes = at.manifest.vocab_size
    because = (
        f"Among {classes} classes a guess costs log {classes} = {num(math.log(classes))}."
        if classes is not None and classes > 1
        else "Among K classes a guess costs log K; the manifest does not name K."
    )
    return Line(slug="initial-loss", title="The first loss is at chance level").unknown(
        because, "Compute the loss of the untrained model on a batch."
    )
