"""Normalized column names, and the meaning of their words."""

from __future__ import annotations

import re
from collections.abc import Iterable
from enum import Enum
from functools import lru_cache
from typing import Final

from stabdiag.model.patterns import lazy_pattern
from stabdiag.model.text import word_list

# A match of the pattern begins with one of these, at the start of a word, or ends with it. A search
# for them is faster: a wide log has thousands of names.
_EVALUATION_STARTS: Final = word_list("eval va vld te tst dev held hold cv")
_INNER_EVALUATION_STARTS: Final = tuple(f"_{start}" for start in _EVALUATION_STARTS)
_EVALUATION_PART = lazy_pattern(
    r"(^|_)(eval|evaluation|val|vali|vld|valid|validate|validation|test|testing|tst|dev"
    r"|h[eo]ld_?out)"
    r"(?:set)?\d?(_|$)|^(va|te)_(?=loss|acc|err|f1|auc|ppl)|(?<=loss|cost|_acc)_(va|te|cv)$"
    r"|(^|_)cv_(?=(\w+_)?(loss|cost|acc|accuracy|err|error|ppl)(_|$))"
)

# The beginnings of words in trainLoss, LMLoss and L1Loss, but not in 3D_loss.
_HUMP = lazy_pattern(r"(?<=[a-z])(?=[A-Z])|(?<=[A-Z0-9])(?=[A-Z][a-z])")

_OTHER_CHARACTERS = lazy_pattern(r"[^a-z0-9_]+")

# Where the next word begins in trainloss, valloss and testacc, and in dloss and gloss of two
# networks.
_MEASURE_BEHIND_SPLIT: Final = lazy_pattern(r"loss|acc|err|ppl|perplexity|f1|bleu")
_GLUED_SPLIT = lazy_pattern(
    r"(?<![a-z0-9])(?:(train|valid|val|dev|test|eval)"
    r"(?=(?:loss|acc|accuracy|err|error|ppl|perplexity|f1|bleu)(?:_|$))"
    r"|([dg]|disc?|gen)(?=loss(?:_|$)))"
)

# Columns under these sections are settings of the run. Each section contains one of the words.
_SETTINGS_WORDS: Final = word_list("config args param")
_SETTINGS_SECTION = lazy_pattern(
    r"(^|[/._])(config|args|hparams|hyperparameters|hyper_parameters)[/.]", re.IGNORECASE
)


# Columns that name the data split of each record.
_SPLITS = frozenset(
    word_list(
        "type phase split mode set stage dataset data_set dset subset data_split partition loader "
        "dataloader data_loader event kind name"
    )
)


# Columns that name the quantity measured by each record.
_MEASUREMENTS = frozenset(
    {"metric", "metrics", "metric_name", "name", "tag", "key", "variable", "type"}
)


# Columns that name the model or trial of each record in a table of results.
_RESULTS = frozenset(
    word_list(
        "model models model_name model_path model_file method methods algorithm team author trial "
        "trial_id trial_name run_id run_name experiment experiment_name exp_name config_name "
        "architecture optimizer task fold fold_id seed"
    )
)


# ppl, valid_perplexity, lossppl, trainppl
_PERPLEXITY = lazy_pattern(
    r"(?:^|_)(?:train|tr|valid|val|test|dev|loss)?(?:ppl|perplexity)(?:loss)?(?:_|$)"
)


class NameParts(Enum):
    """The data split of a record, in the order of preference."""

    TRAINING = ("train", "training", "train_inner", "tr", "trn", "fit")
    VALIDATION = word_list(
        "val vld valid validation validate eval evaluation evaluate dev vali cv holdout "
        "hold_out heldout held_out"
    )
    TEST = ("test", "testing", "tst", "te")


# Words of other languages, as they are written in the names of columns, without accents, and
# unusual abbreviations.
_IN_ASCII: Final = {
    foreign: english
    for english, words in (
        ("loss", "perdida perda perte verlust"),
        ("train_loss", "trainingsverlust"),
        ("val_loss", "validierungsverlust testverlust"),
        ("reward", "recompensa recompensas recompense belohnung ricompensa nagroda"),
        ("accuracy", "accu exactitud acuracia genauigkeit accuratezza"),
        ("epoch", "epoca epocas epoque epoche"),
        ("episode", "episodio episodios epizod"),
        ("step", "paso pasos passo passos schritt schritte"),
        ("train", "entrenamiento treino treinamento entrainement"),
        ("val", "validacion validacao validierung"),
        ("test", "prueba"),
    )
    for foreign in words.split()
}
_DIGITS_AS_SEPARATORS: Final = str.maketrans("0123456789", "_" * 10)
_FOREIGN_WORD: Final = lazy_pattern(
    rf"(?<![a-z])(?:{'|'.join(sorted(_IN_ASCII, key=len, reverse=True))})(?![a-z])"
)


@lru_cache(maxsize=1 << 17)
def normal(name: str) -> str:
    """Return a column name in normal form, for comparisons.

    A table may have a blank in front of a name in quotes, which are a part of the name then.
    """
    name = name.strip().strip("'\"`")
    if not name.isascii():
        from unicodedata import combining, normalize

        from stabdiag.model.roles.foreign_names import translate_names

        name = translate_names(name.encode("utf-8", "replace")).decode("utf-8", "replace").strip()
        name = "".join(char for char in normalize("NFKD", name) if not combining(char))
    if not name.islower():
        name = _HUMP.sub("_", name)
    lowered = name.lower()
    is_plain = lowered.isascii() and lowered.isidentifier()
    key = (lowered if is_plain else _OTHER_CHARACTERS.sub("_", lowered)).rstrip("_")
    if _MEASURE_BEHIND_SPLIT.search(key) is not None:
        key = _GLUED_SPLIT.sub(lambda split: f"{split[0]}_", key)
    if _IN_ASCII.keys().isdisjoint(key.translate(_DIGITS_AS_SEPARATORS).split("_")):
        return key
    return _FOREIGN_WORD.sub(lambda word: _IN_ASCII[word[0]], key)


@lru_cache(maxsize=1 << 17)
def name_words(name: str) -> tuple[str, ...]:
    """Return the words of a column's name."""
    return (*filter(None, normal(name).split("_")),)


# train/lr(1e-3), as verl names it.
_FACTOR_SUFFIX = lazy_pattern(r"\((1e-?\d{1,2})\)$")


def parse_factor(name: str) -> float:
    """Return the factor for the values of a column, according to its name."""
    match = _FACTOR_SUFFIX.search(name)
    return float(match[1]) if match else 1.0


def exported_run(name: str) -> str:
    """Return the run of a column in a chart exported from W&B: ``run - train/loss``."""
    return name.rpartition(" - ")[0]


def without_run(name: str) -> str:
    """Return the name of a column without the name of its run; see ``exported_run``."""
    return name.rpartition(" - ")[2]


@lru_cache(maxsize=1 << 17)
def is_setting(name: str) -> bool:
    """Return True if the section of a column contains settings, as in ``config/lr``."""
    if "/" not in name and "." not in name:
        return False
    lowered = name.lower()
    is_possible = any(word in lowered for word in _SETTINGS_WORDS)
    return is_possible and _SETTINGS_SECTION.search(name) is not None


@lru_cache(maxsize=1 << 17)
def is_evaluation(name: str) -> bool:
    """Return True if a column belongs to an evaluation by its name."""
    key = normal(name)
    may_match = key.startswith(_EVALUATION_STARTS) or any(
        start in key for start in _INNER_EVALUATION_STARTS
    )
    return may_match and _EVALUATION_PART.search(key) is not None


def without_evaluation(name: str) -> str:
    """Return a name in normal form without the word for an evaluation."""
    return _EVALUATION_PART.sub("_", normal(name), count=1).strip("_")


def counts_per_record(name: str) -> bool:
    """Return True if a count of skipped steps restarts with each record, as in Megatron.

    Flags for a single skipped step count as well. Other columns usually count from the start of the
    run.
    """
    return normal(name) in ("number_of_skipped_iterations", "skipped_step", "optim_step_skipped")


def names_measurements(name: str) -> bool:
    """Return True if a column may name the quantity measured by each record."""
    return normal(name) in _MEASUREMENTS


def names_results(name: str) -> bool:
    """Return True if a column may name the model or trial of each record."""
    return normal(name) in _RESULTS


def names_split(name: str) -> bool:
    """Return True if a column may name the data split of each record."""
    return normal(name) in _SPLITS or flagged_split(name) is not None


def flagged_split(name: str) -> NameParts | None:
    """Return the split of a boolean column such as ``is_train``, or None."""
    return find_split(normal(name).removeprefix("is_")) if normal(name).startswith("is_") else None


_SPLIT_NOUN = lazy_pattern(r"(?:_(?:phase|split|stage|loop|mode)|_?set)$")
_SPLIT_OF_WORD: Final = {word: split for split in NameParts for word in split.value}


def find_split(word: str) -> NameParts | None:
    """Return the split that a word names, or None: valid, ValidationPhase, test set."""
    return _SPLIT_OF_WORD.get(_SPLIT_NOUN.sub("", normal(word)))


_NO_LOSS_NAME = lazy_pattern(
    r"loss_?scale|scale$|(^|_)(num|min|max|best|std|delta|n|weights?)(_|$)|grad"
)

# Measures in a section of losses: losses/qf1_values and losses/explained_variance of CleanRL.
_MEASURE_IN_SECTION: Final = lazy_pattern(
    r"(^|_)(lr|learning_rate|epoch|values|explained_var(iance)?|acc|accuracy"
    r"|clip_?(frac|fraction|ratio))(_|$)"
)

# Compute times of a loss: profiling/Time taken: GRPOTrainer.compute_loss, timing_s/loss. The
# duration_loss of a voice measures how long it speaks.
_TIMING_NAME = lazy_pattern(
    r"(^|_)(profiling|profiler|timings?|timers?|time_taken|latency"
    r"|duration(?!_(predictor_)?loss))(_|$)"
)

_AN_LR = lazy_pattern(r"(^|_)(lr|lrate|learning_rate)(_|$)|_lr\d*$")

# Settings of a schedule are not the learning rate.
# Measures of a run that is named after its rate, lr_0.1/val_loss, are not the rate either.
_NO_LR: Final = frozenset(
    word_list("min floor final end decay warmup mult multiplier loss losses acc accuracy")
)

# Words for losses that are added to the task loss.
_AUXILIARY: Final = frozenset(
    word_list(
        "aux auxiliary reg regularization regularisation l1 l2 z kl commit commitment balance "
        "balancing load moe expert experts router penalty decay tv"
    )
)
_PLAIN_LOSS_WORDS: Final = frozenset({"loss", "losses", "train", "training", "mean", "avg"})

# Words next to a reward in its name: Batch_Reward_Mean, avg_reward_100, "Return (train)".
_REWARDS: Final = frozenset(
    word_list("reward rewards return returns rew rews rewmean payoff payoffs utility utilities")
)
_SCORE_WORDS: Final = frozenset({"score", "scores"})
_RETURN: Final = frozenset({"r"})
_ANY_REWARDS: Final = _REWARDS | _SCORE_WORDS | _RETURN
_ENDS_WITH_R: Final = re.compile(r"[_a-z]R$")
TRAINING_WORDS: Final = frozenset({"train", "training", "trn", "tr"})
# The units that the records of a log of games count.
EPISODES_OR_GAMES: Final = frozenset({"episode", "episodes", "game", "games"})
_OF_REWARDS: Final = frozenset(
    word_list(
        "mean avg average total sum cumulative running rolling moving episode ep epoch batch game "
        "train training rollout env environment per last raw episodic smoothed tot cum 100ep "
        "real true clipped unclipped scaled unscaled normalized shaped original final "
        "over of the episodes eps games recent window history hist list curve "
        "media medio promedio moyenne totale acumulada acumulado"
    )
)


# The recorder's own measurements, such as recorder/held_loss, have this prefix.
RECORDED: Final = "recorder/"


def is_a_loss(name: str) -> bool:
    """Return True if a column looks like a training loss."""
    key = normal(name)
    if "loss" not in key or name.startswith(RECORDED):
        return False
    if _is_measure_in_section(name):
        return False
    return not (is_evaluation(name) or _NO_LOSS_NAME.search(key) or _TIMING_NAME.search(key))


def _is_measure_in_section(name: str) -> bool:
    """Return True for another measure than a loss in a section of losses: losses/qf1_values."""
    inner = last_word(name) if "/" in name else "loss"
    return "loss" not in inner and _MEASURE_IN_SECTION.search(inner) is not None


def measures_with_losses(names: Iterable[str]) -> frozenset[str]:
    """Return measures in a section of losses that have their own loss there.

    The temperature of a policy, losses/alpha, is next to losses/alpha_loss.
    """
    of_losses = [name for name in names if "/" in name and "loss" in normal(name)]
    with_losses = {f"{name.rpartition('/')[0]}/{last_word(name)}" for name in of_losses}
    return frozenset(
        name
        for name in of_losses
        if f"{name.rpartition('/')[0]}/{last_word(name)}_loss" in with_losses
        and "loss" not in last_word(name)
    )


def lost_games(names: Iterable[str]) -> frozenset[str]:
    """Return the names that count lost games, next to the won ones: wins, losses and draws."""
    by_name = {normal(name): name for name in names}
    words = {word for name in by_name for word in name.split("_")}
    if words.isdisjoint(("win", "wins", "won")):
        return frozenset()
    counts = (
        ["losses"] if words.isdisjoint(("draw", "draws", "tie", "ties")) else ["losses", "loss"]
    )
    return frozenset(by_name[count] for count in counts if count in by_name)


def is_auxiliary(name: str) -> bool:
    """Return True if a loss is added to the task loss, such as a penalty or a regularizer."""
    words = set(name_words(name)) - _PLAIN_LOSS_WORDS
    return bool(words) and words <= _AUXILIARY


def is_perplexity(name: str) -> bool:
    """Return True if a name says that its values are perplexities, not losses in nats or bits."""
    return _PERPLEXITY.search(normal(name)) is not None


@lru_cache(maxsize=1 << 17)
def is_an_lr(name: str) -> bool:
    """Return True if a column looks like a learning rate, or like a bound of it."""
    if "lr" not in normal(name) and "learning_rate" not in normal(name):
        return False
    # lr(LinearWarmup), as PaddleClas names its schedule.
    bare = re.sub(r"(?<=\w)\(\w+\)$", "", name)
    return _AN_LR.search(normal(bare)) is not None and not _NO_LR.intersection(name_words(bare))


def is_a_reward(name: str, *, of_episodes: bool = False) -> bool:
    """Return True if a column looks like the reward of the run, and not a component of it.

    One word of its name means reward, and the others only describe how it was averaged, as in
    train_R and avgR. The reward of episodes may be the score of a game.
    """
    if _ANY_REWARDS.isdisjoint(name_words(name)):
        return False
    rewards = _REWARDS | _SCORE_WORDS if of_episodes else _REWARDS
    rewards |= _RETURN if _ENDS_WITH_R.search(name) else frozenset()
    others = [word for word in name_words(name) if word not in rewards]
    alone = len(name_words(name)) == len(others) + 1 and not is_evaluation(name)
    return alone and all(word in _OF_REWARDS or word.isdigit() for word in others)


# The words of the objective of an optimizer, and other words of its name.
_BESTS = frozenset(word_list("best gbest fbest incumbent shortest"))
_OBJECTIVES = _BESTS | frozenset(word_list("objective obj fval"))
_OF_A_FUNCTION = (frozenset({"function", "value"}), frozenset({"f", "x"}), frozenset({"f", "min"}))
_OF_OBJECTIVES = frozenset(
    word_list(
        "global current so far min max avg mean value score cost distance length energy profit"
        " individual solution point function f x"
    )
)


def is_fitness(name: str) -> bool:
    """Return True for the fitness of an evolution, which has no gradient."""
    return "fitness" in name_words(name)


def is_objective(name: str) -> bool:
    """Return True for what an optimizer prints of its function: best cost, gbest, f(x), f_min.

    The better direction is unknown. The best loss or the best accuracy has a known one.
    """
    words = {*name_words(name)}
    is_named = not words.isdisjoint(_OBJECTIVES) or any(pair <= words for pair in _OF_A_FUNCTION)
    return is_named and words <= _OBJECTIVES | _OF_OBJECTIVES


def is_best_so_far(name: str) -> bool:
    """Return True for the best value of an evolution or a search, which often stays the same."""
    return is_fitness(name) or not _BESTS.isdisjoint(name_words(name))


def last_word(name: str) -> str:
    """Return the part after the last slash of a name: ``actor/grad_norm`` is a gradient norm."""
    return normal(name.rpartition("/")[2])
