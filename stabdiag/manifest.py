"""The manifest: what the run was configured to do.

A manifest is a JSON, TOML or YAML object beside the log. Common spellings are understood, flat or
nested; keys that are not understood are kept and never fatal.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from stabdiag.errors import ManifestError, did_you_mean
from stabdiag.manifest_beside import (
    AUTOCAST,
    DIVISIBLE,
    LOSS_SCALE,
    NUMBERS,
    SAVE_STRATEGY,
    SAVING,
    beside,
    in_force,
    is_static,
    spellings,
)
from stabdiag.manifest_keys import KEYS, dtype_of, flag, number
from stabdiag.manifest_text import mapping_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

# No configuration is nested deeper; what is, stays one value.
_DEEPEST = 20


@dataclass(frozen=True, kw_only=True)
class Manifest:
    """What is known of a run's configuration; None where it is not known.

    Counts are in optimizer steps. ``inferred`` names the fields that were read off the log and on
    what grounds, ``overridden`` those given by hand, ``logged`` those that the log itself tells,
    ``also`` keeps the keys that were understood and fill no field, ``unknown`` those that were not
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
    epsilon: float | None = None
    checkpoint_every: int | None = None
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

    def override(self, values: Mapping[str, object]) -> Manifest:
        """Return the manifest with some fields given by hand.

        Raises:
            ManifestError: for an unknown field or a value that cannot be one.
        """
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
        """Return the manifest with what the log itself tells, where it says nothing."""
        new = self._gaps(parse_manifest(config))
        return replace(self, **new, logged=(*self.logged, *new)) if new else self

    def beside(self, other: Manifest) -> Manifest:
        """Return the manifest with what another file tells, where this one says nothing."""
        paths = [path for path in (self.path, other.path) if path]
        return replace(
            self,
            **self._gaps(other),
            path=", ".join(paths) or None,
            also={**other.also, **self.also},
            unknown={**other.unknown, **self.unknown},
        )

    def _gaps(self, other: Manifest) -> dict[str, Any]:
        """Return the fields that are known of the other manifest alone."""
        return {
            key.name: getattr(other, key.name)
            for key in KEYS
            if getattr(self, key.name) is None and getattr(other, key.name) is not None
        }


def parse_manifest(raw: Mapping[str, Any], path: str | None = None) -> Manifest:
    """Read a manifest from a mapping, nested or flat, in any of the common spellings."""
    told = dict(_flatten(raw))
    flat = in_force(told)
    spelled = spellings(flat)
    found: dict[str, Any] = {}
    taken: set[str] = set()
    understood = set(beside(flat, spelled))
    for key in KEYS:
        # What is told goes before a null, which is told as well: of some fields it says none.
        names = sorted(
            (spelled[name] for name in key.names if name in spelled),
            key=lambda name: flat[name] is None,
        )
        values = {name: key.parse(flat[name]) for name in names}
        understood |= {name for name in names if flat[name] is None or values[name] is not None}
        first = next((name for name in names if values[name] is not None), None)
        if first is not None:
            found[key.name] = values[first]
            taken.add(first)
    flags, flag_names = _dtype_flags(flat, spelled)
    # Beside a flag that is on, fp32 is the type of the weights, as the HF Trainer logs them.
    if flags is not None and found.get("dtype", "fp32") == "fp32":
        found["dtype"] = flags
    taken |= flag_names
    if _is_default_of_megatron(spelled, found.get("vocab_size")):
        del found["vocab_size"]
    if "static_loss_scale" not in found:
        scales = (is_static(flat[spelled[name]]) for name in LOSS_SCALE if name in spelled)
        static = next((one for one in scales if one is not None), None)
        if static is not None:
            found["static_loss_scale"] = static
    if SAVE_STRATEGY in spelled and not _is_by_steps(flat[spelled[SAVE_STRATEGY]]):
        found.pop("checkpoint_every", None)
    if SAVING in spelled and flag(flat[spelled[SAVING]]) is False:
        found.pop("checkpoint_every", None)
    if found.get("warmup_steps") == 0 and _has_share(flat, spelled):
        del found["warmup_steps"]
    rest = {name: value for name, value in told.items() if name not in taken}
    return Manifest(
        **found,
        path=path,
        also={name: value for name, value in rest.items() if name in understood},
        unknown={name: value for name, value in rest.items() if name not in understood},
    )


def _dtype_flags(
    flat: Mapping[str, Any], spelled: Mapping[str, str]
) -> tuple[str | None, set[str]]:
    """Read ``fp16: true`` and ``fp16.enabled: true``; all flags present and off mean fp32."""
    used: set[str] = set()
    told: list[tuple[str, bool]] = []
    for dtype in ("bf16", "fp16"):
        for name in (dtype, f"{dtype}_enabled", f"use_{dtype}"):
            on = flag(flat[spelled[name]]) if name in spelled else None
            if on is not None:
                used.add(spelled[name])
                told.append((dtype, on))
    chosen = next((dtype for dtype, on in told if on), None)
    if chosen is None:
        casts = (dtype_of(flat[spelled[name]]) for name in AUTOCAST if name in spelled)
        chosen = next((dtype for dtype in casts if dtype in ("bf16", "fp16")), None)
    return chosen or ("fp32" if len(told) > 1 else None), used


def _has_share(flat: Mapping[str, Any], spelled: Mapping[str, str]) -> bool:
    """Tell whether the warm-up is a share of the run: the HF Trainer's 0 steps then count not."""
    shares = (number(flat[spelled[name]]) for name in NUMBERS["warmup_share"] if name in spelled)
    return any(share is not None and share > 0 for share in shares)


def _is_default_of_megatron(spelled: Mapping[str, str], classes: object) -> bool:
    """Tell whether the number of classes is a default that a language model does not use."""
    return (
        classes is not None
        and DIVISIBLE in spelled
        and not {"vocab_size", "padded_vocab_size"} & spelled.keys()
    )


def _is_by_steps(strategy: object) -> bool:
    """Tell whether the HF Trainer saves by steps; its ``save_steps`` means nothing otherwise."""
    return str(strategy).lower().rpartition(".")[2] == "steps"


def _flatten(raw: Mapping[str, Any], prefix: str = "", depth: int = 0) -> Iterator[tuple[str, Any]]:
    for name, value in raw.items():
        full = f"{prefix}{name}"
        if isinstance(value, dict) and depth < _DEEPEST:
            yield from _flatten(value, f"{full}.", depth + 1)
        else:
            yield full, value


def read_manifest(path: str | Path) -> Manifest:
    """Read a manifest file: JSON, TOML or YAML.

    Raises:
        ManifestError: if it cannot be read or is not one object.
    """
    path = Path(path)
    try:
        data = path.read_bytes()
    except OSError as error:
        raise ManifestError(f"{path}: {error.strerror or error}; check the path") from error
    return parse_manifest(mapping_of(str(path), data), str(path))
