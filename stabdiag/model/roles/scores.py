"""Scores of a model, and the direction that is better for each."""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterable, Sequence
from enum import IntEnum
from functools import lru_cache
from operator import itemgetter
from typing import Final

from stabdiag.model.patterns import lazy_pattern
from stabdiag.model.roles.names import (
    TRAINING_WORDS,
    is_evaluation,
    is_setting,
    last_word,
    name_words,
    normal,
    without_run,
)
from stabdiag.model.text import word_list

# Fractions are sometimes logged in percent.
PERCENT: Final = 100.0


class Direction(IntEnum):
    """The sign that makes higher values of a score better."""

    HIGHER = 1
    LOWER = -1


# The names are compared without underscores, splits and words that say how a score is averaged.
# Names of two or three letters that also mean something else count only with an evaluation word.
# Most logs have no score, so the patterns are compiled where they are used.
_HIGHER: Final = lazy_pattern(
    r"((sparse)?(topk)?categorical|balanced|tokens?|mlm|masked|binary|pix(el)?|class|combined|[am])?"
    r"acc(uracy)?\d*"
    r"|(acc(uracy)?)?(top|mean)\d+(acc(uracy)?)?|accnorm|rewardsaccurac(y|ies)"
    r"|topkacc(uracy)?\d*|prec(ision)?(at|top|thr)*\d+|precisionb?|prec"
    r"|recall(at|top|thr)*\d*b?|sensitivity|specificity"
    r"|f\d(score)?|m?fscore|fmeasure"
    r"|m?ap\d+(iou|\w)?|map|mar\d+|averageprecision|auc(pr)?\d*|auroc|rocauc|aucroc|auprc|prauc"
    r"|(bbox|box|segm|mask|keypoints?|proposals?|track)m?a[pr]\d*[sml]?"
    r"|(sacre|corpus)?bleu(score)?\d*|rouge\w{0,4}|meteor|chrf\d*|bertscore\w{0,9}|cider\w?"
    r"|m?dice(score|coefficient|coef)?|m?iou\d*|jaccard(index)?|pck\d*"
    r"|m?psnry?|m?s?ssimy?|sisnri?|sisdri?|pesq|stoi"
    r"|r2(score)?|rsquared|pearson(r|corr)?|spearman(r|corr)?|mcc|matthews\w{0,20}|(cohens?|quadratic)?kappa|qwk"
    r"|hmean|normeditdis(t|tance)?|dsc|accpose|poseacc(uracy)?"
    r"|exactmatch|acc(uracy)?andf1|pass(at)?\d+|(pass|success|win|solve)rate|n?dcg(at)?\d*|mrr(at)?\d*"
    r"|hit(s|rate|ratio)(at)?\d*|(hit|hr)(at)?\d+|r(at)?(1|5|10)|inceptionscore|is\d+k|clipscore"
    r"|(ents|cats|spans)[fpr]|(dep)?[ul]as|tagacc|elo(rating)?|(d4rl|human)score"
)
_LOWER: Final = lazy_pattern(
    r"[wcu]er|(word|char|character|token|phone|phoneme|sentence|top\d+)?err(or)?rates?"
    r"|top\d+err(or)?|equalerrorrate|eer|mindcf|hd95|med(ian)?r(ank)?|perplexity|ppl|fid\d*k?(full)?|kid\d+k?(full)?|lpips|niqe"
    r"|n?r?mse|rms[lp]e|r?rse|rae|mae|s?mape|mean(squared|absolute)error|rootmeansquarederror|bitsper(char|byte|dim)"
    r"|bp[bcd]|brier(score)?|epe|(abs|sq)rel|silog"
)
_HIGHER_IF_EVALUATED: Final = lazy_pattern(
    r"em|ap|snr|sdr|(combined)?score|(episodic|episode|ep)?(reward|return|ret)s?"
)
_LOWER_IF_EVALUATED: Final = lazy_pattern(r"per|ter|mer|der|ece|kid|err(or)?|fvd|fad|mcd")

# Words that describe where a score was measured, or how it was averaged.
_QUALIFIERS: Final = frozenset(
    word_list(
        "train training trn tr eval evaluation val valid validation validate vali va test testing "
        "tst te dev "
        "holdout heldout metrics metric score scores macro micro weighted mean avg average epoch "
        "step all overall total at clean other unnormalized batch raw ortho normalized ctc "
        "binary multiclass multilabel coco lvis voc pascal global foreground pseudo ema set "
        "cosine dot euclidean manhattan history hist list curve pos neg positive negative "
        "recent rolling moving running"
    )
)
_MINIMAL_QUALIFIERS: Final = _QUALIFIERS - {"score", "mean", "at", "binary"}

# Words that make a name a property of a score, or of its computation, instead of its value.
PROPERTIES: Final = frozenset(
    word_list(
        "time timing timings timer timers runtime seconds std stddev var variance min max "
        "threshold count num n weight coef target grad gradient norm lr config per"
    )
)

# Abbreviations of scores that mean something else alone, and the scores that explain them: hit rate
# and mean rank, average precision, precision and recall, exact match, inception score.
_NEXT_TO_SHORT_SCORES: Final = {
    "hr": ("ndcg", "mrr"),
    "mr": ("mrr", "hit"),
    "ap": ("auc", "auroc", "f1"),
    "p": ("f1", "map"),
    "r": ("f1", "map"),
    "em": ("f1",),
    "is": ("fid",),
}

# The names of scores that need no qualifier after a section, as in Set5/PSNR.
_BY_LAST_WORD: Final = lazy_pattern(
    r"f1(score)?|psnry?|ssimy?|lpips|niqe|bleu\d*|rouge[12l]|[wc]er|fid\d*k?(full)?|miou|mdice"
    r"|auroc|map(\d+(iou)?)?"
)

# A score in more sections than this is a score per class, not per data set.
_MAX_SECTIONS: Final = 6

# A list with the values of all epochs has the plural of a score: val_accs, psnrs.
_PLURAL: Final = lazy_pattern(
    r"(?P<score>acc|psnr|ssim|f1|f1score|auc|auroc|m?iou|dice|bleu|[wc]er|r?mse|mae|ppl|precision"
    r"|recall)s|(?P<stem>accurac|perplexit)ies"
)

# Words that begin the name of a score of one of several sets: eval_stsb_spearman, valid_en_mlm_ppl.
_HELDOUT_SPLITS: Final = frozenset({"eval", "valid", "validation", "val", "dev", "test"})

# The accuracies of a discriminator fall as the generator learns, and a map may be of anything.
_NO_SCORES: Final = frozenset({"real", "fake", "map"})

# Trainers of preferences log these for the training data without saying so.
_OF_TRAINING: Final = frozenset({"rewards_accuracies", "rewards_accuracy"})

# XGBoost and LightGBM name the set before each metric: validation_0-auc, valid_0's auc.
_NUMBERED_SET: Final = lazy_pattern(
    r"^(valid(?:ation)?|eval|test|train(?:ing)?)(?:set)?(?:[_-]\d{1,2})?(?:'s |-| )(?=[a-z])"
)

_STARTS_OF_SETS: Final = ("valid", "eval", "test", "train")

# Lightning names the data loader behind the name of each metric.
_DATA_LOADER: Final = "/dataloader_idx_0"

_ACCURACY_NAME: Final = lazy_pattern(
    r"(sparse)?(categorical)?(token)?acc(uracy)?1?|(acc(uracy)?)?top1(acc(uracy)?)?|prec1"
)
_ACCURACY_QUALIFIERS: Final = _QUALIFIERS.union(
    word_list(
        "epochs steps iter iters iteration iterations vs versus performance running global "
        "source target"
    )
) - {"macro", "weighted", "all", "normalized", "unnormalized"}

# Win rate (agent1), of one of several players.
_PLAYER: Final = lazy_pattern(r"(?i)((?:win|success)[ _-]?rate) ?\([\w -]{1,24}\)$")

# No score has a longer name.
_MAX_SCORE_NAME: Final = 80


@lru_cache(maxsize=1 << 17)
def score_direction(name: str) -> Direction | None:
    """Return the better direction of a column, or None if it is not a known score."""
    own = without_run(name).removesuffix(_DATA_LOADER)
    # Most names have neither; a function is faster than a template, also without a match.
    if own.startswith(_STARTS_OF_SETS):
        own = _NUMBERED_SET.sub(lambda match: f"{match[1]} ", own)
    if own.endswith(")"):
        own = _PLAYER.sub(itemgetter(1), own)
    words = _words_of_score(_singular_words(own))
    if len(own) > _MAX_SCORE_NAME or is_setting(own) or "loss" in words or "best" in words:
        return None
    direction = _direction(words, is_heldout=is_evaluation(own))
    if direction is not None or not PROPERTIES.isdisjoint(words):
        return direction
    if "/" in own:
        last = name_words(last_word(own))
        return (
            _direction(last, is_heldout=False) if _BY_LAST_WORD.fullmatch("".join(last)) else None
        )
    return _direction(_of_set(words), is_heldout=False)


def _words_of_score(words: Sequence[str]) -> Sequence[str]:
    """Return the words before the opponent of a player: win_rate_vs_random."""
    at = next((at for at, word in enumerate(words) if at and word in ("vs", "against")), None)
    return words[:at]


def _direction(words: Sequence[str], *, is_heldout: bool) -> Direction | None:
    tried = None
    for qualifiers in (_MINIMAL_QUALIFIERS, _QUALIFIERS):
        key = "".join(word for word in words if word not in qualifiers)
        if key == tried:  # no other word is a qualifier
            break
        tried = key
        if _HIGHER.fullmatch(key) or (is_heldout and _HIGHER_IF_EVALUATED.fullmatch(key)):
            return Direction.HIGHER
        if _LOWER.fullmatch(key) or (is_heldout and _LOWER_IF_EVALUATED.fullmatch(key)):
            return Direction.LOWER
    return None


def is_short_score(name: str, others: Iterable[str]) -> bool:
    """Return True for HR next to another score of rankings; alone, it may be an hour or a rate."""
    companions = _NEXT_TO_SHORT_SCORES.get(normal(name), ())
    return any(score in normal(other) for other in others for score in companions)


@lru_cache(maxsize=1 << 17)
def is_known_score(name: str) -> bool:
    """Return True for the name of a known score, including an accuracy of a split."""
    return score_direction(name) is not None or accuracy_role(name) is not None


@lru_cache(maxsize=1 << 17)
def accuracy_role(name: str) -> str | None:
    """Return ``accuracy`` or ``eval_accuracy`` if a name contains the score and the split, or None.

    ``Accuracy/val``, ``acc_train`` and ``val_acc_epoch`` do. ``accuracy/top1`` names no split, and
    the accuracy of one of several heads or classes is a score. The best so far never falls.
    """
    own = without_run(name).removesuffix(_DATA_LOADER)
    is_training, is_heldout = is_training_score(own), is_evaluation(own)
    if is_training == is_heldout or len(own) > _MAX_SCORE_NAME or is_setting(own):
        return None
    words = _singular_words(own)
    key = "".join(word for word in words if word not in _ACCURACY_QUALIFIERS)
    if "best" in words or not _ACCURACY_NAME.fullmatch(key):
        return None
    return "accuracy" if is_training else "eval_accuracy"


def _singular_words(name: str) -> list[str]:
    """Return the words of a name, with the singular of scores."""
    matches = (
        (word, _PLURAL.fullmatch(word) if word.endswith("s") else None) for word in name_words(name)
    )
    return [
        word if match is None else match["score"] or f"{match['stem']}y" for word, match in matches
    ]


def is_training_score(name: str) -> bool:
    """Return True if a score is measured on the training data, by its name."""
    own = without_run(name)
    return not TRAINING_WORDS.isdisjoint(name_words(own)) or normal(own) in _OF_TRAINING


def score_columns(names: Iterable[str], taken: Container[str]) -> dict[str, str]:
    """Return the columns of ``score/<name>`` that serve no other role.

    A score that many sections have is left out: it belongs to single classes.
    """
    free = [name for name in names if name not in taken and score_direction(name) is not None]
    sections = Counter(_sectioned_score(name) for name in free)
    return {
        name if name.startswith("score/") else f"score/{name}": name
        for name in free
        if not (score := _sectioned_score(name)) or sections[score] <= _MAX_SECTIONS
    }


def full_scale(highest: float) -> float:
    """Return the largest possible value of a fraction: 1, or 100 if it was logged in percent."""
    return PERCENT if highest > 1 else 1.0


def _sectioned_score(name: str) -> str:
    """Return the last part of a column's name if only this part is a score, or ""."""
    own = without_run(name).removesuffix(_DATA_LOADER)
    words = name_words(own)
    if _direction(words, is_heldout=is_evaluation(own)) is not None:
        return ""
    return last_word(name) if "/" in own else "_".join(_of_set(words))


def _of_set(words: Sequence[str]) -> Sequence[str]:
    """Return the words of the score in a name that has a split and a data set in front, or ()."""
    own = [word for word in words if word not in _QUALIFIERS]
    is_named = words[0] in _HELDOUT_SPLITS if words else False
    if not is_named or len(own) <= 1 or not _NO_SCORES.isdisjoint(own):
        return ()
    # ndcg_10, and the text of all other scores is one word.
    return own[-2:] if own[-1].isdigit() else own[-1:]
