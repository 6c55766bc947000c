"""The commands that list formats, thresholds, explanations and settings."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from stabdiag.cli import complete, options
from stabdiag.cli.commands import FailOn
from stabdiag.formats import names, render

if TYPE_CHECKING:
    from stabdiag.formats.lists import LogFormat


@options.bundled
def formats(out: options.ChecklistOutputOptions) -> None:
    """List the supported log formats and how each is detected."""
    format_name = out.choose_format(options.LimitOptions(), [])
    out.write(render(log_formats(), format_name, "logs", **out.screen))


def log_formats() -> tuple[LogFormat, ...]:
    """Return the log formats, in the order in which they are tried."""
    from stabdiag.formats.lists import LogFormat
    from stabdiag.readers.registry import READERS

    return tuple(
        LogFormat(
            name=item.name,
            title=item.title,
            state="missing" if item.missing else "installed" if item.extra else "built in",
            extra=item.extra,
            install=f"pip install 'stabdiag[{item.extra}]'" if item.missing else None,
            recognised=item.detected_by,
            loses=item.not_read,
            example=item.example,
        )
        for item in READERS
    )


@options.bundled
def thresholds(
    limit_options: options.LimitOptions,
    out: Annotated[options.JsonOutputOptions, names("limits")],
    literal: options.LiteralOption = False,
) -> None:
    """Print the quick-reference table and all thresholds in force."""
    format_name = out.choose_format(limit_options, [])
    out.write(
        render(limit_options.limits, format_name, "rules" if literal else "limits", **out.screen)
    )


@options.bundled
def explain(
    limit_options: options.LimitOptions,
    out: options.OutputOptions,
    words: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="NAME",
            autocompletion=complete.explained,
            help="A finding, a symptom, a question or a threshold; or words to search for. "
            "Default: list all entries.",
        ),
    ] = None,
) -> None:
    """Explain a finding, a question or a threshold, or search the explanations."""
    from stabdiag.explain import contents
    from stabdiag.explain import explain as page

    format_name = out.choose_format(limit_options, [])
    text = page(" ".join(words), limit_options.limits) if words else contents(limit_options.limits)
    if format_name == "terminal":
        from stabdiag.formats.terminal.page import markdown_page

        text = markdown_page(text, **out.screen)
    out.write(text)


class Setting(NamedTuple):
    """A setting in force, with the table or option that sets it."""

    name: str
    value: str
    source: str
    reason: str = ""


@options.bundled
def config(
    run_options: options.RunOptions,
    out: Annotated[options.JsonOutputOptions, ("terminal", "json")],
    fail_on: options.FailOnOption = None,
) -> None:
    """Show the settings in force and where each comes from."""
    from stabdiag.formats.json import Json, dumps, escape
    from stabdiag.formats.measured import visible

    format_name = out.choose_format(run_options, [])
    settings = [*_settings(run_options, fail_on)]
    if format_name == "json":
        values: list[Json] = [
            {key: escape(text) for key, text in item._asdict().items()} for item in settings
        ]
        out.write(dumps({"file": escape(run_options.project.name) or None, "settings": values}))
        return
    name_width, value_width = (max(len(item[cell]) for item in settings) for cell in (0, 1))
    lines = [f"Settings file: {run_options.project.name or 'none in this folder or above'}", ""]
    for item in settings:
        cells = (f"{item.name:{name_width}}", f"{item.value:{value_width}}", item.source)
        lines.append(visible("  ".join(cells)))
        lines += [f"    {visible(item.reason)}"] * bool(item.reason)
    changed = run_options.limits.changed
    unchanged = len(run_options.limits.items()) - len(changed)
    out.write(
        "\n".join([*lines, "", f"{unchanged} limits have their defaults: stabdiag thresholds"])
    )


def _settings(run_options: options.RunOptions, fail_on: FailOn | None) -> Iterator[Setting]:
    """Yield the settings in force. Limits with their default values are omitted."""
    project = run_options.project
    file: Mapping[str, object]
    flags: Mapping[str, object]
    flag = (fail_on, "--fail-on")
    for key, candidates in (
        ("fail-on", (flag, (project.fail_on, project.table()), ("error", "default"))),
        ("format", ((project.format, project.table()), ("depends on the command", "default"))),
    ):
        value, source = next(pair for pair in candidates if pair[0] is not None)
        yield Setting(key, str(value), source)
    for table, file, flags, option in (
        ("columns", project.columns, run_options.columns_by_role, "--column"),
        ("manifest", project.manifest, run_options.manifest_fields, "--set"),
    ):
        for key, setting in {**file, **flags}.items():
            is_from_file = key in file and file[key] == setting
            yield Setting(
                f"{table}.{key}", str(setting), project.table(table) if is_from_file else option
            )
    for info in run_options.limits.changed:
        source = info.set_by if info.set_by == "--limit" else project.table("limits")
        yield Setting(f"limits.{info.name}", f"{info.value:g}", source)
    for rule in project.rules:
        until = f"{'until' if rule in project.ignored else 'expired'} {rule.until}"
        yield Setting(f"ignore.{rule.slug}", until, project.table("ignore"), rule.reason)
