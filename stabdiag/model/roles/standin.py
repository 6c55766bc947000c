"""Losses that are named by what they measure: mean squared error, cross-entropy, cost."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from stabdiag.model.roles.names import (
    is_evaluation,
    is_setting,
    normal,
    without_evaluation,
    without_run,
)
from stabdiag.model.roles.parts import about_opponents, is_of_opponents, opponent_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator


# Measures that fall as a network learns, the best first. An ELBO rises, and an objective may.
_MEASURES: Final = (
    *("cross_entropy", "xent", "ce", "binary_cross_entropy", "bce"),
    *("nll", "negative_log_likelihood", "mse", "mean_squared_error"),
    *("rmse", "root_mean_squared_error", "mae", "mean_absolute_error"),
    *("bpc", "bpb", "bpd", "bits_per_char", "bits_per_byte", "bits_per_dim", "perplexity", "ppl"),
)
# These may mean something else in a log without steps or epochs.
_COUNTED: Final = ("cost", "error")
_TRAINING: Final = ("train_", "training_", "avg_", "average_", "mean_")


@dataclass(frozen=True, kw_only=True)
class StandIn:
    """A column that serves as the loss, its counterpart of an evaluation, and a note on both."""

    loss: str
    eval_loss: str | None
    note: str


def stand_ins(names: Iterable[str], *, counted: bool) -> Iterator[StandIn]:
    """Yield what may serve as the loss of a log without one by name, the most likely first.

    ``counted`` says whether the log has steps or epochs.
    """
    names = [name for name in names if not is_setting(name)]
    opponents = [name for name in names if is_of_opponents(name) and not is_evaluation(name)]
    opponent = opponent_of(opponents)
    if opponent is not None:
        note = about_opponents(opponent, "loss")
        yield StandIn(loss=opponent, eval_loss=None, note=note)
    held_back = {without_evaluation(name): name for name in names if is_evaluation(name)}
    found = {_measure(name): name for name in reversed(names) if not is_evaluation(name)}
    for measure in (*_MEASURES, *(_COUNTED if counted else ()), ""):
        # A column called train is a loss if there is one called val.
        if measure in found and (measure or measure in held_back):
            name = found[measure]
            note = f"took {name!r} as the loss, by its name"
            yield StandIn(loss=name, eval_loss=held_back.get(measure), note=note)


def may_stand_in(name: str) -> bool:
    """Tell whether a column may serve as the loss of a log without one by name."""
    return _measure(name) is not None or is_of_opponents(name)


def _measure(name: str) -> str | None:
    """Return the measure that a column of the training is; an empty text for just ``train``."""
    key = normal(without_run(name))
    if key in ("train", "training"):
        return ""
    bare = next((key.removeprefix(one) for one in _TRAINING if key.startswith(one)), key)
    return next((one for one in (key, bare) if one in _MEASURES + _COUNTED), None)
