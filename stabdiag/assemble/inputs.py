"""The history and the manifest of a run, from any form of input."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import field, replace
from pathlib import Path
from typing import Any, Self

from stabdiag.assemble import build_history, convert_to_steps
from stabdiag.errors import LimitError, ManifestError, NoUsableRecord, StabdiagError
from stabdiag.model.events import Event, EventKind
from stabdiag.model.frozen import frozen
from stabdiag.model.history import History
from stabdiag.model.limits import Limits
from stabdiag.model.limits.checks import PreflightLimits
from stabdiag.model.manifest import Manifest, parse_manifest, read_manifest
from stabdiag.model.manifest.keys import other_number, saves_by_epoch
from stabdiag.model.patterns import lazy_pattern
from stabdiag.model.roles.choice import assign, may_serve
from stabdiag.model.roles.names import exported_run
from stabdiag.model.text import plural
from stabdiag.readers import from_object
from stabdiag.readers.registry import reader
from stabdiag.sources import LoadedLog, ReadRequest, read_source

# Counts in a manifest, and the largest plausible ratio to the logged epochs if they count epochs: a
# run may stop early.
_MAX_COUNT_RATIO = {"warmup_steps": 1, "total_steps": 10, "checkpoint_every": 1}

# Lightning names a learning rate after its optimizer: lr-AdamW, lr-SGD/pg1.
_OPTIMIZER = lazy_pattern(r"(?<![a-z])((?:fused|n|r)?adamw?|sgd|lion|rmsprop)(?![a-z])")
_HF_TRAINER_FORMATS = ("trainer-state", "hf-trainer-stdout")


@frozen
class Options:
    """Options for reading a log, and facts about its run.

    Attributes:
        settings: manifest fields that override all others.
        assume: manifest fields used if the manifest and the log lack them.
        limits: the thresholds.
        columns: names of columns by role.
        format: the format of the log, detected if None.
        attempt: the number of the appended run to use, from 1; None for the last.
    """

    settings: Mapping[str, object] = field(default_factory=dict)
    assume: Mapping[str, object] = field(default_factory=dict)
    limits: Limits = field(default_factory=Limits)
    columns: Mapping[str, str] = field(default_factory=dict)
    format: str | None = None
    attempt: int | None = None

    def checked(self) -> Self:
        """Return the options if they are valid for any log, since reading may take long.

        Raises:
            StabdiagError: if they are not.
        """
        for name in ("settings", "assume", "columns"):
            value = getattr(self, name)
            if not isinstance(value, Mapping):
                raise StabdiagError(f"{name} must be a mapping, not {type(value).__name__}")
        Manifest().override({**self.settings}).override({**self.assume})
        assign(self.columns.values(), self.columns)
        if self.format is not None:
            reader(self.format)
        return self

    @property
    def log_columns(self) -> ReadRequest:
        """The columns to read: those named here, and any with a role.

        The columns of a table with several runs name the run: ``oak-1 - train/loss``.
        """
        named = set(self.columns.values())
        runs = {exported_run(name) for name in named} - {""}
        return ReadRequest(
            format=self.format,
            is_required=lambda name: name in named or may_serve(name),
            run_id=runs.pop() if len(runs) == 1 else None,
        )


def as_limits(limits: Limits | Mapping[str, object] | None) -> Limits:
    """Return limits unchanged, or the defaults overridden by dotted names."""
    if isinstance(limits, Limits):
        return limits
    if limits is not None and not isinstance(limits, Mapping):
        raise LimitError(f"limits must be a mapping or Limits, not {type(limits).__name__}")
    return Limits().override(limits or {})


def loaded_run(
    source: object, manifest: Manifest | Mapping[str, object] | str | Path | None, options: Options
) -> tuple[History, Manifest]:
    """Return a run's history and its manifest, by default the one next to the log."""
    options.checked()
    given = None if manifest is None else as_manifest(manifest)
    if not isinstance(source, History):
        run = run_found(raw_columns(source, options), given, options)
        _release()
        return run
    if not len(source.series.get("loss", ())):
        raise NoUsableRecord(
            f"{source.source.name}: the history has no loss; a diagnosis needs one"
        )
    given = (given or Manifest()).override(options.settings)
    return source, given.completed(source.config).assuming(options.assume)


def _release() -> None:
    """Release the memory that Arrow keeps after reading."""
    arrow = sys.modules.get("pyarrow")
    if arrow is not None:
        arrow.default_memory_pool().release_unused()


def run_found(log: LoadedLog, given: Manifest | None, options: Options) -> tuple[History, Manifest]:
    """Return the history and manifest of a log that was read.

    ``given`` replaces the manifest next to the log.
    """
    manifest = (log.manifest if given is None else given).override(options.settings)
    raw = convert_to_steps(log.columns, manifest)
    history = build_history(raw, options.limits, chosen=options.columns, attempt=options.attempt)
    manifest = with_saved(manifest.completed(history.config), log.checkpoints, history)
    return history, manifest.assuming(options.assume)


def with_saved(
    manifest: Manifest, checkpoints: Mapping[str, tuple[int, ...]], history: History
) -> Manifest:
    """Add the checkpoints next to the log to its manifest, in the log's own unit.

    Values set by hand take precedence. Record numbers are not steps, so logs that count records get
    no checkpoints.
    """
    last, by_hand = history.last_step, {"checkpoints", "checkpoint_every"} & {*manifest.overridden}
    if by_hand or manifest.checkpoints is not None or history.counts_records or last is None:
        return manifest
    saved = checkpoints.get("step", ())
    if history.counts_epochs:
        # A number without a unit may be a step.
        saved = tuple(epoch for epoch in checkpoints.get("epoch", ()) if epoch <= last + 1)
    return replace(manifest, checkpoints=saved) if saved else manifest


def raw_columns(source: object, options: Options) -> LoadedLog:
    """Return the raw columns of a source, and the manifest next to it."""
    sources = [source] if isinstance(source, str | os.PathLike) else source
    if isinstance(sources, Sequence) and all(
        isinstance(path, str | os.PathLike) for path in sources
    ):
        return read_source(sources, options.log_columns)
    return LoadedLog(columns=from_object(source))


def as_manifest(manifest: Manifest | Mapping[str, object] | str | Path) -> Manifest:
    """Return a manifest, given itself, its values or its path."""
    if isinstance(manifest, Manifest):
        return manifest
    if isinstance(manifest, Mapping):
        return parse_manifest(manifest)
    if isinstance(manifest, str | os.PathLike):
        return read_manifest(manifest)
    kind = type(manifest).__name__
    raise ManifestError(f"a manifest must be a path, a mapping or a Manifest, not {kind}")


def infer(manifest: Manifest, history: History) -> Manifest:
    """Fill in missing manifest fields that the log reveals."""
    inferred = {
        "dtype": _dtype(history),
        "optimizer": _optimizer(history),
        "checkpoint_every": _cadence(manifest, history),
    }
    new = {k: v for k, v in inferred.items() if v is not None and getattr(manifest, k) is None}
    values: dict[str, Any] = {name: value for name, (value, _) in new.items()}
    reasons = {name: reason for name, (_, reason) in new.items()}
    return replace(manifest, **values, inferred={**manifest.inferred, **reasons})


def match_step_unit(manifest: Manifest, history: History) -> tuple[Manifest, History]:
    """Drop manifest counts in steps if the log counts epochs, and add an event.

    A warm-up of 500 cannot be 500 epochs in a log of 60, so all counts must be in steps. Values set
    by hand or inferred from the log are in the log's own unit.
    """
    kept = {*manifest.overridden, *manifest.inferred}
    candidates = {name: getattr(manifest, name) for name in _MAX_COUNT_RATIO if name not in kept}
    counts = {name: count for name, count in candidates.items() if count is not None}
    logged = history.last_step
    if history.unit != "epoch" or logged is None:
        return manifest, history
    if all(count <= _MAX_COUNT_RATIO[name] * (logged + 1) for name, count in counts.items()):
        return manifest, history
    event = Event(
        kind=EventKind.STEPS,
        message="the log counts epochs and the manifest steps: ignored "
        f"{', '.join(counts)} (use --set to give it in epochs)",
    )
    cleared: dict[str, Any] = dict.fromkeys(counts)
    return replace(manifest, **cleared), replace(history, events=(*history.events, event))


def _dtype(history: History) -> tuple[str, str] | None:
    """Return the dtype that the loss scale implies, and the reason."""
    values, skipped = (history.finite(role).values for role in ("loss_scale", "skipped"))
    if not len(values) or (len(values) == 1 and values[0] >= 1):
        return None
    if values.min() != values.max():
        return "fp16", "the loss scale changes, which only happens in fp16 training"
    if values[0] > 1:
        # A scale of 1 means nothing: some frameworks write it for any dtype.
        return "fp16", f"a loss scale of {values[0]:g} was used, which only fp16 training needs"
    if (values[0] < 1 and skipped.any()) or (len(skipped) > 1 and skipped.all()):
        return "fp16", f"steps were skipped at a loss scale of {values[0]:g}"
    return None


def _optimizer(history: History) -> tuple[str, str] | None:
    """Return the optimizer that the learning rate is named after, or the framework's own."""
    lr = history.finite("lr")
    if named := _OPTIMIZER.search(lr.column.lower()):
        return named[1], f"the learning rate is logged as {lr.column!r}"
    # A rate far above the usual ones for AdamW is evidence against this default.
    highest = PreflightLimits().adam_lr_high
    if history.source.format in _HF_TRAINER_FORMATS and lr.values.max(initial=0.0) <= highest:
        return "adamw", "the default of the HF Trainer"
    return None


def _cadence(manifest: Manifest, history: History) -> tuple[int, str] | None:
    """Return the checkpoint interval and the reason if each epoch ends with a checkpoint."""
    settings = manifest.others(history.config)
    if not saves_by_epoch(settings):
        return None
    if history.unit == "epoch":
        return 1, "a checkpoint ends each epoch"
    epochs, total = other_number(settings, "epochs"), manifest.total_steps
    # Otherwise the number of steps per epoch is unknown.
    if not epochs or total is None or epochs % 1 or total % epochs:
        return None
    return int(total // epochs), f"a checkpoint ends each of {plural(int(epochs), 'epoch')}"
