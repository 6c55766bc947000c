"""NeMo: its progress lines, and the progress bars of Lightning that have a global step."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from stabdiag.readers.text.grammar import NUMBER, Grammar, Line
from stabdiag.readers.text.log import functions_of

if TYPE_CHECKING:
    from collections.abc import Callable


def _without_mean(name: str) -> str | None:
    """Leave out Lightning's own mean loss: it is NaN where NeMo steps the optimizer itself."""
    return None if name == "loss" else name


def _bar(with_loss: bytes, named: Callable[[str], str | None]) -> Line:
    """Return the progress bars with NeMo's own loss (a lookahead of ``?=``), or without."""
    # Epoch 0: 1%|… | 10/1000 [00:10<…, v_num=1, reduced_train_loss=10.90, global_step=9.000, …]
    return Line(
        pattern=re.compile(
            rb"Epoch (\d{1,9}): (?=[^\n]{0,2000}global_step=)(%b[^\n]{0,2000}reduced_train_loss=)"
            rb"[^\n\[]{0,400}\[([^\n]{1,2000})" % with_loss
        ),
        names=("epoch",),
        pairs=re.compile(rb", ([\w][\w /.-]{0,80})=(%b)(?=[,\]])" % NUMBER),
        named=named,
    )


GRAMMAR = Grammar(
    name="nemo",
    step="global_step",
    kinds=(
        # Training epoch 0, iteration 9/99 | lr: 3e-04 | global_step: 9 | reduced_train_loss: 10.5
        Line(
            pattern=re.compile(
                rb"Training epoch (\d{1,9}), iteration \d{1,12}/\d{1,12} (\| [^\n]{1,4000}\n)"
            ),
            names=("epoch",),
            pairs=re.compile(rb"\| ([^:|\n]{1,80}): (%b)(?=\s)" % NUMBER),
        ),
        _bar(b"?=", _without_mean),
        _bar(b"?!", str),
    ),
    joined=True,
)

recognises, read, growing = functions_of(GRAMMAR)
