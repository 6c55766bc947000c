"""Another loss than the one that was chosen by its name: one that went NaN, or that has values."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from stabdiag.readers.columns import Column, Columns

# So many records are enough to say that a loss was finite, and then for good not.
_FINITE = 3
_LOST = 3


def with_telling_loss(
    columns: Columns, names: Mapping[str, str], others: Sequence[str]
) -> tuple[Mapping[str, str], tuple[str, ...]]:
    """Return the columns' names by role, with a loss that tells more for the one that was chosen.

    A generator's loss may be lost while the discriminator's goes on. What is undefined now and
    then, or from the start, is not lost. A loss without a value tells nothing if another has some.
    """
    if "loss" not in names or not others:
        return names, ()
    name = names["loss"]
    chosen = columns.load(name)
    if not chosen.present.any():
        found = next((one for one in others if columns.load(one).present.any()), None)
        why = f"{name!r} has no value"
    elif np.isfinite(chosen.logged).all():
        found = next((one for one in others if _is_lost(columns.load(one))), None)
        why = f"it is not finite any more, {name!r} is"
    else:  # what it tells is enough: an average of it may be lost for longer
        found, why = None, ""
    if found is None:
        return names, ()
    return {**names, "loss": found}, (f"took {found!r} as the loss: {why}",)


def _is_lost(loss: Column) -> bool:
    """Tell whether a loss was finite, went NaN or infinite once, and stayed so to its end."""
    if loss.is_text:
        return False
    finite = np.isfinite(loss.logged)
    last = int(np.count_nonzero(finite))
    return last >= _FINITE and len(finite) - last >= _LOST and bool(finite[:last].all())
