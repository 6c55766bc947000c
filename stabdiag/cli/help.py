"""The text of ``--help``: common options first, in few lines, the same for every typer version."""

from __future__ import annotations

import re
import shutil
import sys
from collections.abc import Iterable, Iterator
from textwrap import wrap
from typing import Any, Final

from typer.core import TyperCommand, TyperGroup

from stabdiag.cli.terminal import has_color

# Widths of the text and of the column with the names of options.
_MAX_WIDTH: Final = 100
_MIN_WIDTH: Final = 40
_NAME_WIDTH: Final = 25

_BOLD: Final = "\x1b[1m{}\x1b[0m"


class Command(TyperCommand):
    """A command with a compact help text."""

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Write the help text."""
        formatter.write(_render(_command_lines(self, ctx)))


class Program(TyperGroup):
    """The program with a compact help text."""

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Write the help text."""
        formatter.write(_render(_program_lines(self, ctx)))


def _render(lines: Iterable[str]) -> str:
    """Return the lines with headings in bold on a terminal."""
    texts = list(lines)
    if has_color(sys.stdout.isatty()):
        texts = [
            _BOLD.format(text) if text.endswith(":") and text[0] != " " else text for text in texts
        ]
    return "\n".join(texts) + "\n"


def _command_lines(command: Any, context: Any) -> Iterator[str]:
    params = command.get_params(context)
    arguments = [param for param in params if param.param_type_name == "argument"]
    usage = [str(param.metavar) for param in arguments]
    usage += [f"{param.opts[-1]} {param.metavar}" for param in params if _is_required_option(param)]
    yield " ".join(["Usage:", context.command_path, *usage, "[OPTIONS]"])
    yield ""
    for number, paragraph in enumerate(command.help.strip().split("\n\n")):
        yield from [""] * (number > 0)
        yield from _wrapped(paragraph)
    yield ""
    for argument in arguments:
        yield from _entry(argument.metavar, argument.help)
    yield from [""] * bool(arguments)
    options = [param for param in params if param.param_type_name == "option"]
    panels = dict.fromkeys(option.rich_help_panel or "Options" for option in options)
    for panel in sorted(panels, key=lambda name: name != "Options"):
        yield f"{panel}:"
        for option in options:
            if (option.rich_help_panel or "Options") == panel:
                yield from _option(option)
    yield ""
    yield from _epilog(command.epilog or "")


def _program_lines(program: Any, context: Any) -> Iterator[str]:
    yield f"Usage: {context.command_path} LOG... [OPTIONS]"
    yield f"       {context.command_path} COMMAND [OPTIONS]"
    yield ""
    yield from _wrapped(program.help)
    yield ""
    yield "Commands:"
    for name in program.list_commands(context):
        summary = program.get_command(context, name).help.strip().split("\n\n")[0]
        yield from _entry(name, summary, names_width=14)
    yield ""
    yield "Options:"
    for option in program.get_params(context):
        yield from _option(option)
    yield ""
    yield from _epilog(program.epilog or "")


def _is_required_option(param: Any) -> bool:
    return bool(param.param_type_name == "option" and param.required)


def _option(option: Any) -> Iterator[str]:
    long = [name for name in option.opts if name.startswith("--")]
    short = [name for name in option.opts if not name.startswith("--")]
    names = ", ".join([*short, *long[:1], *option.secondary_opts])  # without synonyms
    is_flag = getattr(option, "is_flag", False)
    metavar = "" if is_flag or option.metavar is None else f" {option.metavar}"
    yield from _entry(f"{names}{metavar}", option.help or "")


def _entry(name: str, text: str, names_width: int = _NAME_WIDTH) -> Iterator[str]:
    """Yield a name with its description next to it, or below it if the name is long."""
    lines = _wrapped(text, names_width)
    head = f"  {name}"
    if len(head) < names_width:
        lines[0] = f"{head:{names_width}}{lines[0].lstrip()}"
    else:
        yield head
    yield from lines


def _epilog(epilog: str) -> Iterator[str]:
    """Yield the paragraphs below the options; the examples are lines of code."""
    is_example = False
    for paragraph in epilog.split("\n\n"):
        if paragraph.startswith("`") and paragraph.endswith("`"):
            yield from _wrapped(paragraph, indent=2, hanging=4)
            is_example = True
            continue
        if is_example:
            yield ""
        if paragraph == "**Examples**":
            yield "Examples:"
        else:
            yield from _wrapped(paragraph)


def _wrapped(text: str, indent: int = 0, hanging: int = 0) -> list[str]:
    """Return the lines of a text; ``hanging`` is the extra indent after the first line."""
    margin = " " * indent
    width = max(min(shutil.get_terminal_size().columns, _MAX_WIDTH), _MIN_WIDTH)
    return wrap(
        _plain(text),
        width,
        initial_indent=margin,
        subsequent_indent=margin + " " * hanging,
        break_long_words=False,
        break_on_hyphens=False,
    ) or [margin]


def _plain(markdown: str) -> str:
    """Return Markdown without its marks."""
    return re.sub(r"`([^`]*)`|\*\*([^*]*)\*\*", lambda match: match[1] or match[2], markdown)
