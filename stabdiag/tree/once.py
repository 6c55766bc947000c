"""Results that several questions and symptoms use, computed once for each case."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import TypeVar
from weakref import WeakKeyDictionary

from stabdiag.tree.run import Run

_Case = TypeVar("_Case", bound=Run)
_Result = TypeVar("_Result")


def once_per_case(function: Callable[[_Case], _Result]) -> Callable[[_Case], _Result]:
    """Return a function that keeps its result for each case, as long as the case exists."""
    results: WeakKeyDictionary[_Case, _Result] = WeakKeyDictionary()

    @wraps(function)
    def result(case: _Case) -> _Result:
        if case not in results:
            results[case] = function(case)
        return results[case]

    return result
