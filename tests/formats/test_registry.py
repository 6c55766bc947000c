"""The table of formats: what can be written in which, and by what."""

from dataclasses import replace
from inspect import signature
from typing import get_args

import pytest

from stabdiag.errors import StabdiagError
from stabdiag.formats import FORMATS, OPTIONS, Kind, by_suffix, names, render, writer
from tests.conftest import python

EVERY = [(name, kind) for name, writers in FORMATS.items() for kind in writers]


def test_what_writers_take_are_the_options_there_are():
    taken = {option for name, kind in EVERY for option in writer(name, kind)[1]}
    assert taken == {*OPTIONS}


@pytest.mark.parametrize(("name", "kind"), EVERY)
def test_a_writer_takes_what_it_writes_and_options(name, kind):
    _, *taken = signature(writer(name, kind)[0]).parameters.values()
    assert all(one.kind is one.KEYWORD_ONLY for one in taken)


def test_every_kind_has_its_formats():
    assert {kind for _, kind in EVERY} == {*get_args(Kind)}
    assert names("postmortem") == ("markdown", "html")
    assert names("sheet") == names("logs") == ("terminal", "json", "markdown")
    told = {suffix: by_suffix(suffix) for suffix in (".HTM", ".xml", ".toml", ".txt", "")}
    assert told == {".HTM": "html", ".xml": "junit", ".toml": "toml", ".txt": "terminal", "": None}


def test_only_what_a_terminal_shows_waits_for_rich():
    loads = f"[writer(one, 'report') for one in {[*names()]!r} if one not in ('terminal', 'svg')]"
    code = (
        f"import sys; from stabdiag.formats import writer; {loads}; sys.exit('rich' in sys.modules)"
    )
    assert python("-c", code).returncode == 0


def test_unknown_names_are_answered_with_the_nearest(healthy):
    with pytest.raises(StabdiagError, match=r"'jsn'; did you mean json\?"):
        render(healthy, "jsn")
    with pytest.raises(StabdiagError, match=r"'colour'; did you mean color\?"):
        render(healthy, "json", colour=True)
    assert render(healthy, "json", width=40, color=True) == render(healthy, "json")


@pytest.mark.parametrize("format_name", ["terminal", "json", "markdown", "html"])
def test_a_report_that_tells_next_to_nothing_has_a_page(healthy, format_name):
    found = replace(healthy.diagnosis, actions=())
    answers = tuple(replace(one, limits={}) for one in healthy.tree.answers)
    tree = replace(healthy.tree, outcome=found, answers=answers)
    report = replace(healthy, findings=(found,), tree=tree, not_checked=(), rolling_baseline=None)
    assert found.title in render(report, format_name, verbose=True)
