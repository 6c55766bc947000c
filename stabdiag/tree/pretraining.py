"""Does a run start from a pretrained model?"""

from __future__ import annotations

import math
from typing import Final

from stabdiag.model.manifest.keys import is_pretrained
from stabdiag.model.roles.names import words_of
from stabdiag.stats.quantiles import median
from stabdiag.tree.run import Run

# A model that starts below this fraction of log K knew the task: random weights cost log K.
_FAR_BELOW_CHANCE: Final = 0.6

_FIRST_LOSSES: Final = 3

# Losses that are not a cross-entropy in nats have no chance level of log K.
_NOT_NATS: Final = frozenset(
    {
        *("perplexity", "ppl", "mse", "rmse", "mae", "error", "cost", "huber", "l1", "l2"),
        *("bpc", "bpb", "bpd", "bits", "focal", "triplet", "dice", "hinge", "objective", "reg"),
    }
)


def chance_loss(run: Run) -> float | None:
    """Return what a guess among the manifest's classes costs in nats, log K.

    It is None if K is unknown, or if the loss is not the cross-entropy of one choice: a
    perplexity, a squared error, a sum of several parts, the loss of a policy.
    """
    classes, column = run.manifest.vocab_size or 0, run.loss.column
    has_parts = "+" in column or not _NOT_NATS.isdisjoint(words_of(column))
    if classes < 2 or has_parts or run.contested is not None:
        return None
    return math.log(classes)


def is_configured_pretrained(run: Run) -> bool | None:
    """Return whether the settings name a pretrained model, None if they do not say."""
    return is_pretrained(run.manifest.others(run.history.config))


def starts_pretrained(run: Run) -> bool | None:
    """Return whether a run starts from a pretrained model, None if that is unknown.

    The settings say so; or else a first loss far below log K.
    """
    configured = is_configured_pretrained(run)
    chance = chance_loss(run)
    if configured is not None or chance is None or not len(run.loss):
        return configured
    return median(run.loss.values[:_FIRST_LOSSES]) < _FAR_BELOW_CHANCE * chance
