"""Limits from configuration files: ``pyproject.toml`` and ``stabdiag.toml``."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, Any

from stabdiag.errors import ConfigError, LimitError
from stabdiag.limits import Limits

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping


def configured_limits(
    folder: Path, *, config: Path | None = None, flags: Iterable[str] = ()
) -> Limits:
    """Return the limits in force.

    Later sources go before earlier ones: ``[tool.stabdiag.limits]`` in the nearest
    ``pyproject.toml`` of ``folder`` or above it, the nearest ``stabdiag.toml`` (or ``config``
    instead of both), and ``flags`` such as ``spike.sigma=4``.

    Raises:
        ConfigError: if a file cannot be read.
        LimitError: for an unknown limit or a value out of range; the message names the file.
    """
    limits = Limits()
    files = (
        [config] if config else [_nearest(folder, n) for n in ("pyproject.toml", "stabdiag.toml")]
    )
    for path in files:
        if path is None:
            continue
        try:
            limits = limits.override(dict(_values(path)))
        except LimitError as error:
            raise LimitError(f"{path}: {error}") from None
    return limits.override(dict(_flag(flag) for flag in flags))


def _nearest(folder: Path, name: str) -> Path | None:
    folder = folder.absolute()
    return next((p / name for p in (folder, *folder.parents) if (p / name).is_file()), None)


def _values(path: Path) -> Iterator[tuple[str, object]]:
    """Yield the limits of a file by dotted name."""
    try:
        raw: Any = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror or error}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: not valid TOML ({error})") from None
    if path.name == "pyproject.toml":
        for key in ("tool", "stabdiag", "limits"):
            raw = raw.get(key, {}) if isinstance(raw, dict) else {}
    if not isinstance(raw, dict):
        raise ConfigError(f"{path}: [tool.stabdiag.limits] is no table")
    yield from _dotted(raw)


def _dotted(table: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, object]]:
    for name, value in table.items():
        if isinstance(value, dict):
            yield from _dotted(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value


def _flag(flag: str) -> tuple[str, str]:
    name, equals, value = flag.partition("=")
    if not equals:
        raise LimitError(f"--limit wants NAME=VALUE such as spike.sigma=4, not {flag!r}")
    return name.strip(), value.strip()
