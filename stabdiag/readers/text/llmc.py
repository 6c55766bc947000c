"""llm.c: the lines of its ``main.log``, and those on standard output."""

from __future__ import annotations

import re

from stabdiag.readers.text.grammar import NUMBER, VALUE, Grammar, Line
from stabdiag.readers.text.log import functions_of

GRAMMAR = Grammar(
    name="llmc",
    step="s",
    kinds=(
        # s:1 trl:10.9598 lr:0.000002 norm:15.24
        Line(
            pattern=re.compile(
                rb"s:(\d{1,12}) trl:(%b)(?: lr:(%b))?(?: norm:(%b))?" % (VALUE, VALUE, VALUE)
            ),
            names=("s", "trl", "lr", "norm"),
        ),
        # s:250 tel:6.5012
        Line(
            pattern=re.compile(rb"s:(\d{1,12}) (?:tel:(%b)|eval:(%b))" % (VALUE, VALUE)),
            names=("s", "tel", "eval"),
        ),
        # step    1/19560 | loss 11.0091 (+nanz)| norm 15.3713 (+nanz)| lr 8.57e-07 | 3000.12 ms | …
        Line(
            pattern=re.compile(
                rb"step {1,12}(\d{1,12})/\d{1,12} \| (?:train )?loss {1,8}(%b) ?"
                rb"(?:\([^)\n]{0,20}\) ?)?\| norm {1,8}(%b) ?(?:\([^)\n]{0,20}\) ?)?"
                rb"\| lr {1,8}(%b)(?!\S)" % (NUMBER, NUMBER, NUMBER)
            ),
            names=("s", "loss", "norm", "lr"),
        ),
    ),
)

recognises, read, growing = functions_of(GRAMMAR)
