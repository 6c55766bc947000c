"""Name the terms of a loss by whether Caffe weighted them."""

from __future__ import annotations

import re
from typing import Final

from stabdiag.readers.text.lines.grammar import NUMBER_PATTERN, Normalization, as_float

# Train net output #0: loss_bbox = 7.58 (* 20 = 151.6 loss): a term, its weight, and its part.
WEIGHTED_TERM: Final = (
    rb"net output #(\d{1,4}): ([^\s=:(]{1,80}) = (%b) \(\* (%b) = (%b) loss\)"
    % (3 * (NUMBER_PATTERN,))
)


def _with_weight(match: re.Match[bytes]) -> bytes:
    """Return a term as a part of the sum, under a name that says so if its weight is not 1."""
    number, name, value, weight, weighted = match.groups()
    if as_float(weight) == 1:
        return b"net output #%b: %b = %b" % (number, name, value)
    return b"net output #%b: weighted_%b = %b" % (number, name, weighted)


WEIGHTED_TERMS: Final = Normalization(
    (b"net output #", b" (* ", b" loss)"), WEIGHTED_TERM, _with_weight
)
