"""The frameworks of vision, speech and games: one row each, with the grammar of its lines."""

from __future__ import annotations

from typing import Final

from stabdiag.readers.reader import TextReader
from stabdiag.readers.text.grammar import NUMBER, Grammar, Line

VISION: Final = (
    TextReader(
        name="caffe",
        title="a log of Caffe",
        recognised="a line of solver.cpp with Iteration N, loss = or lr =",
        loses="the outputs of the training net",
        example="I0120 20:08:35.002946 17443 solver.cpp:237] Iteration 20, loss = 6.90814",
        grammar=Grammar(
            step="Iteration",
            kinds=(
                # Iteration 100 (5.2 iter/s, 3.8s/20 iters), loss = 6.9
                Line(
                    pattern=rb"Iteration (\d{1,12})(?: \([^)\n]{1,80}\))?, "
                    rb"(?:loss = (%b)(?!\S)|lr = (%b)(?!\S)|Testing net)" % (NUMBER, NUMBER),
                    names=("Iteration", "loss", "lr"),
                    told_by=rb"solver\.cpp(?::\d{1,6}\]| : line \d{1,6} :) Iteration \d{1,12}"
                    rb"(?: \([^)\n]{1,80}\))?, (?:loss|lr) = ",
                ),
                Line(
                    pattern=rb"Test net output #\d{1,4}: ([^\n=]{1,80}) = (%b)(?!\S)" % NUMBER,
                    one_pair=True,
                    named=lambda name: f"test {name}",
                    tells=False,
                ),
            ),
            joined=True,
            config=rb"\n(base_lr|max_iter|lr_policy|weight_decay|clip_gradients|snapshot"
            rb"|random_seed): ([^\n]{1,80})",
        ),
    ),
)
