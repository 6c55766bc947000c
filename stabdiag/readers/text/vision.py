"""Replace the names that programs for images and scenes use by names of losses and scores."""

from __future__ import annotations

import re
from typing import Final

from stabdiag.model.patterns import lazy_pattern
from stabdiag.readers.text.grammar import NUMBER_PATTERN, Normalization

# TensorFlow's Object Detection API: Step 100 per-step time 0.512s, and below it a dictionary over
# several lines, {'Loss/box': 0.7,\n 'Loss/total_loss': 1.8,\n 'learning_rate': 0.03}. The loggers
# of two libraries print both.
_DETECTION_STEP: Final = (
    rb"Step (\d{1,12}) per-step time (\d[\d.]{0,12})s\n"
    rb"(?:[^\n{]{1,200} Step \1 per-step time \2s\n)?"
    rb"[^\n{]{0,200}\{('Loss/[^{}]{1,4000})\}(?:\n[^\n{]{1,200}\{\3\})?"
)


def _in_one_line(match: re.Match[bytes]) -> bytes:
    """Return a step and its losses in one line, and as many lines as before."""
    step, seconds, losses = match.groups()
    named = losses.replace(b"\n", b" ")
    return b"iteration %b {'step_time': %b, %b}" % (step, seconds, named) + b"\n" * match[0].count(
        b"\n"
    )


# And of an evaluation: Eval metrics at step 5000, and below it lines of one value,
# + DetectionBoxes_Precision/mAP: 0.31, each of them twice with two loggers.
_EVALUATION_VALUE: Final = rb"[^\n]{0,120}[:\]][ \t]{1,8}\+ [A-Z]\w{0,60}/[^\n]{1,120}\n"
_DETECTION_EVALUATION: Final = (
    rb"(?m)^(?:[^\n]{0,120}[:\]] ?Eval metrics at step (\d{1,12})\n){1,2}((?>%b){1,100})"
    % _EVALUATION_VALUE
)
_VALUE_OF_EVALUATION: Final = lazy_pattern(
    rb"\+ (?:[A-Za-z_]{1,60}/){1,4}(\w{1,60}): (%b)" % NUMBER_PATTERN
)


def _evaluation_in_one_line(match: re.Match[bytes]) -> bytes:
    """Return an evaluation in one line, and as many lines as before."""
    values = dict(_VALUE_OF_EVALUATION.findall(match[2]))
    named = b", ".join(
        b"val_%b: %b" % (name.removeprefix(b"total_"), value) for name, value in values.items()
    )
    return b"step %b, %b" % (match[1], named) + b"\n" * match[0].count(b"\n")


# MONAI: current epoch: 4 current mean dice: 0.71 tc: 0.8 best mean dice: 0.74 at epoch: 2, or
# current AUC: 0.99 current accuracy: 0.93 best AUC: 0.99 at epoch: 2; the best may be below it.
_CURRENT_SCORES: Final = (
    rb"current epoch: \d{1,6} current (?=[A-Za-z][\w -]{0,40}: %b)([^\n]{1,200}?)"
    rb"(?:[ \n]best [A-Za-z][^\n]{1,200})?(?=\r?\n|$)" % NUMBER_PATTERN
)


def _scores_of_evaluation(match: re.Match[bytes]) -> bytes:
    """Return the current scores without the best one, whose epoch is an earlier one."""
    return b"val_" + match[1].replace(b" current ", b", val_") + b"\n" * match[0].count(b"\n")


VISION: Final = (
    Normalization((b" per-step time ", b"'Loss/"), _DETECTION_STEP, _in_one_line),
    Normalization(
        (b"Eval metrics at step ", b"+ Det"), _DETECTION_EVALUATION, _evaluation_in_one_line
    ),
    Normalization((b"current epoch: ", b" current "), _CURRENT_SCORES, _scores_of_evaluation),
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
    # Open3D-ML, below === EPOCH 3/20 ===: loss train: 8.376  eval: 8.985, acc train: 0.439  eval: …
    *(
        Normalization(
            (b"loss train: ", b"  eval: "),
            rb"(?m)^%b train: (%b) {1,4}eval: (?=%b)" % (name, NUMBER_PATTERN, NUMBER_PATTERN),
            rb"train_%b: \1  eval_%b: " % (name, name),
        )
        for name in (b"loss", b"acc", b"iou")
    ),
    # StyleGAN: network-snapshot-005734  time 4m 26s  fid50k_full 46.5633
    Normalization(
        (b"network-snapshot-", b"fid50k"),
        rb"network-snapshot-(\d{6}) {1,12}time [^\n]{1,30}(fid50k(?:_full)?) {1,4}(?=%b)"
        % NUMBER_PATTERN,
        rb"step \1 \2: ",
    ),
    # A U-Net: Epoch [3/50], Loss: 17.2257, above [Training] Acc: 0.9, F1: 0.5, JS: 0.4, DC: 0.5 and
    # [Validation] Acc: 0.9, …; DC is the Dice coefficient.
    Normalization((b", JS: ", b", DC: "), rb", DC: (?=%b)" % NUMBER_PATTERN, b", dice: "),
    Normalization(
        (b"oss: ", b"\n[Training] "),
        rb"([Ll]oss: %b),? ?\n\[Training\] ([^\n]{1,300})\n" % NUMBER_PATTERN,
        rb"\1, \2\n\n",
    ),
    # Tesseract: At iteration 2109/2400/2402, Mean rms=5.341%, delta=8.5%, char train=80.5%, word
    # train=90.7%, skip ratio=0%, …: iterations that learned, iterations, samples.
    Normalization(
        (b"ean rms=", b"skip ratio="),
        rb"At iteration \d{1,12}/(\d{1,12})/\d{1,12}, [Mm]ean rms=(?=%b%%)" % NUMBER_PATTERN,
        rb"At iteration \1, rms loss=",
    ),
    Normalization((b"ean rms=", b" char error = "), rb"New (?:best|worst) (?=char error = )", b""),
    # On the same line follows an evaluation of an earlier iteration, or a test that was skipped:
    # At iteration 2100, stage 0, Eval Char error rate=5.1, Word error rate=20.3
    Normalization(
        (b"ean rms=", b"Eval Char error rate="),
        rb"At iteration (\d{1,12}), stage \d, Eval Char error rate=(%b), Word error rate=(%b)"
        % (NUMBER_PATTERN, NUMBER_PATTERN),
        rb" eval_cer=\2, eval_wer=\3 of \1",
    ),
    Normalization(
        (b"ean rms=", b"skipping test at iteration"),
        rb"skipping test at iteration ?(?=\d)",
        b"skipping test of ",
    ),
    # And for each sample, below Iteration 2109: BEST OCR TEXT : a line: Mean rms=5.341%, delta=8%,
    # train=80.5%(90.7%), skip ratio=0%.
    Normalization(
        (b"ean rms=", b", train="),
        rb"(?m)^Mean rms=(%b%%, delta=%b%%, )train=(%b%%)\((?=%b%%\))" % ((NUMBER_PATTERN,) * 4),
        rb"rms loss=\1train_cer=\2, train_wer=",
    ),
    *(
        Normalization((b"ean rms=", b" %b=" % name), b" %b=" % name, b" train_%b=" % score)
        for name, score in (
            *((b"char train", b"cer"), (b"word train", b"wer")),
            *((b"BCER train", b"cer"), (b"BWER train", b"wer")),
        )
    ),
)
