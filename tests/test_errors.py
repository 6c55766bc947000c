"""One tree of errors."""

import pytest

from stabdiag import errors
from stabdiag.errors import StabdiagError, did_you_mean

ALL = [
    error
    for error in vars(errors).values()
    if isinstance(error, type) and issubclass(error, Exception)
]


@pytest.mark.parametrize("error", ALL)
def test_every_error_derives_from_stabdiag_error_and_is_in_the_docstring(error):
    assert issubclass(error, StabdiagError)
    assert error.__name__ in (errors.__doc__ or "")
    assert error.__doc__


@pytest.mark.parametrize(("word", "hint"), [("los", "; did you mean loss?"), ("zzz", ""), ("", "")])
def test_similar_names_are_suggested(word, hint):
    assert did_you_mean(word, iter(["loss", "lr"])) == hint
