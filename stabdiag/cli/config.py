"""A project's settings: ``[tool.stabdiag]`` in ``pyproject.toml``, or ``stabdiag.toml``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import field, fields
from datetime import date, datetime
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from stabdiag.errors import ConfigError, LimitError, StabdiagError, did_you_mean
from stabdiag.formats import names
from stabdiag.model.frozen import frozen
from stabdiag.model.limits import Limits

if TYPE_CHECKING:
    from stabdiag.model.findings import Ignored

_NAMES = ("stabdiag.toml", "pyproject.toml")
_TABLES = ("columns", "manifest", "limits")
_SECTIONS = tuple(one.name for one in fields(Limits) if one.name != "set_by")
_SEVERITIES = ("error", "warning", "unknown", "never")


@frozen
class Project:
    """What a project has set for all commands; empty where it has no settings file.

    ``name`` is the file as it is shown, ``heading`` the table of it that holds the settings.
    ``columns`` are names by role, ``manifest`` what holds where neither a manifest nor the log
    tells it, ``rules`` the findings that do not count, expired ones among them. ``baseline`` has
    the paths of earlier good runs, with the folder of the settings file.
    """

    name: str = ""
    heading: str = ""
    fail_on: str | None = None
    format: str | None = None
    columns: Mapping[str, str] = field(default_factory=dict)
    manifest: Mapping[str, object] = field(default_factory=dict)
    limits: Limits = field(default_factory=Limits)
    rules: tuple[Ignored, ...] = ()
    baseline: tuple[str, ...] = ()

    @cached_property
    def ignored(self) -> tuple[Ignored, ...]:
        """The findings that do not count today."""
        return tuple(rule for rule in self.rules if date.today() <= rule.until)

    @property
    def expired(self) -> tuple[Ignored, ...]:
        """The findings that count again."""
        return tuple(rule for rule in self.rules if rule not in self.ignored)

    def table(self, *inner: str) -> str:
        """Return where in the file a table stands: ``pyproject.toml [tool.stabdiag.limits]``."""
        heading = ".".join(filter(None, (self.heading, *inner)))
        return f"{self.name} [{heading}]" if heading else self.name


def project_of(folder: Path, config: Path | None = None) -> Project:
    """Return the settings in ``config``, else in the nearest file of a folder or above it.

    A ``pyproject.toml`` without ``[tool.stabdiag]`` is passed over; ``stabdiag.toml`` goes before a
    ``pyproject.toml`` beside it.

    Raises:
        ConfigError: if the file cannot be read, or holds what is no setting.
        LimitError: for an unknown limit or a value out of range.
    """
    here = folder.absolute()
    for path in config_files(folder, config):
        raw = _read(path)
        if raw is not None:
            try:
                shown = path.relative_to(here) if path.is_relative_to(here) else path
                return _checked(raw, str(shown), _heading(raw), path.parent)
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
    for place in (folder, *folder.parents):
        yield from (path for name in _NAMES if (path := place / name).is_file())


def _read(path: Path) -> dict[str, Any] | None:
    """Return what a file holds; None for a ``pyproject.toml`` that does not name stabdiag."""
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror or error}; check the path") from None
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path}: not valid TOML ({error})") from None
    if path.name == "pyproject.toml" and "stabdiag" not in text:
        return None
    from stabdiag.model.manifest.text import parsed

    try:
        raw: Any = parsed(text, "TOML")
    except ValueError as error:
        raise ConfigError(f"{path}: {error}") from None
    found: dict[str, Any] = raw
    return None if path.name == "pyproject.toml" and not _heading(found) else found


def _heading(raw: Mapping[str, Any]) -> str:
    """Return the table of a file that holds the settings; none if they stand at its top."""
    tool = raw.get("tool", {})
    return "tool.stabdiag" if isinstance(tool, dict) and "stabdiag" in tool else ""


def _checked(raw: Mapping[str, Any], name: str, heading: str, folder: Path) -> Project:
    """Return settings once it is known that they can be in force."""
    table = raw["tool"]["stabdiag"] if heading else raw
    if not isinstance(table, dict):
        raise ConfigError(f"{heading} is not a table")
    _refuse_others(
        table, ["fail-on", "format", "ignore", "baseline", *_TABLES, *_SECTIONS], heading
    )
    for inner in _TABLES:
        if not isinstance(table.get(inner, {}), dict):
            raise ConfigError(f"{'.'.join(filter(None, (heading, inner)))} is not a table")
    columns, manifest = table.get("columns", {}), table.get("manifest", {})
    _check_run(columns, manifest)
    # Sections of limits may stand on top, as `stabdiag thresholds -o FILE` writes them.
    sections = {section: table[section] for section in _SECTIONS if section in table}
    limits = dict(_dotted({**table.get("limits", {}), **sections}))
    return Project(
        name=name,
        heading=heading,
        fail_on=_one_of(table, "fail-on", _SEVERITIES),
        format=_one_of(table, "format", names()),
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
        raise ConfigError(f"baseline wants a path or a list of paths, not {value!r}")
    for path in paths:
        yield path if "://" in path else str(folder / path)


def _refuse_others(table: Mapping[str, Any], known: list[str], heading: str) -> None:
    """Raise an error for a key that means nothing, with what it may have been meant for."""
    for key in table:
        if key not in known:
            from stabdiag.model.manifest.keys import KEYS

            inside = {one.name: f"manifest.{one.name}" for one in KEYS}
            near = f"; did you mean {inside[key]}?" if key in inside else did_you_mean(key, known)
            near = near or f"; there are {', '.join(known[:6])}"
            raise ConfigError(f"unknown key {'.'.join(filter(None, (heading, key)))!r}{near}")


def _one_of(table: Mapping[str, Any], key: str, known: tuple[str, ...]) -> str | None:
    value = table.get(key)
    if value is not None and value not in known:
        raise ConfigError(f"{key} wants one of {', '.join(known)}, not {value!r}")
    return value


def _check_run(columns: Mapping[str, object], manifest: Mapping[str, object]) -> None:
    """Raise an error for a column or a manifest field that no run can have."""
    for role, column in columns.items():
        if not isinstance(column, str):
            raise ConfigError(f"columns.{role} wants the name of a column, not {column!r}")
    if columns or manifest:
        from stabdiag.assemble.inputs import Options

        Options(settings=manifest, columns={r: str(c) for r, c in columns.items()}).checked()


def _rules(entries: object) -> Iterator[Ignored]:
    """Yield the findings that do not count."""
    from stabdiag.model.findings import Ignored

    example = 'finding = "spike-recovered", reason = "…" and until = 2030-01-31'
    if not isinstance(entries, list) or not all(isinstance(one, dict) for one in entries):
        raise ConfigError(f"ignore wants entries as [[tool.stabdiag.ignore]] with {example}")
    for one in entries:
        slug, reason, until = (one.get(key) for key in ("finding", "reason", "until"))
        _refuse_others(one, ["finding", "reason", "until"], "ignore")
        if slug not in _slugs():
            near = did_you_mean(str(slug), _slugs())
            raise ConfigError(f"ignore: no finding is called {slug!r}{near}")
        if not isinstance(reason, str) or not reason.strip():
            raise ConfigError(f"ignore: {slug} wants a reason, in words")
        if not isinstance(until, date) or isinstance(until, datetime):
            raise ConfigError(f"ignore: {slug} wants a day to look again: until = 2030-01-31")
        yield Ignored(slug=slug, reason=" ".join(reason.split()), until=until)


def _slugs() -> list[str]:
    from stabdiag.baseline import outcomes as against
    from stabdiag.checks import preflight
    from stabdiag.comparison import outcomes
    from stabdiag.model import edges
    from stabdiag.symptoms import BY_SLUG

    return [*edges.BY_SLUG, *BY_SLUG, *outcomes.BY_SLUG, *against.BY_SLUG, *preflight.CHECKS]


def _dotted(table: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, object]]:
    for name, value in table.items():
        if isinstance(value, dict):
            yield from _dotted(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value
