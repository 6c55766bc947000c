"""The texts about outcomes, symptoms and questions, as Markdown with the limits in force.

They are the files in ``stabdiag/explain``; ``{spike.sigma}`` in a text is that limit's value.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from stabdiag.model.limits import Limits

_LIMIT = re.compile(r"\{([a-z]+\.[a-z_]+)\}")


def text(kind: str, name: str) -> str:
    """Return the text as it is kept, limits not filled in; kind is ``questions``, for example."""
    from importlib.resources import files  # which a diagnosis does not wait for

    return files("stabdiag").joinpath("explain", kind, f"{name}.md").read_text(encoding="utf-8")


def filled(content: str, limits: Limits) -> str:
    """Return a text with the values of the limits that it names."""
    values = {info.name: f"{info.value:g}" for info in limits.items()}
    return _LIMIT.sub(lambda found: values[found.group(1)], content)
