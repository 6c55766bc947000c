"""Numbers that shape a judgment: few of them, most in ``stats/standards.py`` or among limits."""

import ast
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parents[2] / "stabdiag"
JUDGING = ("assemble", "stats", "symptoms", "tree")
MAX_NUMBERS = 200

# Halves, doubles and the like are arithmetic.
TRIVIAL = {-1, 0, 0.5, 1, 2}


def is_number(node):
    return isinstance(node, ast.Constant) and type(node.value) in (int, float)


def numbers(tree):
    """Return the constants of a module that have a number, and its other numbers."""
    constants, named = [], set()
    for node in tree.body:
        if isinstance(node, (ast.Assign, ast.AnnAssign)) and node.value is not None:
            target = node.targets[0] if isinstance(node, ast.Assign) else node.target
            values = [value for value in ast.walk(node.value) if is_number(value)]
            if isinstance(target, ast.Name) and target.id.isupper() and values:
                constants.append(target.id)
                named |= {id(value) for value in values}
    inline = [
        node.value
        for node in ast.walk(tree)
        if is_number(node) and id(node) not in named and node.value not in TRIVIAL
    ]
    return constants, inline


def test_few_numbers_outside_the_limits_shape_a_judgment():
    count = 0
    for package in JUDGING:
        for path in sorted((PACKAGE / package).rglob("*.py")):
            if path.name == "limits.py":  # declarations of limits
                continue
            constants, inline = numbers(ast.parse(path.read_text(encoding="utf-8")))
            count += len(constants) + len(inline)
    assert count <= MAX_NUMBERS, "take a value from stats/standards.py, or declare a limit"


@pytest.mark.parametrize(
    ("code", "constants", "inline"),
    [
        ("_MIN_RATIO: Final = 1.75", ["_MIN_RATIO"], []),
        ("_PAIR = (1, 3)", ["_PAIR"], []),
        ("_MIN_RATIO = CLEAR_RATIO", [], []),
        ("def check(x):\n    return x > 3 * x[0]", [], [3]),
        ("def check(x):\n    return x > 2 * x[0]", [], []),
        ("_IS_OPEN = True", [], []),
    ],
)
def test_numbers_are_counted(code, constants, inline):
    assert numbers(ast.parse(code)) == (constants, inline)
