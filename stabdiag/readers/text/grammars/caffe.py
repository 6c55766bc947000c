"""Logs of Caffe: the loss of an iteration, and the outputs of the nets with their weights."""

from __future__ import annotations

import re
from dataclasses import replace
from itertools import compress
from typing import Final

from stabdiag.model.frozen import frozen
from stabdiag.readers.text.lines.grammar import (
    NUMBER_PATTERN,
    PAIR,
    Grammar,
    Line,
    Normalization,
    TextPart,
    as_float,
)
from stabdiag.readers.text.names.weighted_terms import WEIGHTED_TERM, WEIGHTED_TERMS

# The outputs of a test net, at most a hundred of them.
_TEST_OUTPUTS: Final = (
    rb"Test net output #0: [^\n]{1,300}"
    rb"(?:\n[^\n]{0,100}Test net output #[1-9]\d{0,3}: [^\n]{1,300}){1,100}"
)


def _with_total(match: re.Match[bytes]) -> bytes:
    """Return the outputs of a test net after the sum of the losses among them."""
    terms = [as_float(term[5]) for term in re.finditer(WEIGHTED_TERM, match[0])]
    total = b"Test net output #0: total_loss = %g " % sum(terms) if len(terms) > 1 else b""
    return total + match[0]


TOTAL_OF_TEST: Final = Normalization(
    (b"Test net output #0: ", b" (* ", b" loss)"), _TEST_OUTPUTS, _with_total
)


@frozen
class _TrainingOutputs(Line):
    """The outputs of the training net, except a loss that only repeats the loss of the line."""

    def find(self, data: bytes) -> list[TextPart]:
        """Return all lines of this kind."""
        parts = (_without_loss(part) for part in super().find(data))
        return [part for part in parts if part.names]


def _without_loss(part: TextPart) -> TextPart:
    kept = [name != "loss" for name in part.names]
    return replace(
        part, names=tuple(compress(part.names, kept)), cells=[*compress(part.cells, kept)]
    )


CAFFE: Final = Grammar(
    step="Iteration",
    kinds=(
        # Iteration 100 (5.2 iter/s, 3.8s/20 iters), loss = 6.9
        Line(
            pattern=rb"Iteration (\d{1,12})(?: \([^)\n]{1,80}\))?, "
            rb"(?:loss = (%b)(?!\S)|lr = (%b)(?!\S)|Testing net)"
            % (NUMBER_PATTERN, NUMBER_PATTERN),
            names=("Iteration", "loss", "lr"),
            # A paste may lack the prefixes of the lines.
            signature=rb"solver\.cpp(?::\d{1,6}\]| : line \d{1,6} :) Iteration \d{1,12}"
            rb"(?: \([^)\n]{1,80}\))?, (?:loss|lr) = "
            rb"|Iteration (?<=[ \t\n]Iteration )\d{1,12}(?: \([^)\n]{1,80}\))?, loss = "
            rb"[^\n]{1,40}\n[ \t]{0,8}Train net output #0: ",
        ),
        _TrainingOutputs(
            pattern=rb"Train net output #\d{1,4}: ([^\n=]{1,80} = %b)(?!\S)" % NUMBER_PATTERN,
            pairs=PAIR,
            identifies_format=False,
        ),
        Line(
            pattern=rb"Test net output #\d{1,4}: ([^\n=]{1,80} = %b)(?!\S)" % NUMBER_PATTERN,
            pairs=PAIR,
            named=lambda name: f"test {name}",
            identifies_format=False,
        ),
    ),
    joined=True,
    config=rb"\n(base_lr|max_iter|lr_policy|weight_decay|clip_gradients|snapshot"
    rb"|random_seed): ([^\n]{1,80})",
    normalizations=(TOTAL_OF_TEST, WEIGHTED_TERMS),
)
