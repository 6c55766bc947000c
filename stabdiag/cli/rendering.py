"""Reports as text, with the terminal report as the fallback if a format fails."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from stabdiag.cli.terminal import notify, notify_text
from stabdiag.errors import StabdiagError

if TYPE_CHECKING:
    from stabdiag.formats import Kind


class RenderError(Exception):
    """The report exists, but it could not be written in the requested format.

    ``verdict`` is the diagnosis in one line.
    """

    def __init__(self, format: str, verdict: str) -> None:
        super().__init__(f"the {format} output failed")
        self.verdict = verdict


@contextmanager
def terminal_fallback(
    subject: object, format: str, kind: Kind = "report", *, verdict: str
) -> Iterator[None]:
    """Print the terminal report on standard error if the code inside fails to render the subject.

    Standard output and files get complete documents only, so the fallback goes to neither.

    Raises:
        RenderError: after the fallback; the process exits with the code of an internal error.
    """
    try:
        yield
    except (StabdiagError, OSError, MemoryError):
        raise
    except Exception as error:
        _print_fallback(subject, format, kind, verdict)
        raise RenderError(format, verdict) from error


def render_pieces(
    subject: object, format: str, kind: Kind = "report", /, *, verdict: str, **options: object
) -> Iterable[str]:
    """Yield a report as text in one format, piece by piece, as ``formats.pieces`` does.

    Raises:
        RenderError: if the format fails; the terminal report is on standard error then.
    """
    from stabdiag.formats import pieces

    with terminal_fallback(subject, format, kind, verdict=verdict):
        yield from pieces(subject, format, kind, **options)


def render_report(
    subject: object, format: str, kind: Kind = "report", /, *, verdict: str, **options: object
) -> str:
    """Return a report as text in one format.

    Raises:
        RenderError: if the format fails; the terminal report is on standard error then.
    """
    return "".join(render_pieces(subject, format, kind, verdict=verdict, **options))


def _print_fallback(subject: object, format: str, kind: Kind, verdict: str) -> None:
    from stabdiag.formats import names, render

    if format != "terminal" and "terminal" in names(kind):
        try:
            text = render(subject, "terminal", kind)
        except Exception:  # noqa: BLE001 - the verdict is left
            pass
        else:
            notify_text(text)
            return
    notify(verdict)
