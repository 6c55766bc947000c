"""Marian: ``Ep. 1 : Up. 1000 : Sen. 260,147 : Cost 261.06 : Time 501.45s : … : L.r. 6.2500e-06``.

What it validates by is of another scale than the cost, and is not read.
"""

from __future__ import annotations

import re

from stabdiag.readers.text.grammar import NUMBER, Grammar, Line
from stabdiag.readers.text.log import functions_of

_NAMES = {"Cost": "loss", "gNorm": "grad_norm", "L.r.": "lr"}

GRAMMAR = Grammar(
    name="marian",
    step="update",
    kinds=(
        # Ep. 1.25 : Up. 1000 : Sen. 260,147 : Cost 9.71 * 1,234,567 @ 3,412 after 12,345 : …
        Line(
            pattern=re.compile(
                rb"Ep\. (\d{1,9})[^:\n]{0,20} : Up\. (\d{1,12}) : (Sen\. [^\n]{1,1000})"
            ),
            names=("epoch", "update"),
            pairs=re.compile(rb": (Cost|gNorm|L\.r\.) (%b)(?=\s|$)" % NUMBER),
            named=_NAMES.get,
        ),
    ),
)

recognises, read, growing = functions_of(GRAMMAR)
