"""The manifest: what the run was configured to do.

A manifest is a JSON, TOML or YAML object beside the log. Common spellings are understood, flat or
nested; keys that are not understood are kept and never fatal.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import field, replace
from itertools import accumulate
from pathlib import Path
from typing import Any

from stabdiag.errors import ManifestError, did_you_mean
from stabdiag.model.frozen import frozen
from stabdiag.model.manifest.keys import (
    ARCHITECTURES,
    AUTOCAST,
    DEEPEST,
    DIVISIBLE,
    KEYS,
    LABEL,
    LOSS_SCALE,
    ONE_LABEL,
    PROBLEM,
    SAVE_STRATEGY,
    SAVING,
    by_spelling,
    dtype_of,
    flag,
    is_static,
    other_number,
    others,
    spellings,
    strategy_of,
)
from stabdiag.model.manifest.text import mapping_of

# What switches the section on in which it lies.
_SWITCHES = {"enabled", "enable", "enable_checkpoint"}


@frozen(eq=True)
class Manifest:
    """What is known of a run's configuration; None where it is not known.

    Counts are in optimizer steps. ``inferred`` has the fields inferred from the log and why,
    ``overridden`` those set by hand, ``logged`` those that the log itself states. ``also`` keeps
    keys that were understood and fill no field, ``unknown`` those that were not understood.

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
        values = ((key.name, getattr(self, key.name)) for key in KEYS)
        return {name: value for name, value in values if value is not None}

    def override(self, values: Mapping[str, object]) -> Manifest:
        """Return the manifest with some fields set by hand.

        Raises:
            ManifestError: for an unknown field or a value that cannot be one.
        """
        if not values:
            return self
        changes: dict[str, Any] = {}
        for name, value in values.items():
            key = next((key for key in KEYS if key.name == name), None)
            if key is None:
                known = [key.name for key in KEYS]
                hint = did_you_mean(name, known) or f"; the fields are {', '.join(known)}"
                raise ManifestError(f"unknown manifest field {name!r}{hint}")
            parsed = key.parse(value)
            if parsed is None:
                raise ManifestError(f"{name} wants {key.wants}, not {value!r}")
            changes[name] = parsed
        return replace(self, **changes, overridden=(*self.overridden, *changes))

    def completed(self, config: Mapping[str, object]) -> Manifest:
        """Return the manifest with its gaps filled from the log's own configuration.

        The two are read as one: ``save_steps`` in the log is not the cadence of a run whose
        manifest saves by the epoch.
        """
        new = self._gaps(parse_manifest({**config, **self.also}))
        return replace(self, **new, logged=(*self.logged, *new)) if new else self

    def assuming(self, values: Mapping[str, object]) -> Manifest:
        """Return the manifest with its gaps filled from what holds where nothing tells it.

        Raises:
            ManifestError: for an unknown field or a value that cannot be one.
        """
        new = self._gaps(Manifest().override(values))
        why = dict.fromkeys(new, "assumed: neither a manifest nor the log tells it")
        return replace(self, **new, inferred={**self.inferred, **why}) if new else self

    def beside(self, other: Manifest) -> Manifest:
        """Return the manifest with its gaps filled from another one."""
        paths = [path for path in (self.path, other.path) if path]
        return replace(
            self,
            **self._gaps(other),
            path=", ".join(paths) or None,
            also={**other.also, **self.also},
            unknown={**other.unknown, **self.unknown},
        )

    def checkpoint_before(self, step: int) -> int | None:
        """Return the step of the last checkpoint before a step: of those there, or by the cadence.

        It is 0 where none had been written, and None where neither is known.
        """
        if self.checkpoints is not None:
            return max((one for one in self.checkpoints if one < step), default=0)
        if self.checkpoint_every is None:
            return 0 if step <= 0 else None
        return max(step - 1, 0) // self.checkpoint_every * self.checkpoint_every

    def others(self, config: Mapping[str, object]) -> dict[str, Any]:
        """Return the settings beside the fields, by plain spelling; the log's come last."""
        return by_spelling({**parse_manifest(config).also, **self.also})

    def _gaps(self, other: Manifest) -> dict[str, Any]:
        return {name: value for name, value in other.known.items() if name not in self.known}


def parse_manifest(raw: Mapping[str, Any], path: str | None = None) -> Manifest:
    """Read a manifest from a mapping, nested or flat, in any of the common spellings."""
    if not raw:
        return Manifest(path=path)
    whole = dict(_flatten(raw))
    spelled = spellings(_in_force(whole))
    told = {name: whole[full] for name, full in spelled.items()}
    found = fields_of(told)
    taken = {spelled[name] for name in found.taken}
    understood = {spelled[name] for name in (*found.understood, *others(told))}
    rest = {name: value for name, value in whole.items() if name not in taken}
    return Manifest(
        **found.values,
        path=path,
        also={name: value for name, value in rest.items() if name in understood},
        unknown={name: value for name, value in rest.items() if name not in understood},
    )


def _flatten(raw: Mapping[str, Any], prefix: str = "", depth: int = 0) -> Iterator[tuple[str, Any]]:
    for name, value in raw.items():
        full = f"{prefix}{name}"
        if isinstance(value, dict) and depth < DEEPEST:
            yield from _flatten(value, f"{full}.", depth + 1)
        else:
            yield full, value


def _in_force(told: Mapping[str, Any]) -> dict[str, Any]:
    """Return a configuration without the sections that are switched off.

    ``fp16: {enabled: false, loss_scale: 128}`` sets no loss scale.
    """
    switches = {name for name in told if name.rpartition(".")[2] in _SWITCHES}
    off = {
        name.rpartition(".")[0] for name in switches if "." in name and flag(told[name]) is False
    }
    return {
        name: value
        for name, value in told.items()
        # The sections that it lies in, the outermost first.
        if name in switches
        or off.isdisjoint(accumulate(name.split(".", DEEPEST)[:-1], "{}.{}".format))
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
        raise ManifestError(f"{path}: {error.strerror or error}; check the path") from error
    return parse_manifest(mapping_of(str(path), data), str(path))


@frozen(eq=True)
class Fields:
    """The values by field, the names that they come from, and all names that were understood."""

    values: dict[str, Any]
    taken: frozenset[str]
    understood: frozenset[str]


def fields_of(told: Mapping[str, Any]) -> Fields:
    """Return the manifest's fields from a configuration's values by their plain spellings."""
    values, taken, understood = _by_key(told)
    dtype, flags = _dtype_flags(told)
    # Beside a flag that is on, fp32 is the dtype of the weights, as the HF Trainer logs it.
    if dtype is not None and values.get("dtype", "fp32") == "fp32":
        values["dtype"] = dtype
    if "static_loss_scale" not in values:
        values["static_loss_scale"] = _static_scale(told)
    if _is_classifier(told):
        # Its loss is over its labels, whatever the vocabulary of its texts.
        values["vocab_size"] = _labels(told)
    for name in _void(values, told):
        values.pop(name, None)
    return Fields(values=values, taken=frozenset(taken | flags), understood=frozenset(understood))


def _by_key(told: Mapping[str, Any]) -> tuple[dict[str, Any], set[str], set[str]]:
    """Return the value of each field that one key sets; see ``Fields``."""
    found: dict[str, Any] = {}
    taken: set[str] = set()
    understood: set[str] = set()
    for key in KEYS:
        # Other values go before a null, which counts as well: some fields take it for "none".
        names = [name for name in key.names if name in told]
        names.sort(key=lambda name: told[name] is None)
        values = {name: key.parse(told[name]) for name in names}
        understood |= {name for name in names if told[name] is None or values[name] is not None}
        first = next((name for name in names if values[name] is not None), None)
        if first is not None:
            found[key.name] = values[first]
            taken.add(first)
    return found, taken, understood


def _dtype_flags(told: Mapping[str, Any]) -> tuple[str | None, set[str]]:
    """Read ``fp16: true`` and ``fp16.enabled: true``; all flags present and off mean fp32."""
    used: set[str] = set()
    flags: list[tuple[str, bool]] = []
    for dtype in ("bf16", "fp16"):
        for name in (dtype, f"{dtype}_enabled", f"use_{dtype}"):
            on = flag(told[name]) if name in told else None
            if on is not None:
                used.add(name)
                flags.append((dtype, on))
    chosen = next((dtype for dtype, on in flags if on), None)
    if chosen is None:
        casts = (dtype_of(told[name]) for name in AUTOCAST if name in told)
        chosen = next((dtype for dtype in casts if dtype in ("bf16", "fp16")), None)
    return chosen or ("fp32" if len(flags) > 1 else None), used


def _is_classifier(told: Mapping[str, Any]) -> bool:
    models = told.get(ARCHITECTURES)
    return _problem(told) is not None or "Classification" in str(models)


def _labels(told: Mapping[str, Any]) -> int | None:
    """Return among how many labels a classifier chooses, or None where it does not choose one."""
    count = sum(re.fullmatch(LABEL, name) is not None for name in told)
    return count if count > 1 and _problem(told) in (None, ONE_LABEL) else None


def _problem(told: Mapping[str, Any]) -> str | None:
    problem = told.get(PROBLEM)
    # MLflow keeps words alone: None is one of them.
    return problem if isinstance(problem, str) and problem != "None" else None


def _static_scale(told: Mapping[str, Any]) -> bool | None:
    """Read from the loss scale itself whether it is static: DeepSpeed's 0 means that it moves."""
    scales = (is_static(told[name]) for name in LOSS_SCALE if name in told)
    return next((one for one in scales if one is not None), None)


def _void(found: Mapping[str, Any], told: Mapping[str, Any]) -> Iterator[str]:
    """Yield the fields whose values mean nothing beside another setting."""
    if _is_default_of_megatron(told, found.get("vocab_size")):
        yield "vocab_size"
    # The HF Trainer's ``save_steps`` means nothing where it saves by another strategy.
    by_steps = SAVE_STRATEGY not in told or strategy_of(told[SAVE_STRATEGY]) == "steps"
    saves = flag(told.get(SAVING)) is not False
    if not (by_steps and saves):
        yield "checkpoint_every"
    # The HF Trainer's 0 steps do not count where the warm-up is a share of the run.
    if found.get("warmup_steps") == 0 and (other_number(told, "warmup_share") or 0) > 0:
        yield "warmup_steps"


def _is_default_of_megatron(told: Mapping[str, Any], classes: object) -> bool:
    """Tell whether the number of classes is a default that a language model does not use."""
    return (
        classes is not None
        and DIVISIBLE in told
        and not {"vocab_size", "padded_vocab_size"} & told.keys()
    )
