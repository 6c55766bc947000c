"""Replace the names that some frameworks use for a step, a loss or a rate by standard ones.

If the head of a log has all markers of a row, the replacement of the row is applied. The result is
read like any other log of names and values.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import chain
from typing import Final

from stabdiag.readers.text.boosting import BOOSTING
from stabdiag.readers.text.caffe import WEIGHTED_TERMS
from stabdiag.readers.text.grammar import NUMBER_PATTERN, Normalization
from stabdiag.readers.text.kaldi import KALDI
from stabdiag.readers.text.loss_names import (
    COUNTED_NAMES,
    PAIRED_NAMES,
    QUALIFIED_NAMES,
    UNSPACED_PAIRS,
)
from stabdiag.readers.text.tutorials import RECOMMENDERS, TOOLKITS, TUTORIALS
from stabdiag.readers.text.vision import VISION

# The losses of VITS, of so-vits-svc, and of MB-iSTFT-VITS, in the order of their lists.
_VITS: Final = (
    (b"disc", b"gen", b"fm", b"mel", b"dur", b"kl"),
    (b"disc", b"gen", b"fm", b"mel", b"kl"),
    (b"disc", b"gen", b"fm", b"mel", b"dur", b"kl", b"subband"),
)


def _list_of_losses(names: Sequence[bytes]) -> Iterator[Normalization]:
    """Yield the replacements that name the losses of a list.

    INFO:name:[2.4, 3.1, 5.2, 21.3, 1.8, 1.6, 4200, 9.99e-05] ends on the step and the rate; others
    print them after the list: Losses: [2.4, 3.1, 5.2, 21.3, 1.6], step: 4200, lr: 0.0001.
    """
    values = b", ".join([rb"(%b)" % NUMBER_PATTERN] * len(names))
    named = b", ".join(rb"loss_%b: \%d" % (name, n) for n, name in enumerate(names, start=1))
    counter = rb"step: \%d, lr: \%d, " % (len(names) + 1, len(names) + 2)
    yield Normalization(
        (b"Epoch: ", b"INFO"),
        rb"(?<=[\t:])\[%b, (\d{1,9}), (%b)\](?=\n|$)" % (values, NUMBER_PATTERN),
        counter + named,
    )
    yield Normalization(
        (b"Losses: [", b", step: "),
        rb"Losses: \[%b\](?=, step: \d)" % values,
        named,
    )


def _lists_of_gan_losses() -> Iterator[Normalization]:
    """Yield the replacements that name the losses of adversaries in widespread tutorials.

    >12, dA[0.053,0.058] dB[0.024,0.041] g[2.720,2.900]; >12, d1[0.55] d2[0.51] g[31.2]; and
    >3, 12/937, d1=0.682, d2=0.701 g=0.713: real and fake samples, or the images of two domains.
    """
    lists, pairs = (b"\n>", b" g["), (b"\n>", b"g=")
    yield Normalization(lists, rb"(?<=\n)>(\d{1,9}), (?=(?:c|d\w?)\[)", rb"iteration \1, ")
    yield Normalization(
        pairs, rb"(?<=\n)>(\d{1,9}), (\d{1,9})/(\d{1,9}), (?=[cd]\d?=)", rb"epoch \1 batch \2, "
    )
    yield Normalization(pairs, rb"(?<=\n)>(\d{1,9}), (?=[cd]\d?=)", rb"iteration \1, ")
    names = (
        *((rb"[cd]1|dr", rb"D_real"), (rb"[cd]2|df", rb"D_fake"), (rb"dA", rb"D_A")),
        *((rb"dB", rb"D_B"), (rb"d", rb"D"), (rb"c", rb"C"), (rb"g", rb"G")),
    )
    number = NUMBER_PATTERN
    for name, loss in names:
        values = rb"(?<=[ ,])(?:%b)\[(%b)(?:,%b)?\]" % (name, number, number)
        yield Normalization(lists, values, rb"loss_%b: \1" % loss)
        yield Normalization(pairs, rb"(?<=[ ,])(?:%b)=(?=%b)" % (name, number), b"loss_%b=" % loss)


def _sums_of_deepxde() -> Iterator[Normalization]:
    """Yield the replacements that name the terms of a loss in the tables of DeepXDE.

    1000      [8.44e-03, 8.57e-02]    [1.13e-02, 0.00e+00]    [1.28e+00]: the terms of the training
    loss, of the test loss, which is left out, and the metrics. An excerpt may lack the heading.
    """
    for count in range(1, 13):
        terms = b", ".join([rb"(%b)" % NUMBER_PATTERN] * count)
        letters = bytes(range(ord("k"), ord("k") + count))  # d and g are networks of a GAN
        named = b", ".join(rb"loss_%c: \%d" % (letter, n) for n, letter in enumerate(letters, 2))
        for markers in ((b"Train loss  ", b"Test metric"), (b"]    [",)):
            yield Normalization(
                markers,
                rb"(?m)^(\d{1,9}) {1,12}\[%b\] {1,24}\[[^\]\n]{1,400}\] {1,24}\[[^\]\n]{0,200}\]"
                % terms,
                rb"step: \1, %b" % named,
            )


def _exploded_loss(line: re.Match[bytes]) -> bytes:
    """Return the record of a message: Loss exploded to 378655.87 at step 67464.

    It may cover the beginning of a progress line: at step 674647500, avg_loss=3.79]
    """
    step = line[4][: len(line[2])] if line[5] else line[4]
    return rb"%bStep %b: loss=%b" % (line[1], step, line[3])


NORMALIZATIONS: Final = (
    # Tacotron: Step   67456 [1.078 sec/step, loss=6.73, avg_loss=6.65], and the message below it
    Normalization(
        (b" sec/step, loss=", b"Loss exploded to "),
        rb"(Step {1,8}(\d{1,9}) \[[^\n]{1,200}\n(?:[^\n]{0,200}\n){0,3}?)"
        rb"Loss exploded to (%b) at step (\d{1,12})(?=(, avg_loss=)?)" % NUMBER_PATTERN,
        _exploded_loss,
    ),
    # DeepSpeech: of the states of a bar that share a line, the last has the mean of the epoch.
    Normalization(
        (b"| Elapsed Time: ", b" | Validation | "),
        rb"Epoch (\d{1,6}) \| {1,3}(Training|Validation) \| Elapsed Time: [^\n]{1,120}?"
        rb"(?=Epoch \1 \| {1,3}\2 \|)",
        b"",
    ),
    *UNSPACED_PAIRS,
    # MXNet prints the first and the last batch of an interval: Epoch[3] Batch [20-40]
    Normalization((b"] Batch [0-",), rb"\] Batch \[\d{1,9}-(\d{1,9})\]", rb"] Batch [\1]"),
    *_sums_of_deepxde(),
    # LightGBM in R prints each line as a text: [1] "[85]:  train's auc:1  test's auc:0.45"
    Normalization((b'[1] "[',), rb'(?m)^\[1\] "(?=\[\d{1,9}\]:)', b""),
    # clu, for Flax and T5X: logging_writer.py:48] [1000] train_loss=6.5
    Normalization(
        (b"logging_writer.py:",),
        rb"(?<=logging_writer\.py:)(\d{1,5})\] \[(\d{1,12})\] (?=[A-Za-z])",
        rb"\1] step \2: ",
    ),
    # Flair: DEV : loss 0.1754 - f1-score (micro avg)  0.6586
    Normalization(
        (b" - iter ", b" - loss "),
        rb"(?<=[-:] )((?:f1?-)?score(?: \([a-z ]{1,20}\))?|acc(?:uracy)?) {1,4}(?=\d)",
        rb"\1: ",
    ),
    Normalization(
        (b" - iter ", b" - loss "),
        rb"(?i)\bbad epochs(?: \(no improvement\):)? (?=\d)",
        b"patience: ",
    ),
    # keras-rl: …, steps per second: 194, episode reward: 180.000, mean reward: 1.000 [1.000, 1.000]
    Normalization(
        (b"steps per second: ", b", mean reward: "),
        rb"(?<=, )mean reward(?=: )",
        b"reward_per_step",
    ),
    # The tutorials of PyTorch on names and on translation: 5000 5% (0m 12s) 2.4 Coelho / Russian,
    # and 1m 20s (- 18m 45s) (5000 6%) 2.8453
    Normalization(
        (b"% (", b"m ", b"s) "),
        rb"(?m)^(\d{1,9}) \d{1,3}%% \(\d{1,5}m \d{1,2}s\) (%b)(?=\s)" % NUMBER_PATTERN,
        rb"step \1 loss \2",
    ),
    Normalization(
        (b"s (- ", b"%) "),
        rb"(?m)^\d{1,5}m \d{1,2}s \(- \d{1,5}m \d{1,2}s\) \((\d{1,9}) \d{1,3}%%\) (%b)(?=\s|$)"
        % NUMBER_PATTERN,
        rb"step \1 loss \2",
    ),
    # Flows: train: 341.4885 (0.6284 bpd) | val: 365.0357 (0.5844 bpd) | lr: 0.0001
    Normalization((b" bpd) | val: ",), rb" \(%b bpd\)" % NUMBER_PATTERN, b""),
    # OpenSpiel's AlphaZero: Losses(total: 3.167, policy: 2.390, value: 0.742, l2: 0.037)
    Normalization(
        (b"Losses(total: ",),
        rb"Losses\(total: (%b), policy: (%b), value: (%b), l2: (%b)\)" % (4 * (NUMBER_PATTERN,)),
        rb"loss: \1, policy_loss: \2, value_loss: \3, l2_loss: \4",
    ),
    # The first CatBoost: 12:      learn 0.6355000000passed: 17.4 sec      total: 3m 13s
    Normalization(
        (b"learn ", b"passed: "),
        rb"(?m)^(\d{1,9}):[ \t]{1,12}learn (%b?)[ \t]{0,12}passed: " % NUMBER_PATTERN,
        rb"iteration \1 learn loss: \2 passed: ",
    ),
    # The letters of two networks in a bar, or after it: [… 2.15it/s, DR=0.71, G=nan, GP=2.1, LR=…],
    # and 3.20s/it]G: 1.30 | D: 0.69 | GP: 0.11
    Normalization(
        (b"s/it]G: ", b" | D: "), rb"(?<=[\]| ])([GD]): (?=%b)" % NUMBER_PATTERN, rb"loss_\1: "
    ),
    Normalization(
        (b"/s, ", b", G="), rb"(?<=, )(G|D[RF]?)=(?=%b[,\]])" % NUMBER_PATTERN, rb"loss_\1="
    ),
    *COUNTED_NAMES,
    *QUALIFIED_NAMES,
    *PAIRED_NAMES,
    # In epoch 3, the loss was 2.31. That it was NaN is a report of a failure.
    Normalization((b"loss was ",), rb"\bloss was (?=\d{1,9}\.\d)", b"loss is "),
    # llm.c: s:1 trl:10.9598 lr:0.000002 norm:15.24, s:250 tel:6.5012
    Normalization((b" trl:",), rb"s:(?=\d{1,12} t[re]l:)", b"step:"),
    Normalization((b" trl:",), b" trl:", b" train_loss:"),
    Normalization((b" trl:", b" tel:"), b" tel:", b" val_loss:"),
    # kl - 0.021 | lr_multiplier - 1.5 | loss - 4.81
    Normalization((b" | ", b"loss - "), rb"(?<=\w) - (?=%b(?: \||\n|$))" % NUMBER_PATTERN, b": "),
    # Marian: Ep. 1.25 : Up. 1000 : Sen. 260,147 : Cost 9.71 * 1,234 @ 3,412 after 12 : L.r. 3e-4
    Normalization(
        (b" : Up. ",),
        rb"Ep\. (\d{1,9})[^:\n]{0,20} : Up\. (\d{1,12}) : (Sen\. [\d,]{1,20}) : Cost ",
        rb"epoch \1 : update \2 : \3 : loss ",
    ),
    Normalization((b" : Up. ", b" : L.r. "), rb" : L\.r\. ", b" : lr "),
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
    # Darknet: 1: 1123.449341, 1123.449341 avg, 0.000000 rate, 0.190143 seconds, 1 images
    # Any word may stand for a loss that failed.
    Normalization(
        (b" rate, ", b" seconds, "),
        rb"\n {0,2}(\d{1,12})(?:, \d{1,9}\.\d{1,6})?: ([^\s,]{1,40}), ([^\s,]{1,40}) avg"
        rb"(?: loss)?, (%b) rate, " % NUMBER_PATTERN,
        rb"\niteration \1: loss \2, avg: \3, learning_rate: \4, ",
    ),
    # Above it are the losses of each layer and micro-batch, which add up to that loss.
    Normalization(
        (b" Region ", b" Avg (IOU: ", b" rate, ", b" seconds, "),
        rb"\b(class|iou|total)_loss = (?=%b)" % NUMBER_PATTERN,
        rb"region_\1 = ",
    ),
    # And of old versions: Region 16 Avg IOU: 0.48, Class: 0.58, Obj: 0.33, No Obj: 0.48, …,
    # count: 8. Most of them are NaN for a layer without an object.
    Normalization(
        (b"Region ", b" Avg IOU: ", b" No Obj: "),
        rb"(?m)^Region [^\n]{1,120} No Obj: \d[^\n]{1,120}$",
        b"",
    ),
    # CenterPoint: Epoch [1/20][15/15448] lr: 0.0001, …, and below it the losses of several heads:
    # task : ['truck', 'bus'], loss: 14.0, hm_loss: 9.6, …
    Normalization(
        (b"Epoch [", b"task : ['"),
        rb"\bEpoch \[(\d{1,6})/\d{1,6}\]\[(\d{1,9})/\d{1,9}\](?=\s)",
        rb"epoch \1 iteration \2",
    ),
    Normalization(
        (b"Epoch [", b"task : ['"), rb"\btask : \['(\w{1,40})'[^\]\n]{0,200}\], loss:", rb"\1_loss:"
    ),
    # Gaussian splatting: [ITER 7000] Evaluating test: L1 0.0218 PSNR 27.06
    Normalization(
        (b"[ITER ", b"] Evaluating "),
        rb"\| (\d{1,9})/\d{1,9} (?=\[[\d:]{1,12}<[^\n]{1,60} Loss=)",
        rb"| iteration \1 ",
    ),
    *(
        Normalization(
            (b"[ITER ", b"] Evaluating "),
            rb"\[ITER (\d{1,9})\] Evaluating %b: L1 (%b) PSNR (?=%b)"
            % (split, NUMBER_PATTERN, NUMBER_PATTERN),
            rb"iteration \1: %b: \2 %b_psnr: " % (error, split),
        )
        for split, error in ((b"test", b"test_l1_loss"), (b"train", b"train_l1"))
    ),
    # YOLACT: [  0]     10 || B: 7.1 | C: 22.5 | M: 6.2 | S: 61.3 | T: 97.2 || ETA: 1 day, …
    Normalization(
        (b" || ETA: ",),
        rb"\[ {0,4}(\d{1,4})\] {1,12}(\d{1,12}) \|\| ",
        rb"epoch \1 iteration \2 || ",
    ),
    Normalization(
        (b" || ETA: ",), rb"\| T: (%b) \|\| ETA: [^|\n]{1,60}" % NUMBER_PATTERN, rb"| loss: \1 "
    ),
    Normalization((b" || ETA: ",), rb"\| ([BCMS]): (?=%b \|)" % NUMBER_PATTERN, rb"| loss_\1: "),
    # RandLA-Net: Step 00000050 L_out=2.310 Acc=0.31 --- 1408.79 ms/batch
    Normalization((b" L_out=", b" ms/batch"), rb" L_out=(?= {0,4}%b)" % NUMBER_PATTERN, b" loss="),
    # FastReID: eta: 7:25:44  epoch/iter: 0/199  total_loss: 114.2
    Normalization(
        (b"  epoch/iter: ",), rb"  epoch/iter: (\d{1,6})/(\d{1,9})\b", rb"  epoch: \1  iter: \2"
    ),
    # pix2pix, CycleGAN: (epoch: 1, iters: 100, time: 0.092, data: 0.154) D_A: 0.508 G_A: 0.182 …
    Normalization(
        (b"(epoch: ", b", iters: "),
        rb"(?<=[)\d,n] )(?!iters|time|data)([A-Za-z]\w{0,40}: )(?=%b)" % NUMBER_PATTERN,
        rb"loss_\1",
    ),
    # VITS and what was made of it: INFO:name:[4200, 9.99e-05], a step and its rate
    Normalization(
        (b"Epoch: ", b"INFO"),
        rb"\[(?<=[\n: ]\[)(\d{1,9}), (\d(?:\.\d{1,20})?e-\d{1,3}|0\.0\d{1,20})\](?=\n|$)",
        rb"step: \1, lr: \2",
    ),
    *chain.from_iterable(map(_list_of_losses, _VITS)),
    # BasicSR, MMSR: [train..][epoch:  0, iter:     100, lr:(2.000e-04,)] [eta: …] l_pix: 2.3e-02
    Normalization((b", iter: ", b", lr:("), rb", lr:\(", b", lr: "),
    Normalization((b", iter: ", b"[eta: "), rb"\[eta: [^\]\n]{1,60}time \(data\): ", b"[time: "),
    Normalization((b", iter: ", b" l_"), rb"(?<=[\])>\de] )l_(?=\w{1,60}: [-+\dni])", b"loss_"),
    # WeNet: DEBUG TRAIN Batch 4/203700 loss 2.31 …, a batch of the epoch
    Normalization(
        (b"TRAIN Batch ",), rb"(TRAIN|CV) Batch (\d{1,9})/(\d{1,12})\b", rb"\1 epoch \2 batch \3"
    ),
    # YOLOv3 in PyTorch: [Losses: x 0.272, y 0.254, total 15.143, recall: 0.1]
    Normalization(
        (b"[Losses: ",), rb"(?<=[:,] )(\w{1,40}) (?=%b[,\]])" % NUMBER_PATTERN, rb"\1 loss "
    ),
    *KALDI,
    # ESPnet: iter_time=1e-4, forward_time=0.14, …, train_time=0.56. The first is the time to wait
    # for data. And its first version, about a loss: loss (=250000064.0) is not correct
    Normalization((b" iter_time=", b" forward_time="), rb"\biter_time=", b"data_time="),
    Normalization((b" iter_time=", b" forward_time="), rb"\btrain_time=", b"step_time="),
    Normalization(
        (b" loss (=", b") is not correct"), rb"\bloss \(=(\d[\d.]{0,40})\)", rb"loss =\1"
    ),
    # rl_games: … fps total: 17012 epoch: 9/1000 frames: 589824, saving next best rewards:  [33.02]
    Normalization(
        (b"saving next best rewards: ", b"fps total: "),
        rb"saving next best rewards:  ?(?=\[)",
        b"reward: ",
    ),
    # spaCy 2: Losses {'ner': 1234.5, 'tagger': 2.3}
    Normalization(
        (b"Losses {'",), rb"Losses \{'(\w{1,40})': (?=%b)" % NUMBER_PATTERN, rb"loss_\1: "
    ),
    Normalization(
        (b"Losses {'",), rb", '(\w{1,40})': (?=%b[,}])" % NUMBER_PATTERN, rb", loss_\1: "
    ),
    # 10.5008 loss, 0.000016 LR, 8.83 GB used: tinygrad prints values before their names
    *(
        Normalization(
            (b" loss, ", b" LR, "),
            rb"(?<![\w.])(%b) %b, (?=%b ?[A-Za-z%%])" % (NUMBER_PATTERN, name, NUMBER_PATTERN),
            name + rb": \1, ",
        )
        for name in (b"loss", b"LR")
    ),
    # step 10, loss_train, 0.896: a comma between the name and the value
    *(
        Normalization(
            (name + b", ",),
            rb"%b, (?<=\b%b, )(?=[-+]?(?:\d{1,9}\.\d|nan|inf))" % (name, name),
            name + b": ",
        )
        for name in (b"loss", b"loss_train", b"train_loss", b"loss_val", b"val_loss")
    ),
    # step_78540: loss_-4.0656, as a format string names its values
    Normalization(
        (b"step_", b"loss_"), rb"step_(?<=\bstep_)(\d{1,12})(?=:?[\t ,|]|:?\n)", rb"step: \1"
    ),
    Normalization((b"step_", b"loss_"), rb"loss_(?<=\bloss_)(?=[-+]?\d{1,12}\.\d)", b"loss: "),
    # MXNet: Epoch[3] Train-SmoothL1=nan is the mean of no batch if the last batch reset the metric.
    Normalization(
        (b"] Batch [", b"] Time cost="),
        rb"(?<=[\n:])(Epoch\[\d{1,6}\]) Train-[\w-]{1,60}=nan(?=\n)",
        rb"\1",
    ),
    # The first fastai 1: epoch train loss valid loss accuracy, and 0 2.31 2.40 0.31 below it
    Normalization(
        (b"\nepoch train loss valid loss",),
        rb"\n(\d{1,6}) (%b) (%b)(?=[ \n])" % (NUMBER_PATTERN, NUMBER_PATTERN),
        rb"\nepoch \1 train_loss: \2 valid_loss: \3 metrics:",
    ),
    # Markdown: - **Train Loss:** 2.31, **Loss**: 2.31
    Normalization((b"oss:** ",), rb"\*\*([A-Za-z][\w /()-]{0,40}):\*\*(?= {1,4}[-+\dni])", rb"\1:"),
    Normalization((b"oss**: ",), rb"\*\*([A-Za-z][\w /()-]{0,40})\*\*(?=: {1,4}[-+\dni])", rb"\1"),
    *_lists_of_gan_losses(),
    # L: 7.37, L_crf: 6.53, L_selection: 0.84, a total and its parts
    Normalization((b"L: ", b", L_"), rb"(?<![\w.])L: (?=%b, L_)" % NUMBER_PATTERN, b"loss: "),
    Normalization((b"L: ", b", L_"), rb"(?<=, )L_(?=\w{1,40}: [-+\dni])", b"loss_"),
    # Boosting that stops early repeats its best line, also if it prints only each tenth line.
    *(
        Normalization((end + b"\n[",), rb"(?<=%b\n)\[(\d{1,9})\][^\n]{0,400}" % end, rb"(\1)")
        for end in (b"est iteration:", b"est iteration is:")
    ),
    # total 2.87 = seg 1.89 + det 0.93 + 0.1*reg 0.48, a total and its terms
    Normalization(
        (b"otal ", b" = ", b" + "),
        rb"\b([Tt]otal) (?=%b = [^\n]{1,200} \+ )" % NUMBER_PATTERN,
        rb"\1_loss: ",
    ),
    *TUTORIALS,
    *RECOMMENDERS,
    WEIGHTED_TERMS,
    *VISION,
    *BOOSTING,
    *TOOLKITS,
    # LeRobot: step:200 smpl:2K ep:6 epch:0.06 loss:2.311 grdn:12.423 lr:1.0e-05 updt_s:0.210 …
    Normalization((b" epch:",), rb" ep:[\w.]{1,12} epch:", b" epoch:"),
    Normalization((b" epch:", b" updt_s:"), rb" updt_s:", b" step_time:"),
)
