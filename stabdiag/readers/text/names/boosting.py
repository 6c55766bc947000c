"""Replace what boosted trees and recommenders print by names of losses and scores."""

from __future__ import annotations

import re
from itertools import islice
from typing import Final

from stabdiag.readers.text.lines.grammar import NUMBER_PATTERN, Normalization, as_float

# CatBoost: 39:  learn: 0.9479  test: 0.9194  best: 0.9212 (24)  total: 24.3s  remaining: 2h
BOOSTED_SCORES: Final = Normalization(
    (b"learn: ", b"test: ", b"best: ", b"remaining: "),
    rb"(?m)^(\d{1,9}):[ \t]{1,12}learn: (%b)[ \t]{1,12}test: (%b)[ \t]{1,12}best: (%b) \("
    rb"[^\n]{0,200}" % (NUMBER_PATTERN, NUMBER_PATTERN, NUMBER_PATTERN),
    rb"iteration \1 train_score: \2 test_score: \3",
)
# 39:  learn: -1.2856  total: 4m 25s: a measure that is negative and rises, as minus a loss does
_LEARN: Final = rb"(?m)^(\d{1,9}):[ \t]{1,12}learn: (?=-)(%b)(?=[ \t])" % NUMBER_PATTERN
_TEST: Final = rb"(?m)(?<=[ \t])test: (?=-(?:%b)[ \t]{1,12}best: )" % NUMBER_PATTERN
BOOSTED_OBJECTIVES: Final = (
    Normalization((b"learn: ", b"total: "), _LEARN, rb"iteration \1 train_objective: \2"),
    Normalization((b"test: ", b"best: "), _TEST, b"test_objective: "),
)
_BOOSTED_LINES: Final = 100
# 0:  learn: 0.6931  total: 81.2ms, where the number counts the trees of each model
_BOOSTED_LEARN: Final = Normalization(
    (b"learn: ", b"total: "),
    rb"(?m)^(\d{1,9}):[ \t]{1,12}learn: (?=%b[ \t])" % NUMBER_PATTERN,
    rb"iteration \1 learn loss: ",
)
_BOOSTED_TEST: Final = Normalization(
    (b"test: ", b"best: "),
    rb"(?<=[ \t])test: (?=%b[ \t]{1,12}best: )" % NUMBER_PATTERN,
    b"test loss: ",
)

BOOSTING: Final = (
    # XGBoost: [3]	train-poisson-nloglik:2.31	test-tweedie-nloglik@1.5:20.1	test-mphe:1.2
    Normalization((b"-nloglik",), rb"-nloglik(?:@[\d.]{1,9})?:(?=%b)" % NUMBER_PATTERN, b"-loss:"),
    Normalization((b"-deviance:",), rb"-deviance:(?=%b)" % NUMBER_PATTERN, b"-deviance-loss:"),
    Normalization((b"-mphe:",), rb"-mphe:(?=%b)" % NUMBER_PATTERN, b"-mphe-loss:"),
    # [3]	validation_0-merror:0.34, train-error@0.7:0.21
    Normalization((b"-merror:",), rb"-merror:(?=%b)" % NUMBER_PATTERN, b"-error:"),
    Normalization((b"-error@",), rb"-error@[\d.]{1,9}:(?=%b)" % NUMBER_PATTERN, b"-error:"),
    # [3]	train-:0.41, the mean of a custom metric without a name
    Normalization((b"-:",), rb"(?<=[\t ])(\w{2,40})-:(?=%b)" % NUMBER_PATTERN, rb"\1-metric:"),
    # [3]	train-ndcg@5:0.41
    Normalization((b"-ndcg@",), rb"-ndcg@\d{1,6}-?:(?=%b)" % NUMBER_PATTERN, b"-ndcg:"),
    # The sets of scikit-learn's interface, where the first of two is usually the training set:
    # [3]	validation_0-rmse:0.36	validation_1-rmse:0.42
    Normalization(
        (b"validation_0-", b"validation_1-"),
        rb"(?<=[\t ])validation_([01])-(?=[\w@-]{2,40}:%b)" % NUMBER_PATTERN,
        lambda match: b"train-" if match[1] == b"0" else b"valid-",
    ),
    Normalization(
        (b"validation_0-",),
        rb"(?<=[\t ])validation_0-(?!auc|map|ndcg|pre)(?=[\w@-]{2,40}:%b)" % NUMBER_PATTERN,
        b"valid-",
    ),
    # LightGBM: valid_0's gamma_deviance: 1.2
    Normalization((b"_deviance: ",), rb"(?<='s gamma)_deviance: ", b"_deviance_loss: "),
    # An early scikit-learn: built tree 3 of 100, train score = 1.237790e+00
    Normalization(
        (b"built tree ", b", train score = "),
        rb"built tree (\d{1,9}) of (\d{1,9}), train score = (?=%b)" % NUMBER_PATTERN,
        rb"iteration \1/\2, train loss = ",
    ),
    # xLearn: [   20%      ]     2            0.512            0.534, below its heading, without the
    # bar of the heading in an excerpt
    Normalization(
        (b" Epoch ", b"Train ", b"Time cost (sec)"),
        rb"(?m)^\[ {1,6}\d{1,3}%% {1,12}\] {1,12}(\d{1,9}) {1,30}(%b)(?=[ \n]|$)" % NUMBER_PATTERN,
        rb"epoch \1 train_loss: \2",
    ),
    Normalization(
        (b" Epoch ", b"Train ", b" Test ", b"_loss ", b"Time cost (sec)"),
        rb"(?m)^(epoch \d{1,9} train_loss: \S{1,40}) {1,30}(%b)(?=[ \n]|$)" % NUMBER_PATTERN,
        rb"\1 test_loss: \2",
    ),
    # NGBoost: [iter 100] loss=3.0573 val_loss=0.0000 scale=1.0000 norm=3.7136, of the steps of a
    # line search. Without a validation set, its loss is 0.
    Normalization((b"[iter ", b" val_loss=", b" norm="), rb" val_loss=0\.0000(?= scale=)", b""),
    Normalization(
        (b"[iter ", b" scale=", b" norm="),
        rb" scale=(?=%b norm=)" % NUMBER_PATTERN,
        b" step_scale=",
    ),
    # LightGBM in R prints each line as a text: [1] "[85]:  train's auc:1  test's auc:0.45"
    Normalization((b'[1] "[',), rb'(?m)^\[1\] "(?=\[\d{1,9}\]:)', b""),
    # The first CatBoost: 12:      learn 0.6355000000passed: 17.4 sec      total: 3m 13s
    Normalization(
        (b"learn ", b"passed: "),
        rb"(?m)^(\d{1,9}):[ \t]{1,12}learn (%b?)[ \t]{0,12}passed: " % NUMBER_PATTERN,
        rb"iteration \1 learn loss: \2 passed: ",
    ),
    # Boosting that stops early repeats its best line, also if it prints only each tenth line.
    *(
        Normalization((end + b"\n[",), rb"(?<=%b\n)\[(\d{1,9})\][^\n]{0,400}" % end, rb"(\1)")
        for end in (b"est iteration:", b"est iteration is:")
    ),
)

RECOMMENDERS: Final = (
    # FuxiCTR: [Metrics] AUC: 0.81 - logloss: 0.44, of an evaluation, and lines below it
    # Train loss: 0.45
    # ************ Epoch=1 end ************
    Normalization(
        (b"[Metrics] ", b"logloss: "),
        rb"(?m)(\[Metrics\] [^\n]{0,400}?)\blogloss: (?=%b)" % NUMBER_PATTERN,
        rb"\1val_logloss: ",
    ),
    Normalization(
        (b"rain loss: ", b"** Epoch=", b" end **"),
        rb"[Tt]rain loss: (%b)(\n[^\n]{0,80}\*{4,40} )Epoch=(\d{1,9}) end(?= \*{4})"
        % NUMBER_PATTERN,
        rb"epoch \3 train_loss: \1\2end",
    ),
    # LightGCN: EPOCH[3/1000] loss0.545-|Sample:2.87|
    Normalization(
        (b"] loss", b"-|Sample:"),
        rb"(\] )loss(%b)-\|Sample:" % NUMBER_PATTERN,
        rb"\1loss: \2 | sample time: ",
    ),
    # NGCF: Epoch 3 [12.3s]: train==[0.55=0.50 + 0.05]
    Normalization(
        (b"]: train==[", b" + "),
        rb"train==\[(%b)=(%b) \+ (%b)\]" % (3 * (NUMBER_PATTERN,)),
        rb"train loss: \1, mf_loss: \2, emb_loss: \3",
    ),
)


def find_boosted(data: bytes) -> tuple[Normalization, ...]:
    """Return the replacements for a measure that CatBoost maximizes."""
    if b"learn: " not in data or b"total: " not in data:
        return ()
    learned = islice(re.finditer(_LEARN, data), _BOOSTED_LINES)
    values = [as_float(line[2]) for line in learned]
    is_negative = re.search(rb"learn: [^-]", data) is None
    if len(values) > 1 and values[0] < values[-1] and is_negative:
        return BOOSTED_OBJECTIVES
    if _are_boosted_scores(data):
        return (BOOSTED_SCORES,)
    return (_BOOSTED_LEARN, _BOOSTED_TEST)


def _are_boosted_scores(data: bytes) -> bool:
    """Return True if the best value of a measure is its highest."""
    if not all(marker in data for marker in BOOSTED_SCORES.markers):
        return False
    lines = islice(re.finditer(BOOSTED_SCORES.pattern, data), _BOOSTED_LINES)
    values = [(as_float(line[3]), as_float(line[4])) for line in lines]
    if not values or any(best < value for value, best in values):
        return False
    return values[0][0] < values[-1][1]
