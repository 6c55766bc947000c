"""Conditions that select references: ``outcome=healthy``, ``peak_lr>=0.003``."""

from __future__ import annotations

import fnmatch
import operator
import re
from collections.abc import Callable
from typing import Any, Final, Self

from stabdiag.baseline.profile import RunProfile
from stabdiag.errors import StabdiagError
from stabdiag.model.frozen import frozen
from stabdiag.model.manifest.keys import number

_CONDITION: Final = re.compile(r"\s*(.+?)\s*(!=|>=|<=|=|>|<)\s*(.*?)\s*", re.DOTALL)
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

    Numbers compare as numbers. In a text ``*`` matches anything, ``?`` one character. A run
    without the field only meets ``!=``.
    """

    name: str
    sign: str
    value: str

    @classmethod
    def parse(cls, text: str) -> Self:
        """Parse a condition.

        Raises:
            StabdiagError: if the text is not a condition.
        """
        match = _CONDITION.fullmatch(text)
        if match is None:
            raise StabdiagError(
                f"--where {text!r}: expected NAME=VALUE, such as outcome=healthy or "
                "'peak_lr>=0.003'"
            )
        name, sign, value = match.groups()
        if sign not in ("=", "!=") and number(value) is None:
            raise StabdiagError(f"--where {text!r}: {sign} compares numbers, and {value!r} is not")
        return cls(name=name, sign=sign, value=value)

    def is_met(self, run: RunProfile) -> bool:
        """Return True if a run meets the condition."""
        fields = {"run": run.name, "outcome": run.outcome, "severity": run.severity}
        value: object = fields.get(self.name) or run.settings.get(self.name)
        limit, value_number = number(self.value), number(value)
        if limit is not None and value_number is not None:
            return _COMPARISONS[self.sign](value_number, limit)
        pattern = fnmatch.translate(self.value.replace("[", "[[]"))
        matches = value is not None and re.match(pattern, str(value)) is not None
        return matches == (self.sign == "=") if self.sign in ("=", "!=") else False
