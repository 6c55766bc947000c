"""One name, one meaning: no two constants with different values and no two classes share a name."""

import ast
from collections import defaultdict
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parents[2] / "stabdiag"

# Each section of the tree has its own; tree/walk.py joins them.
PROTOCOLS = {"ANSWERS"}


def modules():
    return {path: ast.parse(path.read_text(encoding="utf-8")) for path in PACKAGE.rglob("*.py")}


def constants(tree):
    """Yield the name and the value of each constant of a module, in order of assignment."""
    for node in tree.body:
        targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
        for target in targets:
            is_constant = isinstance(target, ast.Name) and target.id.isupper()
            if is_constant and getattr(node, "value", None) is not None:
                yield target.id, ast.unparse(node.value)


def shared_constants(trees):
    """Return the constants with several values, and the modules that define them."""
    values = defaultdict(lambda: defaultdict(list))
    for name, tree in trees.items():
        for constant, value in constants(tree):
            values[constant][value].append(name)
    return {name: dict(by_value) for name, by_value in values.items() if len(by_value) > 1}


def shared_classes(trees):
    """Return the classes that share a name, and their modules.

    A class may have the name of its base: ``stabdiag.Report`` adds output to ``model.Report``.
    """
    places = defaultdict(list)
    for name, tree in trees.items():
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef):
                bases = {ast.unparse(base).rpartition(".")[2] for base in node.bases}
                if node.name not in bases:
                    places[node.name].append(name)
    return {name: where for name, where in places.items() if len(where) > 1}


def test_a_name_has_one_constant_or_class():
    trees = modules()
    shared = shared_constants(trees)
    assert {name: where for name, where in shared.items() if name not in PROTOCOLS} == {}
    assert shared_classes(trees) == {}


@pytest.mark.parametrize(
    ("first", "second", "shared"),
    [
        ("_LIMIT = 1", "_LIMIT: Final = 2", {"_LIMIT"}),
        ("_LIMIT = 1\n_LIMIT = 2", "", {"_LIMIT"}),
        ("_LIMIT = 1", "_LIMIT = 1", set()),
        ("_LIMIT = 1", "def limit():\n    _LIMIT = 2", set()),
    ],
)
def test_constants_with_several_values_are_found(first, second, shared):
    trees = {"first": ast.parse(first), "second": ast.parse(second)}
    assert shared_constants(trees).keys() == shared


@pytest.mark.parametrize(
    ("second", "shared"),
    [("class Report: ...", {"Report"}), ("class Report(model.Report): ...", set())],
)
def test_classes_that_share_a_name_are_found(second, shared):
    trees = {"first": ast.parse("class Report: ..."), "second": ast.parse(second)}
    assert shared_classes(trees).keys() == shared
