"""Limits from configuration files: ``pyproject.toml`` and ``stabdiag.toml``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from stabdiag.errors import ConfigError, LimitError
from stabdiag.model.limits import Limits
from stabdiag.model.manifest.text import parsed

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping


def configured_limits(
    folder: Path, *, config: Path | None = None, flags: Iterable[str] = ()
) -> Limits:
    """Return the limits in force.

    Later sources override earlier ones: ``[tool.stabdiag.limits]`` in the nearest
    ``pyproject.toml`` of ``folder`` or above it, the nearest ``stabdiag.toml`` (or ``config``
    instead of both), and ``flags`` such as ``spike.sigma=4``.

    Raises:
        ConfigError: if a file cannot be read.
        LimitError: for an unknown limit or a value out of range; the message names the file.
    """
    limits = Limits()
    for path in config_files(folder, config):
        try:
            limits = limits.override(dict(_values(path)), by=_shown(path, folder))
        except LimitError as error:
            raise LimitError(f"{path}: {error}") from None
    return limits.override(dict(_flag(flag) for flag in flags), by="--limit")


def config_files(folder: Path, config: Path | None = None) -> list[Path]:
    """Return the files that limits are read from; the last one wins."""
    if config is not None:
        return [config]
    found = (_nearest(folder, name) for name in ("pyproject.toml", "stabdiag.toml"))
    return [path for path in found if path is not None]


def _shown(path: Path, folder: Path) -> str:
    """Return a path as it is shown: relative to the folder, if it lies there."""
    folder = folder.absolute()
    return str(path.relative_to(folder) if path.is_relative_to(folder) else path)


def _nearest(folder: Path, name: str) -> Path | None:
    folder = folder.absolute()
    return next((p / name for p in (folder, *folder.parents) if (p / name).is_file()), None)


def _values(path: Path) -> Iterator[tuple[str, object]]:
    """Yield the limits of a file by dotted name.

    Any file may hold them in ``[tool.stabdiag.limits]``; all but pyproject.toml also at the top.
    """
    try:
        raw: Any = parsed(path.read_text(encoding="utf-8"), "TOML")
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror or error}; check the path") from None
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path}: not valid TOML ({error})") from None
    except ValueError as error:
        raise ConfigError(f"{path}: {error}") from None
    if path.name != "pyproject.toml":
        yield from _dotted({name: value for name, value in raw.items() if name != "tool"})
    yield from _dotted(_among_tools(path, raw.get("tool")))


def _among_tools(path: Path, tool: object) -> Mapping[str, Any]:
    """Return the table ``[tool.stabdiag.limits]``."""
    ours = tool.get("stabdiag", {}) if isinstance(tool, dict) else {}
    limits = ours.get("limits", {}) if isinstance(ours, dict) else None
    if not isinstance(limits, dict):
        raise ConfigError(f"{path}: [tool.stabdiag.limits] is not a table")
    other = next((name for name in ours if name != "limits"), None)
    if other is not None:
        raise ConfigError(
            f"{path}: unknown key 'tool.stabdiag.{other}'; only "
            "[tool.stabdiag.limits] is read, for thresholds"
        )
    return limits


def _dotted(table: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, object]]:
    for name, value in table.items():
        if isinstance(value, dict):
            yield from _dotted(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value


def _flag(flag: str) -> tuple[str, str]:
    name, equals, value = flag.partition("=")
    if not equals:
        raise LimitError(f"--limit takes NAME=VALUE such as spike.sigma=4, not {flag!r}")
    return name.strip(), value.strip()
