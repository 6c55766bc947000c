"""The commands that show formats, thresholds, explanations, settings and help."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from stabdiag.cli import complete, options
from stabdiag.cli.choices import DataFormat, FailOn, TextFormat
from stabdiag.cli.output_options import OutputOptions
from stabdiag.cli.run_options import RunOptions
from stabdiag.formats import render

if TYPE_CHECKING:
    from stabdiag.formats.lists import LogFormat


def formats(
    output: options.OutputOption = None,
    format: options.TextFormatOption = None,
    json: options.JsonOption = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print only the names.")] = False,
    color: options.ColorOption = None,
) -> None:
    """List the supported log formats and how each is detected."""
    out = OutputOptions(
        formats=TextFormat, format=format, output=output, json=json, quiet=quiet, color=color
    )
    format_name = out.choose_format(RunOptions(), [])
    log_format_rows = log_formats()
    out.write_report(
        lambda: render(log_format_rows, format_name, "logs", **out.screen),
        "\n".join(log_format["name"] for log_format in log_format_rows),
    )


def log_formats() -> tuple[LogFormat, ...]:
    """Return the log formats in the order of detection."""
    from stabdiag.formats.lists import LogFormat
    from stabdiag.readers.registry import READERS

    return tuple(
        LogFormat(
            name=item.name,
            title=item.title,
            state="missing" if item.missing else "installed" if item.extra else "built in",
            extra=item.extra,
            install=f"pip install 'stabdiag[{item.extra}]'" if item.missing else None,
            detected_by=item.detected_by,
            not_read=item.not_read,
            example=item.example,
        )
        for item in READERS
    )


def thresholds(
    output: options.OutputOption = None,
    format: options.TextFormatOption = None,
    json: options.JsonOption = False,
    quiet: Annotated[
        bool, typer.Option("--quiet", "-q", help="Print only the names and values.")
    ] = False,
    limit: options.LimitOption = None,
    literal: options.LiteralOption = False,
    config: options.ConfigOption = None,
    color: options.ColorOption = None,
) -> None:
    """Print the quick-reference table and all thresholds in force."""
    run_options = RunOptions(limit=limit, config=config)
    out = OutputOptions(
        formats=TextFormat, format=format, output=output, json=json, quiet=quiet, color=color
    )
    format_name = out.choose_format(run_options, [])
    limits = run_options.limits
    out.write_report(
        lambda: render(limits, format_name, "rules" if literal else "limits", **out.screen),
        "\n".join(f"{info.name} = {info.value:g}" for info in limits.items()),
    )


def explain(
    words: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[NAME]",
            autocompletion=complete.explained,
            help="A finding, a symptom, a question or a threshold; or words to search for. "
            "Default: list all entries.",
        ),
    ] = None,
    output: options.OutputOption = None,
    format: options.TextFormatOption = None,
    json: options.JsonOption = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print only the title.")] = False,
    limit: options.LimitOption = None,
    config: options.ConfigOption = None,
    color: options.ColorOption = None,
) -> None:
    """Explain a finding, a question or a threshold, or search the explanations."""
    from stabdiag.explain import contents
    from stabdiag.explain import explain as page

    run_options = RunOptions(limit=limit, config=config)
    out = OutputOptions(
        formats=TextFormat, format=format, output=output, json=json, quiet=quiet, color=color
    )
    format_name = out.choose_format(run_options, [])
    limits = run_options.limits
    text = page(" ".join(words), limits) if words else contents(limits)
    title = text.partition("\n")[0].removeprefix("# ")
    if format_name == "terminal":
        from stabdiag.formats.terminal.page import markdown_page

        text = markdown_page(text, **out.screen)
    elif format_name == "json":
        from stabdiag.formats.json import dumps

        text = dumps({"title": title, "text": text})
    out.write_report(lambda: text, title)


def show_help(
    name: Annotated[
        str | None,
        typer.Argument(metavar="[COMMAND]", help="Default: list all commands."),
    ] = None,
) -> None:
    """Show the help of the program or of a command."""
    from stabdiag.cli import show_help

    show_help(name)


class SettingRow(NamedTuple):
    """A setting in force, with the table or option that sets it."""

    name: str
    value: str
    source: str
    reason: str = ""


def config(
    output: options.OutputOption = None,
    format: options.DataFormatOption = None,
    json: options.JsonOption = False,
    quiet: Annotated[
        bool, typer.Option("--quiet", "-q", help="Print only the settings file.")
    ] = False,
    fail_on: options.FailOnOption = None,
    dtype: options.DtypeOption = None,
    settings: options.SetOption = None,
    columns: options.ColumnOption = None,
    limit: options.LimitOption = None,
    config: options.ConfigOption = None,
) -> None:
    """Show the settings in force and where each comes from."""
    from stabdiag.formats.json import Json, dumps, escape
    from stabdiag.formats.measured import visible

    run_options = RunOptions(
        limit=limit, config=config, columns=columns, dtype=dtype, settings=settings
    )
    out = OutputOptions(formats=DataFormat, format=format, output=output, json=json, quiet=quiet)
    format_name = out.choose_format(run_options, [])
    in_force = [*_settings(run_options, fail_on)]
    file = run_options.project.name
    heading = f"Settings file: {file or 'none in this folder or above'}"
    if format_name == "json":
        values: list[Json] = [
            {key: escape(text) for key, text in item._asdict().items()} for item in in_force
        ]
        out.write_report(lambda: dumps({"file": escape(file) or None, "settings": values}), heading)
        return
    name_width, value_width = (max(len(item[cell]) for item in in_force) for cell in (0, 1))
    lines = [heading, ""]
    for item in in_force:
        cells = (f"{item.name:{name_width}}", f"{item.value:{value_width}}", item.source)
        lines.append(visible("  ".join(cells)))
        lines += [f"    {visible(item.reason)}"] * bool(item.reason)
    changed = run_options.limits.changed
    unchanged = len(run_options.limits.items()) - len(changed)
    lines += ["", f"{unchanged} limits have their defaults: stabdiag thresholds"]
    out.write_report(lambda: "\n".join(lines), heading)


def _settings(run_options: RunOptions, fail_on: FailOn | None) -> Iterator[SettingRow]:
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
        yield SettingRow(key, str(value), source)
    for table, file, flags, option in (
        ("columns", project.columns, run_options.columns_by_role, "--column"),
        ("manifest", project.manifest, run_options.manifest_fields, "--set"),
    ):
        for key, setting in {**file, **flags}.items():
            is_from_file = key in file and file[key] == setting
            yield SettingRow(
                f"{table}.{key}", str(setting), project.table(table) if is_from_file else option
            )
    for info in run_options.limits.changed:
        source = info.set_by if info.set_by == "--limit" else project.table("limits")
        yield SettingRow(f"limits.{info.name}", f"{info.value:g}", source)
    for rule in project.rules:
        until = f"{'until' if rule in project.ignored else 'expired'} {rule.until}"
        yield SettingRow(f"ignore.{rule.slug}", until, project.table("ignore"), rule.reason)
