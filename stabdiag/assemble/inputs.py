"""The history and the manifest of a run, from what the caller passes in any of its forms."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from stabdiag.assemble import build_history, in_steps
from stabdiag.errors import LimitError, ManifestError, NoUsableRecord, StabdiagError
from stabdiag.model.history import Event, EventKind, History
from stabdiag.model.limits import Limits
from stabdiag.model.manifest import Manifest, parse_manifest, read_manifest
from stabdiag.model.manifest.keys import other_number, saves_by_epoch
from stabdiag.model.roles import assign, may_serve
from stabdiag.model.text import plural
from stabdiag.places import Found, read_place
from stabdiag.readers import from_object
from stabdiag.readers.registry import reader

if TYPE_CHECKING:
    from stabdiag.readers.columns import Wanted

# Counts of a manifest, and how many times as many epochs as were logged they may be if they are of
# epochs: a run may break off early.
_COUNTS = {"warmup_steps": 1, "total_steps": 10, "checkpoint_every": 1}


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
    """Return limits as they are, or the defaults with some replaced by dotted name."""
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
    assume: Mapping[str, object] | None = None,
) -> tuple[History, Manifest]:
    """Return a run's history and its manifest; ``settings`` override what the manifest says."""
    check_options(settings, columns, format)
    check_options(assume, None, None)
    told = None if manifest is None else manifest_from(manifest)
    if not isinstance(source, History):
        found = raw_columns(source, format, columns)
        return run_found(
            found,
            told,
            settings,
            limits=limits,
            columns=columns,
            attempt=attempt,
            assume=assume,
        )
    if not len(source.series.get("loss", ())):
        raise NoUsableRecord(
            f"{source.source.name}: the history has no loss; a diagnosis needs one"
        )
    manifest = (told or Manifest()).override(settings or {}).completed(source.config)
    return source, manifest.assuming(assume or {})


def run_found(
    found: Found,
    told: Manifest | None,
    settings: Mapping[str, object] | None,
    *,
    limits: Limits,
    columns: Mapping[str, str] | None,
    attempt: int | None,
    assume: Mapping[str, object] | None = None,
) -> tuple[History, Manifest]:
    """Return the history of a log that was read, and the manifest of its run.

    Args:
        found: the log's columns, and the manifest that lies beside it.
        told: a manifest that replaces that one, or None.
        settings: manifest fields that override those of either.
        limits: thresholds.
        columns: column names by role.
        attempt: which of several appended runs to take, from 1; None for the last.
        assume: manifest fields that hold where neither a manifest nor the log tells them.
    """
    told = (found.manifest if told is None else told).override(settings or {})
    raw = in_steps(found.columns, told)
    history = build_history(raw, limits, chosen=columns, attempt=attempt)
    return history, told.completed(history.config).assuming(assume or {})


def wanted_columns(columns: Mapping[str, str] | None) -> Wanted:
    """Return a test for the columns to read: those named here, and any that may serve a role."""
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
    """Return a manifest from itself, its values or its path."""
    if isinstance(manifest, Manifest):
        return manifest
    if isinstance(manifest, Mapping):
        return parse_manifest(manifest)
    if isinstance(manifest, str | os.PathLike):
        return read_manifest(manifest)
    kind = type(manifest).__name__
    raise ManifestError(f"a manifest is a path, a mapping or a Manifest, not a value of {kind}")


def infer(manifest: Manifest, history: History) -> Manifest:
    """Fill in what the manifest leaves open and the log reveals."""
    found = {"dtype": _dtype(history), "checkpoint_every": _cadence(manifest, history)}
    new = {k: v for k, v in found.items() if v is not None and getattr(manifest, k) is None}
    values: dict[str, Any] = {name: value for name, (value, _) in new.items()}
    grounds = {name: why for name, (_, why) in new.items()}
    return replace(manifest, **values, inferred={**manifest.inferred, **grounds})


def in_its_steps(manifest: Manifest, history: History) -> tuple[Manifest, History]:
    """Leave out what a manifest counts in steps where the log counts epochs, with an event.

    A warm-up of 500 cannot be 500 epochs in a log of 60: then all counts are in steps. Values set
    by hand are in the log's own steps, and so are those inferred from the log.
    """
    kept = {*manifest.overridden, *manifest.inferred}
    told = {name: getattr(manifest, name) for name in _COUNTS if name not in kept}
    counts = {name: count for name, count in told.items() if count is not None}
    logged = history.last_step
    if history.unit != "epoch" or logged is None:
        return manifest, history
    if all(count <= _COUNTS[name] * (logged + 1) for name, count in counts.items()):
        return manifest, history
    event = Event(
        kind=EventKind.STEPS,
        message="the log counts epochs, the manifest steps: ignored "
        f"{', '.join(counts)} (--set gives it in epochs)",
    )
    left: dict[str, Any] = dict.fromkeys(counts)
    return replace(manifest, **left), replace(history, events=(*history.events, event))


def _dtype(history: History) -> tuple[str, str] | None:
    """Return the dtype that the loss scale implies, and why."""
    values = history.finite("loss_scale").values
    if len(values) < 2:
        return None
    if values.min() != values.max():
        return "fp16", "the loss scale moves, as it does only in fp16 training"
    if values[0] > 1:
        # A scale of 1 is none: some frameworks write it whatever the dtype.
        return "fp16", f"a loss scale of {values[0]:g} was used, which only fp16 training needs"
    return None


def _cadence(manifest: Manifest, history: History) -> tuple[int, str] | None:
    """Return the steps between checkpoints where each epoch ends with one, and why."""
    told = manifest.others(history.config)
    if not saves_by_epoch(told):
        return None
    if history.unit == "epoch":
        return 1, "a checkpoint ends each epoch"
    epochs, total = other_number(told, "epochs"), manifest.total_steps
    # The steps of a whole number of epochs are what the HF Trainer makes of them; no others are.
    if not epochs or total is None or epochs % 1 or total % epochs:
        return None
    return int(total // epochs), f"a checkpoint ends each of {plural(int(epochs), 'epoch')}"
