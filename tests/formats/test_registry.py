"""The table of formats and their writers."""

from dataclasses import replace
from inspect import signature
from typing import get_args

import pytest

from stabdiag.errors import StabdiagError
from stabdiag.formats import FORMATS, OPTIONS, Kind, by_suffix, names, render, writer
from tests.conftest import python

EVERY = [(name, kind) for name, writers in FORMATS.items() for kind in writers]


def test_writers_accept_exactly_the_declared_options():
    accepted = {option for name, kind in EVERY for option in writer(name, kind)[1]}
    assert accepted == {*OPTIONS}


@pytest.mark.parametrize(("name", "kind"), EVERY)
def test_a_writer_accepts_a_subject_and_options(name, kind):
    _, *options = signature(writer(name, kind)[0]).parameters.values()
    assert all(option.kind is option.KEYWORD_ONLY for option in options)


def test_every_kind_has_its_formats():
    assert {kind for _, kind in EVERY} == {*get_args(Kind)}
    assert names("postmortem") == ("json", "markdown", "html")
    assert names("checks") == names("logs") == ("terminal", "json", "markdown")
    formats = {suffix: by_suffix(suffix) for suffix in (".HTM", ".xml", ".toml", ".txt", "")}
    assert formats == {
        ".HTM": "html",
        ".xml": "junit",
        ".toml": None,
        ".txt": "terminal",
        "": None,
    }


def test_only_terminal_formats_import_rich():
    loads = f"[writer(f, 'report') for f in {[*names()]!r} if f not in ('terminal', 'svg')]"
    code = (
        f"import sys; from stabdiag.formats import writer; {loads}; sys.exit('rich' in sys.modules)"
    )
    assert python("-c", code).returncode == 0


def test_unknown_names_get_a_suggestion(healthy):
    with pytest.raises(StabdiagError, match=r"'jsn'; did you mean json\?"):
        render(healthy, "jsn")
    with pytest.raises(StabdiagError, match=r"'colour'; did you mean color\?"):
        render(healthy, "json", colour=True)
    assert render(healthy, "json", width=40, color=True) == render(healthy, "json")


@pytest.mark.parametrize("format_name", ["terminal", "json", "markdown", "html"])
def test_an_almost_empty_report_has_a_page(healthy, format_name):
    diagnosis = replace(healthy.diagnosis, actions=())
    answers = tuple(replace(answer, limits={}) for answer in healthy.tree.answers)
    tree = replace(healthy.tree, outcome=diagnosis, answers=answers)
    report = replace(
        healthy, findings=(diagnosis,), tree=tree, not_checked=(), rolling_baseline=None
    )
    assert diagnosis.title in render(report, format_name, verbose=True)
