"""Whole reports, compared with the files in ``golden``.

Set ``STABDIAG_UPDATE_GOLDEN=1`` to write those files anew, and read the difference.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from stabdiag.formats import render

GOLDEN = Path(__file__).parent / "golden"
CASES = {
    "{}.txt": ("terminal", {}),
    "{}.verbose.txt": ("terminal", {"verbose": True}),
    "{}.ascii.txt": ("terminal", {"encoding": "ascii"}),
    "{}.color.txt": ("terminal", {"color": True}),
    "{}.json": ("json", {}),
}


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("name", ["persistent", "healthy", "nan"])
def test_golden(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, name, case):
    monkeypatch.setattr("stabdiag.formats.json.version", lambda: "VERSION")
    format_name, options = CASES[case]
    text = render(request.getfixturevalue(name), format_name, **options)
    path = GOLDEN / case.format(name)
    if os.environ.get("STABDIAG_UPDATE_GOLDEN"):
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")
    assert text == path.read_text(encoding="utf-8")
