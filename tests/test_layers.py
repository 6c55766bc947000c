"""The direction of dependencies: the contracts in pyproject.toml, and that they see everything."""

import tomllib

import pytest

from tests.conftest import ROOT, python

CONTRACTS = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"][
    "importlinter"
]["contracts"]


def lint(folder):
    """Check the contracts on the package in a folder."""
    code = (
        "import sys; from importlinter.cli import lint_imports_command as lint;"
        "sys.path.insert(0, '.'); sys.argv[1:] = ['--no-cache', '--no-logo']; lint()"
    )
    return python("-c", code, cwd=folder)


@pytest.fixture
def copy(tmp_path):
    """Return a folder that holds a copy of the package and of the contracts."""
    for path in (*(ROOT / "stabdiag").rglob("*.py"), ROOT / "pyproject.toml"):
        target = tmp_path / path.relative_to(ROOT)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(path.read_bytes())
    return tmp_path


def test_contracts_are_kept():
    done = lint(ROOT)
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{len(CONTRACTS)} kept, 0 broken" in done.stdout


# Imports that break a contract each, all of them added at once: to build the graph takes seconds.
FORBIDDEN = (
    ("stats/rolling.py", "stabdiag.model.history"),
    ("stats/rolling.py", "rich"),
    ("tree/nan.py", "stabdiag.model.edges"),
    ("tree/spike.py", "stabdiag.readers"),
    ("readers/csv/log.py", "stabdiag.tree.walk"),
    ("formats/json.py", "stabdiag.tree.walk"),
    ("model/history.py", "stabdiag.api"),
    ("symptoms/learning/limits.py", "stabdiag.tree.case"),
    ("model/report.py", "stabdiag.symptoms.learning.limits"),
    ("api.py", "typer"),
    ("readers/memory.py", "pandas"),
)


def test_broken_contracts_are_seen(copy):
    for module, imported in FORBIDDEN:
        with (copy / "stabdiag" / module).open("a", encoding="utf-8") as file:
            file.write(f"\nimport {imported}\n")
    done = lint(copy)
    assert done.returncode == 1
    for module, imported in FORBIDDEN:
        importer = f"stabdiag.{module.removesuffix('.py').replace('/', '.')}"
        assert f"{importer} -> {imported} " in done.stdout


def test_a_new_module_must_be_given_its_layer(copy):
    (copy / "stabdiag" / "helpers.py").write_text("", encoding="utf-8")
    done = lint(copy)
    assert done.returncode == 1
    assert "stabdiag.helpers" in done.stdout
