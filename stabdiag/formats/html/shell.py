"""The common shell of all pages: head, policy, styles, scripts and data.

A page works from disk without a network: it contains its styles, scripts and data, and its policy
blocks everything else. Log text enters through the templates, which escape it, and through the
data, which the script writes as text only.
"""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from hashlib import sha256
from importlib.resources import files

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from stabdiag._version import __version__
from stabdiag.formats.measured import in_words, label, number, visible
from stabdiag.model.text import plural


def page(
    template: str,
    *,
    styles: Sequence[str],
    scripts: Sequence[str] = (),
    data: Mapping[str, object] | None = None,
    **values: object,
) -> str:
    """Render a template of this package in the shell.

    ``styles`` are names of style sheets, ``scripts`` are the texts of scripts, and ``data`` is
    their input.
    """
    style = "".join(map(source, styles))
    # Only "<" can end a script element or start a comment in it.
    content = json.dumps(data, allow_nan=False, separators=(",", ":")).replace("<", "\\u003c")
    return filled(
        template,
        policy=Markup(_policy(scripts, style)),
        style=Markup(style),
        scripts=[Markup(script) for script in scripts],
        data=Markup(content),
        version=__version__,
        **values,
    )


def filled(template: str, **values: object) -> str:
    """Render a template of this package."""
    return _pages().get_template(template).render(values)


def source(name: str) -> str:
    """Return the text of a file of this package."""
    return files("stabdiag.formats.html").joinpath(name).read_text(encoding="utf-8")


def _policy(scripts: Sequence[str], style: str) -> str:
    """Return the content security policy, which allows only the content of the page."""
    allowed = " ".join(map(_hash, scripts)) or "'none'"
    return (
        f"default-src 'none'; script-src {allowed}; style-src {_hash(style)}; "
        "base-uri 'none'; form-action 'none'; require-trusted-types-for 'script'"
    )


def _hash(text: str) -> str:
    digest = b64encode(sha256(text.encode("utf-8")).digest()).decode("ascii")
    return f"'sha256-{digest}'"


def templates(folder: str, escape: Callable[[str], str], *, autoescape: bool) -> Environment:
    """Return the templates in a folder of the formats; they escape values except ``Markup``."""
    environment = Environment(
        loader=PackageLoader("stabdiag.formats", folder),
        finalize=lambda value: value if isinstance(value, Markup) else escape(number(value)),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=not autoescape,
        autoescape=autoescape,
    )
    environment.globals.update(plural=plural, label=label, in_words=in_words)
    return environment


@cache
def _pages() -> Environment:
    return templates("html", visible, autoescape=True)
