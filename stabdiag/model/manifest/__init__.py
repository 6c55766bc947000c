"""The manifest: the configuration of a run.

A manifest is a JSON, TOML or YAML object next to the log. Common spellings are accepted, flat or
nested. Unknown keys are kept and are never an error.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import field, replace
from itertools import accumulate
from pathlib import Path
from typing import Any

from stabdiag.errors import ManifestError, did_you_mean, unreadable
from stabdiag.model.frozen import frozen
from stabdiag.model.manifest.keys import (
    ARCHITECTURES,
    AUTOCAST,
    DIVISIBLE,
    KEYS,
    LABEL,
    LOSS_SCALE,
    MAX_SETTING_DEPTH,
    ONE_LABEL,
    PROBLEM,
    SAVE_STRATEGY,
    SAVING,
    by_spelling,
    is_static,
    other_number,
    others,
    parse_strategy,
    spellings,
)
from stabdiag.model.manifest.parsing import flag, parse_dtype
from stabdiag.model.manifest.text import parse_mapping

# Keys that switch their section on or off.
_SWITCHES = {"enabled", "enable", "enable_checkpoint"}


@frozen(eq=True)
class Manifest:
    """The known configuration of a run; unknown fields are None.

    Counts are in optimizer steps. ``inferred`` has the fields inferred from the log with reasons,
    ``overridden`` the fields set by hand, ``logged`` the fields stated by the log itself. ``also``
    has known keys without a field, ``unknown`` the other keys.

    >>> Manifest().override({"dtype": "bfloat16"}).dtype
    'bf16'
    """

    dtype: str | None = None
    optimizer: str | None = None
    peak_lr: float | None = None
    warmup_steps: int | None = None
    total_steps: int | None = None
    schedule: str | None = None
    grad_clip: float | None = None
    weight_decay: float | None = None
    epsilon: float | None = None
    checkpoint_every: int | None = None
    checkpoints_kept: int | None = None
    checkpoints: tuple[int, ...] | None = None
    vocab_size: int | None = None
    target_loss: float | None = None
    batch_size: int | None = None
    seed: int | None = None
    loss_scale_window: int | None = None
    loss_scale_min: float | None = None
    static_loss_scale: bool | None = None
    path: str | None = None
    inferred: Mapping[str, str] = field(default_factory=dict)
    overridden: tuple[str, ...] = ()
    logged: tuple[str, ...] = ()
    also: Mapping[str, Any] = field(default_factory=dict)
    unknown: Mapping[str, Any] = field(default_factory=dict)

    @property
    def known(self) -> dict[str, Any]:
        """The fields that are known, by name."""
        values = vars(self)
        return {key.name: value for key in KEYS if (value := values[key.name]) is not None}

    def override(self, values: Mapping[str, object]) -> Manifest:
        """Return the manifest with some fields set by hand.

        Raises:
            ManifestError: for an unknown field or an invalid value.
        """
        if not values:
            return self
        changes: dict[str, Any] = {}
        for name, value in values.items():
            key = next((key for key in KEYS if key.name == name), None)
            if key is None:
                names = [key.name for key in KEYS]
                hint = did_you_mean(name, names) or f"; the fields are {', '.join(names)}"
                raise ManifestError(f"unknown manifest field {name!r}{hint}")
            parsed = key.parse(value)
            if parsed is None:
                raise ManifestError(f"{name} must be {key.wants}, not {value!r}")
            changes[name] = parsed
        return replace(self, **changes, overridden=(*self.overridden, *changes))

    def completed(self, config: Mapping[str, object]) -> Manifest:
        """Return the manifest with its gaps filled from the log's own configuration.

        Both are combined: ``save_steps`` in the log is not the checkpoint interval of a run whose
        manifest saves once per epoch.
        """
        new = self._gaps(parse_manifest({**config, **self.also}))
        return replace(self, **new, logged=(*self.logged, *new)) if new else self

    def assuming(self, values: Mapping[str, object]) -> Manifest:
        """Return the manifest with its gaps filled from assumptions.

        Raises:
            ManifestError: for an unknown field or an invalid value.
        """
        new = self._gaps(Manifest().override(values))
        why = dict.fromkeys(new, "assumed: not in a manifest or the log")
        return replace(self, **new, inferred={**self.inferred, **why}) if new else self

    def fill_gaps(self, other: Manifest) -> Manifest:
        """Return the manifest with its gaps filled from another one."""
        paths = [path for path in (self.path, other.path) if path]
        return replace(
            self,
            **self._gaps(other),
            path=", ".join(paths) or None,
            also={**other.also, **self.also},
            unknown={**other.unknown, **self.unknown},
        )

    def earlier_checkpoint(self, step: int) -> int | None:
        """Return the step of the last checkpoint before a step, from the list or the interval.

        The result is 0 if no checkpoint had been written, and None if it is unknown.
        """
        if self.checkpoints is not None:
            return max((saved for saved in self.checkpoints if saved < step), default=0)
        if self.checkpoint_every is None:
            return 0 if step <= 0 else None
        return max(step - 1, 0) // self.checkpoint_every * self.checkpoint_every

    def others(self, config: Mapping[str, object]) -> dict[str, Any]:
        """Return the settings without a field, by plain spelling; the log's settings come last."""
        return by_spelling({**parse_manifest(config).also, **self.also})

    def _gaps(self, other: Manifest) -> dict[str, Any]:
        own = self.known
        return {name: value for name, value in other.known.items() if name not in own}


def parse_manifest(raw: Mapping[str, Any], path: str | None = None) -> Manifest:
    """Parse a manifest from a nested or flat mapping in any common spelling."""
    if not raw:
        return Manifest(path=path)
    flat = dict(_flatten(raw))
    spelled = spellings(_enabled(flat))
    settings = {name: flat[full] for name, full in spelled.items()}
    fields = manifest_fields(settings)
    taken = {spelled[name] for name in fields.taken}
    understood = {spelled[name] for name in (*fields.understood, *others(settings))}
    remaining = {name: value for name, value in flat.items() if name not in taken}
    return Manifest(
        **fields.values,
        path=path,
        also={name: value for name, value in remaining.items() if name in understood},
        unknown={name: value for name, value in remaining.items() if name not in understood},
    )


def _flatten(raw: Mapping[str, Any], prefix: str = "", depth: int = 0) -> Iterator[tuple[str, Any]]:
    for name, value in raw.items():
        full = f"{prefix}{name}"
        if isinstance(value, dict) and depth < MAX_SETTING_DEPTH:
            yield from _flatten(value, f"{full}.", depth + 1)
        else:
            yield full, value


def _enabled(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return a configuration without the sections that are switched off.

    ``fp16: {enabled: false, loss_scale: 128}`` sets no loss scale.
    """
    switches = {name for name in settings if name.rpartition(".")[2] in _SWITCHES}
    off = {
        name.rpartition(".")[0]
        for name in switches
        if "." in name and flag(settings[name]) is False
    }
    return {
        name: value
        for name, value in settings.items()
        # The sections of the key, the outermost first.
        if name in switches
        or off.isdisjoint(accumulate(name.split(".", MAX_SETTING_DEPTH)[:-1], "{}.{}".format))
    }


def read_manifest(path: str | Path) -> Manifest:
    """Read a manifest file: JSON, TOML or YAML.

    Raises:
        ManifestError: if it cannot be read or is not one object.
    """
    path = Path(path)
    try:
        data = path.read_bytes()
    except IsADirectoryError as error:
        raise ManifestError(f"{path}: a folder; name the manifest in it") from error
    except OSError as error:
        raise ManifestError(unreadable(path, error)) from error
    return parse_manifest(parse_mapping(str(path), data), str(path))


@frozen(eq=True)
class Fields:
    """The values by field, the names of their keys, and the names of all known keys."""

    values: dict[str, Any]
    taken: frozenset[str]
    understood: frozenset[str]


def manifest_fields(settings: Mapping[str, Any]) -> Fields:
    """Return the fields of a manifest from settings by plain spelling."""
    values, taken, understood = _by_key(settings)
    dtype, flags = _dtype_flags(settings)
    # If a flag is on, fp32 is the dtype of the weights, as the HF Trainer logs it.
    if dtype is not None and values.get("dtype", "fp32") == "fp32":
        values["dtype"] = dtype
    if "static_loss_scale" not in values:
        values["static_loss_scale"] = _static_scale(settings)
    if _is_classifier(settings):
        # The loss is over the labels, regardless of the vocabulary.
        values["vocab_size"] = _labels(settings)
    for name in _meaningless(values, settings):
        values.pop(name, None)
    return Fields(values=values, taken=frozenset(taken | flags), understood=frozenset(understood))


def _by_key(settings: Mapping[str, Any]) -> tuple[dict[str, Any], set[str], set[str]]:
    """Return the fields that are set by a single key; see ``Fields``."""
    fields: dict[str, Any] = {}
    taken: set[str] = set()
    understood: set[str] = set()
    for key in KEYS:
        # Values take precedence over null, which means "none" for some fields.
        names = [name for name in key.names if name in settings]
        names.sort(key=lambda name: settings[name] is None)
        values = {name: key.parse(settings[name]) for name in names}
        understood |= {name for name in names if settings[name] is None or values[name] is not None}
        first = next((name for name in names if values[name] is not None), None)
        if first is not None:
            fields[key.name] = values[first]
            taken.add(first)
    return fields, taken, understood


def _dtype_flags(settings: Mapping[str, Any]) -> tuple[str | None, set[str]]:
    """Read ``fp16: true`` and ``fp16.enabled: true``; all flags present and off mean fp32."""
    used: set[str] = set()
    flags: list[tuple[str, bool]] = []
    for dtype in ("bf16", "fp16"):
        for name in (dtype, f"{dtype}_enabled", f"use_{dtype}"):
            on = flag(settings[name]) if name in settings else None
            if on is not None:
                used.add(name)
                flags.append((dtype, on))
    chosen = next((dtype for dtype, on in flags if on), None)
    if chosen is None:
        casts = (parse_dtype(settings[name]) for name in AUTOCAST if name in settings)
        chosen = next((dtype for dtype in casts if dtype in ("bf16", "fp16")), None)
    return chosen or ("fp32" if len(flags) > 1 else None), used


def _is_classifier(settings: Mapping[str, Any]) -> bool:
    models = settings.get(ARCHITECTURES)
    return _problem(settings) is not None or "Classification" in str(models)


def _labels(settings: Mapping[str, Any]) -> int | None:
    """Return the number of labels of a classifier, or None if it does not choose one label."""
    count = sum(re.fullmatch(LABEL, name) is not None for name in settings)
    return count if count > 1 and _problem(settings) in (None, ONE_LABEL) else None


def _problem(settings: Mapping[str, Any]) -> str | None:
    problem = settings.get(PROBLEM)
    # MLflow stores text only: None becomes a word.
    return problem if isinstance(problem, str) and problem != "None" else None


def _static_scale(settings: Mapping[str, Any]) -> bool | None:
    """Return True if the loss scale is static; 0 means dynamic in DeepSpeed."""
    scales = (is_static(settings[name]) for name in LOSS_SCALE if name in settings)
    return next((static for static in scales if static is not None), None)


def _meaningless(fields: Mapping[str, Any], settings: Mapping[str, Any]) -> Iterator[str]:
    """Yield the fields whose values are meaningless because of another setting."""
    if _is_default_of_megatron(settings, fields.get("vocab_size")):
        yield "vocab_size"
    # The HF Trainer ignores ``save_steps`` under another save strategy.
    by_steps = SAVE_STRATEGY not in settings or parse_strategy(settings[SAVE_STRATEGY]) == "steps"
    saves = flag(settings.get(SAVING)) is not False
    if not (by_steps and saves):
        yield "checkpoint_every"
    # The HF Trainer ignores 0 warm-up steps if the warm-up is a fraction of the run.
    if fields.get("warmup_steps") == 0 and (other_number(settings, "warmup_share") or 0) > 0:
        yield "warmup_steps"


def _is_default_of_megatron(settings: Mapping[str, Any], classes: object) -> bool:
    """Return True if the number of classes is a default that a language model does not use."""
    return (
        classes is not None
        and DIVISIBLE in settings
        and not {"vocab_size", "padded_vocab_size"} & settings.keys()
    )
