"""The generated pages are current, and the commands that the documentation shows run."""

import json
import math
import re
import shlex
import shutil
import subprocess
import sys
import tomllib

import pytest

from stabdiag.cli import main
from stabdiag.cli.config import read_project
from stabdiag.model.limits import Limits
from tests.conftest import ROOT, python

PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
MORE_PAGES = [
    *(ROOT / name for name in ("CONTRIBUTING.md", "CHANGELOG.md", "fixtures/README.md")),
    *sorted((ROOT / "benchmarks").rglob("*.md")),
]

pytestmark = pytest.mark.usefixtures("_at_home")


@pytest.fixture
def _at_home(monkeypatch):
    """Generated pages name the fixtures as they are named from the top of the repository."""
    monkeypatch.chdir(ROOT)


def _blocks(page, language):
    text = page.read_text(encoding="utf-8")
    return re.findall(rf"^```{language}\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)


COMMANDS = [
    (page.name, line.removeprefix("$ "))
    for page in PAGES
    for block in _blocks(page, "console")
    for line in block.splitlines()
    if line.startswith("$ ")
]


def test_generated_pages_are_current():
    result = python("docs/build.py", "--check")
    assert result.returncode == 0, result.stderr


@pytest.fixture(scope="module")
def desk(tmp_path_factory):
    """A folder with the files that the documentation speaks of."""
    folder = tmp_path_factory.mktemp("desk")
    runs = ROOT / "fixtures" / "runs"
    (folder / "fixtures").mkdir()
    (folder / "fixtures" / "pairs").symlink_to(ROOT / "fixtures" / "pairs")
    # Those that are named: some commands are about all there are.
    shown = "".join(page.read_text(encoding="utf-8") for page in PAGES)
    for run in {*re.findall(r"fixtures/runs/([\w-]+)", shown)}:
        shutil.copytree(runs / run, folder / "fixtures" / "runs" / run)
    with (runs / "spike-lr-jump" / "log.jsonl").open(encoding="utf-8") as log:
        records = [json.loads(line) for line in log]
    lines = [json.dumps({**record, "train/ce": record["loss"]}) for record in records]
    (folder / "run.jsonl").write_text("\n".join(lines), encoding="utf-8")
    csv = next(path for path in sorted(runs.glob("healthy-*/log.csv")))
    shutil.copy(csv, folder / "metrics.csv")
    parquet = next(path for path in sorted(runs.glob("healthy-*/log.parquet")))
    shutil.copy(parquet, folder / "run.parquet")
    shutil.copy(runs / "spike-lr-jump" / "manifest.json", folder / "config.json")
    return folder


@pytest.mark.parametrize(("page", "command"), COMMANDS)
def test_shown_commands_run(page, command, desk, monkeypatch, capsys):
    monkeypatch.setenv("HOME", str(desk / "nowhere"))  # as in a fresh container
    monkeypatch.setattr("stabdiag.cli.scan._LINE_INTERVAL", math.inf)  # however slow the machine is
    words = shlex.split(command, comments=True)
    if words[0] == "stabdiag" and not re.search(r"[|;<>*$&]", " ".join(words)):
        monkeypatch.chdir(desk)
        monkeypatch.setattr(sys, "argv", words)
        code, text = main(), capsys.readouterr().err
    else:
        line = re.sub(r"\bstabdiag (?=[a-z])", f"{sys.executable} -m stabdiag ", command)
        done = subprocess.run(line, shell=True, cwd=desk, capture_output=True, check=False)
        code, text = done.returncode, done.stderr.decode()
    assert code in (0, 1), f"{page}: {command}\n{text}"
    assert re.sub(r"stabdiag: wrote .*\n", "", text) == ""


def test_toml_shown_is_understood(tmp_path):
    blocks = _blocks(ROOT / "README.md", "toml") + _blocks(ROOT / "docs" / "cli.md", "toml")
    assert blocks
    for block in blocks:
        tomllib.loads(block)
        (tmp_path / "pyproject.toml").write_text(block, encoding="utf-8")
        assert read_project(tmp_path).limits.spike.sigma == 4


@pytest.mark.parametrize(
    ("page", "expected"),
    [
        ("README.md", "False spike-lr-jump Fix the schedule at step 260"),
        ("docs/compare.md", "reruns config-differs 0\nlr 0 0 0\n"),
    ],
)
def test_the_example_in_python_runs(page, expected, desk, monkeypatch, capsys):
    (block,) = _blocks(ROOT / page, "python")
    monkeypatch.chdir(desk)
    exec(block, {})
    assert capsys.readouterr().out.startswith(expected)


def _anchors(page):
    """Return the names that the headings of a page have as places to link to."""
    headings = re.findall(r"^#+ +(.+)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize(
    "page", [*PAGES, *MORE_PAGES], ids=lambda page: str(page.relative_to(ROOT))
)
def test_links_and_paths_lead_somewhere(page):
    text = page.read_text(encoding="utf-8")
    for target, anchor in re.findall(r"\]\(([^)#\s]*)(?:#([^)]*))?\)", text):
        if "://" not in target:
            linked = page.parent / target if target else page
            assert linked.exists(), target
            assert not anchor or anchor in _anchors(linked), f"{target}#{anchor}"
    for path in re.findall(r"`((?:stabdiag|tests|docs|benchmarks|fixtures)/[\w./-]+)`", text):
        assert (ROOT / path).exists(), path


def test_a_sentence_of_a_report_leads_to_its_rule_and_number():
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    _, _, table = page.partition("| sentence in a report | search for | file | rule and number |")
    rows = [line.split("|")[1:-1] for line in table.split("\n\n")[0].splitlines()[2:]]
    limits = {info.name for info in Limits().items()}
    assert len(rows) >= 5
    for _, words, files, rule in rows:
        (search,) = re.findall(r"`([^`]+)`", words)
        for path in re.findall(r"`([^`]+)`", files):
            assert search in (ROOT / "stabdiag" / path).read_text(encoding="utf-8"), path
        names = re.findall(r"`([^`]+)`", rule)
        assert limits.intersection(names), rule
        for path in (name for name in names if name.endswith(".py")):
            assert (ROOT / "stabdiag" / path).is_file(), path


def test_the_map_of_the_readers_names_every_folder():
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    _, _, text = page.partition("## How a log is read")
    named = re.findall(r"`(\w+)/`", text.partition("\nThe other")[0])
    folders = {path.parent.name for path in (ROOT / "stabdiag/readers").glob("*/__init__.py")}
    assert folders == set(named) - {"readers"}


def test_the_map_of_the_text_readers_names_every_module():
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    _, _, text = page.partition("## How a text log is read")
    named = re.findall(r"`(\w+\.py)`", text.partition("\n## ")[0])
    modules = [path.name for path in (ROOT / "stabdiag" / "readers" / "text").rglob("*.py")]
    assert sorted(named) == sorted(name for name in modules if name != "__init__.py")


def test_every_target_of_the_fuzzer_has_its_row():
    listed = python("benchmarks/fuzz.py", "--list", check=True).stdout
    text = (ROOT / "benchmarks" / "README.md").read_text(encoding="utf-8")
    rows = set(re.findall(r"^\| `([\w-]+)` \|", text, re.MULTILINE))
    assert set(listed.split()) <= rows


def test_every_source_of_a_statistic_is_listed():
    listed = (ROOT / "docs" / "references.md").read_text(encoding="utf-8")
    cited = [
        source.rstrip(".") if "(" in source else source.rstrip(").")
        for path in sorted((ROOT / "stabdiag" / "stats").glob("*.py"))
        for source in re.findall(r"doi:([^\s,;]+)", path.read_text(encoding="utf-8"))
    ]
    assert cited
    assert [source for source in cited if source not in listed] == []


def test_the_table_of_fixtures_is_current():
    table = (ROOT / "fixtures" / "README.md").read_text(encoding="utf-8")
    for path in sorted((ROOT / "fixtures" / "runs").glob("*/about.json")):
        about = json.loads(path.read_text(encoding="utf-8"))
        slugs = " or ".join(f"`{slug}`" for slug in (about["expect"], *about["also_ok"]))
        row = next(line for line in table.splitlines() if f"| `{path.parent.name}` |" in line)
        assert f"| {slugs} |" in row
        assert about["what"] in row
