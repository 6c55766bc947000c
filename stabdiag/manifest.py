"""The manifest: what the run was configured to do.

A manifest is a JSON or TOML object beside the log. Common spellings are understood, flat or
nested; keys that are not understood are kept and never fatal.
"""

from __future__ import annotations

import json
import tomllib
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from stabdiag.errors import ManifestError, did_you_mean
from stabdiag.manifest_keys import KEYS, flag, number, plain

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping


@dataclass(frozen=True, kw_only=True)
class Manifest:
    """What is known of a run's configuration; None where it is not known.

    Counts are in optimizer steps. ``inferred`` names the fields that were read off the log and on
    what grounds, ``overridden`` those given by hand, ``logged`` those that the log itself tells,
    and ``unknown`` keeps the keys that were not understood.
    """

    dtype: str | None = None
    optimizer: str | None = None
    peak_lr: float | None = None
    warmup_steps: int | None = None
    total_steps: int | None = None
    schedule: str | None = None
    grad_clip: float | None = None
    weight_decay: float | None = None
    checkpoint_every: int | None = None
    vocab_size: int | None = None
    batch_size: int | None = None
    seed: int | None = None
    loss_scale_window: int | None = None
    loss_scale_min: float | None = None
    static_loss_scale: bool | None = None
    path: str | None = None
    inferred: Mapping[str, str] = field(default_factory=dict)
    overridden: tuple[str, ...] = ()
    logged: tuple[str, ...] = ()
    unknown: Mapping[str, Any] = field(default_factory=dict)

    def override(self, values: Mapping[str, object]) -> Manifest:
        """Return the manifest with some fields given by hand.

        Raises:
            ManifestError: for an unknown field or a value that cannot be one.
        """
        changes: dict[str, Any] = {}
        for name, value in values.items():
            key = next((key for key in KEYS if key.name == name), None)
            if key is None:
                hint = did_you_mean(name, [key.name for key in KEYS])
                raise ManifestError(f"unknown manifest field {name!r}{hint}")
            parsed = key.parse(value)
            if parsed is None:
                raise ManifestError(f"{name} wants {key.wants}, not {value!r}")
            changes[name] = parsed
        return replace(self, **changes, overridden=(*self.overridden, *changes))

    def completed(self, config: Mapping[str, object]) -> Manifest:
        """Return the manifest with what the log itself tells, where it says nothing."""
        told = parse_manifest(config)
        new: dict[str, Any] = {
            key.name: getattr(told, key.name)
            for key in KEYS
            if getattr(self, key.name) is None and getattr(told, key.name) is not None
        }
        return replace(self, **new, logged=(*self.logged, *new)) if new else self


def parse_manifest(raw: Mapping[str, Any], path: str | None = None) -> Manifest:
    """Read a manifest from a mapping, nested or flat, in any of the common spellings."""
    flat = dict(_flatten(raw))
    spelled = _spellings(flat)
    found: dict[str, Any] = {}
    used: set[str] = set()
    for key in KEYS:
        for name in key.names:
            value = key.parse(flat[spelled[name]]) if name in spelled else None
            if value is not None:
                found[key.name] = value
                used.add(spelled[name])
                break
    flags, flag_names = _dtype_flags(flat, spelled)
    if "dtype" not in found and flags is not None:
        found["dtype"] = flags
    used |= flag_names
    if "static_loss_scale" not in found:
        static = _is_static(flat, spelled)
        if static is not None:
            found["static_loss_scale"] = static
    unknown = {name: value for name, value in flat.items() if name not in used}
    return Manifest(**found, path=path, unknown=unknown)


def _spellings(flat: Mapping[str, Any]) -> dict[str, str]:
    """Return the full name of each key by its plain spelling, with and without what it lies in."""
    names: dict[str, str] = {}
    for depth in range(max((name.count(".") for name in flat), default=0) + 1):
        for name in flat:
            parts = name.split(".")
            if depth < len(parts):
                names.setdefault(plain(".".join(parts[depth:])), name)
    return names


def _dtype_flags(
    flat: Mapping[str, Any], spelled: Mapping[str, str]
) -> tuple[str | None, set[str]]:
    """Read ``fp16: true`` and ``fp16.enabled: true``; all flags present and off mean fp32."""
    used: set[str] = set()
    told: list[bool] = []
    for dtype in ("bf16", "fp16"):
        for name in (dtype, f"{dtype}_enabled", f"use_{dtype}"):
            on = flag(flat[spelled[name]]) if name in spelled else None
            if on is not None:
                used.add(spelled[name])
                told.append(on)
                if on:
                    return dtype, used
    return ("fp32" if len(told) > 1 else None), used


def _is_static(flat: Mapping[str, Any], spelled: Mapping[str, str]) -> bool | None:
    """Read a fixed loss scale: DeepSpeed writes 0 for a dynamic one, Megatron null."""
    for name in ("fp16_loss_scale", "loss_scale", "loss_scaling"):
        if name in spelled:
            value = flat[spelled[name]]
            scale = number(value)
            if scale is not None:
                return scale > 0
            if str(value).lower() in ("static", "dynamic"):
                return str(value).lower() == "static"
    return None


def _flatten(raw: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in raw.items():
        full = f"{prefix}{name}"
        if isinstance(value, dict):
            yield from _flatten(value, f"{full}.")
        else:
            yield full, value


def read_manifest(path: str | Path) -> Manifest:
    """Read a manifest file, JSON or TOML.

    Raises:
        ManifestError: if it cannot be read or is not one object.
    """
    path = Path(path)
    try:
        text = path.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise ManifestError(f"{path}: {error.strerror or error}; check --manifest") from error
    except UnicodeDecodeError:
        raise ManifestError(f"{path}: not a text file; a manifest is a JSON object") from None
    try:
        raw = tomllib.loads(text) if path.suffix == ".toml" else json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ManifestError(
            f"{path}: not valid {'TOML' if path.suffix == '.toml' else 'JSON'} ({error})"
        ) from None
    if not isinstance(raw, dict):
        kinds = {list: "a list", str: "a string", bool: "true or false", type(None): "null"}
        kind = kinds.get(type(raw), "a number")
        raise ManifestError(
            f'{path}: a manifest is one JSON object such as {{"dtype": "fp16"}}, not {kind}'
        )
    return parse_manifest(raw, str(path))


def find_manifest(log: str | Path) -> Path | None:
    """Return the manifest that lies beside a log: ``<stem>.manifest.json`` or ``manifest.json``."""
    log = Path(log)
    if str(log) == "-" or "://" in str(log):
        return None
    stem = log.name.partition(".")[0]
    names = (f"{log.stem}.manifest.json", f"{stem}.manifest.json", "manifest.json")
    return next((log.parent / name for name in names if (log.parent / name).is_file()), None)
