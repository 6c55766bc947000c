"""Frozen classes are what ``dataclass(frozen=True, kw_only=True)`` makes, at a lower cost."""

import pickle
from dataclasses import FrozenInstanceError, field, fields, replace

import pytest

from stabdiag.model.frozen import frozen


@frozen(eq=True)
class Base:
    name: str
    tags: dict[str, int] = field(default_factory=dict, compare=False)


@frozen(eq=True)
class Derived(Base):
    name: str = "none"
    size: float = 1.0


@frozen
class Alone:
    name: str

    def __repr__(self):
        return "its own"


def test_defaults_are_filled_in_and_no_two_objects_share_one():
    instance, other = Derived(), Derived(size=2.0)
    assert (instance.name, instance.size, instance.tags) == ("none", 1.0, {})
    assert instance.tags is not other.tags
    assert [part.name for part in fields(Derived)] == ["name", "tags", "size"]
    assert replace(instance, size=2.0) == other
    assert pickle.loads(pickle.dumps(other)) == other


@pytest.mark.parametrize("given", [{}, {"name": "a", "sized": 1}, {"size": 1.0}])
def test_missing_and_unknown_arguments_are_errors(given):
    with pytest.raises(TypeError, match=r"^Base: missing or unknown: (name|sized)"):
        Base(**given)


def test_nothing_can_be_changed():
    instance = Derived()
    with pytest.raises(FrozenInstanceError, match="size cannot be changed"):
        instance.size = 2.0
    with pytest.raises(FrozenInstanceError, match="name cannot be changed"):
        del instance.name


def test_value_equality_is_optional():
    assert Base(name="a", tags={"x": 1}) == Base(name="a")
    assert len({Base(name="a"), Base(name="a"), Base(name="b")}) == 2
    assert Derived(name="a") != Base(name="a")
    assert Alone(name="a") != Alone(name="a")


def test_an_object_is_shown_as_it_would_be_written():
    assert repr(Derived(size=2.0)) == "Derived(name='none', tags={}, size=2.0)"
    assert repr(Alone(name="a")) == "its own"
