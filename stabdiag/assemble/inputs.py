"""The history and the manifest of a run, from what the caller passes in any of its forms."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import field, replace
from pathlib import Path
from typing import Any, Self

from stabdiag.assemble import build_history, in_steps
from stabdiag.errors import LimitError, ManifestError, NoUsableRecord, StabdiagError
from stabdiag.model.frozen import frozen
from stabdiag.model.history import Event, EventKind, History
from stabdiag.model.limits import Limits
from stabdiag.model.limits.checks import PreflightLimits
from stabdiag.model.manifest import Manifest, parse_manifest, read_manifest
from stabdiag.model.manifest.keys import other_number, saves_by_epoch
from stabdiag.model.roles.choice import assign, may_serve
from stabdiag.model.text import plural
from stabdiag.readers import from_object
from stabdiag.readers.registry import reader
from stabdiag.sources import LoadedLog, ReadRequest, read_source

# Counts of a manifest, and how many times as many epochs as were logged they may be if they are of
# epochs: a run may break off early.
_COUNTS = {"warmup_steps": 1, "total_steps": 10, "checkpoint_every": 1}

# Lightning names a learning rate after its optimizer: lr-AdamW, lr-SGD/pg1.
_OPTIMIZER = re.compile(r"(?<![a-z])((?:fused|n|r)?adamw?|sgd|lion|rmsprop)(?![a-z])")
_OF_HF_TRAINER = ("trainer-state", "hf-trainer-stdout")


@frozen
class Options:
    """How a log is to be read, and what holds of its run besides what is written.

    ``settings`` are manifest fields that go before all others; ``assume`` has those that hold where
    neither a manifest nor the log tells them. ``columns`` are names of columns by role. ``attempt``
    is which of several appended runs to take, from 1; None for the last.
    """

    settings: Mapping[str, object] = field(default_factory=dict)
    assume: Mapping[str, object] = field(default_factory=dict)
    limits: Limits = field(default_factory=Limits)
    columns: Mapping[str, str] = field(default_factory=dict)
    format: str | None = None
    attempt: int | None = None

    def checked(self) -> Self:
        """Return them if they can be right, whatever the log holds: reading may take long.

        Raises:
            StabdiagError: if they cannot.
        """
        for name in ("settings", "assume", "columns"):
            value = getattr(self, name)
            if not isinstance(value, Mapping):
                raise StabdiagError(f"{name} are a mapping, not a value of {type(value).__name__}")
        Manifest().override({**self.settings}).override({**self.assume})
        assign(self.columns.values(), self.columns)
        if self.format is not None:
            reader(self.format)
        return self

    @property
    def of_a_log(self) -> ReadRequest:
        """What is asked of the log itself: the columns named here, and any that serve a role."""
        named = set(self.columns.values())
        return ReadRequest(format=self.format, wanted=lambda name: name in named or may_serve(name))


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
    options: Options,
) -> tuple[History, Manifest]:
    """Return a run's history and its manifest; what lies beside the log if none is given."""
    options.checked()
    told = None if manifest is None else manifest_from(manifest)
    if not isinstance(source, History):
        run = run_found(raw_columns(source, options), told, options)
        _release()
        return run
    if not len(source.series.get("loss", ())):
        raise NoUsableRecord(
            f"{source.source.name}: the history has no loss; a diagnosis needs one"
        )
    told = (told or Manifest()).override(options.settings)
    return source, told.completed(source.config).assuming(options.assume)


def _release() -> None:
    """Hand back the memory that Arrow keeps once it has read: a diagnosis needs as much."""
    arrow = sys.modules.get("pyarrow")
    if arrow is not None:
        arrow.default_memory_pool().release_unused()


def run_found(
    found: LoadedLog, told: Manifest | None, options: Options
) -> tuple[History, Manifest]:
    """Return the history of a log that was read, and the manifest of its run.

    ``told`` replaces the manifest that was found beside the log.
    """
    told = (found.manifest if told is None else told).override(options.settings)
    raw = in_steps(found.columns, told)
    history = build_history(raw, options.limits, chosen=options.columns, attempt=options.attempt)
    told = with_saved(told.completed(history.config), found.checkpoints, history)
    return history, told.assuming(options.assume)


def with_saved(told: Manifest, found: Mapping[str, tuple[int, ...]], history: History) -> Manifest:
    """Return a manifest with the checkpoints that lie beside the log, in the log's own unit.

    What is set by hand goes before them, and the numbers of records are no steps.
    """
    last, by_hand = history.last_step, {"checkpoints", "checkpoint_every"} & {*told.overridden}
    if by_hand or told.checkpoints is not None or history.counts_records or last is None:
        return told
    saved = found.get("step", ())
    if history.counts_epochs:
        # A number alone may be that of a step.
        saved = tuple(one for one in found.get("epoch", ()) if one <= last + 1)
    return replace(told, checkpoints=saved) if saved else told


def raw_columns(source: object, options: Options) -> LoadedLog:
    """Return the raw columns of a source, and the manifest beside it."""
    sources = [source] if isinstance(source, str | os.PathLike) else source
    if isinstance(sources, Sequence) and all(isinstance(one, str | os.PathLike) for one in sources):
        return read_source(sources, options.of_a_log)
    return LoadedLog(columns=from_object(source))


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
    found = {
        "dtype": _dtype(history),
        "optimizer": _optimizer(history),
        "checkpoint_every": _cadence(manifest, history),
    }
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
    values, skipped = (history.finite(role).values for role in ("loss_scale", "skipped"))
    if len(values) < 2:
        return None
    if values.min() != values.max():
        return "fp16", "the loss scale moves, as it does only in fp16 training"
    if values[0] > 1:
        # A scale of 1 is none: some frameworks write it whatever the dtype.
        return "fp16", f"a loss scale of {values[0]:g} was used, which only fp16 training needs"
    if values[0] < 1 and skipped.any():
        return "fp16", f"steps were skipped at a loss scale of {values[0]:g}"
    return None


def _optimizer(history: History) -> tuple[str, str] | None:
    """Return the optimizer that the learning rate is named after, or the framework's own."""
    lr = history.finite("lr")
    if named := _OPTIMIZER.search(lr.column.lower()):
        return named[1], f"the learning rate is logged as {lr.column!r}"
    # At a rate that nobody gives AdamW, that is a guess against the evidence.
    highest = PreflightLimits().adam_lr_high
    if history.source.format in _OF_HF_TRAINER and lr.values.max(initial=0.0) <= highest:
        return "adamw", "the HF Trainer uses it unless told otherwise"
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
