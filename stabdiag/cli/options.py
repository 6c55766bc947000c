"""The options that several commands take."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from stabdiag.errors import ManifestError

if TYPE_CHECKING:
    from stabdiag.limits import Limits

LimitFlags = Annotated[
    list[str] | None,
    typer.Option(
        "--limit", metavar="NAME=VALUE", help="Change a threshold: `spike.sigma=4`. Repeatable."
    ),
]
ConfigFile = Annotated[
    Path | None,
    typer.Option(
        "--config",
        metavar="FILE",
        help="Thresholds from this TOML file instead of `pyproject.toml` and `stabdiag.toml`.",
    ),
]
Output = Annotated[
    Path | None,
    typer.Option("--output", "-o", metavar="FILE", help="Write to a file instead."),
]
Color = Annotated[
    bool | None,
    typer.Option(
        "--color/--no-color",
        help="Colour, or none; by default as the terminal can.",
        show_default=False,
    ),
]


def limits_of(flags: list[str] | None, config: Path | None) -> Limits:
    """Return the limits in force under these options."""
    from stabdiag.config import configured_limits

    return configured_limits(Path.cwd(), config=config, flags=flags or ())


def pair(text: str, flag: str) -> tuple[str, str]:
    """Return name and value of ``NAME=VALUE``."""
    name, equals, value = text.partition("=")
    if not equals or not name.strip():
        wants = {"--column": "ROLE=NAME such as loss=train/ce"}.get(flag, "FIELD=VALUE")
        raise ManifestError(f"{flag} wants {wants}, not {text!r}")
    return name.strip(), value
