"""The overview of a scan in every format: golden files, odd scans and hostile text."""

import json
import re
from dataclasses import fields, replace
from functools import cache
from pathlib import Path

import jsonschema
import pytest
from rich.cells import cell_len

from stabdiag.errors import StabdiagError
from stabdiag.formats import names, render
from stabdiag.formats.json import schema
from stabdiag.model.scan import Common, Row, Split
from stabdiag.scan.overview import make_overview
from stabdiag.scan.rows import row_table
from tests.conftest import compare_golden
from tests.formats.test_injection import BEGINS, JOINED, PLAIN, check
from tests.scan.made import sweep

GOLDEN = Path(__file__).parent / "golden" / "scan"
SUFFIXES = {
    "terminal": "txt",
    "json": "json",
    "markdown": "md",
    "html": "html",
}


@pytest.fixture(autouse=True)
def _one_version(monkeypatch):
    for module in ("markdown", "scans.overview_data", "html.shell"):
        monkeypatch.setattr(f"stabdiag.formats.{module}.__version__", "VERSION")


def made(rows, **options):
    return make_overview(rows, places=("runs",), top=5, **options)


@pytest.fixture(scope="module")
def overview():
    before = [replace(row, outcome="healthy", severity="ok") for row in sweep()[1:]]
    return made(sweep(), before=row_table(before), seconds=1.25, reused=3)


@pytest.mark.parametrize("format_name", names("overview"))
def test_the_overview_is_unchanged(overview, format_name):
    text = render(overview, format_name, "overview", command="stabdiag scan runs")
    if format_name == "html":  # without styles and scripts, which are separate files
        text = re.sub(r"<(style|script)>.*?</\1>", r"<\1></\1>", text, flags=re.DOTALL)
        text = re.sub(r"'sha256-.*?'", "'sha256'", text)
    compare_golden(text, GOLDEN / f"overview.{SUFFIXES[format_name]}")


@pytest.mark.parametrize("encoding", ["utf-8", "ascii"])
def test_golden_overview_in_a_terminal(overview, encoding):
    color = encoding == "utf-8"
    text = render(overview, "terminal", "overview", color=color, encoding=encoding)
    compare_golden(text, GOLDEN / f"overview.{'color' if color else encoding}.txt")


ROWS = sweep()
ODD = {
    "nothing": [],
    "one well": ROWS[:1],
    "one failed": [row for row in ROWS if row.severity == "error"][:1],
    "one unread": ROWS[-1:],
    "two": ROWS[1:3],
    "none failed": [row for row in ROWS if row.severity in ("ok", "warning")],
    "nothing in common": [
        replace(
            row,
            outcome="nan-bf16" if i % 5 == 2 else "healthy",
            severity="error" if i % 5 == 2 else "ok",
        )
        for i, row in enumerate(ROWS[:24])
    ],
    "all failed": [row for row in ROWS if row.severity == "error"],
    "only unread": ROWS[-2:],
    "nothing told": [
        Row(path=f"{i}", run=f"{i}", outcome="nan-fp32", severity="error") for i in "abcd"
    ],
    "long": [
        replace(row, path=f"{'deeper/' * 30}{row.path}", run=f"{'deeper/' * 30}{row.run}")
        for row in ROWS
    ],
}


def test_odd_scans_in_a_terminal():
    parts = [
        f"# {name}\n\n{render(made(rows), 'terminal', 'overview')}" for name, rows in ODD.items()
    ]
    compare_golden("\n\n".join(parts), GOLDEN / "odd.txt")


@pytest.mark.parametrize("rows", ODD.values(), ids=ODD)
@pytest.mark.parametrize("format_name", names("overview"))
def test_odd_scans_in_every_format(format_name, rows):
    assert render(made(rows, before=row_table(rows)), format_name, "overview")


@pytest.mark.parametrize("width", [40, 57, 80, 100, 200])
@pytest.mark.parametrize("rows", [ROWS, ODD["long"]])
def test_no_line_is_wider_than_the_page(rows, width):
    for encoding in ("utf-8", "ascii"):
        text = render(made(rows), "terminal", "overview", width=width, encoding=encoding)
        assert max(map(cell_len, text.splitlines())) <= width
        if encoding == "ascii":
            assert text.isascii()


def test_the_json_has_every_row_with_every_field(overview):
    content = json.loads(render(overview, "json", "overview"))
    assert [row["path"] for row in content["rows"]] == [row.path for row in overview.rows]
    assert set(content["rows"][0]) == {field.name for field in fields(Row)} - {"curve"}


@pytest.mark.parametrize("rows", [ROWS, *ODD.values()], ids=["sweep", *ODD])
def test_the_json_satisfies_its_schema(rows):
    checked = jsonschema.Draft202012Validator(json.loads(schema("scan")))
    checked.check_schema(json.loads(schema("scan")))
    before = row_table([replace(row, outcome="plateau", severity="note") for row in rows])
    for overview in (made(rows), made(rows, before=before, seconds=0.5)):
        checked.validate(json.loads(render(overview, "json", "overview")))


def test_an_unknown_format_is_refused():
    with pytest.raises(StabdiagError, match=r"did you mean html\?"):
        render(made([]), "htm", "overview")


def test_with_several_folders_runs_are_named_by_their_paths():
    text = render(make_overview(ROWS, places=("a", "b"), top=1), "markdown", "overview")
    assert "| `lr-0.03/seed0/log.jsonl` |" in text
    file = [replace(row, path=row.run.replace("/", "-"), run=".") for row in ROWS]
    assert "| `lr-0.03-seed0` |" in render(made(file), "markdown", "overview")


@cache
def named(name):
    """Return an overview with a name in every place for text of a log or a manifest."""
    rows = [
        replace(
            row,
            path=f"{name}{number}",
            run=f"{number} {name}",
            outcome=f"x {name}" if row.severity == "error" else row.outcome,
            title=name,
            headline=name,
            action=name,
            reason=name,
            format=name,
            action_kind=None,
            settings={f"{number % 2}{name}": f"{name}{number % 2}" for _ in (0,)},
            optimizer=f"{name}{number % 2}",
        )
        for number, row in enumerate(sweep())
    ]
    split = Split(setting=name, relation="=", value=name, inside=(3, 4), outside=(0, 9))
    common = Common(outcome=name, split=split, chance=0.01, along=(split,))
    before = [replace(row, outcome=f"was {name}", severity="ok") for row in rows[::2]]
    overview = make_overview(rows, places=(name,), before=row_table(before))
    return replace(overview, common=(common,))


@pytest.mark.parametrize("format_name", names("overview"))
def test_log_text_is_inert(format_name):
    plain = render(named(PLAIN), format_name, "overview")
    for name in (*BEGINS, *JOINED):
        check(format_name, render(named(name), format_name, "overview"), plain)
