"""The project is in plain English: no identifier and no phrase of the list in ``banned.toml``."""

import ast
import io
import re
import subprocess
import tokenize
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
BANNED = tomllib.loads(Path(__file__).with_name("banned.toml").read_text(encoding="utf-8"))
PHRASES = {re.compile(phrase, re.IGNORECASE): term for phrase, term in BANNED["phrases"].items()}
# Names of columns that other programs write, benchmarks of rules, and vendored or recorded files.
EXCEPT = re.compile(
    r"/(golden|samples|data|uplot|language|tests/html)/|roles/names\.py|CHANGELOG"
    r"|rules_on_trial|docs/rules\.md|test_registry"
)
MIN_WORDS = 4  # shorter strings are names and keys


def tracked(suffix):
    done = subprocess.run(
        ["git", "ls-files", f"*{suffix}"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    if done.returncode:
        pytest.skip("not a checkout of git")
    return [ROOT / name for name in done.stdout.splitlines() if not EXCEPT.search(f"/{name}")]


def identifiers(nodes):
    for node in nodes:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.name, node.lineno
        elif isinstance(node, ast.arg):
            yield node.arg, node.lineno
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id, node.lineno


def prose(source, nodes):
    for node in nodes:
        text = node.value if isinstance(node, ast.Constant) else None
        if isinstance(text, str) and len(text.split()) >= MIN_WORDS:
            yield text, node.lineno
    # Tokens take long: most files have no phrase in a line with a comment.
    if banned_phrases("\n".join(line for line in source.splitlines() if "#" in line)):
        for token in tokenize.generate_tokens(io.StringIO(source).readline):
            if token.type == tokenize.COMMENT:
                yield token.string, token.start[0]


def mistakes(source):
    """Yield each line with a banned term, the term, and the usual one."""
    nodes = list(ast.walk(ast.parse(source)))
    for name, line in identifiers(nodes):
        yield from ((line, name, term) for term in banned_terms(name))
    for text, line in prose(source, nodes):
        yield from ((line, phrase, term) for phrase, term in banned_phrases(text).items())


def banned_terms(name):
    words = [word.lower() for word in re.split(r"_+|(?<=[a-z0-9])(?=[A-Z])", name)]
    terms = [BANNED["parts"][word] for word in words if word in BANNED["parts"]]
    return [*terms, *filter(None, [BANNED["names"].get(name.lower())])]


def banned_phrases(text):
    return {m[0]: term for phrase, term in PHRASES.items() if (m := phrase.search(text))}


def test_python_files_use_plain_english():
    wrong = [
        f"{path.relative_to(ROOT)}:{line}: {words!r}: use {term}"
        for path in tracked(".py")
        for line, words, term in mistakes(path.read_text(encoding="utf-8"))
    ]
    assert wrong == []


def test_pages_use_plain_english():
    wrong = [
        f"{path.relative_to(ROOT)}:{line}: {phrase!r}: use {term}"
        for path in tracked(".md")
        for line, sentence in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1)
        for phrase, term in banned_phrases(sentence).items()
    ]
    assert wrong == []


@pytest.mark.parametrize("name", ["told", "is_told_by", "WhatIsTold", "ticked"])
def test_banned_names_are_found(name):
    assert banned_terms(name)


@pytest.mark.parametrize(
    ("source", "lines"),
    [
        ("told = 1", [1]),
        ("def told(held): ...", [1, 1]),
        ("x = 1\n# The log stands beside it.", [2]),
        ("x = 1  # told\ny = 'The loss is told at once.'", [2]),
        ("x = '# stands beside'", []),
        ("rate = 1  # The learning rate of the step.", []),
    ],
)
def test_mistakes_are_found_in_names_texts_and_comments(source, lines):
    assert sorted({line for line, _, _ in mistakes(source)}) == sorted(set(lines))


@pytest.mark.parametrize("name", ["toldo", "asked_of_all", "golden", "holders"])
def test_other_names_are_allowed(name):
    assert not banned_terms(name)


@pytest.mark.parametrize("text", ["It stands beside the log.", "The loss is told at once.", "anew"])
def test_banned_phrases_are_found(text):
    assert banned_phrases(text)
