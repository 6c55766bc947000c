"""Dataclasses with keyword-only fields, whose methods are not compiled for each class.

``dataclass`` compiles up to six methods of each class as it is imported. For the 150 classes that a
diagnosis takes, that is a fifth of the time of a small log.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import MISSING, Field, FrozenInstanceError, dataclass, field, fields
from typing import Any, NoReturn, TypeVar, dataclass_transform, overload

_Class = TypeVar("_Class", bound=type[Any])


@overload
def frozen(cls: _Class, /) -> _Class: ...
@overload
def frozen(*, eq: bool) -> Callable[[_Class], _Class]: ...
@dataclass_transform(
    kw_only_default=True, frozen_default=True, eq_default=False, field_specifiers=(field,)
)
def frozen(cls: Any = None, /, *, eq: bool = False) -> Any:
    """Make a class what ``dataclass(frozen=True, kw_only=True)`` would make it.

    With ``eq``, objects with equal values are equal; else an object equals none but itself.

    >>> @frozen(eq=True)
    ... class Point:
    ...     x: int
    ...     y: int = 0
    >>> Point(x=1), Point(x=1) == Point(x=1, y=0)
    (Point(x=1, y=0), True)
    """
    return (lambda given: _made(given, eq=eq)) if cls is None else _made(cls, eq=eq)


@dataclass_transform(kw_only_default=True, eq_default=False, field_specifiers=(field,))
def mutable(cls: _Class) -> _Class:
    """Make a class what ``dataclass(kw_only=True, eq=False)`` would make it."""
    made: _Class = _made(cls, eq=False, is_frozen=False)
    return made


def _made(cls: Any, *, eq: bool, is_frozen: bool = True) -> Any:
    cls.__doc__ = cls.__doc__ or cls.__name__  # else dataclass makes one of the signature
    dataclass(init=False, repr=False, eq=False, kw_only=True)(cls)
    every = fields(cls)
    methods = {
        "__init__": _init(every),
        "__repr__": _repr,
        **({"__setattr__": _refuse, "__delattr__": _refuse} if is_frozen else {}),
        **(_by_value([entry.name for entry in every if entry.compare]) if eq else {}),
    }
    for name, method in methods.items():
        if name not in vars(cls):
            setattr(cls, name, method)
    return cls


def _init(every: Sequence[Field[Any]]) -> Callable[..., None]:
    names = {entry.name for entry in every}
    defaults = {entry.name: entry.default for entry in every if entry.default is not MISSING}
    makers = [
        (entry.name, entry.default_factory)
        for entry in every
        if entry.default_factory is not MISSING
    ]

    def init(self: object, /, **given: object) -> None:
        if len(given) < len(names):  # most objects are made with a value for each field
            given = defaults | given
            for name, make in makers:
                if name not in given:
                    given[name] = make()
        if given.keys() != names:
            wrong = ", ".join(sorted(given.keys() ^ names))
            raise TypeError(f"{type(self).__name__}: missing or unknown: {wrong}")
        vars(self).update(given)

    return init


def _by_value(names: Sequence[str]) -> dict[str, Callable[..., object]]:
    def equal(self: object, other: object) -> object:
        if type(other) is not type(self):
            return NotImplemented
        return [getattr(self, name) for name in names] == [getattr(other, name) for name in names]

    def hashed(self: object) -> int:
        return hash(tuple(getattr(self, name) for name in names))

    return {"__eq__": equal, "__hash__": hashed}


def _repr(self: Any) -> str:
    values = ", ".join(f"{entry.name}={getattr(self, entry.name)!r}" for entry in fields(self))
    return f"{type(self).__qualname__}({values})"


def _refuse(self: object, name: str, *_: object) -> NoReturn:
    raise FrozenInstanceError(f"{type(self).__name__} is frozen: {name} cannot be changed")
