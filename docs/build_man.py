"""The man page, from the same declarations as ``--help``."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import typer

from stabdiag.cli import app

if TYPE_CHECKING:
    from collections.abc import Iterator


def man_page() -> str:
    """Return ``stabdiag.1``, in the macros of man(7)."""
    program: Any = typer.main.get_command(app())
    context = typer.Context(program, info_name="stabdiag")
    return "\n".join([*_head(program), *_commands(program, context), *_foot(), ""])


def _head(program: Any) -> Iterator[str]:
    yield '.TH STABDIAG 1 "" "stabdiag" "User Commands"'
    yield ".SH NAME"
    yield r"stabdiag \- what went wrong in a training run, and what to do first"
    yield ".SH SYNOPSIS"
    yield r".B stabdiag"
    yield r"\fILOG\fR... [\fIoptions\fR]"
    yield ".br"
    yield r".B stabdiag"
    yield r"\fICOMMAND\fR [\fIoptions\fR]"
    yield ".SH DESCRIPTION"
    yield _text(program.help)
    yield r"Without a command, a log is given to \fBdiagnose\fR."
    yield ".SH OPTIONS"
    yield from _options(program)


def _commands(program: Any, context: typer.Context) -> Iterator[str]:
    """Yield a section for each command: what it does, its options, its examples."""
    for name in program.list_commands(context):
        command = program.get_command(context, name)
        yield f".SH STABDIAG {name.upper()}"
        yield _text(command.help)
        yield from _options(command)
        for paragraph in command.epilog.strip().split("\n\n"):
            yield ".PP"
            yield _text(paragraph)


def _options(command: Any) -> Iterator[str]:
    for option in command.params:
        named = option.param_type_name == "option"
        names = ", ".join([*option.opts, *option.secondary_opts]) if named else option.metavar
        value = f" \\fI{_text(option.metavar)}\\fR" if named and option.metavar else ""
        yield ".TP"
        yield f"\\fB{_text(names)}\\fR{value}"
        yield _text(option.help or "")


def _foot() -> Iterator[str]:
    yield ".SH FILES"
    yield ".TP"
    yield r"\fBstabdiag.toml\fR, \fBpyproject.toml\fR"
    yield _text("The settings of a project; `stabdiag config` shows what is in force.")


def _text(markdown: str) -> str:
    """Return a paragraph with what roff and Markdown mark turned into plain or bold text."""
    text = " ".join(markdown.split()).replace("\\", r"\e").replace("-", r"\-")
    text = re.sub(r"`([^`]*)`|\*\*([^*]*)\*\*", lambda m: rf"\fB{m[1] or m[2]}\fR", text)
    return rf"\&{text}" if text.startswith((".", "'")) else text
