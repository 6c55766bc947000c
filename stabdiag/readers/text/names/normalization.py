"""Replace the names that some frameworks use for a step, a loss or a rate by standard ones.

If the head of a log has all markers of a row, the replacement of the row is applied. The result is
read like any other log of names and values.
"""

from __future__ import annotations

import re
from typing import Final

from stabdiag.readers.text.lines.grammar import NUMBER_PATTERN, Normalization
from stabdiag.readers.text.names.boosting import BOOSTING, RECOMMENDERS
from stabdiag.readers.text.names.loss_names import (
    COUNTED_BATCHES,
    COUNTED_NAMES,
    COUNTS_BEFORE_UNITS,
    GENERATIONS,
    OTHER_PAIRS,
    PAIRED_NAMES,
    QUALIFIED_NAMES,
    SPLITS_OF_MEASURES,
    UNSPACED_PAIRS,
    VALUES_OF_SPLITS,
)
from stabdiag.readers.text.names.optimizers import OPTIMIZERS, SEARCHES
from stabdiag.readers.text.names.speech import SPEECH
from stabdiag.readers.text.names.tutorials import TOOLKITS, TUTORIALS
from stabdiag.readers.text.names.vision import VISION
from stabdiag.readers.text.names.weighted_terms import WEIGHTED_TERMS


def _terms_of_deepxde(row: re.Match[bytes]) -> bytes:
    """Return the numbered terms of a loss in a table of DeepXDE."""
    terms = enumerate(row[2].split(b", ")[:12], start=1)
    return b"step: %b, %b" % (row[1], b", ".join(b"loss_term%d: %b" % term for term in terms))


NORMALIZATIONS: Final = (
    *UNSPACED_PAIRS,
    *SPEECH,
    # MXNet prints the first and the last batch of an interval: Epoch[3] Batch [20-40]
    Normalization((b"] Batch [0-",), rb"\] Batch \[\d{1,9}-(\d{1,9})\]", rb"] Batch [\1]"),
    # DeepXDE: 1000      [8.44e-03, 8.57e-02]    [1.13e-02, 0.00e+00]    [1.28e+00]: the terms of
    # the training loss, of the test loss, which is left out, and the metrics. An excerpt may lack
    # the heading.
    *(
        Normalization(
            markers,
            rb"(?m)^(\d{1,9}) {1,12}\[([-\d.einfa+, ]{1,400})\] {1,24}\[[^\]\n]{1,400}\] {1,24}"
            rb"\[[^\]\n]{0,200}\]",
            _terms_of_deepxde,
        )
        for markers in ((b"Train loss  ", b"Test metric"), (b"]    [",))
    ),
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
    # 3 - Mean Squared Error := 0.236375
    Normalization((b" := ",), rb"(?<=[\w)\]]) := {1,4}(?=%b)" % NUMBER_PATTERN, b" = "),
    # Flows: train: 341.4885 (0.6284 bpd) | val: 365.0357 (0.5844 bpd) | lr: 0.0001
    Normalization((b" bpd) | val: ",), rb" \(%b bpd\)" % NUMBER_PATTERN, b""),
    # OpenSpiel's AlphaZero: Losses(total: 3.167, policy: 2.390, value: 0.742, l2: 0.037)
    Normalization(
        (b"Losses(total: ",),
        rb"Losses\(total: (%b), policy: (%b), value: (%b), l2: (%b)\)" % (4 * (NUMBER_PATTERN,)),
        rb"loss: \1, policy_loss: \2, value_loss: \3, l2_loss: \4",
    ),
    *COUNTED_NAMES,
    *COUNTED_BATCHES,
    *COUNTS_BEFORE_UNITS,
    *VALUES_OF_SPLITS,
    *QUALIFIED_NAMES,
    *SPLITS_OF_MEASURES,
    *PAIRED_NAMES,
    # llm.c: s:1 trl:10.9598 lr:0.000002 norm:15.24, s:250 tel:6.5012
    Normalization((b" trl:",), rb"s:(?=\d{1,12} t[re]l:)", b"step:"),
    Normalization((b" trl:",), b" trl:", b" train_loss:"),
    Normalization((b" trl:", b" tel:"), b" tel:", b" val_loss:"),
    # Marian: Ep. 1.25 : Up. 1000 : Sen. 260,147 : Cost 9.71 * 1,234 @ 3,412 after 12 : L.r. 3e-4
    Normalization(
        (b" : Up. ",),
        rb"Ep\. (\d{1,9})[^:\n]{0,20} : Up\. (\d{1,12}) : (Sen\. [\d,]{1,20}) : Cost ",
        rb"epoch \1 : update \2 : \3 : loss ",
    ),
    Normalization((b" : Up. ", b" : L.r. "), rb" : L\.r\. ", b" : lr "),
    # An evaluation of Marian: [valid] Ep. 1 : Up. 5000 : translation : 20.73 : new best
    Normalization(
        (b"[valid] Ep. ",),
        rb"(?<=\[valid\] )Ep\. (\d{1,9})[^:\n]{0,20} : Up\. (\d{1,12}) : ([\w-]{1,30}) : (?=%b)"
        % NUMBER_PATTERN,
        rb"epoch \1 : update \2 : \3: ",
    ),
    Normalization(
        (b"[valid] Ep. ", b" : translation : "),
        rb"(?<=[ \d] : )translation: (?=%b)" % NUMBER_PATTERN,
        b"bleu: ",
    ),
    # The other cross-entropies are sums over a sentence or over all of them.
    Normalization(
        (b"[valid] Ep. ", b" : ce-mean-words : "),
        rb"(?<=[ \d] : )ce-mean-words: (?=%b)" % NUMBER_PATTERN,
        b"loss: ",
    ),
    # multi-bleu.perl and sacreBLEU: BLEU = 27.1, 58.7/34.6/21.9/14.2 (BP=1.000, ratio=1.002, …):
    # only the score, without the precision of each length
    Normalization(
        (b"BLEU", b"/", b"(BP"),
        rb"\bBLEU[|+\w.:-]{0,120} = (%b),? (?:\d{1,3}\.\d{1,2}/){3}[\d.]{1,6} \(BP[^)\n]{0,120}\)"
        % NUMBER_PATTERN,
        rb"BLEU = \1",
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
    *TUTORIALS,
    *OPTIMIZERS,
    *SEARCHES,
    # GluonTS calls the mean of the training a metric of an evaluation, below its bar:
    # 100%|███| 50/50 [00:03<00:00, 13.5it/s, epoch=3/9, avg_epoch_loss=0.27]
    # Epoch[2] Evaluation metric 'epoch_loss'=0.2683
    Normalization(
        (b"Evaluation metric 'epoch_loss'=", b", avg_epoch_loss="),
        rb"Evaluation metric 'epoch_loss'=(?=%b)" % NUMBER_PATTERN,
        b"mean: ",
    ),
    Normalization(
        (b"Evaluation metric '", b"epoch_loss'="),
        rb"Evaluation metric '(validation_)?epoch_loss'=(?=%b)" % NUMBER_PATTERN,
        rb"\1epoch_loss=",
    ),
    *RECOMMENDERS,
    WEIGHTED_TERMS,
    *VISION,
    # Darknet has a loss and a comma before another value.
    *GENERATIONS,
    *OTHER_PAIRS,
    *BOOSTING,
    *TOOLKITS,
    # LeRobot: step:200 smpl:2K ep:6 epch:0.06 loss:2.311 grdn:12.423 lr:1.0e-05 updt_s:0.210 …
    Normalization((b" epch:",), rb" ep:[\w.]{1,12} epch:", b" epoch:"),
    Normalization((b" epch:", b" updt_s:"), rb" updt_s:", b" step_time:"),
)
