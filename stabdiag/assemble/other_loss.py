"""A better loss than the one chosen by name: one that went NaN, or that has values at all."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from stabdiag.assemble.named import Named
    from stabdiag.readers.columns import Column

# So many records are enough to say that a loss was finite, and then for good not.
_FINITE = 3
_LOST = 3


def with_other_loss(named: Named, others: Sequence[str]) -> Named:
    """Replace the loss that was chosen by its name, if another one tells more.

    A generator's loss may be lost while the discriminator's goes on. What is undefined now and
    then, or from the start, is not lost. A loss without a value, or of nothing but zeros, tells
    nothing if another tells something.
    """
    columns, names = named.columns, named.names
    if "loss" not in names or not others:
        return named
    name = names["loss"]
    chosen = columns.load(name)
    if not chosen.present.any():
        found = next((one for one in others if columns.load(one).present.any()), None)
        why = f"{name!r} has no value"
    elif _is_zero(chosen):
        found = next((one for one in others if _tells(columns.load(one), chosen)), None)
        why = f"{name!r} is 0 in every record"
    elif np.isfinite(chosen.logged).all():
        found = next((one for one in others if _is_lost(columns.load(one))), None)
        why = f"it is not finite any more, {name!r} is"
    else:  # what it tells is enough: an average of it may be lost for longer
        found, why = None, ""
    if found is None:
        return named
    return named.take({**names, "loss": found}, f"took {found!r} as the loss: {why}")


def _is_zero(loss: Column) -> bool:
    return not loss.is_text and not loss.logged.any()


def _tells(loss: Column, zero: Column) -> bool:
    """Tell whether a loss is logged as often as one of zeros, or nearly, and is not zero."""
    often = 2 * int(loss.present.sum()) >= int(zero.present.sum())
    return often and not loss.is_text and not _is_zero(loss)


def _is_lost(loss: Column) -> bool:
    """Tell whether a loss was finite, went NaN or infinite once, and stayed so to its end."""
    finite = np.isfinite(loss.logged)
    last = int(np.count_nonzero(finite))
    return last >= _FINITE and len(finite) - last >= _LOST and bool(finite[:last].all())
