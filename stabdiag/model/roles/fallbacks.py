"""Columns that serve as the loss of a log without a named one."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from stabdiag.model.frozen import frozen
from stabdiag.model.patterns import lazy_pattern
from stabdiag.model.roles.loss_kinds import (
    describe_discriminator_choice,
    find_discriminator_loss,
    is_adversarial_loss,
)
from stabdiag.model.roles.names import (
    TRAINING_WORDS,
    is_evaluation,
    is_setting,
    normal,
    without_evaluation,
    without_run,
)
from stabdiag.model.roles.scores import is_training_score
from stabdiag.model.text import word_list

# Measures that fall as a network learns, the best first. An ELBO rises, and an objective may rise.
_LOSS_MEASURES: Final = word_list(
    "cross_entropy xent ce binary_cross_entropy bce nt_xent info_nce nll negative_log_likelihood "
    "mse mean_squared_error rmse root_mean_squared_error mae mean_absolute_error "
    "bpc bpb bpd bits_per_char bits_per_byte bits_per_dim perplexity ppl"
)


# These are in the unit of an evaluation loss whose name says nothing else.
_COMPARABLE_MEASURES: Final = _LOSS_MEASURES[: _LOSS_MEASURES.index("rmse")]


# These are also the usual loss of a training whose loss has no other name.
_ENTROPIES: Final = word_list("cross_entropy xent ce nll negative_log_likelihood")


# These may mean something else in a log without steps or epochs. Semi-supervised training logs the
# loss of its labeled examples as sup.
_AMBIGUOUS_LOSSES: Final = (
    *("cost", "error", "sup", "supervised", "criterion"),
    # The objectives of CatBoost and XGBoost.
    *word_list("multi_class multi_class_one_vs_all mlogloss pair_logit query_rmse msle mape huber"),
    *word_list("quantile expectile poisson tweedie deviance hinge gamma_nloglik"),
)


# In order, and fast to look up.
_ANY_MEASURES: Final = dict.fromkeys((*_LOSS_MEASURES, *_AMBIGUOUS_LOSSES))


# RMSEpa_Etrain_pu and RMSE_Ftrain: of energies and of forces of the training structures.
_OF_TRAINING_SET: Final = lazy_pattern(r"(rmse|mse|mae)(?:pa)?_[ef]_?train(?:_|$)")

_TRAINING_AFFIX: Final = lazy_pattern(
    r"^(?:train|training|avg|average|mean)_|_(?:train|training|trn)$"
)

# Other words of a pair such as avg_train and avg_val, or l2_trn and l2_tst.
_SHORT_EVALUATIONS: Final = frozenset({"te", "va"})
_UNNAMED_MEASURES: Final[frozenset[str | None]] = frozenset(
    {"", "avg", "average", "mean", "total", "l", "l1", "l2", "err"}
)

# Sections that only contain the columns.
_CONTAINERS: Final = frozenset(
    word_list(
        "data history hist metrics metric log logs results result values scalars stats summary "
        "epochs records curves series training_history learning_curve learning_curves payload"
    )
)


@frozen(eq=True)
class FallbackColumn:
    """A column that serves as the loss, its evaluation counterpart, and a note on both."""

    loss: str
    eval_loss: str | None
    note: str


def training_measure(names: Iterable[str]) -> FallbackColumn | None:
    """Return a column such as train/ce, which is the training loss next to an eval_loss, or None.

    Its name has to say that it belongs to the training.
    """
    trained = {
        loss_measure(name): name
        for name in names
        if not is_setting(name) and not is_evaluation(name) and is_training_score(name)
    }
    measure = next((measure for measure in _COMPARABLE_MEASURES if measure in trained), None)
    if measure is None:
        return None
    name = trained[measure]
    return FallbackColumn(loss=name, eval_loss=None, note=f"took {name!r} as the loss, by its name")


def evaluation_measure(names: Iterable[str]) -> str | None:
    """Return a column such as val_ce, which is the evaluation loss next to a loss, or None."""
    evaluated = (name for name in names if not is_setting(name) and is_evaluation(name))
    return next(
        (name for name in evaluated if loss_measure(without_evaluation(name)) in _ENTROPIES), None
    )


def fallback_columns(names: Iterable[str], *, counted: bool) -> Iterator[FallbackColumn]:
    """Yield possible losses of a log without a named loss, the most likely first.

    ``counted`` says whether the log has steps or epochs.
    """
    names = [name for name in names if not is_setting(name)]
    adversarial = [name for name in names if is_adversarial_loss(name) and not is_evaluation(name)]
    discriminator_loss = find_discriminator_loss(adversarial)
    if discriminator_loss is not None:
        note = describe_discriminator_choice(discriminator_loss, "loss")
        yield FallbackColumn(loss=discriminator_loss, eval_loss=None, note=note)
    evaluations = {
        without_evaluation(_inner_name(name)): name for name in names if is_evaluation(name)
    }
    trained = [name for name in reversed(names) if not is_evaluation(name)]
    measures = {loss_measure(name): name for name in trained}
    for measure in _ANY_MEASURES:
        is_known = counted or measure in _LOSS_MEASURES
        if measure in measures and (is_known or measure in evaluations):
            yield _fallback(measures[measure], evaluations.get(measure))
    # A column named train is a loss if there is a column named val.
    short = next((name for name in names if normal(_inner_name(name)) in _SHORT_EVALUATIONS), None)
    evaluations |= {} if short is None else {"": short}
    for name in trained:
        bare = _without_training(name)
        if names_training(name) and bare in evaluations:
            yield _fallback(name, evaluations[bare])


def names_training(name: str) -> bool:
    """Return True if a name says that a column is of the training, and not what it measures."""
    return _without_training(name) in _UNNAMED_MEASURES


def _inner_name(name: str) -> str:
    """Return the name of a column without a section that only contains columns: history/mse.

    Other sections belong to the names: train/mse and val/mse, auc/train and auc/val.
    """
    section, _, inner = without_run(name).partition("/")
    return inner if inner and normal(section) in _CONTAINERS else without_run(name)


def _fallback(loss: str, eval_loss: str | None) -> FallbackColumn:
    note = f"took {loss!r} as the loss, by its name"
    return FallbackColumn(loss=loss, eval_loss=eval_loss, note=note)


def _without_training(name: str) -> str | None:
    """Return a name in normal form without the word for the training, or None if it has none."""
    words = normal(_inner_name(name)).split("_")
    others = [word for word in words if word not in TRAINING_WORDS]
    return "_".join(others) if len(others) < len(words) else None


def loss_measure(name: str) -> str | None:
    """Return the measure of a training column, or None."""
    # Quantile:alpha=0.9 has a parameter.
    key = normal(_inner_name(name).partition(":")[0])
    of_training_set = _OF_TRAINING_SET.match(name.lower())
    if of_training_set is not None:
        return of_training_set[1]
    bare = _TRAINING_AFFIX.sub("", key, count=1)
    return next((word for word in (key, bare) if word in _ANY_MEASURES), None)
