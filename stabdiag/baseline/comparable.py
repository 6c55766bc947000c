"""Whether runs may be compared at all, and their different settings."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final, TypeAlias

from stabdiag.baseline.profile import RunProfile
from stabdiag.comparison.settings import find_relevance
from stabdiag.errors import StabdiagError
from stabdiag.model.baseline import SettingDifference, UnusedReference
from stabdiag.model.comparison import ComparisonKind, Relevance
from stabdiag.model.manifest.keys import number, plain
from stabdiag.model.text import num

Settings: TypeAlias = Mapping[str, str | float]

# Keys that name the task, the data or the model: the last word of a key, by kind.
_TASK: Final = {
    "task": ("task", "task_name"),
    "dataset": ("dataset", "dataset_name"),
    "model": ("model", "model_name", "model_type", "architecture", "arch", "model_name_or_path"),
}
_LOSS_SETTINGS: Final = {
    "loss": ("loss", "loss_fn", "loss_function", "loss_type", "criterion"),
    "tokenizer": ("tokenizer", "tokenizer_name", "tokenizer_name_or_path", "tokenizer_type"),
}
_NUMBERS: Final = {
    "number of classes": (
        *("num_classes", "n_classes", "classes", "num_labels", "n_labels"),
        *("vocab_size", "vocabulary_size"),
    ),
}

# Numbers that differ by less were written with fewer digits.
_EQUAL: Final = 1e-6


def comparable(
    run: RunProfile, references: Sequence[RunProfile], *, refuse: bool
) -> tuple[list[RunProfile], list[UnusedReference]]:
    """Return the references with the same task as the run, and the others.

    A key that only one of two manifests contains is not compared.

    Raises:
        StabdiagError: if ``refuse`` is set and no reference has the same task.
    """
    own = _identity(run.settings)
    kept, left_out, refusals = [], [], []
    for reference in references:
        other = _identity(reference.settings)
        kind = next((k for k in own if k in other and not _same(own[k], other[k])), None)
        if kind is not None:
            reason = f"another {kind}: {other[kind]}"
            refusals.append((kind, other[kind], reference))
        elif reference.unit != run.unit:
            reason = f"counts {reference.unit}s, not {run.unit}s"
        else:
            kept.append(reference)
            continue
        left_out.append(UnusedReference(name=reference.name, reason=reason))
    if refuse and refusals and not kept:
        kind, value, reference = refusals[0]
        raise StabdiagError(
            f"baseline: another {kind}: {own[kind]} in this run, {value} in {reference.name}; "
            f"give runs of the same {kind}"
        )
    return kept, left_out


def have_known_task(run: RunProfile, references: Sequence[RunProfile]) -> bool:
    """Return True if the run and a reference name their task, dataset or model."""
    own = _identity(run.settings).keys() & _TASK.keys()
    return any(own & _identity(reference.settings).keys() for reference in references)


def _identity(settings: Settings) -> dict[str, str]:
    """Return the task of a run by kind, if its settings contain it."""
    keys = {plain(key.rpartition(".")[2]): key for key in settings}
    identity: dict[str, str] = {}
    for kind, names in {**_TASK, **_LOSS_SETTINGS, **_NUMBERS}.items():
        values = (settings[keys[name]] for name in names if name in keys)
        wanted_type = float if kind in _NUMBERS else str
        value = next((value for value in values if isinstance(value, wanted_type)), None)
        if value is not None:
            text = num(value) if isinstance(value, float) else value
            identity[kind] = text.rstrip("/").rpartition("/")[2] or text
    return identity


def _same(value: object, other: object) -> bool:
    number_value, other_number = number(value), number(other)
    if number_value is not None and other_number is not None:
        scale = max(abs(number_value), abs(other_number))
        return abs(number_value - other_number) <= _EQUAL * scale
    is_text = number_value is None and other_number is None
    return is_text and plain(str(value)) == plain(str(other))


def differing_settings(
    run: RunProfile, references: Sequence[RunProfile]
) -> Iterator[SettingDifference]:
    """Yield settings that all references share and the run has with another value.

    Settings that can explain a difference come first; seeds, names and folders are left out.
    """
    differences = []
    for key, value in run.settings.items():
        others = [other.settings[key] for other in references if key in other.settings]
        is_shared = bool(others) and all(_same(others[0], other) for other in others[1:])
        if not is_shared or _same(value, others[0]) or plain(key).endswith("seed"):
            continue
        relevance = find_relevance(key, ComparisonKind.SEEDS)
        if relevance in (Relevance.EXPLAINS, Relevance.MAY):
            differences.append((relevance is Relevance.MAY, key, value, others[0]))
    for _, key, value, reference in sorted(differences, key=lambda item: item[:2]):
        yield SettingDifference(key=key, value=value, reference=reference)
