"""Replace what programs for speech print by names and values."""

from __future__ import annotations

import re
from typing import Final

from stabdiag.readers.text.lines.grammar import NUMBER_PATTERN, Normalization

# The losses of VITS, of so-vits-svc, and of MB-iSTFT-VITS, in the order of their lists.
_VITS: Final = {
    6: (b"disc", b"gen", b"fm", b"mel", b"dur", b"kl"),
    5: (b"disc", b"gen", b"fm", b"mel", b"kl"),
    7: (b"disc", b"gen", b"fm", b"mel", b"dur", b"kl", b"subband"),
}
_VITS_LOSSES: Final = rb"(%b(?:, %b){4,6})" % (NUMBER_PATTERN, NUMBER_PATTERN)


def _losses_of_vits(match: re.Match[bytes]) -> bytes:
    """Return the losses of a list by their names, after the step and the rate at its end."""
    losses, *counter = match.groups()
    values = losses.split(b", ")
    named = (b"loss_%b: %b" % pair for pair in zip(_VITS[len(values)], values, strict=True))
    head = [b"step: %b, lr: %b" % (*counter,)] if counter else []
    return b", ".join([*head, *named])


def _exploded_loss(line: re.Match[bytes]) -> bytes:
    """Return the record of a message: Loss exploded to 378655.87 at step 67464.

    It may cover the beginning of a progress line: at step 674647500, avg_loss=3.79]
    """
    step = line[4][: len(line[2])] if line[5] else line[4]
    return rb"%bStep %b: loss=%b" % (line[1], step, line[3])


SPEECH: Final = (
    # Tacotron: Step   67456 [1.078 sec/step, loss=6.73, avg_loss=6.65], and the message below it
    Normalization(
        (b" sec/step, loss=", b"Loss exploded to "),
        rb"(Step {1,8}(\d{1,9}) \[[^\n]{1,200}\n(?:[^\n]{0,200}\n){0,3}?)"
        rb"Loss exploded to (%b) at step (\d{1,12})(?=(, avg_loss=)?)" % NUMBER_PATTERN,
        _exploded_loss,
    ),
    # DeepSpeech: states of a bar share a line, and the last one has the mean of the epoch.
    Normalization(
        (b"| Elapsed Time: ", b" | Validation | "),
        rb"Epoch (\d{1,6}) \| {1,3}(Training|Validation) \| Elapsed Time: [^\n]{1,120}?"
        rb"(?=Epoch \1 \| {1,3}\2 \|)",
        b"",
    ),
    # SpeechBrain's loss of a separation is the negative ratio: epoch: 3, lr: 1.5e-04 - train
    # si-snr: -4.05e-01 - valid si-snr: -5.13e+00
    Normalization(
        (b", lr: ", b" - train si-snr: "), rb"( - (?:train|valid|test) )si-snr(?=: )", rb"\1loss"
    ),
    # NVIDIA's Tacotron 2: Train loss 100 0.520000 Grad Norm 0.800000 1.20s/it
    Normalization(
        (b"Grad Norm ", b"s/it"),
        rb"Train loss (\d{1,12}) (%b Grad Norm %b) (%b)s/it"
        % (NUMBER_PATTERN, NUMBER_PATTERN, NUMBER_PATTERN),
        rb"iteration \1 train loss \2 step_time: \3",
    ),
    # Validation loss 1000:  0.312500
    Normalization(
        (b"Validation loss ",),
        rb"Validation loss (\d{1,12}): {1,8}(?=%b[ \t\r]{0,8}\n)" % NUMBER_PATTERN,
        rb"iteration \1 validation loss: ",
    ),
    # VITS and its successors: INFO:name:[4200, 9.99e-05], a step and its rate
    Normalization(
        (b"Epoch: ", b"INFO"),
        rb"\[(?<=[\n: ]\[)(\d{1,9}), (\d(?:\.\d{1,20})?e-\d{1,3}|0\.0\d{1,20})\](?=\n|$)",
        rb"step: \1, lr: \2",
    ),
    # Its list of losses ends on them: INFO:name:[2.4, 3.1, 5.2, 21.3, 1.8, 1.6, 4200, 9.99e-05].
    # Others print them after the list: Losses: [2.4, 3.1, 5.2, 21.3, 1.6], step: 4200, lr: 0.0001.
    Normalization(
        (b"Epoch: ", b"INFO"),
        rb"(?<=[\t:])\[%b, (\d{1,9}), (%b)\](?=\n|$)" % (_VITS_LOSSES, NUMBER_PATTERN),
        _losses_of_vits,
    ),
    Normalization(
        (b"Losses: [", b", step: "),
        rb"Losses: \[%b\](?=, step: \d)" % _VITS_LOSSES,
        _losses_of_vits,
    ),
    # WeNet: DEBUG TRAIN Batch 4/203700 loss 2.31 …, a batch of the epoch
    Normalization(
        (b"TRAIN Batch ",), rb"(TRAIN|CV) Batch (\d{1,9})/(\d{1,12})\b", rb"\1 epoch \2 batch \3"
    ),
    # Kaldi: Average objective function for 'output' for minibatches 10-19 is -4.0400 over 12800 …
    Normalization(
        (b"bjective function for '", b"minibatches "),
        rb"[Aa]verage(\s{1,2})objective function for '\w{1,40}' for minibatches (\d{1,9})-\d{1,9} "
        rb"is (?=\S)",
        rb"\1batch \2 objective: ",
    ),
    # EESEN: After 1000 sequences (1.2Hr): Obj(log[Pzx]) = -95.2   TokenAcc = 20.1 %
    Normalization(
        (b"Obj(log[Pzx]) = ",),
        rb"After (\d{1,12}) sequences \([^)\n]{1,40}\): Obj\(log\[Pzx\]\) = ",
        rb"step: \1, objective = ",
    ),
    # The files of all iterations, as grep prints them; the sum of an objective and its penalty:
    # exp/tdnn/log/compute_prob_valid.20.log:LOG (…) Overall log-probability for 'output' is
    # -0.0912 + -0.0087 = -0.0999 per frame, over 18500 frames.
    Normalization(
        (b"compute_prob_", b"Overall log-"),
        rb"(?m)^[^\n]{0,200}compute_prob_(train|valid)\w{0,20}\.(\d{1,7})\.log[:-][^\n]{0,200}"
        rb"Overall log-(?:probability|likelihood) for 'output' is (?:%b \+ %b = )?(?=%b per frame)"
        % (NUMBER_PATTERN, NUMBER_PATTERN, NUMBER_PATTERN),
        rb"iteration \2, \1 objective: ",
    ),
    # ESPnet: iter_time=1e-4, forward_time=0.14, …, train_time=0.56. The first is the time to wait
    # for data. And its first version, about a loss: loss (=250000064.0) is not correct
    Normalization((b" iter_time=", b" forward_time="), rb"\biter_time=", b"data_time="),
    Normalization((b" iter_time=", b" forward_time="), rb"\btrain_time=", b"step_time="),
    Normalization(
        (b" loss (=", b") is not correct"), rb"\bloss \(=([-+]?\d[\d.]{0,40})\)", rb"loss =\1"
    ),
    Normalization(
        (b" loss ", b" is not correct"),
        rb"\bloss (?:\(=)?[-+]?(nan|inf)\)?(?= is not correct)",
        rb"loss became \1, which",
    ),
    # pytorch-kaldi: Loss = 1.269 | err = 0.384 below Summary epoch 09 / 23, and the same below
    # Validating on TIMIT_dev
    Normalization(
        (b" Summary epoch ", b"\nValidating on "),
        rb"(\nValidating on \S{1,80}[ \r]?\n)Loss = (%b) \| err = (?=%b)"
        % (NUMBER_PATTERN, NUMBER_PATTERN),
        rb"\1val_loss = \2 | val_err = ",
    ),
)
