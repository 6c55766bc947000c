"""modded-nanogpt: ``step:1/19073 train_loss:10.8258 train_time:18811ms step_avg:nanms``."""

from __future__ import annotations

import re

from stabdiag.readers.text.grammar import NUMBER, Grammar, Line
from stabdiag.readers.text.log import functions_of

GRAMMAR = Grammar(
    name="modded-nanogpt",
    step="step",
    kinds=(
        Line(
            pattern=re.compile(
                rb"step:(\d{1,12})/\d{1,12} ((?:train_loss|val_loss|train_time):[^\n]{1,1000})"
            ),
            names=("step",),
            pairs=re.compile(rb"(\w{1,80}):(%b)(?:ms)?(?!\S)" % NUMBER),
        ),
    ),
)

recognises, read, growing = functions_of(GRAMMAR)
