"""The byte-level language model of the fixtures, and all kinds of task by name."""

from __future__ import annotations

from dataclasses import replace

import torch
from recipes.corpus import VOCAB, text
from recipes.model import Shape
from recipes.tasks import Batch, TextTask

from training.tasks import Images, Mixture, Regression, Sequence, Spec, Task


class Text(TextTask):
    """The byte-level language model; `wave` reads the text in its order, which sorts the topics."""

    def __init__(self, spec: Spec, seed: int) -> None:
        shape = Shape(
            width=spec.width,
            layers=1,
            context=24,
            norm="layer" if spec.norm else "none",
            activation="relu2" if spec.activation == "relu2" else "gelu",
        )
        modules = ("statistics", "fractions", "textwrap", "difflib")
        super().__init__(seed, shape, spec.rows, modules)
        if spec.flavour == "wave":
            # In the order of the files, so that neighbors are alike.
            data = torch.from_numpy(text(modules).copy())
            size = shape.context + 1
            windows = data[: len(data) // size * size].view(-1, size)
            self.windows = windows[64:]

    def spoil(self, batch: Batch, share: float, size: float) -> Batch:
        """Random bytes in place of a share of the targets."""
        random = torch.Generator().manual_seed(31 * batch.number + 5)
        hit = torch.rand(batch.targets.shape, generator=random) < share
        other = torch.randint(0, VOCAB, batch.targets.shape, generator=random)
        return replace(batch, targets=torch.where(hit, other, batch.targets))


KINDS: dict[str, type[Task] | type[Text]] = {
    "text": Text,
    "mixture": Mixture,
    "images": Images,
    "sequence": Sequence,
    "regression": Regression,
}
