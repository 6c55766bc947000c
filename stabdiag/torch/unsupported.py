"""Ways to train that the recorder cannot follow. It says so in the log, and records nothing."""

from __future__ import annotations

from typing import Any


class UnsupportedTrainingError(Exception):
    """The recorder cannot follow this way to train; the message is a sentence for the user."""


IN_BACKWARD = (
    "the optimizer steps inside the backward pass, so that no gradient is left to measure; step it "
    "after the backward pass to record the run"
)
_DEEPSPEED = (
    "DeepSpeed keeps gradients and weights in partitions of its own; record the run without ZeRO, "
    "or log its loss and gradient norm"
)


def check_supported(model: Any, optimizer: Any) -> None:
    """Raise UnsupportedTrainingError if model or optimizer belong to DeepSpeed."""
    optimizers = optimizer if isinstance(optimizer, list | tuple) else [optimizer]
    for part in (model, *optimizers):
        if any(kind.__module__.partition(".")[0] == "deepspeed" for kind in type(part).__mro__):
            raise UnsupportedTrainingError(_DEEPSPEED)


def describe_error(error: Exception) -> str:
    """Return the message of an error, with its type unless the message is for the user."""
    is_for_user = isinstance(error, UnsupportedTrainingError)
    return str(error) if is_for_user else f"{type(error).__name__}: {error}"
