"""Whether runs train the same thing: task, data, model and loss, as their settings name them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations, pairwise
from typing import Final

from stabdiag.comparison.kind import span, stride
from stabdiag.comparison.outcomes import NOT_COMPARABLE
from stabdiag.comparison.settings import join_words, settings
from stabdiag.model.comparison import ComparedRun, Comparison, ComparisonKind
from stabdiag.model.findings import Action, ActionKind, Finding
from stabdiag.model.manifest.parsing import number, plain
from stabdiag.model.text import num
from stabdiag.stats.course import evaluation_level, start_level
from stabdiag.stats.standards import MIN_CONSECUTIVE

# Keys that name the task, the data or the model: the last word of a key, by kind.
TASK: Final = {
    "task": ("task", "task_name"),
    "dataset": ("dataset", "dataset_name"),
    "model": ("model", "model_name", "model_type", "architecture", "arch", "model_name_or_path"),
}
_LOSS_SETTINGS: Final = {
    "loss": ("loss", "loss_fn", "loss_function", "loss_type", "criterion"),
    "tokenizer": ("tokenizer", "tokenizer_name", "tokenizer_name_or_path", "tokenizer_type"),
}
_COUNT_SETTINGS: Final = {
    "number of classes": (
        *("num_classes", "n_classes", "classes", "num_labels", "n_labels"),
        *("vocab_size", "vocabulary_size"),
    ),
}

# Numbers that differ by less were written with fewer digits.
_EQUAL: Final = 1e-6

# The start and the end of a loss need this many losses each. Seeds do not change the start by this
# factor: it follows from the loss function and the number of classes.
_MIN_TASK_LOSSES: Final = MIN_CONSECUTIVE
_START_RATIO: Final = 3.0

# A sentence names at most this many runs.
_MAX_SENTENCE_RUNS: Final = 4


def identity(configuration: Mapping[str, object]) -> dict[str, str]:
    """Return the task of a run by kind, if its settings contain it.

    >>> identity({"data.dataset": "org/c4", "n_labels": 10})
    {'dataset': 'c4', 'number of classes': '10'}
    """
    keys = {plain(key.rpartition(".")[2]): key for key in configuration}
    result: dict[str, str] = {}
    for kind, names in {**TASK, **_LOSS_SETTINGS, **_COUNT_SETTINGS}.items():
        values = (configuration[keys[name]] for name in names if name in keys)
        texts = (_name(value, is_number=kind in _COUNT_SETTINGS) for value in values)
        text = next(filter(None, texts), "")
        if text:
            result[kind] = text.rstrip("/").rpartition("/")[2] or text
    return result


def _name(value: object, *, is_number: bool) -> str:
    """Return a value as the name of a task or a number of classes, or an empty text."""
    if not is_number:
        return value if isinstance(value, str) else ""
    is_count = isinstance(value, int | float) and not isinstance(value, bool)
    return num(float(str(value))) if is_count else ""


def same_value(value: object, other: object) -> bool:
    """Return True if two values of a setting are equal, however they are written."""
    number_value, other_number = number(value), number(other)
    if number_value is not None and other_number is not None:
        scale = max(abs(number_value), abs(other_number))
        return abs(number_value - other_number) <= _EQUAL * scale
    is_text = number_value is None and other_number is None
    return is_text and plain(str(value)) == plain(str(other))


def different_training(comparison: Comparison) -> Iterator[Finding]:
    """Find runs that train different things, by their settings or by the scale of their losses.

    Between runs with the same seed, ``config-differs`` names what differs.
    """
    if comparison.kind is not ComparisonKind.SEEDS:
        return
    identities = {run.label: identity(settings(run)) for run in comparison.runs}
    kinds = [
        kind for kind in (*TASK, *_LOSS_SETTINGS, *_COUNT_SETTINGS) if _differs(kind, identities)
    ]
    if kinds:
        reasons = [f"{kind} is {_by_value(kind, identities)}" for kind in kinds]
        action = f"Compare runs that have the same {join_words(kinds)}."
    else:
        is_known = any(
            left.keys() & right.keys() for left, right in combinations(identities.values(), 2)
        )
        apart = None if is_known else _on_different_scales(comparison.runs)
        if apart is None:
            return
        low, high = apart
        reasons = [
            f"{high[0]} starts at a loss of {num(high[1])} and ends at {num(high[2])}, above the"
            f" {num(low[1])} at which {low[0]} starts. Seeds do not change the scale of a loss"
        ]
        action = (
            "Compare runs of the same task, data and loss; if they are the same, find out why"
            " their losses have different scales: a sum or a mean, another initialization."
        )
    yield NOT_COMPARABLE.finding(
        f"The runs do not train the same thing: {'; '.join(reasons)}. Where they diverge or end"
        " says nothing about seeds.",
        Action(ActionKind.SEE_FINDING, action),
        title="The runs are not the same training",
        next_actions=(
            Action(
                ActionKind.SEE_FINDING,
                "Run stabdiag check on these logs to see whether each run is healthy.",
            ),
        ),
        measured={"runs": len(comparison.runs)},
    )


def _differs(kind: str, identities: Mapping[str, Mapping[str, str]]) -> bool:
    values = [names[kind] for names in identities.values() if kind in names]
    return any(not same_value(values[0], value) for value in values[1:])


def _by_value(kind: str, identities: Mapping[str, Mapping[str, str]]) -> str:
    """Return the values of a kind with their runs: ``c4 (a and b), pile (c)``."""
    labels: dict[str, list[str]] = {}
    for label, names in identities.items():
        if kind in names:
            labels.setdefault(names[kind], []).append(label)
    parts = [
        f"{value} ({join_words(runs)})" for value, runs in list(labels.items())[:_MAX_SENTENCE_RUNS]
    ]
    return ", ".join([*parts, "…"] if len(labels) > _MAX_SENTENCE_RUNS else parts)


def _on_different_scales(
    runs: Sequence[ComparedRun],
) -> tuple[tuple[str, float, float], tuple[str, float, float]] | None:
    """Return two runs whose losses have no value in common, with their starts and ends, or None.

    Runs whose first losses are at different steps are not compared.
    """
    firsts = [span(run)[0] for run in runs]
    if max(firsts) - min(firsts) > max(map(stride, runs)):
        return None
    spans = []
    for run in runs:
        values = run.history.finite("loss").values
        if len(values) < 2 * _MIN_TASK_LOSSES:
            return None
        spans.append((run.label, start_level(values), evaluation_level(values)))
    spans.sort(key=lambda span: span[1])
    return next(
        (
            (low, high)
            for low, high in pairwise(spans)
            if 0 < _START_RATIO * low[1] <= high[1] and high[2] > low[1]
        ),
        None,
    )
