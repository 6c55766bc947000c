"""Limits: declared once, checked when they are changed."""

import pytest

from stabdiag.errors import LimitError
from stabdiag.model.limits import Limits

ALL = Limits().items()


def test_every_limit_says_what_it_is_and_can_be_set_to_its_default():
    for info in ALL:
        assert not info.overridden
        assert info.about.unit
        assert info.about.source
        assert info.why.endswith("."), info.name
        assert info.about.at_least <= info.default <= info.about.at_most
        same = Limits().override({info.name: info.default})
        assert same == Limits()
        assert all(type(a.value) is type(b.value) for a, b in zip(same.items(), ALL, strict=True))


def test_override_changes_one_limit_and_leaves_the_old_ones_alone():
    before = Limits()
    after = before.override({"spike.sigma": 4}).override({"divergence.window": "300"})
    assert (after.spike.sigma, after.divergence.window) == (4.0, 300)
    assert (before.spike.sigma, before.divergence.window) == (3.0, 200)
    assert {info.name for info in after.items() if info.overridden} == {
        "spike.sigma",
        "divergence.window",
    }


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("spike.sigm", 4, "unknown limit 'spike.sigm'; did you mean spike.sigma?"),
        ("qqqq", 4, "unknown limit 'qqqq' (`stabdiag thresholds` lists them all)"),
        ("spike", 4, "unknown limit 'spike'"),
        ("spike.sigma", 0.1, "spike.sigma must be a number from 0.5 to 100 (σ), not 0.1"),
        ("spike.sigma", "1e9", "spike.sigma must be a number from 0.5 to 100 (σ), not '1e9'"),
        *(
            (
                "spike.window",
                bad,
                "spike.window must be a whole number from 10 to inf (steps), not ",
            )
            for bad in (50.5, "many", float("inf"), float("nan"), True, None, [100], 10**400)
        ),
    ],
    ids=lambda value: repr(value)[:30],
)
def test_overrides_that_cannot_be(name, value, message):
    with pytest.raises(LimitError) as caught:
        Limits().override({name: value})
    assert str(caught.value).startswith(message)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("value", ["100", 100, 100.0, " 100 ", "1e2"], ids=repr)
def test_whole_numbers_stay_whole(value):
    window = Limits().override({"spike.window": value}).spike.window
    assert window == 100
    assert isinstance(window, int)
