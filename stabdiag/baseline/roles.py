"""The series that are compared with a baseline: the usual spread of good runs, and which decide."""

from __future__ import annotations

from typing import Final

from stabdiag.model.roles.scores import is_training_score, score_direction
from stabdiag.stats.bands import Prior

# Spread of good runs that differ in their seed: 604 groups of reruns and 90 small healthy runs.
_LOSS_PRIOR: Final = Prior(level=0.01, shift=0.06)
_PRIORS: Final = {
    "loss": _LOSS_PRIOR,
    "eval_loss": _LOSS_PRIOR,
    "accuracy": _LOSS_PRIOR,
    "eval_accuracy": _LOSS_PRIOR,
    "reward": Prior(level=0.03, shift=0.10),
    "score": _LOSS_PRIOR,
    "other_loss": _LOSS_PRIOR,
    "grad_norm": Prior(level=0.07, shift=0.09),
    "weight_norm": Prior(level=0.01, shift=0.02),
    "tokens_per_second": Prior(level=0.03, shift=0.10),
    "step_time": Prior(level=0.03, shift=0.10),
    "lr": Prior(level=0.01, shift=0.06),
}

# 1 if higher is worse, -1 if lower is.
_WORSE: Final = {"loss": 1, "eval_loss": 1, "accuracy": -1, "eval_accuracy": -1, "reward": -1}

_EVALUATION_ROLES: Final = frozenset({"eval_loss", "eval_accuracy"})

_NAMES: Final = {
    "loss": "training loss",
    "eval_loss": "evaluation loss",
    "accuracy": "training accuracy",
    "eval_accuracy": "evaluation accuracy",
    "reward": "reward",
    "grad_norm": "gradient norm",
    "weight_norm": "weight norm",
    "tokens_per_second": "throughput",
    "step_time": "step time",
    "lr": "learning rate",
}


def is_compared(role: str) -> bool:
    """Return True if a baseline keeps this role."""
    return role.partition("/")[0] in _PRIORS


def usual_spread(role: str) -> Prior:
    """Return the usual spread of good runs in a role."""
    return _PRIORS[role.partition("/")[0]]


def worse_direction(role: str) -> int | None:
    """Return 1 if higher values are worse, -1 if lower ones are, None if neither decides.

    The direction of a score follows from its name: F1 and BLEU up, WER and perplexity down.
    """
    first, _, name = role.partition("/")
    if first == "score":
        direction = score_direction(name)
        return None if direction is None else -int(direction)
    return _WORSE.get(first)


def is_evaluated(role: str) -> bool:
    """Return True if a series that decides was measured on held-out data."""
    first, _, name = role.partition("/")
    return first in _EVALUATION_ROLES or (first == "score" and not is_training_score(name))


def series_name(role: str, column: str) -> str:
    """Return the name of a series in a sentence."""
    first, _, group = role.partition("/")
    name = _NAMES.get(first, column)
    return f"{name} of {group}" if group and first in _NAMES else name
