"""NeMo: its progress lines and the progress bars of Lightning that carry a global step."""

from __future__ import annotations

import re

from stabdiag.readers.text.grammar import NUMBER, Grammar, Line
from stabdiag.readers.text.log import functions_of, growing_by

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
        # Epoch 0: 1%|… | 10/1000 [00:10<…, v_num=1, reduced_train_loss=10.90, global_step=9.000, …]
        Line(
            pattern=re.compile(
                rb"Epoch (\d{1,9}): (?=[^\n]{0,2000}global_step=)[^\n\[]{0,400}\[([^\n]{1,2000})"
            ),
            names=("epoch",),
            pairs=re.compile(rb", ([\w][\w /.-]{0,80})=(%b)(?=[,\]])" % NUMBER),
        ),
    ),
    joined=True,
)

recognises, read = functions_of(GRAMMAR)
growing = growing_by(GRAMMAR)
