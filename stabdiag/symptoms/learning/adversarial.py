"""Adversarial training that one network wins."""

from __future__ import annotations

import math
from typing import Final

import numpy as np

from stabdiag.model.arrays import Floats
from stabdiag.model.findings import Action, Severity
from stabdiag.model.findings import ActionKind as Do
from stabdiag.model.history import Series
from stabdiag.model.roles.loss_kinds import DISCRIMINATOR, GENERATOR, LossKind
from stabdiag.model.roles.names import name_words
from stabdiag.model.text import num
from stabdiag.stats.course import beginning, end_level
from stabdiag.stats.quantiles import median
from stabdiag.stats.standards import (
    CONTEXT_POINTS,
    HALF,
    MAJORITY,
    MIN_CONSECUTIVE,
    MIN_LONG_LOG,
    MIN_SAMPLE,
    MIN_TREND_POINTS,
    NEGLIGIBLE,
    QUARTERS,
    TENFOLD,
    TENTH,
)
from stabdiag.symptoms.symptom import Evidence, Symptom, at_least
from stabdiag.tree.case import Case
from stabdiag.tree.progress import improved_score

# A discriminator that makes no mistakes has less than this fraction of its first loss left.
# Balanced networks stay near log 2 for each term.
_NO_LOSS_LEFT: Final = NEGLIGIBLE

# The generator's loss has grown by this factor by then.
_GENERATOR_LOSES: Final = 3.0

# A few records show it if it is far clearer, at several of them.
_LEAST_RECORDS: Final = CONTEXT_POINTS


@Symptom(
    slug="discriminator-wins",
    title="The discriminator wins",
    needs=("loss", "other_loss"),
    explained_by=("nan",),
    preconditions=(at_least(_LEAST_RECORDS, "loss"),),
    next_actions=(
        Action(
            Do.REGULARIZE,
            "Regularize the discriminator: spectral normalization, a gradient penalty, noise on "
            "its inputs, or one-sided label smoothing.",
        ),
        Action(Do.LOG_MORE, "Log a score of samples, such as FID, and look at the samples."),
    ),
)
def discriminator_wins(case: Case) -> Evidence | None:
    """Does the discriminator's loss go to zero while the generator's climbs, and no score improves?

    The log may begin after that. The gradient of the generator then vanishes or carries no
    information.
    """
    if case.history.loss_kind is not LossKind.ADVERSARIAL:
        return None
    pair = _networks(case)
    if pair is None or improved_score(case) is not None:
        return None
    discriminator, generator = pair
    if np.mean(discriminator.values == 0) >= MAJORITY:
        return _without_mistakes(discriminator, generator)
    guesses = _guesses(case, discriminator, generator)
    if guesses is not None:
        return guesses
    # The first record may be the mean of many steps, and a discriminator wins soon.
    begun, ended = beginning(discriminator.values), end_level(discriminator.values)
    generator_begun = float(generator.values[:CONTEXT_POINTS].min())
    generator_ended = end_level(generator.values)
    if min(begun, generator_begun) <= 0 or discriminator.values.min() < 0:
        return None
    if ended > _NO_LOSS_LEFT * begun or generator_ended < _GENERATOR_LOSES * generator_begun:
        return None
    if len(discriminator) < MIN_TREND_POINTS and not _is_obvious(discriminator, generator):
        return None
    begins = _win(discriminator.values, begun)
    if begins is None:
        return None
    step = int(discriminator.steps[begins])
    return Evidence(
        because=f"The discriminator's loss {discriminator.column!r} went from {num(begun)} to "
        f"{num(ended)}, and the generator's loss {generator.column!r} from "
        f"{num(generator_begun)} to {num(generator_ended)}.",
        step=step,
        measured={
            "discriminator_first": begun,
            "discriminator_last": ended,
            "generator_first": generator_begun,
            "generator_last": generator_ended,
        },
        first=_slow_down(f"it separates all samples from {case.unit} {step} on"),
        # The advice to continue after a recovered spike would be wrong.
        explains=("spike-recovered",),
    )


def _win(losses: Floats, begun: float) -> int | None:
    """Return the position where a discriminator's loss begins to be near 0, or None if it is not.

    Networks whose losses swing have not separated: the loss comes back to where it began.
    """
    high = np.flatnonzero(losses >= begun)
    last_high = int(high[-1]) if high.size else 0
    if last_high >= HALF * len(losses):
        return None
    return last_high + int((losses[last_high:] <= _NO_LOSS_LEFT * begun).argmax())


def _is_obvious(discriminator: Series, generator: Series) -> bool:
    """Return True if the last few losses of both networks are orders of magnitude off the first."""
    lost, grown = discriminator.values[-MIN_CONSECUTIVE:], generator.values[-MIN_CONSECUTIVE:]
    has_won = lost.max() < TENTH * _NO_LOSS_LEFT * discriminator.values[0]
    return bool(has_won and grown.min() > TENFOLD * generator.values[0])


def _without_mistakes(discriminator: Series, generator: Series) -> Evidence | None:
    """Return the evidence in a log that begins after the discriminator has won.

    Its loss is exactly 0 in nearly all records, and the generator's loss is above 0.
    """
    zeros, level = int((discriminator.values == 0).sum()), end_level(generator.values)
    if level <= 0:
        return None
    return Evidence(
        because=f"The discriminator's loss {discriminator.column!r} is exactly 0 in {zeros} of "
        f"{len(discriminator)} records, and the generator's loss {generator.column!r} is "
        f"{num(level)} at the end.",
        step=int(discriminator.steps[int((discriminator.values == 0).argmax())]),
        measured={"discriminator_zeros": zeros, "generator_last": level},
        first=_slow_down("it separates all samples"),
    )


def _guesses(case: Case, discriminator: Series, generator: Series) -> Evidence | None:
    """Report a discriminator that answers one half to the end: the generator learns nothing.

    Both terms of its loss are then log 2, and so is the loss of the generator.
    """
    count = len(discriminator) // QUARTERS
    if count < MIN_SAMPLE or len(generator) < len(discriminator):
        return None
    guess, late = math.log(2), discriminator.values[-count:]
    terms = round(median(late) / guess)
    is_guess = terms in (1, 2) and np.abs(late / (terms * guess) - 1).max() <= NEGLIGIBLE
    if not is_guess or abs(median(generator.values[-count:]) / guess - 1) > NEGLIGIBLE:
        return None
    step = int(discriminator.steps[-count])
    return Evidence(
        title="The discriminator guesses",
        because=f"From {case.unit} {step} on, the discriminator's loss {discriminator.column!r} "
        f"stays near {num(terms * guess)} and the generator's loss {generator.column!r} near "
        f"{num(guess)}: the discriminator answers one half for every sample, real or generated.",
        step=step,
        measured={"discriminator_last": median(late)},
        first=Action(
            Do.CHECK_EVALUATION,
            "Look at the generated samples. If they are not like real ones, restart from a "
            "checkpoint before, with a lower learning rate for both networks: a discriminator "
            "that answers one half gives the generator no gradient.",
            also=(Do.LOWER_LR, Do.RELOAD_CHECKPOINT),
        ),
        next_actions=discriminator_wins.next_actions,
        explains=("spike-recovered",),
        # At the start, neither network has learned yet.
        severity=Severity.NOTE if len(discriminator) < MIN_LONG_LOG else None,
    )


def _slow_down(reason: str) -> Action:
    return Action(
        Do.LOWER_LR,
        "Lower the discriminator's learning rate, or update it less often than the generator: "
        f"{reason}.",
        also=(Do.CHANGE_MODEL,),
    )


def _networks(case: Case) -> tuple[Series, Series] | None:
    """Return the losses of the discriminator and the generator, or None.

    If the generator has several losses, the highest at the end counts.
    """
    others = [series.finite() for series in case.history.group("other_loss").values()]
    losses = [series for series in (case.loss, *others) if len(series) >= _LEAST_RECORDS]
    words = [set(name_words(series.column)) for series in losses]
    discriminators = [
        series for series, own in zip(losses, words, strict=True) if own & DISCRIMINATOR
    ]
    generators = [series for series, own in zip(losses, words, strict=True) if own & GENERATOR]
    if not discriminators or not generators:
        return None
    return discriminators[0], max(generators, key=lambda series: end_level(series.values))
