"""A project's settings: ``[tool.stabdiag]`` in ``pyproject.toml``, or ``stabdiag.toml``."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import field, fields
from datetime import date, datetime
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from stabdiag.errors import ConfigError, LimitError, StabdiagError, did_you_mean, unreadable
from stabdiag.formats import names
from stabdiag.model.frozen import frozen
from stabdiag.model.limits import Limits

if TYPE_CHECKING:
    from stabdiag.model.findings import IgnoreRule

_CONFIG_FILES = ("stabdiag.toml", "pyproject.toml")

# The table of stabdiag in a pyproject.toml, or the table that it may be in. To parse a file that
# only names stabdiag as a dependency takes a twentieth of the time of a small log.
_OWN_TABLE = r"(?m)^[ \t]*\[{0,2}[ \t]*[\"']?tool[\"']?[ \t]*(?:[\]=]|\.[ \t]*[\"']?stabdiag)"
_CONFIG_TABLES = ("columns", "manifest", "limits")
_SECTIONS = tuple(section.name for section in fields(Limits) if section.name != "set_by")
_SEVERITIES = ("error", "warning", "unknown", "never")


@frozen
class Project:
    """The settings of a project for all commands; empty if it has no settings file.

    Attributes:
        name: The path of the file, as displayed.
        heading: The table in it that contains the settings.
        columns: Column names by role.
        manifest: Defaults for fields that the manifest and the log do not give.
        rules: The ignore rules, including expired ones.
        baseline: Paths of earlier good runs, resolved against the folder of the file.
    """

    name: str = ""
    heading: str = ""
    fail_on: str | None = None
    format: str | None = None
    columns: Mapping[str, str] = field(default_factory=dict)
    manifest: Mapping[str, object] = field(default_factory=dict)
    limits: Limits = field(default_factory=Limits)
    rules: tuple[IgnoreRule, ...] = ()
    baseline: tuple[str, ...] = ()

    @cached_property
    def ignored(self) -> tuple[IgnoreRule, ...]:
        """The ignore rules in force today."""
        return tuple(rule for rule in self.rules if date.today() <= rule.until)

    @property
    def expired(self) -> tuple[IgnoreRule, ...]:
        """The ignore rules that have expired."""
        return tuple(rule for rule in self.rules if rule not in self.ignored)

    def table(self, *inner: str) -> str:
        """Return the location of a table: ``pyproject.toml [tool.stabdiag.limits]``."""
        heading = ".".join(filter(None, (self.heading, *inner)))
        return f"{self.name} [{heading}]" if heading else self.name


def read_project(folder: Path, config: Path | None = None) -> Project:
    """Return the settings in ``config``, else in the nearest file in a folder or above it.

    A ``pyproject.toml`` without ``[tool.stabdiag]`` is skipped; ``stabdiag.toml`` takes precedence
    over a ``pyproject.toml`` in the same folder.

    Raises:
        ConfigError: if the file cannot be read or contains an unknown or invalid setting.
        LimitError: for an unknown limit or a value out of range.
    """
    base = folder.absolute()
    for path in config_files(folder, config):
        raw = _read(path)
        if raw is not None:
            try:
                name = path.relative_to(base) if path.is_relative_to(base) else path
                return _project(raw, str(name), _heading(raw), path.parent)
            except LimitError as error:
                raise LimitError(f"{path}: {error}") from None
            except StabdiagError as error:
                raise ConfigError(f"{path}: {error}") from None
    return Project()


def config_files(folder: Path, config: Path | None = None) -> Iterator[Path]:
    """Yield the files that may hold settings, the nearest first."""
    if config is not None:
        yield config
        return
    folder = folder.absolute()
    for parent in (folder, *folder.parents):
        yield from (path for name in _CONFIG_FILES if (path := parent / name).is_file())


def _read(path: Path) -> dict[str, Any] | None:
    """Return the content of a file; None for a ``pyproject.toml`` without settings of stabdiag."""
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise ConfigError(unreadable(path, error)) from None
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path}: not valid TOML ({error})") from None
    if path.name == "pyproject.toml" and not re.search(_OWN_TABLE, text):
        return None
    from stabdiag.model.manifest.text import parsed

    try:
        raw: Any = parsed(text, "TOML")
    except ValueError as error:
        raise ConfigError(f"{path}: {error}") from None
    table: dict[str, Any] = raw
    return None if path.name == "pyproject.toml" and not _heading(table) else table


def _heading(raw: Mapping[str, Any]) -> str:
    """Return the table that contains the settings; empty if they are at the top level."""
    tool = raw.get("tool", {})
    return "tool.stabdiag" if isinstance(tool, dict) and "stabdiag" in tool else ""


def _project(raw: Mapping[str, Any], name: str, heading: str, folder: Path) -> Project:
    """Return the project settings in a parsed file, validated."""
    table = raw["tool"]["stabdiag"] if heading else raw
    if not isinstance(table, dict):
        raise ConfigError(f"{heading} is not a table")
    _refuse_unknown_keys(
        table, ["fail-on", "format", "ignore", "baseline", *_CONFIG_TABLES, *_SECTIONS], heading
    )
    for inner in _CONFIG_TABLES:
        if not isinstance(table.get(inner, {}), dict):
            raise ConfigError(f"{'.'.join(filter(None, (heading, inner)))} is not a table")
    columns, manifest = table.get("columns", {}), table.get("manifest", {})
    _check_run(columns, manifest)
    # Sections of limits may be at the top level, as `stabdiag thresholds -o FILE` writes them.
    sections = {section: table[section] for section in _SECTIONS if section in table}
    limits = dict(_dotted({**table.get("limits", {}), **sections}))
    return Project(
        name=name,
        heading=heading,
        fail_on=_choice(table, "fail-on", _SEVERITIES),
        format=_choice(table, "format", names()),
        columns=columns,
        manifest=manifest,
        limits=Limits().override(limits, by=name),
        rules=tuple(_rules(table.get("ignore", []))),
        baseline=tuple(_paths(table.get("baseline", []), folder)),
    )


def _paths(value: object, folder: Path) -> Iterator[str]:
    """Yield the paths of a baseline; those in the file are relative to its folder."""
    paths = [value] if isinstance(value, str) else value
    if not isinstance(paths, list) or not all(isinstance(path, str) for path in paths):
        raise ConfigError(f"baseline must be a path or a list of paths, not {value!r}")
    for path in paths:
        yield path if "://" in path else str(folder / path)


def _refuse_unknown_keys(table: Mapping[str, Any], valid_keys: list[str], heading: str) -> None:
    """Raise an error for an unknown key, with the closest known one."""
    for key in table:
        if key not in valid_keys:
            from stabdiag.model.manifest.keys import KEYS

            fields = {item.name: f"manifest.{item.name}" for item in KEYS}
            hint = (
                f"; did you mean {fields[key]}?" if key in fields else did_you_mean(key, valid_keys)
            )
            hint = hint or f"; known keys: {', '.join(valid_keys[:6])}"
            raise ConfigError(f"unknown key {'.'.join(filter(None, (heading, key)))!r}{hint}")


def _choice(table: Mapping[str, Any], key: str, choices: tuple[str, ...]) -> str | None:
    value = table.get(key)
    if value is not None and value not in choices:
        raise ConfigError(f"{key} must be one of {', '.join(choices)}, not {value!r}")
    return value


def _check_run(columns: Mapping[str, object], manifest: Mapping[str, object]) -> None:
    """Raise an error for an unknown role or manifest field, or an invalid value."""
    for role, column in columns.items():
        if not isinstance(column, str):
            raise ConfigError(f"columns.{role} must be the name of a column, not {column!r}")
    if columns or manifest:
        from stabdiag.assemble.inputs import Options

        Options(settings=manifest, columns={r: str(c) for r, c in columns.items()}).checked()


def _rules(entries: object) -> Iterator[IgnoreRule]:
    """Yield the ignore rules."""
    from stabdiag.model.findings import IgnoreRule

    example = 'finding = "spike-recovered", reason = "…" and until = 2030-01-31'
    if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
        raise ConfigError(
            f"ignore must be a list of [[tool.stabdiag.ignore]] entries with {example}"
        )
    for entry in entries:
        slug, reason, until = (entry.get(key) for key in ("finding", "reason", "until"))
        _refuse_unknown_keys(entry, ["finding", "reason", "until"], "ignore")
        if slug not in _slugs():
            hint = did_you_mean(str(slug), _slugs())
            raise ConfigError(f"ignore: no finding is named {slug!r}{hint}")
        if not isinstance(reason, str) or not reason.strip():
            raise ConfigError(f"ignore: {slug} needs a reason")
        if not isinstance(until, date) or isinstance(until, datetime):
            raise ConfigError(f"ignore: {slug} needs an expiry date: until = 2030-01-31")
        yield IgnoreRule(slug=slug, reason=" ".join(reason.split()), until=until)


def _slugs() -> list[str]:
    from stabdiag.checks import preflight
    from stabdiag.comparison import outcomes
    from stabdiag.model import edges
    from stabdiag.symptoms.baseline import outcomes as against
    from stabdiag.symptoms.registry import SYMPTOM_BY_SLUG

    return [
        *edges.OUTCOME_BY_SLUG,
        *SYMPTOM_BY_SLUG,
        *outcomes.COMPARISON_OUTCOME_BY_SLUG,
        *against.BASELINE_OUTCOME_BY_SLUG,
        *preflight.CHECKS,
    ]


def _dotted(table: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, object]]:
    for name, value in table.items():
        if isinstance(value, dict):
            yield from _dotted(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value
