"""Conditions that select runs: ``outcome=healthy``, ``peak_lr>=0.003``."""

from __future__ import annotations

import fnmatch
import math
import operator
import re
from collections.abc import Callable
from typing import Any, Final, Self

from stabdiag.errors import StabdiagError
from stabdiag.model.frozen import frozen
from stabdiag.model.manifest.parsing import number
from stabdiag.model.patterns import lazy_pattern

_SIGN: Final = lazy_pattern(r"!=|>=|<=|=|>|<")
_COMPARISONS: Final[dict[str, Callable[[Any, Any], bool]]] = {
    ">=": operator.ge,
    "<=": operator.le,
    ">": operator.gt,
    "<": operator.lt,
    "=": operator.eq,
    "!=": operator.ne,
}


@frozen
class Condition:
    """A condition on a field or a setting of a run.

    Numbers compare as numbers. In a text ``*`` matches anything, ``?`` one character. A missing
    value only meets ``!=``.
    """

    name: str
    sign: str
    limit: float | None
    pattern: re.Pattern[str]

    @classmethod
    def parse(cls, text: str) -> Self:
        """Parse a condition.

        Raises:
            StabdiagError: if the text is not a condition.
        """
        match = _SIGN.search(text)
        name = text[: match.start()].strip() if match else ""
        if match is None or not name:
            raise StabdiagError(
                f"--where {text!r}: expected NAME=VALUE, such as outcome=healthy or "
                "'peak_lr>=0.003'"
            )
        sign, value = match[0], text[match.end() :].strip()
        limit = number(value)
        if sign not in ("=", "!=") and limit is None:
            raise StabdiagError(
                f"--where {text!r}: {sign} needs a number, and {value!r} is not one"
            )
        # Brackets are literal: names and values may contain them.
        pattern = re.compile(fnmatch.translate(value.replace("[", "[[]")))
        return cls(name=name, sign=sign, limit=limit, pattern=pattern)

    @property
    def needs_numbers(self) -> bool:
        """Whether the condition orders numbers, so that a text cannot meet it."""
        return self.sign not in ("=", "!=")

    def is_met(self, value: object) -> bool:
        """Return True if a value of the field or setting meets the condition."""
        if self.limit is not None and (recorded := _number(value)) is not None:
            return _COMPARISONS[self.sign](recorded, self.limit)
        matches = value is not None and self.pattern.match(str(value)) is not None
        return not self.needs_numbers and matches == (self.sign == "=")


def _number(value: object) -> float | None:
    """Return a recorded value as a number; a last loss may be infinite."""
    return value if isinstance(value, float) and math.isinf(value) else number(value)
