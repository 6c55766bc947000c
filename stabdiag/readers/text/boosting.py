"""Replace the names of measures of boosted trees and factorization machines by known ones."""

from __future__ import annotations

from typing import Final

from stabdiag.readers.text.grammar import NUMBER_PATTERN, Normalization

BOOSTING: Final = (
    # XGBoost: [3]	train-poisson-nloglik:2.31	test-tweedie-nloglik@1.5:20.1	test-mphe:1.2
    Normalization((b"-nloglik",), rb"-nloglik(?:@[\d.]{1,9})?:(?=%b)" % NUMBER_PATTERN, b"-loss:"),
    Normalization((b"-deviance:",), rb"-deviance:(?=%b)" % NUMBER_PATTERN, b"-deviance-loss:"),
    Normalization((b"-mphe:",), rb"-mphe:(?=%b)" % NUMBER_PATTERN, b"-mphe-loss:"),
    # [3]	validation_0-merror:0.34, train-error@0.7:0.21
    Normalization((b"-merror:",), rb"-merror:(?=%b)" % NUMBER_PATTERN, b"-error:"),
    Normalization((b"-error@",), rb"-error@[\d.]{1,9}:(?=%b)" % NUMBER_PATTERN, b"-error:"),
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
    # xLearn: [   20%      ]     2            0.512            0.534, below its heading
    Normalization(
        (b"] Epoch ", b"Train ", b"Time cost (sec)"),
        rb"(?m)^\[ {1,6}\d{1,3}%% {1,12}\] {1,12}(\d{1,9}) {1,30}(%b)(?=[ \n]|$)" % NUMBER_PATTERN,
        rb"epoch \1 train_loss: \2",
    ),
    Normalization(
        (b"] Epoch ", b"Train ", b" Test ", b"_loss ", b"Time cost (sec)"),
        rb"(?m)^(epoch \d{1,9} train_loss: \S{1,40}) {1,30}(%b)(?=[ \n]|$)" % NUMBER_PATTERN,
        rb"\1 test_loss: \2",
    ),
)
