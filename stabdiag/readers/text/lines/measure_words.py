"""Words for losses, other measures and scores in the names of values."""

from __future__ import annotations

import re
from typing import Final

from stabdiag.model.patterns import lazy_pattern
from stabdiag.model.roles.choice import assign, can_judge_without_loss
from stabdiag.model.roles.names import is_a_reward, is_perplexity, normal
from stabdiag.model.roles.scores import is_known_score, score_direction
from stabdiag.readers.text.lines.grammar import NUMBER_PATTERN, is_a_loss

# The part of loss, Loss, train_loss, … that every line with a loss contains.
LOSS_STEM: Final = b"oss"

# The end of a likelihood, a loss if it is negative.
LIKELIHOOD: Final = b"ikelihood"

# Other names of a loss, used if no name contains "loss", in the order of preference. An error such
# as mse is a metric as often as a loss.
OTHER_LOSSES: Final = (
    b"LOSS",
    *(b"cross_entropy", b"cross-entropy", b"cross entropy", b"crossentropy", b"CrossEntropy"),
    *(
        b"Cross-Entropy",
        b"Cross-entropy",
        b"Cross Entropy",
        b"Cross entropy",
        b"xent",
        b"Xent",
        b"nce",
    ),
    *(
        b"nll",
        b"NLL",
        b"XE",
        b"huber",
        b"Huber",
        b"cost",
        b"Cost",
        b"elbo",
        b"ELBO",
        b"objective",
        b"Objective",
        b"objf",
    ),
    *(b"log-likelihood", b"log_likelihood", b"log likelihood", b"loglik", b"log-prob", b"log_prob"),
    *(b"Log-likelihood", b"Log-Likelihood", b"Log likelihood", b"Log Likelihood", b"LogLik"),
    *(b"logL", b"LL/token"),
    LIKELIHOOD,
    *(b"SmoothL1", b"smooth_l1", b"bce", b"BCE", b"rmse", b"RMSE", b"mse", b"MSE", b"ce", b"CE"),
    *(b"mae", b"MAE", b"rmspe", b"RMSPE", b"rmsle", b"RMSLE", b"mape", b"MAPE", b"RSE", b"RAE"),
    *(b"'s l2", b"'s l1", b"'s huber", b"'s fair", b"'s quantile", b"'s poisson", b"'s tweedie"),
    *(b"Score at", b"perplexity", b"Perplexity", b"ppl", b"PPL"),
    *(b"neg_log_lik", b"negloglik", b"neg_loglik", b"negative log", b"Negative log"),
    *(b"Negative Log", b"negative_log", b"NegLogLik"),
    *(b"obj", b"Obj", b"error", b"Error"),
)

# Parts of the names of other measures of a run, used without a loss.
OTHER_MEASURES: Final = (
    *(b"norm", b"grad", b"scale", b"max", b"activation", b"underflow"),
    *(b"eward", b"eturn", b"Rew", b"rew", b"core", b"tility", b"ayoff"),
)

# Parts of the names of scores, used without any of these. The better direction of each is known.
SCORES: Final = (
    *(
        b"ccuracy",
        b"acc",
        b"Acc",
        b"ACC",
        b"mAP",
        b"BLEU",
        b"bleu",
        b"chrF",
        b"WER",
        b"wer",
        b"CER",
    ),
    *(b"AUC", b"auc", b"F1", b"f1", b"PSNR", b"psnr", b"SSIM", b"ssim", b"FID", b"fid", b"IoU"),
    *(b"iou", b"IOU", b"Dice", b"dice", b"ROUGE", b"rouge"),
    *(b"ndcg", b"NDCG", b"_score", b"Pearson", b"pearson", b"Spearman", b"spearman"),
    *(b"MRR", b"mrr", b"HITS@", b"Hits@", b"hits@", b"ecall", b"recision"),
    *(b"in rate", b"in_rate", b"inrate", b"in Rate", b"inRate", b"WIN RATE", b"uccess"),
    *(b"Elo", b"ELO", b"elo", b"EER", b"eer", b"kappa", b"Kappa", b"qwk", b"QWK"),
)

# The score of a game, if episodes are counted, and all names of rewards.
SCORE: Final = b"core"
REWARDS: Final = (b"eward", b"eturn", b"Rew", b"rew", b"tility", b"ayoff", SCORE)

# Objectives that may rise as a network learns, in lower case.
OBJECTIVES: Final = (
    *(b"elbo", b"objective", b"objf", b"log-likelihood", b"log_likelihood", b"log likelihood"),
    *(b"loglik", b"log-prob", b"log_prob", b"logl", b"ll/token", LIKELIHOOD),
)

# policy=2.1 mse=0.2 reg=0.1 total=2.4, as Leela Chess Zero prints the parts and the total.
SUMMED: Final = lazy_pattern(rb"\b[Rr]eg=%b [^\n]{0,80}\b([Tt]otal)=" % NUMBER_PATTERN)

# epoch 3 train 2.31 val 2.40: the loss of each split is named after the split; CatBoost prints
# learn: 0.69 and, with an evaluation, test: 0.70, before the total of its times.
BY_SPLIT: Final = lazy_pattern(
    rb"(?<![\w/])([Tt]rain|TRAIN|learn)[ :=]{1,3}%b[ \t,;|/]{1,12}"
    rb"(?:total: |(?:%b)[ :=]{1,3}%b(?![\w%%/]))"
    % (NUMBER_PATTERN, rb"[Vv]al|VAL|[Vv]alid|[Tt]est|TEST|[Dd]ev|[Ee]val", NUMBER_PATTERN)
)

TRAINED: Final = (b"train", b"learn")
SPLIT: Final = lazy_pattern("train|learn|val|valid|test|dev|eval", re.IGNORECASE)

_OTHER_LOSS: Final = lazy_pattern(
    r"((?:(?:the|val|valid|validation|validate|eval|test|dev|train|training|tr|avg|average|mean|total|global"
    r"|overall|current)[ _/-]"
    r"|(?:avg|current)(?=cost)|\w{1,30}'s "
    r"|(?:binary|categorical|sparse[ _]categorical|masked|softmax|sigmoid)[ _]){0,2})"
    r"(x(?:-?ent|e)|cross[ _-]?entropy|smooth[ _-]?l1|huber|nt[ _-]?xent|info[ _-]?nce|nll|cost"
    r"|elbo|objective(?: function)?|objf|(?:log[ _-]?)?likelihood|loglik|logl|ll/token"
    r"|log[ _-]?prob|bce|n?r?mse|ce|mae|rms[lp]e|s?mape|r?rse|rae|l[12]|fair|quantile|poisson"
    r"|tweedie|total|score at|perplexity|ppl|obj"
    r"|(?:squared )?error"
    r"|neg(?:ative)?[ _-]?log[ _-]?lik(?:elihood)?)"
    # nll/char, bits per token
    r"(?:(?:/| per |_per_)(?:char(?:acter)?|tok(?:en)?|word|byte|symbol|pixel|dim|frame|sample))?"
    r"((?:[ _/-](?:val|valid|validation|validate|eval|test|dev|train|training|trn))?)",
    re.IGNORECASE,
)


def is_measure(name: str) -> bool:
    """Return True if a name is the name of a loss, an error, a score or a reward."""
    return (
        is_a_loss(name)
        or _OTHER_LOSS.fullmatch(name) is not None
        or is_known_score(name)
        or is_a_reward(name)
    )


def is_word_of_scores(word: bytes) -> bool:
    """Return True if a word is a part of the names of scores, or the whole name of one."""
    if word == LOSS_STEM or word in OTHER_LOSSES:
        return False
    return word in SCORES or score_direction(word.decode("utf-8", "replace")) is not None


def makes_a_record(name: str, word: bytes) -> bool:
    """Return True if a line with this name is a record of a log whose loss is found by ``word``.

    It is the name of a loss, or of another measure or score if ``word`` is part of one, or the word
    itself if its meaning is unknown.
    """
    if word == LOSS_STEM:
        return is_a_loss(name)
    if is_word_of_scores(word):
        return is_known_score(name)
    if word not in OTHER_MEASURES:
        return is_a_loss(name) or name.encode() == word
    return can_judge_without_loss(assign([name]).columns)


def is_other_loss(name: str) -> bool:
    """Return True if a name is the one of a loss without the word, such as a cost."""
    return _OTHER_LOSS.fullmatch(name) is not None and not is_perplexity(name)


def renamed(pairs: dict[str, tuple[int, int]], word: bytes) -> dict[str, tuple[int, int]]:
    """Rename values with a word of ``OTHER_LOSSES`` to losses: avg_cost becomes avg_loss."""
    result: dict[str, tuple[int, int]] = {}
    for name, span in pairs.items():
        match = _OTHER_LOSS.fullmatch(name)
        if word == SCORE and is_a_reward(name, of_episodes=True):
            result.setdefault(normal(name).replace("score", "reward"), span)
        elif word.lower() in TRAINED and SPLIT.fullmatch(name):
            result.setdefault(f"{name} loss", span)
        elif match is not None and (match[1] + match[2]).lower().endswith(word.decode().lower()):
            # A perplexity keeps its word: it has another level than a loss in nats.
            kept = f"{match[2]}_" if is_perplexity(match[2]) else ""
            result.setdefault(f"{match[1]}{kept}loss{match[3]}", span)
        else:
            result.setdefault(name, span)
    return result
