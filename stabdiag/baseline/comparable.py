"""Whether runs may be compared at all, and the settings in which they differ."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final, TypeAlias

from stabdiag.baseline.profile import RunProfile
from stabdiag.comparison.settings import find_relevance
from stabdiag.errors import StabdiagError
from stabdiag.model.baseline import LeftOut, SettingDifference
from stabdiag.model.comparison import Kind, Relevance
from stabdiag.model.manifest.keys import number, plain
from stabdiag.model.text import num

Settings: TypeAlias = Mapping[str, str | float]

# What makes two runs runs of different things, by the last words of a key.
_IDENTITY: Final = {
    "task": ("task", "task_name"),
    "dataset": ("dataset", "dataset_name"),
    "model": ("model", "model_name", "model_type", "architecture", "arch", "model_name_or_path"),
    "loss": ("loss", "loss_fn", "loss_function", "loss_type", "criterion"),
    "tokenizer": ("tokenizer", "tokenizer_name", "tokenizer_name_or_path", "tokenizer_type"),
    "number of classes": (
        *("num_classes", "n_classes", "classes", "num_labels", "n_labels"),
        *("vocab_size", "vocabulary_size"),
    ),
}

# This one is a number, the others are names.
_COUNT: Final = "number of classes"

# Numbers that differ by less were written with fewer digits.
_EQUAL: Final = 1e-6


def comparable(
    run: RunProfile, references: Sequence[RunProfile], *, refuse: bool
) -> tuple[list[RunProfile], list[LeftOut]]:
    """Return the references that are runs of the same thing, and those that are not.

    What only one of the manifests states is not compared.

    Raises:
        StabdiagError: if ``refuse`` is set and no reference is a run of the same thing.
    """
    own = _identity_of(run.settings)
    kept, left_out, refused = [], [], []
    for reference in references:
        other = _identity_of(reference.settings)
        differing = [name for name in own if name in other and not _same(own[name], other[name])]
        if differing:
            name = differing[0]
            left_out.append(
                LeftOut(name=reference.name, reason=f"a run of another {name} ({other[name]})")
            )
            refused.append((name, reference, other[name]))
        elif reference.unit != run.unit:
            reason = f"which counts {reference.unit}s and not {run.unit}s"
            left_out.append(LeftOut(name=reference.name, reason=reason))
        else:
            kept.append(reference)
    if refuse and refused and not kept:
        name, reference, value = refused[0]
        raise StabdiagError(
            f"baseline: another {name}: {own[name]} in this run, {value} in {reference.name}; "
            f"give runs of the same {name}"
        )
    return kept, left_out


def _identity_of(settings: Settings) -> dict[str, str]:
    """Return what a run is a run of, by kind, as far as its settings state it."""
    found: dict[str, str] = {}
    words = {plain(key.rpartition(".")[2]): key for key in settings}
    for kind, names in _IDENTITY.items():
        values = (settings[words[name]] for name in names if name in words)
        value = next((one for one in values if isinstance(one, float) == (kind == _COUNT)), None)
        if value is not None:
            text = num(value) if isinstance(value, float) else str(value)
            found[kind] = text.rstrip("/").rpartition("/")[2] or text
    return found


def _same(value: object, other: object) -> bool:
    one, two = number(value), number(other)
    if one is not None and two is not None:
        return abs(one - two) <= _EQUAL * max(abs(one), abs(two))
    return plain(str(value)) == plain(str(other)) and (one is None) == (two is None)


def differing_settings(
    run: RunProfile, references: Sequence[RunProfile]
) -> Iterator[SettingDifference]:
    """Yield settings that all references share and the run has with another value.

    Settings that can explain a difference come first; seeds, names and folders are left out.
    """
    found = []
    for key, value in run.settings.items():
        others = [one.settings[key] for one in references if key in one.settings]
        shared = bool(others) and all(_same(others[0], other) for other in others[1:])
        if not shared or _same(value, others[0]) or plain(key).endswith("seed"):
            continue
        bearing = find_relevance(key, Kind.SEEDS)
        if bearing in (Relevance.EXPLAINS, Relevance.MAY):
            found.append((bearing is Relevance.MAY, key, value, others[0]))
    for _, key, value, other in sorted(found, key=lambda item: (item[0], item[1])):
        yield SettingDifference(key=key, value=value, reference=other)
