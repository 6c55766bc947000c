"""Whether runs may be compared at all, and their different settings."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from stabdiag.comparison.settings import find_relevance
from stabdiag.comparison.task import TASK, identity, same_value
from stabdiag.errors import StabdiagError
from stabdiag.model.baseline import SettingDifference, UnusedReference
from stabdiag.model.comparison import ComparisonKind, Relevance
from stabdiag.model.manifest.parsing import plain
from stabdiag.model.profile import RunProfile


def comparable(
    run: RunProfile, references: Sequence[RunProfile], *, refuse: bool
) -> tuple[list[RunProfile], list[UnusedReference]]:
    """Return the references with the same task as the run, and the others.

    A key that only one of two manifests contains is not compared.

    Raises:
        StabdiagError: if ``refuse`` is set and no reference has the same task.
    """
    own = identity(run.settings)
    kept, left_out, refusals = [], [], []
    for reference in references:
        other = identity(reference.settings)
        kind = next((k for k in own if k in other and not same_value(own[k], other[k])), None)
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
    own = identity(run.settings).keys() & TASK.keys()
    return any(own & identity(reference.settings).keys() for reference in references)


def differing_settings(
    run: RunProfile, references: Sequence[RunProfile]
) -> Iterator[SettingDifference]:
    """Yield settings that all references share and the run has with another value.

    Settings that can explain a difference come first; seeds, names and folders are left out.
    """
    differences = []
    for key, value in run.settings.items():
        others = [other.settings[key] for other in references if key in other.settings]
        is_shared = bool(others) and all(same_value(others[0], other) for other in others[1:])
        if not is_shared or same_value(value, others[0]) or plain(key).endswith("seed"):
            continue
        relevance = find_relevance(key, ComparisonKind.SEEDS)
        if relevance in (Relevance.EXPLAINS, Relevance.MAY):
            differences.append((relevance is Relevance.MAY, key, value, others[0]))
    for _, key, value, reference in sorted(differences, key=lambda item: item[:2]):
        yield SettingDifference(key=key, value=value, reference=reference)
