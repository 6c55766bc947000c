"""modded-nanogpt: ``step:1/19073 train_loss:10.8258 train_time:18811ms step_avg:nanms``.

Its descendants write ``loss:`` for the training loss, and may name a phase in brackets.
"""

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
                rb"step:(\d{1,12})/\d{1,12} (?:\[[^\]\n]{1,40}\] )?"
                rb"((?:train_loss|val_loss|train_time|loss):[^\n]{1,1000})"
            ),
            names=("step",),
            pairs=re.compile(rb"(\w{1,80}):(%b)(?:ms|s)?(?!\S)" % NUMBER),
        ),
    ),
)

recognises, read, growing = functions_of(GRAMMAR)
