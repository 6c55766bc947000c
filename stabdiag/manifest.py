"""The manifest: what the run was configured to do.

A manifest is a JSON or TOML object beside the log. Common spellings are understood, flat or
nested; keys that are not understood are kept and never fatal.
"""

from __future__ import annotations

import json
import math
import re
import tomllib
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from stabdiag.errors import ManifestError, did_you_mean

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping


@dataclass(frozen=True, kw_only=True)
class Manifest:
    """What is known of a run's configuration; None where it is not known.

    Counts are in optimizer steps. ``inferred`` names the fields that were read off the log and on
    what grounds, ``overridden`` those given by hand, and ``unknown`` keeps the keys that were not
    understood.
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


_DTYPES: Mapping[str, tuple[str, ...]] = {
    "fp16": (
        "fp16",
        "float16",
        "half",
        "16",
        "16_mixed",
        "16_true",
        "f16",
        "mixed_fp16",
        "amp_fp16",
    ),
    "bf16": ("bf16", "bfloat16", "bf16_mixed", "bf16_true", "amp_bf16", "mixed_bf16"),
    "fp32": ("fp32", "float32", "float", "32", "32_true", "f32", "single", "tf32", "no"),
    "fp64": ("fp64", "float64", "double", "64", "64_true", "f64"),
}


def _dtype(value: object) -> str | None:
    word = _plain(str(value).rpartition("torch.")[2].rpartition("jnp.")[2])
    return next((dtype for dtype, names in _DTYPES.items() if word in names), None)


def _number(value: object) -> float | None:
    if isinstance(value, bool):
        return None
    try:
        number = float(str(value))
    except ValueError:
        return None
    return number if math.isfinite(number) else None


def _count(value: object) -> int | None:
    number = _number(value)
    return int(number) if number is not None and number >= 0 and number == int(number) else None


def _positive_count(value: object) -> int | None:
    return _count(value) or None


def _word(value: object) -> str | None:
    return value if isinstance(value, str) and value else None


def _flag(value: object) -> bool | None:
    if isinstance(value, bool):
        return value
    return {"true": True, "false": False}.get(str(value).lower())


@dataclass(frozen=True, kw_only=True)
class Key:
    """One field of the manifest, what it wants, and the names that frameworks give it."""

    name: str
    wants: str
    parse: Callable[[object], Any]
    names: tuple[str, ...]


KEYS: tuple[Key, ...] = (
    Key(
        name="dtype",
        wants="fp16, bf16 or fp32",
        parse=_dtype,
        names=(
            *("dtype", "precision", "mixed_precision", "torch_dtype", "param_dtype"),
            *("compute_dtype", "amp_dtype", "training_dtype", "autocast_dtype"),
        ),
    ),
    Key(
        name="optimizer",
        wants="a name",
        parse=_word,
        names=("optimizer", "optim", "optimizer_type", "optimizer_name", "optim_name"),
    ),
    Key(
        name="peak_lr",
        wants="a number",
        parse=_number,
        names=(
            "peak_lr",
            "lr",
            "learning_rate",
            "max_lr",
            "base_lr",
            "optimizer_params_lr",
            "optimizer_lr",
        ),
    ),
    Key(
        name="warmup_steps",
        wants="a number of steps",
        parse=_count,
        names=(
            *("warmup_steps", "warmup", "lr_warmup_iters", "warmup_iters", "num_warmup_steps"),
            *("scheduler_params_warmup_num_steps", "warmup_updates", "lr_warmup_steps"),
        ),
    ),
    Key(
        name="total_steps",
        wants="a number of steps",
        parse=_positive_count,
        names=(
            *("total_steps", "max_steps", "train_iters", "max_iters", "num_steps", "steps"),
            *("num_training_steps", "max_update", "max_updates", "train_steps", "training_steps"),
            "scheduler_params_total_num_steps",
        ),
    ),
    Key(
        name="schedule",
        wants="a name",
        parse=_word,
        names=(
            *("schedule", "lr_schedule", "lr_scheduler_type", "lr_decay_style", "lr_scheduler"),
            *("scheduler", "scheduler_type"),
        ),
    ),
    Key(
        name="grad_clip",
        wants="a number",
        parse=_number,
        names=(
            *("grad_clip", "clip_grad", "max_grad_norm", "gradient_clipping", "clip_norm"),
            *("gradient_clip_val", "clip", "grad_clip_norm", "gradient_clip"),
        ),
    ),
    Key(
        name="weight_decay",
        wants="a number",
        parse=_number,
        names=("weight_decay", "wd", "optimizer_params_weight_decay", "optimizer_weight_decay"),
    ),
    Key(
        name="checkpoint_every",
        wants="a number of steps",
        parse=_positive_count,
        names=(
            *("checkpoint_every", "save_interval", "save_steps", "checkpoint_interval"),
            *("ckpt_every", "checkpoint_every_n_steps", "every_n_train_steps", "save_every"),
            "checkpoint_steps",
        ),
    ),
    Key(
        name="vocab_size",
        wants="a count",
        parse=_positive_count,
        names=("vocab_size", "model_vocab_size", "num_classes", "n_vocab", "padded_vocab_size"),
    ),
    Key(
        name="batch_size",
        wants="a count",
        parse=_positive_count,
        names=(
            "batch_size",
            "global_batch_size",
            "train_batch_size",
            "per_device_train_batch_size",
        ),
    ),
    Key(name="seed", wants="a whole number", parse=_count, names=("seed", "random_seed")),
    Key(
        name="loss_scale_window",
        wants="a number of steps",
        parse=_positive_count,
        names=(
            *("loss_scale_window", "growth_interval", "fp16_loss_scale_window"),
            *("fp16_scale_window", "scale_window", "scaler_growth_interval"),
            "grad_scaler_growth_interval",
        ),
    ),
    Key(
        name="loss_scale_min",
        wants="a number",
        parse=_number,
        names=("loss_scale_min", "min_loss_scale", "fp16_min_loss_scale"),
    ),
    Key(
        name="static_loss_scale",
        wants="true or false",
        parse=_flag,
        names=("static_loss_scale", "static_scale"),
    ),
)


def parse_manifest(raw: Mapping[str, Any], path: str | None = None) -> Manifest:
    """Read a manifest from a mapping, nested or flat, in any of the common spellings."""
    flat = dict(_flatten(raw))
    plain = _spellings(flat)
    found: dict[str, Any] = {}
    used: set[str] = set()
    for key in KEYS:
        for name in key.names:
            value = key.parse(flat[plain[name]]) if name in plain else None
            if value is not None:
                found[key.name] = value
                used.add(plain[name])
                break
    flags, flag_names = _dtype_flags(flat, plain)
    if "dtype" not in found and flags is not None:
        found["dtype"] = flags
    used |= flag_names
    if "static_loss_scale" not in found:
        static = _is_static(flat, plain)
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
                names.setdefault(_plain(".".join(parts[depth:])), name)
    return names


def _dtype_flags(flat: Mapping[str, Any], plain: Mapping[str, str]) -> tuple[str | None, set[str]]:
    """Read ``fp16: true`` and ``fp16.enabled: true``; all flags present and off mean fp32."""
    used: set[str] = set()
    told: list[bool] = []
    for dtype in ("bf16", "fp16"):
        for name in (dtype, f"{dtype}_enabled", f"use_{dtype}"):
            flag = _flag(flat[plain[name]]) if name in plain else None
            if flag is not None:
                used.add(plain[name])
                told.append(flag)
                if flag:
                    return dtype, used
    return ("fp32" if len(told) > 1 else None), used


def _is_static(flat: Mapping[str, Any], plain: Mapping[str, str]) -> bool | None:
    """Read a fixed loss scale: DeepSpeed writes 0 for a dynamic one, Megatron null."""
    for name in ("fp16_loss_scale", "loss_scale", "loss_scaling"):
        if name in plain:
            value = _number(flat[plain[name]])
            if value is not None:
                return value > 0
            if str(flat[plain[name]]).lower() in ("static", "dynamic"):
                return str(flat[plain[name]]).lower() == "static"
    return None


def _flatten(raw: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in raw.items():
        full = f"{prefix}{name}"
        if isinstance(value, dict):
            yield from _flatten(value, f"{full}.")
        else:
            yield full, value


def _plain(name: str) -> str:
    return re.sub(r"[^a-z0-9]+", "_", name.strip().lower()).strip("_")


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
