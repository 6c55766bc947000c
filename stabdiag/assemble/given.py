"""What is given for a run, in any of its forms: its log, its manifest, its limits."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from stabdiag.assemble import build_history, in_steps
from stabdiag.errors import LimitError, ManifestError, NoUsableRecord, StabdiagError
from stabdiag.model.history import History
from stabdiag.model.limits import Limits
from stabdiag.model.manifest import Manifest, parse_manifest, read_manifest
from stabdiag.model.roles import assign, may_serve
from stabdiag.places import Found, read_place
from stabdiag.readers import from_object
from stabdiag.readers.registry import reader

if TYPE_CHECKING:
    from stabdiag.readers.columns import Wanted


def check_options(
    settings: Mapping[str, object] | None,
    columns: Mapping[str, str] | None,
    format: str | None,
) -> None:
    """Raise an error for what cannot be right, whatever the log holds: reading may take long."""
    for name, value in (("settings", settings), ("columns", columns)):
        if value is not None and not isinstance(value, Mapping):
            raise StabdiagError(f"{name} are a mapping, not a value of {type(value).__name__}")
    Manifest().override(settings or {})
    assign((columns or {}).values(), columns)
    if format is not None:
        reader(format)


def limits_from(limits: Limits | Mapping[str, object] | None) -> Limits:
    """Return limits as they are, or the defaults with those that are given by dotted name."""
    if isinstance(limits, Limits):
        return limits
    if limits is not None and not isinstance(limits, Mapping):
        raise LimitError(f"limits are a mapping or Limits, not a value of {type(limits).__name__}")
    return Limits().override(limits or {})


def loaded_run(
    source: object,
    manifest: Manifest | Mapping[str, object] | str | Path | None,
    settings: Mapping[str, object] | None,
    *,
    limits: Limits,
    columns: Mapping[str, str] | None,
    attempt: int | None,
    format: str | None,
) -> tuple[History, Manifest]:
    """Return a run's history and all that is told of it, the word of a flag first."""
    check_options(settings, columns, format)
    told = None if manifest is None else manifest_from(manifest)
    if not isinstance(source, History):
        found = raw_columns(source, format, columns)
        return run_found(found, told, settings, limits=limits, columns=columns, attempt=attempt)
    if not len(source.series.get("loss", ())):
        raise NoUsableRecord(
            f"{source.source.name}: the history has no loss; a diagnosis needs one"
        )
    return source, (told or Manifest()).override(settings or {}).completed(source.config)


def run_found(
    found: Found,
    told: Manifest | None,
    settings: Mapping[str, object] | None,
    *,
    limits: Limits,
    columns: Mapping[str, str] | None,
    attempt: int | None,
) -> tuple[History, Manifest]:
    """Return the history of a log that was read, and all that is told of its run.

    Args:
        found: the log's columns, and the manifest that lies beside it.
        told: the manifest that goes before that one; None where none is given.
        settings: manifest fields that go before those of either.
        limits: thresholds.
        columns: column names by role.
        attempt: which of several appended runs to take, from 1; None for the last.
    """
    told = (found.manifest if told is None else told).override(settings or {})
    raw = in_steps(found.columns, told)
    history = build_history(raw, limits, chosen=columns, attempt=attempt)
    return history, told.completed(history.config)


def wanted_columns(columns: Mapping[str, str] | None) -> Wanted:
    """Return what tells which columns are wanted: those that are named, and any that may serve."""
    named = set((columns or {}).values())
    return lambda name: name in named or may_serve(name)


def raw_columns(source: object, format: str | None, columns: Mapping[str, str] | None) -> Found:
    """Return the raw columns of a source, and the manifest beside it."""
    wanted = wanted_columns(columns)
    if isinstance(source, str | os.PathLike):
        return read_place([source], format=format, wanted=wanted)
    if isinstance(source, Sequence) and all(isinstance(one, str | os.PathLike) for one in source):
        return read_place(source, format=format, wanted=wanted)
    return Found(columns=from_object(source))


def manifest_from(manifest: Manifest | Mapping[str, object] | str | Path) -> Manifest:
    """Return a manifest that is given as one, by its values or by its path."""
    if isinstance(manifest, Manifest):
        return manifest
    if isinstance(manifest, Mapping):
        return parse_manifest(manifest)
    if isinstance(manifest, str | os.PathLike):
        return read_manifest(manifest)
    kind = type(manifest).__name__
    raise ManifestError(f"a manifest is a path, a mapping or a Manifest, not a value of {kind}")
