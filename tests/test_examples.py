"""The examples in the docstrings of what is public: they run, and their types are right."""

import doctest
import shutil
import sys
from importlib import import_module
from pathlib import Path

import pytest

import stabdiag
from tests.conftest import python

# One module a line of `stabdiag._HOMES`, and the page of the package itself.
MODULES = sorted(
    {"stabdiag", *stabdiag._HOMES.values()} - {"stabdiag.errors", "stabdiag.model.scan"}
)


def examples(module):
    """Return the examples of a module, with the names of the module."""
    return [
        example
        for example in doctest.DocTestFinder().find(import_module(module))
        if example.examples
    ]


@pytest.mark.parametrize("module", MODULES)
def test_examples_run(module, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for example in examples(module):
        assert doctest.DocTestRunner().run(example).failed == 0, example.name


def test_every_public_call_has_an_example():
    have = {example.name.rpartition(".")[2] for module in MODULES for example in examples(module)}
    calls = {name for name in stabdiag.__all__ if name[0].islower()}
    assert calls <= have
    assert {"Report", "to_dict", "to_json", "Limits", "Manifest", "stabdiag"} <= have


@pytest.mark.skipif(
    shutil.which("mypy", path=Path(sys.executable).parent) is None, reason="no mypy"
)
def test_examples_have_types(tmp_path):
    lines = []
    for module in MODULES:
        for number, example in enumerate(examples(module)):
            body = "".join(item.source for item in example.examples)
            indented = "    ".join(["", *body.splitlines(keepends=True)])
            lines.append(f"def {module.replace('.', '_')}_{number}() -> None:\n{indented}\n")
    names = "import json\nfrom pathlib import Path\nfrom stabdiag import *\n\n"
    (tmp_path / "shown.py").write_text(names + "\n".join(lines), encoding="utf-8")
    # By the project's own settings, so that what `make check` has found is not looked for again.
    root = Path(stabdiag.__file__).parents[1]
    done = python("-m", "mypy", tmp_path / "shown.py", cwd=root)
    messages = [item for item in done.stdout.splitlines() if "shown.py" in item]
    assert messages == []
