"""The grammars, one a framework, in the order in which a log is held against them."""

from __future__ import annotations

from typing import Final

from stabdiag.readers.text import (
    caffe,
    composer,
    darknet,
    deepspeed,
    fairseq,
    llmc,
    maskrcnn,
    megatron,
    mllog,
    modded,
    nanogpt,
    nemo,
    olmo,
    torchtitan,
    trainer,
)

GRAMMARS: Final = (
    megatron.GRAMMAR,
    trainer.GRAMMAR,
    fairseq.GRAMMAR,
    torchtitan.GRAMMAR,
    nemo.GRAMMAR,
    composer.GRAMMAR,
    olmo.GRAMMAR,
    nanogpt.GRAMMAR,
    modded.GRAMMAR,
    llmc.GRAMMAR,
    maskrcnn.GRAMMAR,
    caffe.GRAMMAR,
    darknet.GRAMMAR,
    deepspeed.GRAMMAR,
    mllog.GRAMMAR,
)
