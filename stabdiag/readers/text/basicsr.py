"""BasicSR, of which Real-ESRGAN is made: ``[epoch:  0, iter:   100, lr:(2.000e-04,)] … l_pix: …``.

Each name after the brackets that begins with ``l_`` is that of a loss.
"""

from __future__ import annotations

import re

from stabdiag.readers.text.grammar import NUMBER, Grammar, Line
from stabdiag.readers.text.log import functions_of


def _named(name: str) -> str:
    return f"loss_{name.removeprefix('l_')}" if name.startswith("l_") else name


GRAMMAR = Grammar(
    name="basicsr",
    step="iter",
    kinds=(
        # [train..][epoch:  0, iter:   1,000, lr:(2.000e-04,)] [eta: 1 day, 3:12:12, time (data):
        # 0.512 (0.003)] l_pix: 2.3456e-02
        Line(
            pattern=re.compile(
                rb"\[epoch: {0,8}(\d{1,9}), iter: {0,12}([\d,]{1,15}), lr:\((%b),[^)\n]{0,200}\)\]"
                rb"(?: \[eta: [^\]\n]{1,60}time \(data\): (%b) \(%b\)\])? ([^\n]{1,4000})"
                % (NUMBER, NUMBER, NUMBER)
            ),
            names=("epoch", "iter", "lr", "time"),
            pairs=re.compile(rb"([A-Za-z]\w{0,60}): (%b)(?=\s|$)" % NUMBER),
            named=_named,
            told_by=re.compile(
                rb"\[epoch: {0,8}\d{1,9}, iter: [ \d,]{1,20}, lr:\([^\n]{0,400} l_\w"
            ),
        ),
    ),
)

recognises, read, growing = functions_of(GRAMMAR)
