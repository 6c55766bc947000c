"""Scores of a model, and the direction that is better for each."""

from __future__ import annotations

import re
from collections.abc import Container, Iterable
from enum import IntEnum
from functools import lru_cache
from typing import Final

from stabdiag.model.roles.names import is_evaluation, is_setting, without_run, words_of
from stabdiag.model.text import names_in


class Direction(IntEnum):
    """The sign that makes higher values of a score better."""

    HIGHER = 1
    LOWER = -1


# The names are compared without underscores, splits and words that say how a score is averaged.
# Names of two or three letters that also mean something else count only with an evaluation word.
_HIGHER: Final = re.compile(
    r"(balanced|tokens?|mlm|masked|categorical|binary|pixel)?acc(uracy)?\d*"
    r"|top\d+(acc(uracy)?)?"
    r"|precision(at\d+)?b?|recall(at\d+)?b?|sensitivity|specificity|f\d(score)?|fscore|fmeasure"
    r"|m?ap\d+\w?|map|averageprecision|auc\d*|auroc|rocauc|aucroc|auprc|prauc"
    r"|(sacre|corpus)?bleu(score)?\d*|rouge\w{0,4}|meteor|chrf\d*|bertscore\w{0,9}|cider\w?"
    r"|dice(score|coefficient|coef)?|m?iou\d*|jaccard(index)?"
    r"|psnr|m?s?ssim|sisnri?|sisdri?|pesq|stoi"
    r"|r2(score)?|rsquared|pearson(r|corr)?|spearman(r|corr)?|mcc|matthews\w{0,20}|kappa"
    r"|exactmatch|pass(at)?\d+|(pass|success|win|solve)rate|n?dcg(at)?\d*|mrr(at)?\d*"
    r"|hit(s|rate)(at)?\d*|inceptionscore|clipscore"
    r"|(ents|cats|spans)[fpr]|(dep)?[ul]as|tagacc"
)
_LOWER: Final = re.compile(
    r"wer|cer|(word|char|character|token|phone|phoneme|sentence|top\d+)?err(or)?rates?"
    r"|top\d+err(or)?|equalerrorrate|perplexity|ppl|fid\d*k?|lpips"
    r"|r?mse|mae|s?mape|mean(squared|absolute)error|rootmeansquarederror|bitsper(char|byte|dim)"
    r"|bp[bcd]|brier(score)?"
)
_HIGHER_IF_EVALUATED: Final = re.compile(r"em|ap|snr|sdr|score")
_LOWER_IF_EVALUATED: Final = re.compile(r"per|ter|mer|der|eer|epe|ece|kid|err(or)?|fvd|fad|mcd")

# Words that describe where a score was measured, or how it was averaged.
_QUALIFIERS: Final = frozenset(
    names_in(
        "train training eval evaluation val valid validation validate vali test testing dev "
        "holdout heldout metrics metric score scores macro micro weighted mean avg average epoch "
        "step all overall total at clean other unnormalized"
    )
)
_MINIMAL_QUALIFIERS: Final = _QUALIFIERS - {"score", "mean", "at"}

# No score has a longer name.
_LONGEST: Final = 80


@lru_cache(maxsize=1 << 17)
def direction_of(name: str) -> Direction | None:
    """Return the better direction of a column, or None if it is not a known score."""
    own = without_run(name)
    words = words_of(own)
    if len(own) > _LONGEST or is_setting(own) or "loss" in words or "best" in words:
        return None
    evaluated = is_evaluation(own)
    for qualifiers in (_MINIMAL_QUALIFIERS, _QUALIFIERS):
        key = "".join(word for word in words if word not in qualifiers)
        if _HIGHER.fullmatch(key) or (evaluated and _HIGHER_IF_EVALUATED.fullmatch(key)):
            return Direction.HIGHER
        if _LOWER.fullmatch(key) or (evaluated and _LOWER_IF_EVALUATED.fullmatch(key)):
            return Direction.LOWER
    return None


def is_training_score(name: str) -> bool:
    """Return True if a score is measured on the training data, by its name."""
    return not {"train", "training"}.isdisjoint(words_of(without_run(name)))


def scores_of(names: Iterable[str], taken: Container[str]) -> dict[str, str]:
    """Return the columns of ``score/<name>`` that serve no other role."""
    return {
        f"score/{name}": name
        for name in names
        if name not in taken and direction_of(name) is not None
    }
