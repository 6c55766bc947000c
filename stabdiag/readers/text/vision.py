"""Replace the names that programs for images and scenes use by those of losses and scores."""

from __future__ import annotations

from typing import Final

from stabdiag.readers.text.grammar import NUMBER_PATTERN, Normalization

VISION: Final = (
    # Torch 7: Epoch: [1][20/5004]  Time 0.48  Data 0.003  Err 6.8433  top1  99.219  top5  97.266,
    # where Err is the loss and top1 an error, and … Err 3.6877 Top1-%: 21.09 LR 1e-02 …
    *(
        Normalization(
            (b"Epoch: [", b" Err ", b"op1"),
            rb"(?<=[ \t])%b[ \t]{1,4}(?=%b[ \t\r\n])" % (name, NUMBER_PATTERN),
            replacement,
        )
        for name, replacement in (
            (b"Err", b"loss: "),
            *((b"top1", b"top1_error: "), (b"top5", b"top5_error: ")),
            *((b"Top1-%:", b"top1_accuracy: "), (b"LR", b"lr: ")),
        )
    ),
)
