"""Variational autoencoders whose latent code is not used."""

from __future__ import annotations

from typing import Final

from stabdiag.model.findings import Action
from stabdiag.model.findings import ActionKind as Do
from stabdiag.model.history import Series
from stabdiag.model.roles.names import name_words
from stabdiag.model.text import num
from stabdiag.stats.course import end_level, outer_levels
from stabdiag.stats.levels import levels
from stabdiag.stats.standards import MIN_TREND_POINTS, NEGLIGIBLE, RELATIVE_TOLERANCE, TWENTIETHS
from stabdiag.symptoms.losses import from_the_start
from stabdiag.symptoms.symptom import Evidence, Symptom, at_least
from stabdiag.tree.case import Case

_TERM_ROLES: Final = ("other_loss", "policy_kl")
_KL: Final = frozenset({"kl", "kld", "kldiv"})
_RECONSTRUCTION: Final = frozenset({"recon", "recons", "rec", "reconstruction", "elbo", "bce"})


@Symptom(
    slug="kl-collapsed",
    title="The KL term vanished: the latent code is not used",
    needs=(" or ".join(_TERM_ROLES),),
    preconditions=(at_least(MIN_TREND_POINTS, *_TERM_ROLES, groups=True),),
    explained_by=("nan", "divergence", "spike-persistent"),
    next_actions=(
        Action(
            Do.CHECK_LOSS_FUNCTION,
            "Raise the weight of the KL term from 0 over the first third of the run, or give each "
            "latent dimension free bits.",
        ),
        Action(
            Do.CHANGE_MODEL,
            "Weaken the decoder, or hide a part of its inputs: one that predicts well without the "
            "latent code ignores it.",
        ),
    ),
)
def kl_collapsed(case: Case) -> Evidence | None:
    """Did the KL term of a variational autoencoder fall to zero, next to its reconstruction?

    Then the code of every example is the prior (posterior collapse, Bowman et al. 2016).
    """
    pair = _terms(case)
    if pair is None:
        return None
    divergence, reconstruction = pair
    x = divergence.values
    highest, ended = float(levels(x, TWENTIETHS).max()), end_level(x)
    remainder = abs(end_level(reconstruction.values))
    # The rest is in the same unit, so that a start far too high does not make a usual end small.
    is_vanished = ended <= min(RELATIVE_TOLERANCE * highest, NEGLIGIBLE * remainder)
    if x.min() < 0 or not (is_vanished or _is_unused(case, highest, ended, reconstruction)):
        return None
    step = int(divergence.steps[int((x <= RELATIVE_TOLERANCE * highest).argmax())])
    return Evidence(
        because=f"{divergence.column!r} fell from {num(highest)} to {num(ended)}, and "
        f"{reconstruction.column!r} ends at {num(remainder)}: the latent code of every example is "
        "nearly the prior, and the decoder learns nothing from it.",
        step=step,
        measured={"highest": highest, "last": ended, "reconstruction": remainder},
        first=Action(
            Do.CHECK_LOSS_FUNCTION,
            f"Check that {divergence.column!r} and {reconstruction.column!r} are reduced alike, "
            "such as both summed over dimensions and averaged over examples. If they are, train "
            "with a tenth of the weight of the KL term.",
        ),
    )


def _is_unused(case: Case, highest: float, ended: float, reconstruction: Series) -> bool:
    """Return True if the KL term was near 0 before the first record, and nothing is reconstructed.

    A term that is an average over many dimensions is small, too, but then the other loss falls.
    """
    early, late = outer_levels(reconstruction.values)
    is_tiny = ended <= RELATIVE_TOLERANCE * NEGLIGIBLE * late
    is_flat = late >= (1 - NEGLIGIBLE) * early
    return from_the_start(case) and is_tiny and is_flat and highest <= RELATIVE_TOLERANCE * late


def _terms(case: Case) -> tuple[Series, Series] | None:
    """Return the KL term and the reconstruction loss of a variational autoencoder, or None."""
    others = [
        series.finite() for role in _TERM_ROLES for series in case.history.group(role).values()
    ]
    logged = [
        (series, set(name_words(series.column)))
        for series in (*others, case.loss)
        if len(series) >= MIN_TREND_POINTS
    ]
    divergence = next((series for series, words in logged if words & _KL), None)
    reconstruction = next(
        (series for series, words in logged if words & _RECONSTRUCTION and not words & _KL), None
    )
    return (divergence, reconstruction) if divergence and reconstruction else None
