"""Declare a limit: one field of a section, and below it the reason for its default."""

from __future__ import annotations

import ast
import inspect
import math
from collections.abc import Iterator
from dataclasses import field
from itertools import pairwise
from typing import Any

from stabdiag.model.frozen import frozen

TREE = "decision tree"
CALIBRATED = "own calibration"


@frozen(eq=True)
class LimitDefinition:
    """The definition of a limit: unit, bounds (inclusive), and the source of its default."""

    unit: str
    at_least: float
    at_most: float
    source: str


def limit(
    default: float,
    *,
    unit: str,
    at_least: float = 0.0,
    at_most: float = math.inf,
    source: str = CALIBRATED,
) -> Any:
    """Declare one limit as a dataclass field.

    Without a ``source``, the default is calibrated by this project.
    """
    about = LimitDefinition(unit=unit, at_least=at_least, at_most=at_most, source=source)
    return field(default=default, metadata={"about": about})


def reasons(section: type) -> Iterator[tuple[str, str]]:
    """Yield the name of each field of a section, with the string below it.

    Python drops these strings, so they are read from the source, as Sphinx reads them.
    """
    (body,) = ast.parse(inspect.getsource(section)).body
    assert isinstance(body, ast.ClassDef)
    for pair in pairwise(body.body):
        match pair:
            case (ast.AnnAssign(ast.Name(name)), ast.Expr(ast.Constant(str(text)))):
                yield name, " ".join(text.split())
