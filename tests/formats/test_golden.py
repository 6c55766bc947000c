"""Whole reports, compared with the files in ``golden``.

A trained run for each leaf of the tree in a terminal, two of them as JSON, and one synthetic report
in every format. Set ``STABDIAG_UPDATE_GOLDEN=1`` to regenerate the files, and review the
difference.
"""

import re
from pathlib import Path

import pytest

from stabdiag.formats import names, render
from tests.conftest import compare_golden, diagnosed
from tests.formats.conftest import LEAVES

GOLDEN = Path(__file__).parent / "golden"
SUFFIXES = {"terminal": "txt", "markdown": "md", "junit": "xml"}
SHORT = ("lines", "github", "gitlab")

# The last digits of numbers in full length depend on the processor.
NUMBER = re.compile(r"-?\d+\.\d{6,}(e[+-]?\d+)?|-?\d+(\.\d+)?e[+-]?\d+")


@pytest.fixture(autouse=True)
def _one_version(monkeypatch):
    for module in ("json", "html.shell", "junit", "sarif", "markdown"):
        monkeypatch.setattr(f"stabdiag.formats.{module}.__version__", "VERSION")


def rounded(text):
    return NUMBER.sub(lambda number: f"{float(number.group()):.6g}", text)


def bare(page):
    """Return a page without styles, scripts, data and points of curves."""
    page = re.sub(r"<(style|script)>.*?</\1>", r"<\1></\1>", page, flags=re.DOTALL)
    page = re.sub(r'(id="data">).*?(?=</script>)', r"\1", page)
    page = re.sub(r'points="[^"]*"', 'points=""', page)
    return re.sub(r"'sha256-.*?'", "'sha256'", page)


def test_every_leaf_at_a_terminal(leaf):
    text = render(leaf, "terminal")
    compare_golden(rounded(text), GOLDEN / "leaves" / f"{leaf.tree.outcome.slug}.txt")


@pytest.mark.parametrize("slug", ["nan-fp16-overflow", "spike-persistent"])
def test_json_of_each_leaf_is_unchanged(slug):
    compare_golden(
        rounded(render(diagnosed(LEAVES[slug]), "json")), GOLDEN / "leaves" / f"{slug}.json"
    )


def test_every_leaf_has_its_file():
    assert {path.stem for path in (GOLDEN / "leaves").glob("*.txt")} == set(LEAVES)


@pytest.mark.parametrize("format_name", sorted({*names()} - {*SHORT, "svg"}))
def test_a_report_in_every_format(persistent, format_name):
    text = render(persistent, format_name, command="stabdiag diagnose run.jsonl")
    path = GOLDEN / f"persistent.{SUFFIXES.get(format_name, format_name)}"
    compare_golden(bare(text) if format_name == "html" else rounded(text), path)


def test_a_report_in_the_short_formats(persistent):
    texts = (f"# {name}\n\n{render(persistent, name)}" for name in SHORT)
    compare_golden("\n\n".join(texts), GOLDEN / "persistent.short.txt")


def test_every_page_renders_in_ascii_and_in_color(nan):
    compare_golden(
        render(nan, "terminal", verbose=True, encoding="ascii"), GOLDEN / "nan.ascii.txt"
    )
    compare_golden(render(nan, "terminal", color=True), GOLDEN / "nan.color.txt")
