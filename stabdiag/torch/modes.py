"""Whether the model was trained in training mode, and evaluated in evaluation mode."""

from __future__ import annotations

import weakref
from typing import Any

from torch import nn

# Layers that behave otherwise in training.
_BATCH_NORM = nn.modules.batchnorm._BatchNorm
_DROPOUT = nn.modules.dropout._DropoutNd

# A model that trains in evaluation mode for this many steps was left there.
_MIN_STEPS = 3


class Modes:
    """Follows the modes of the dropout and batch norm layers of a model.

    No forward pass is hooked. A batch norm that ran in training mode has changed its buffers, which
    PyTorch counts on the host. For dropout the flags have to serve: they are read when a step or an
    evaluation is reported, and ``on_evaluation_mode`` sees every switch in between.
    """

    def __init__(self, model: nn.Module) -> None:
        self._root = weakref.ref(model)
        modules = [*model.modules()]
        self._norms = [m for m in modules if isinstance(m, _BATCH_NORM) and m.track_running_stats]
        self._dropouts = [m for m in modules if isinstance(m, _DROPOUT) and m.p > 0]
        self._watched = [*self._norms, *self._dropouts]
        self._versions = self._norm_versions()
        self._evaluated_by_switch = False
        self._backwards = 0
        self._other_model_evaluates = False
        self._was_trained = False
        self._steps_in_evaluation_mode = 0

    @property
    def has_batch_norms(self) -> bool:
        """Whether steps and backward passes are counted, to tell evaluations from them."""
        return bool(self._norms)

    def on_evaluation_mode(self, module: Any) -> None:
        """Note that a module was switched to evaluation mode."""
        root = self._root()
        if module is root or module in (
            getattr(root, "module", None),
            getattr(root, "_orig_mod", 0),
        ):
            self._evaluated_by_switch = True
        elif root is not None and type(module) is type(root):
            # A copy, such as an average of the weights, may be what is evaluated.
            self._other_model_evaluates = True

    def on_backward(self) -> None:
        """Note a backward pass: a forward pass in training mode came before it."""
        self._backwards += 1

    def on_step(self) -> dict[str, float]:
        """Return 1 for a step in evaluation mode, if the model has layers that depend on it."""
        self._backwards = 0
        if not self._watched:
            return {}
        if self._norms:
            self._versions = self._norm_versions()
        root = self._root()
        if root is None:
            return {}
        in_training = root.training or any(module.training for module in self._watched)
        self._steps_in_evaluation_mode = 0 if in_training else self._steps_in_evaluation_mode + 1
        self._was_trained = self._was_trained or in_training
        left = self._steps_in_evaluation_mode >= _MIN_STEPS
        return {"recorder/trained_in_evaluation_mode": float(left)}

    def on_evaluation(self) -> dict[str, float]:
        """Return the number of layers in training mode during an evaluation, if known."""
        # An evaluation may be reported before the step that it follows: its batches count as well.
        updated = sum(
            now - before > self._backwards
            for now, before in zip(self._norm_versions(), self._versions, strict=True)
        )
        switched, self._evaluated_by_switch = self._evaluated_by_switch, False
        in_training = sum(module.training for module in self._watched)
        if not self._watched:
            return {}
        if updated:
            return {"recorder/evaluated_in_training_mode": float(updated)}
        if not in_training or switched:
            return {"recorder/evaluated_in_training_mode": 0.0}
        if self._other_model_evaluates:
            return {}
        # Batch norms whose buffers did not change took no part, so this model did not either.
        if self._norms:
            return {}
        return {"recorder/evaluated_in_training_mode": float(in_training)}

    def _norm_versions(self) -> list[int]:
        counters = (norm.num_batches_tracked for norm in self._norms)
        return [0 if counter is None else counter._version for counter in counters]
