"""The manifest: what the run was configured to do.

A manifest is a JSON, TOML or YAML object beside the log. Common spellings are understood, flat or
nested; keys that are not understood are kept and never fatal.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING, Any

from stabdiag.errors import ManifestError, did_you_mean
from stabdiag.model.manifest.fields import fields_of
from stabdiag.model.manifest.keys import KEYS
from stabdiag.model.manifest.other import others
from stabdiag.model.manifest.spelling import DEEPEST, by_spelling, spellings
from stabdiag.model.manifest.text import mapping_of
from stabdiag.model.manifest.values import flag

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping


# What switches the section on in which it lies.
_SWITCHES = {"enabled", "enable", "enable_checkpoint"}


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
    checkpoints_kept: int | None = None
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
        """Return the manifest with its gaps filled from what the log itself tells.

        It counts as far as it does beside what the manifest tells: no ``save_steps`` of the log is
        the cadence of a run that is saved by the epoch.
        """
        new = self._gaps(parse_manifest({**config, **self.also}))
        return replace(self, **new, logged=(*self.logged, *new)) if new else self

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
        """Return the step of the last checkpoint before a step, by the cadence.

        It is 0 where none had been written, and None where the cadence is not known.
        """
        if self.checkpoint_every is None:
            return 0 if step <= 0 else None
        return max(step - 1, 0) // self.checkpoint_every * self.checkpoint_every

    def others(self, config: Mapping[str, object]) -> dict[str, Any]:
        """Return what is told beside the fields, by plain spelling; a log's word comes last."""
        return by_spelling({**parse_manifest(config).also, **self.also})

    def _gaps(self, other: Manifest) -> dict[str, Any]:
        """Return the fields that are known of the other manifest alone."""
        return {
            key.name: getattr(other, key.name)
            for key in KEYS
            if getattr(self, key.name) is None and getattr(other, key.name) is not None
        }


def parse_manifest(raw: Mapping[str, Any], path: str | None = None) -> Manifest:
    """Read a manifest from a mapping, nested or flat, in any of the common spellings."""
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
    """Return what a configuration tells, without the sections that are switched off.

    ``fp16: {enabled: false, loss_scale: 128}`` tells of no loss scale.
    """
    switches = {name for name in told if name.rpartition(".")[2] in _SWITCHES}
    off = {
        name.rpartition(".")[0] for name in switches if "." in name and flag(told[name]) is False
    }
    return {
        name: value
        for name, value in told.items()
        if name in switches or off.isdisjoint(_sections(name))
    }


def _sections(name: str) -> Iterator[str]:
    """Yield the sections that a name lies in, the outermost first."""
    parts = name.split(".", DEEPEST)[:-1]
    return accumulate(parts, "{}.{}".format)


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
