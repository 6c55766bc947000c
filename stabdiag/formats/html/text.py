"""Templates, and the one way by which a value gets into them."""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING

from jinja2 import Environment, FunctionLoader, StrictUndefined
from markupsafe import Markup

from stabdiag.formats.measured import in_words, label, number
from stabdiag.formats.visible import visible
from stabdiag.model.text import plural

if TYPE_CHECKING:
    from stabdiag.model.findings import Scalar


def written(template: str, **values: object) -> str:
    """Return a template of this package, filled in."""
    return _environment().get_template(template).render(values)


def source(name: str) -> str:
    """Return the text of a file of this package."""
    return files("stabdiag.formats.html").joinpath(name).read_text(encoding="utf-8")


def _shown(value: Scalar | Markup) -> str | Markup:
    """Return what a template writes for a value, before it is escaped."""
    return value if isinstance(value, Markup) else visible(number(value))


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=FunctionLoader(source),
        autoescape=True,
        finalize=_shown,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.globals.update(plural=plural, label=label, in_words=in_words)
    return environment
