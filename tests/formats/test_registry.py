"""The table of formats."""

from __future__ import annotations

import subprocess
import sys
from importlib import import_module
from inspect import signature
from typing import TYPE_CHECKING

import pytest

from stabdiag.errors import StabdiagError
from stabdiag.formats import FORMATS, names, render

if TYPE_CHECKING:
    from stabdiag.model.report import Report


@pytest.mark.parametrize("entry", FORMATS, ids=names())
def test_a_format_takes_what_the_table_says(entry):
    taken = signature(import_module(entry.module).render).parameters
    assert tuple(taken) == ("report", *entry.options)


def test_only_what_a_terminal_shows_waits_for_rich():
    modules = [entry.module for entry in FORMATS if entry.name not in ("terminal", "svg")]
    code = f"import sys, {', '.join(modules)}; sys.exit('rich' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_unknown_format_names_the_nearest(healthy: Report):
    with pytest.raises(StabdiagError, match=r"'jsn'; did you mean json\?"):
        render(healthy, "jsn")


def test_options_of_other_formats_are_passed_over(healthy: Report):
    assert render(healthy, "json", width=40, color=True) == render(healthy, "json")


def test_unknown_option_is_an_error(healthy: Report):
    with pytest.raises(StabdiagError, match=r"'colour'; did you mean color\?"):
        render(healthy, "json", colour=True)


def test_a_report_writes_itself(healthy: Report):
    assert healthy.to_json() == render(healthy, "json")
