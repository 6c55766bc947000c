"""How the pictures of the page look: once for a light page, once for a dark one."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import matplotlib as mpl
from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure


@dataclass(frozen=True, kw_only=True)
class Theme:
    """The colors on one kind of page."""

    name: str
    ink: str
    faint: str
    right: str
    wrong: str
    onset: str


THEMES = (
    Theme(
        name="light",
        ink="#1f2328",
        faint="#c4cad1",
        right="#0969da",
        wrong="#d1450b",
        onset="#1a7f37",
    ),
    Theme(
        name="dark",
        ink="#e6edf3",
        faint="#4a515a",
        right="#58a6ff",
        wrong="#ff8f5c",
        onset="#56d364",
    ),
)
NUMBER = re.compile(r"\d+\.\d{2,}")
Draw: TypeAlias = Callable[[Theme], Figure]


def save(draw: Draw, folder: Path, name: str) -> None:
    """Write a picture for both kinds of page; the same picture is the same file."""
    for theme in THEMES:
        with mpl.rc_context(settings(theme)):
            figure = draw(theme)
            path = folder / f"{name}-{theme.name}.svg"
            figure.savefig(path, transparent=True, metadata={"Date": None, "Creator": None})
            plt.close(figure)
            path.write_text(lean(path.read_text(encoding="utf-8")), encoding="utf-8")


def lean(svg: str) -> str:
    """Coordinates to a tenth of a point, and no blanks around lines."""
    short = re.sub(r"<[^>]*>", lambda tag: NUMBER.sub(rounded, tag[0]), svg)
    return "\n".join(line.strip() for line in short.splitlines()) + "\n"


def rounded(number: re.Match[str]) -> str:
    """A number with one digit after the point."""
    return f"{float(number[0]):.1f}"


def settings(theme: Theme) -> Any:  # a type that matplotlib spells out setting by setting
    """Matplotlib's settings for a theme."""
    ink = ("text.color", "axes.labelcolor", "axes.titlecolor", "xtick.labelcolor")
    faint = ("axes.edgecolor", "xtick.color", "ytick.color", "grid.color")
    return {
        **dict.fromkeys((*ink, "ytick.labelcolor"), theme.ink),
        **dict.fromkeys(faint, theme.faint),
        "axes.grid": False,
        "axes.labelsize": 9,
        "axes.spines.right": False,
        "axes.spines.top": False,
        "axes.titlesize": 9,
        "figure.constrained_layout.use": True,
        "font.family": "sans-serif",
        "font.size": 8.5,
        "legend.frameon": False,
        "lines.linewidth": 1.2,
        "path.simplify_threshold": 0.5,
        "svg.fonttype": "none",  # text stays text: small, and read by those who cannot see it
        "svg.hashsalt": "stabdiag",
    }


def bare(axes: Axes) -> None:
    """Leave the frame away."""
    axes.spines[:].set_visible(False)
    axes.tick_params(length=0)
