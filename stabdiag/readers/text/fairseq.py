"""fairseq: steps, epochs and validations as JSON or text, and the overflows between them."""

from __future__ import annotations

import re
from functools import partial

from stabdiag.readers.text.deepspeed import SKIPPED
from stabdiag.readers.text.grammar import NUMBER, VALUE, Aside, Grammar, Line
from stabdiag.readers.text.log import functions_of

_MEMBERS = re.compile(rb'"([^"\n]{1,80})": "?(%b)"?[,}]' % NUMBER)
_EQUALS = re.compile(rb"([\w.]{1,80})=(%b)(?=[,\s])" % NUMBER)
_BARS = re.compile(rb"\| ([\w.]{1,80}) (%b)(?= \||\s)" % NUMBER)


def _named(prefix: str, name: str) -> str:
    """Name a value of an epoch: its mean loss is not that of a step, but its step is a step."""
    bare = name.removeprefix(prefix)
    return bare if bare in ("num_updates", "epoch") else f"{prefix}{bare}"


_of_epoch = partial(_named, "train_")
_of_validation = partial(_named, "valid_")

GRAMMAR = Grammar(
    name="fairseq",
    step="num_updates",
    kinds=(
        # … | train_inner | {"epoch": 1, "update": 0.5, "loss": "4.2", "num_updates": "100", …}
        Line(pattern=re.compile(rb"train_inner \| \{([^\n]{1,4000})"), pairs=_MEMBERS),
        # … | train_inner | epoch 001:     50 / 3400 loss=15.3, ppl=40000, num_updates=50, …
        Line(
            pattern=re.compile(
                rb"epoch (\d{1,6}): {1,12}\d{1,12} / \d{1,12} "
                rb"(?=[^\n]{0,2000}num_updates=)([^\n]{1,4000})"
            ),
            names=("epoch",),
            pairs=_EQUALS,
        ),
        Line(
            pattern=re.compile(rb"\| train \| \{([^\n]{1,4000})"),
            pairs=_MEMBERS,
            named=_of_epoch,
        ),
        Line(
            pattern=re.compile(rb"\| train \| epoch \d{1,6} (\| [^\n]{1,4000}\n)"),
            pairs=_BARS,
            named=_of_epoch,
        ),
        # | epoch 028 | loss 3.976 | nll_loss 2.204 | … | num_updates 9165 | lr 0.00033 | …
        Line(
            pattern=re.compile(
                rb"\| epoch(?<!train \| epoch) \d{1,6} "
                rb"(\| loss (?=[^\n]{0,2000}num_updates)[^\n]{1,4000}\n)"
            ),
            pairs=_BARS,
            named=_of_epoch,
        ),
        Line(
            pattern=re.compile(rb"\| valid \| \{([^\n]{1,4000})"),
            pairs=_MEMBERS,
            named=_of_validation,
        ),
        Line(
            pattern=re.compile(rb"\| epoch \d{1,6} \| valid on (['\w][^\n]{1,4000}\n)"),
            pairs=_BARS,
            named=_of_validation,
            # The first releases wrote it beside lines of the training that have no step.
            tells=False,
        ),
        # NOTE: gradient overflow detected, ignoring gradient, setting loss scale to: 64.0
        Aside(
            pattern=re.compile(rb"setting loss scale to: (%b)" % VALUE),
            names=("loss_scale",),
            fixed=SKIPPED,
        ),
    ),
)

recognises, read, growing = functions_of(GRAMMAR)
