"""Keep the errors and the time of the recorder away from the training."""

from __future__ import annotations

import functools
from collections.abc import Callable
from time import perf_counter
from typing import Any, TypeVar

# The time of the wrapper itself, outside its own measurement.
_CALL_SECONDS = 5e-7

_Method = TypeVar("_Method", bound=Callable[..., Any])


def guarded(method: _Method) -> _Method:
    """Count the time of a method of the recorder, and switch the recorder off if it fails."""

    @functools.wraps(method)
    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        if self._off:
            return None
        start = perf_counter()
        try:
            return method(self, *args, **kwargs)
        except Exception as error:  # noqa: BLE001 - training must go on, whatever went wrong here
            self._switch_off(error)
            return None
        finally:
            self._cost.add(perf_counter() - start + _CALL_SECONDS)

    return call  # type: ignore[return-value]
