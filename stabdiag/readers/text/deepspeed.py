"""DeepSpeed: the steps that it reports, and the loss scale with each overflow.

The line of an overflow names no step: it belongs to the next one. The scales before and after it
make two records, so that a fall is seen even if nothing was printed when the scale had grown.
"""

from __future__ import annotations

import re

from stabdiag.readers.text.grammar import NUMBER, VALUE, Aside, Grammar, Line, Step
from stabdiag.readers.text.log import functions_of

# … OVERFLOW! Rank 0 Skipping step. Attempted loss scale: 32, reducing to 16
# … Attempted loss scale: 65536, but hysteresis is 2. Reducing hysteresis to 1
_SCALE = "Attempted loss scale"
SKIPPED = {"skipped_step": b"1"}

SCALE = (
    Line(
        pattern=re.compile(rb"Attempted loss scale: (%b)," % NUMBER),
        names=(_SCALE,),
        step=Step.LAST,
        tells=False,
    ),
    Aside(
        pattern=re.compile(rb", reducing to (%b)\.?(?!\S)" % NUMBER),
        names=(_SCALE,),
        fixed=SKIPPED,
    ),
    Aside(pattern=re.compile(rb", but hysteresis is \d"), fixed=SKIPPED),
    # Counted from 0, and printed by every rank.
    Line(
        pattern=re.compile(rb"Grad overflow on iteration (\d{1,12})"),
        names=("step",),
        is_record=False,
        tells=False,
    ),
)

GRAMMAR = Grammar(
    name="deepspeed",
    step="step",
    kinds=(
        # [Rank 0] step=510, skipped=8, lr=[9.6e-06, 9.6e-06], mom=[(0.9, 0.95), (0.9, 0.95)]
        Line(
            pattern=re.compile(rb"step=(\d{1,12}), skipped=(\d{1,12}), lr=\[(%b)[,\]]" % NUMBER),
            names=("step", "skipped", "lr"),
        ),
        # steps: 10 loss: 4.2313 iter time (s): 0.512 samples/sec: 62.500
        Line(
            pattern=re.compile(
                rb"steps: (\d{1,12}) loss: (%b) iter time \(s\): (%b) samples/sec: (%b)"
                % (VALUE, VALUE, VALUE)
            ),
            names=("step", "loss", "iter time (s)", "samples/sec"),
        ),
        # Epoch 1/16 with loss 0.5754789632299672
        Line(
            pattern=re.compile(rb"Epoch \d{1,6}/\d{1,6} with loss (%b)" % VALUE),
            names=("loss",),
            tells=False,
        ),
        # Epoch: 0, Step: 10, Rank: 0, loss = 5.968
        Line(
            pattern=re.compile(
                rb"Epoch: (\d{1,6}), Step: (\d{1,12}), Rank: 0, loss = (%b)" % VALUE
            ),
            names=("epoch", "step", "loss"),
            tells=False,
        ),
        # [Rank 0] Loss: 10.8719
        Line(pattern=re.compile(rb"\[Rank 0\] Loss: (%b)" % VALUE), names=("loss",), tells=False),
        Line(pattern=re.compile(rb"\nppl: (%b)" % VALUE), names=("ppl",), tells=False),
        *SCALE,
    ),
    config=re.compile(rb":print\] {1,4}(\w{1,80}) [. ]{1,80}([^\n]{1,200})"),
)

recognises, read, growing = functions_of(GRAMMAR)
