"""``stabdiag apply``: carry out an action of a report in a configuration file."""

from __future__ import annotations

import json as json_module
import sys
from difflib import unified_diff
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from stabdiag.cli.options import expand_pattern
from stabdiag.cli.terminal import Exit, notify, write_text
from stabdiag.errors import ConfigError, StabdiagError
from stabdiag.files import atomic_write

if TYPE_CHECKING:
    from stabdiag.apply import Result
    from stabdiag.formats.json import Json


def apply(
    report: Annotated[
        str,
        typer.Argument(
            metavar="REPORT",
            help="A report of `stabdiag diagnose LOG --json`; `-` reads standard input.",
        ),
    ],
    config: Annotated[
        Path,
        typer.Argument(
            metavar="CONFIG", help="The configuration of the run: JSON, YAML or TOML, never code."
        ),
    ],
    dry_run: Annotated[
        bool, typer.Option("--dry-run", "-n", help="Print the change, and write nothing.")
    ] = False,
    action: Annotated[
        int,
        typer.Option("--action", metavar="N", help="The action to apply, from 1. Default: 1."),
    ] = 1,
    json: Annotated[bool, typer.Option("--json", help="Print the change as JSON.")] = False,
    quiet: Annotated[
        bool, typer.Option("--quiet", "-q", help="Print nothing unless there is an error.")
    ] = False,
) -> Exit:
    """Apply the first action of a report to a configuration file, if it changes a setting.

    Prints the changed lines and what is left to do by hand. Comments and all other settings stay as
    they are.
    """
    from stabdiag.apply import apply_action, first_actions
    from stabdiag.apply.documents import read_document

    report, config = _only_match(report), Path(_only_match(str(config)))
    actions = first_actions(_read_report(report), report)
    if not 1 <= action <= len(actions):
        raise StabdiagError(f"--action {action}: the diagnosis has {len(actions)} actions")
    try:
        document = read_document(str(config), config.read_bytes())
    except FileNotFoundError:
        raise ConfigError(f"{config}: no such file or folder; check the path") from None
    except IsADirectoryError:
        raise ConfigError(f"{config}: a folder; name the configuration in it") from None
    result = apply_action(actions[action - 1], document)
    if result.edits and not dry_run:
        with atomic_write(config) as file:
            file.write(result.text.encode())
    if json:
        write_text(_as_json(result, dry_run=dry_run), None)
    elif not quiet:
        write_text(_in_words(result, document.text, str(config)), None)
        if dry_run and result.edits:
            notify(f"dry run: {config} is unchanged")
    return Exit.OK


def _only_match(path: str) -> str:
    """Return a path, or the only file that matches it if it is a pattern; `-` is standard input."""
    return path if path == "-" else str(expand_pattern(Path(path)))


def _read_report(name: str) -> object:
    try:
        text = sys.stdin.read() if name == "-" else Path(name).read_text(encoding="utf-8")
        content: object = json_module.loads(text)
    except FileNotFoundError:
        raise ConfigError(f"{name}: no such file or folder; check the path") from None
    except IsADirectoryError:
        raise ConfigError(f"{name}: a folder; name a report in it") from None
    except (ValueError, RecursionError):
        raise ConfigError(
            f"{name}: not a report; write one with stabdiag diagnose LOG --json"
        ) from None
    return content


def _in_words(result: Result, before: str, name: str) -> str:
    lines = [result.action["text"]]
    if result.edits:
        changed = unified_diff(
            before.splitlines(), result.text.splitlines(), name, name, n=1, lineterm=""
        )
        lines += ["", *changed]
    if result.note:
        lines += ["", f"{result.note}."]
    if result.by_hand and result.edits:
        lines += ["", f"Left to you: {'; '.join(result.by_hand)}."]
    elif result.reason:
        lines += [f"Left to you: {result.reason}."]
    elif result.by_hand:
        lines += ["Left to you: the action does not change a setting."]
    return "\n".join(lines)


def _as_json(result: Result, *, dry_run: bool) -> str:
    from stabdiag.formats.json import dumps, plain

    edits: list[Json] = [
        {
            "setting": ".".join(edit.path),
            "from": None if edit.after else plain(edit.before),
            "to": plain(edit.value),
        }
        for edit in result.edits
    ]
    return dumps(
        {
            "framework": result.framework,
            "written": bool(result.edits) and not dry_run,
            "edits": edits,
            "note": result.note,
            "by_hand": list(result.by_hand),
            "reason": result.reason,
        }
    )
