"""The thresholds in force: the tree's quick reference, and every limit with its reason.

Both are derived from the declarations in ``limits``, and can be had for a terminal, as Markdown, as
JSON, and as TOML that can be edited and read back.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from stabdiag.errors import refuse_unknown

if TYPE_CHECKING:
    from stabdiag.model.limits import Limits

FORMATS = ("terminal", "markdown", "json", "toml")


def thresholds(
    limits: Limits, format: str, width: int = 80, color: bool = False, encoding: str = "utf-8"
) -> str:
    """Return the thresholds in force as text; width, color and encoding serve the terminal.

    Raises:
        StabdiagError: for an unknown format.
    """
    refuse_unknown(format, FORMATS)
    if format == "terminal":
        from stabdiag.formats.terminal.console import printed
        from stabdiag.formats.terminal.limits import limits_page

        lines = partial(limits_page, limits)
        return printed(lines, width=width, color=color, encoding=encoding)
    from stabdiag.formats import limits as text

    writers = {"markdown": text.markdown, "json": text.as_json, "toml": text.toml}
    return writers[format](limits)
