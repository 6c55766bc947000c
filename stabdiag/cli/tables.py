"""The commands that show what stabdiag knows: formats, thresholds, explanations, settings."""

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
def formats(out: options.Sheet) -> None:
    """List the log formats that can be read, and how each is recognized."""
    chosen = out.chosen(options.Held(), [])
    out.write(render(log_formats(), chosen, "logs", **out.screen))


def log_formats() -> tuple[LogFormat, ...]:
    """Return the formats of logs, in the order in which a log is tried against them."""
    from stabdiag.formats.lists import LogFormat
    from stabdiag.readers.registry import READERS

    return tuple(
        LogFormat(
            name=one.name,
            title=one.title,
            state="missing" if one.missing else "installed" if one.extra else "built in",
            extra=one.extra,
            install=f"pip install 'stabdiag[{one.extra}]'" if one.missing else None,
            recognised=one.detected_by,
            loses=one.not_read,
            example=one.example,
        )
        for one in READERS
    )


@options.bundled
def thresholds(
    how: options.Held,
    out: Annotated[options.Data, names("limits")],
    literal: options.Literal = False,
) -> None:
    """Print the quick-reference table and every threshold in force."""
    chosen = out.chosen(how, [])
    out.write(render(how.limits, chosen, "rules" if literal else "limits", **out.screen))


@options.bundled
def explain(
    how: options.Held,
    out: options.Output,
    words: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="NAME",
            autocompletion=complete.explained,
            help="An outcome, a symptom, a finding of compare, a question or a threshold; or words "
            "to search for. Default: list them all.",
        ),
    ] = None,
) -> None:
    """Explain a finding, a question or a threshold, or search for what fits some words."""
    from stabdiag.explain import contents
    from stabdiag.explain import explain as page

    chosen = out.chosen(how, [])
    text = page(" ".join(words), how.limits) if words else contents(how.limits)
    if chosen == "terminal":
        from stabdiag.formats.terminal.page import markdown_page

        text = markdown_page(text, **out.screen)
    out.write(text)


class Setting(NamedTuple):
    """One setting in force: its value, the table or the option that it is from, and a reason."""

    name: str
    value: str
    source: str
    reason: str = ""


@options.bundled
def config(
    how: options.Runs,
    out: Annotated[options.Data, ("terminal", "json")],
    fail_on: options.Severe = None,
) -> None:
    """Show the project's settings in force, and where each comes from."""
    from stabdiag.formats.json import Json, dumps, escape
    from stabdiag.formats.measured import visible

    chosen = out.chosen(how, [])
    found = [*_settings(how, fail_on)]
    if chosen == "json":
        told: list[Json] = [
            {key: escape(text) for key, text in one._asdict().items()} for one in found
        ]
        out.write(dumps({"file": escape(how.project.name) or None, "settings": told}))
        return
    name, value = (max(len(one[cell]) for one in found) for cell in (0, 1))
    lines = [f"Settings file: {how.project.name or 'none here, nor in a folder above'}", ""]
    for one in found:
        lines.append(visible(f"{one.name:{name}}  {one.value:{value}}  {one.source}"))
        lines += [f"    {visible(one.reason)}"] * bool(one.reason)
    changed = how.limits.changed
    rest = len(how.limits.items()) - len(changed)
    out.write("\n".join([*lines, "", f"{rest} limits as by default: stabdiag thresholds"]))


def _settings(how: options.Runs, fail_on: FailOn | None) -> Iterator[Setting]:
    """Yield what is in force; of the limits, those that differ from their defaults."""
    project = how.project
    file: Mapping[str, object]
    flags: Mapping[str, object]
    flag = (fail_on, "--fail-on")
    for key, told in (
        ("fail-on", (flag, (project.fail_on, project.table()), ("error", "default"))),
        ("format", ((project.format, project.table()), ("as each command says", "default"))),
    ):
        value, source = next(one for one in told if one[0] is not None)
        yield Setting(key, str(value), source)
    for table, file, flags, option in (
        ("columns", project.columns, how.named, "--column"),
        ("manifest", project.manifest, how.given, "--set"),
    ):
        for key, given in {**file, **flags}.items():
            own = key in file and file[key] == given
            yield Setting(f"{table}.{key}", str(given), project.table(table) if own else option)
    for info in how.limits.changed:
        source = info.set_by if info.set_by == "--limit" else project.table("limits")
        yield Setting(f"limits.{info.name}", f"{info.value:g}", source)
    for rule in project.rules:
        until = f"{'until' if rule in project.ignored else 'expired'} {rule.until}"
        yield Setting(f"ignore.{rule.slug}", until, project.table("ignore"), rule.reason)
