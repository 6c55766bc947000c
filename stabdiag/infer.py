"""What the log itself tells of the manifest."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from stabdiag.history import History
    from stabdiag.manifest import Manifest


def infer(manifest: Manifest, history: History) -> Manifest:
    """Fill in what the manifest does not say and the log gives away."""
    values = history.finite("loss_scale").values
    if manifest.dtype is not None or len(values) < 2:
        return manifest
    if values.min() != values.max():
        grounds = "the loss scale moves, as only fp16 training makes it"
    elif values[0] > 1:
        # A scale of 1 is none: some frameworks write it whatever the dtype.
        grounds = f"a loss scale of {values[0]:g} was used, as only fp16 training needs it"
    else:
        return manifest
    return replace(manifest, dtype="fp16", inferred={**manifest.inferred, "dtype": grounds})
