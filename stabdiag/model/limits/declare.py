"""How a limit is declared: one field of a section, and below it the reason for its default."""

from __future__ import annotations

import ast
import inspect
import math
from collections.abc import Iterator
from dataclasses import field
from itertools import pairwise
from types import ModuleType
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


def reasons(module: ModuleType) -> Iterator[tuple[str, str]]:
    """Yield the string below each field of the classes of a module, by ``Class.field``.

    Python drops these strings, so they are read from the source, as Sphinx reads them.
    """
    statements = ast.parse(inspect.getsource(module)).body
    for section in (node for node in statements if isinstance(node, ast.ClassDef)):
        for pair in pairwise(section.body):
            match pair:
                case (ast.AnnAssign(ast.Name(name)), ast.Expr(ast.Constant(str(text)))):
                    yield f"{section.name}.{name}", " ".join(text.split())
