"""Caffe: ``Iteration 20, loss = 6.90814``, ``Iteration 20, lr = 0.01`` and what a test gave."""

from __future__ import annotations

import re

from stabdiag.readers.text.grammar import NUMBER, Grammar, Line
from stabdiag.readers.text.log import functions_of

GRAMMAR = Grammar(
    name="caffe",
    step="Iteration",
    kinds=(
        # Iteration 100 (5.2 iter/s, 3.8s/20 iters), loss = 6.9
        Line(
            pattern=re.compile(
                rb"Iteration (\d{1,12})(?: \([^)\n]{1,80}\))?, "
                rb"(?:loss = (%b)(?!\S)|lr = (%b)(?!\S)|Testing net)" % (NUMBER, NUMBER)
            ),
            names=("Iteration", "loss", "lr"),
            told_by=re.compile(
                rb"solver\.cpp(?::\d{1,6}\]| : line \d{1,6} :) Iteration \d{1,12}"
                rb"(?: \([^)\n]{1,80}\))?, (?:loss|lr) = "
            ),
        ),
        Line(
            pattern=re.compile(rb"Test net output #\d{1,4}: ([^\n=]{1,80}) = (%b)(?!\S)" % NUMBER),
            one_pair=True,
            named=lambda name: f"test {name}",
            tells=False,
        ),
    ),
    joined=True,
    config=re.compile(
        rb"\n(base_lr|max_iter|lr_policy|weight_decay|clip_gradients|snapshot|random_seed)"
        rb": ([^\n]{1,80})"
    ),
)

recognises, read, growing = functions_of(GRAMMAR)
