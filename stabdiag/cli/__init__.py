"""The command line: arguments → calls → exit code. The only part that writes to the terminal."""

from __future__ import annotations

import gc
import sys
from typing import Annotated, NoReturn

import typer

from stabdiag import __version__
from stabdiag.cli import checklist, convert, diagnose, postmortem, preflight, tables, watch
from stabdiag.cli.terminal import tell
from stabdiag.errors import StabdiagError

app = typer.Typer(
    name="stabdiag",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="markdown",
    pretty_exceptions_enable=False,
    help="Say what went wrong with a training run, and what to do about it first.",
)


@app.callback()
def _main(
    version: Annotated[
        bool,
        typer.Option(
            "--version",
            callback=lambda value: _print_version() if value else None,
            is_eager=True,
            help="Print the version and exit.",
        ),
    ] = False,
) -> None:
    pass


app.command(epilog=diagnose.EPILOG)(diagnose.diagnose)
app.command(epilog=watch.EPILOG)(watch.watch)
app.command(epilog=postmortem.EPILOG)(postmortem.postmortem)
app.command(epilog=convert.EPILOG)(convert.convert)
app.command(epilog=preflight.EPILOG)(preflight.preflight)
app.command(epilog=checklist.EPILOG)(checklist.checklist)
app.command(epilog=tables.FORMATS)(tables.formats)
app.command(epilog=tables.THRESHOLDS)(tables.thresholds)
app.command(epilog=tables.EXPLAIN)(tables.explain)


def main() -> NoReturn:
    """Run the command line; every error that is the user's to mend is one line and exit code 2."""
    # A process that soon ends gains nothing by looking for cycles: 5% of the time of a small log.
    gc.disable()
    try:
        code = app(standalone_mode=False) or 0
    except StabdiagError as error:
        code = _complain(str(error))
    except typer.Abort:
        code = 130
    except Exception as error:  # noqa: BLE001 - usage errors of the argument parser, see below
        code = _usage(error)
    sys.exit(code)


def _usage(error: Exception) -> int:
    """Print a usage error of the argument parser in one line; let anything else be seen."""
    if not hasattr(error, "format_message"):
        raise error
    return _complain(f"{error.format_message()} (see stabdiag --help)")


def _complain(message: str) -> int:
    tell(message)
    return 2


def _print_version() -> NoReturn:
    typer.echo(f"stabdiag {__version__}")
    raise typer.Exit
