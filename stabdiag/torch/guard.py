"""Keep the errors and the time of the recorder away from the training."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar

import torch

_Method = TypeVar("_Method", bound=Callable[..., Any])


def guarded(method: _Method) -> _Method:
    """Count the time of a method of the recorder, and switch the recorder off if it fails."""

    @functools.wraps(method)
    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        if self._off:
            return None
        self._cost.enter()
        try:
            return method(self, *args, **kwargs)
        except Exception as error:  # noqa: BLE001 - training must go on after any error here
            self._switch_off(error)
            return None
        finally:
            self._cost.leave()

    return call  # type: ignore[return-value]


def uncompiled(method: _Method) -> _Method:
    """Run a method as it is where a compiled function calls it."""
    result: _Method = torch.compiler.disable(method)
    return result


def untimed(method: _Method) -> _Method:
    """Switch the recorder off if a method of it fails; for calls that are too short to time."""

    @functools.wraps(method)
    def call(self: Any, *args: Any) -> Any:
        if self._off:
            return None
        try:
            return method(self, *args)
        except Exception as error:  # noqa: BLE001 - training must go on after any error here
            self._switch_off(error)
            return None

    return call  # type: ignore[return-value]
