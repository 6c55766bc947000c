"""The time to parse any text is proportional to its length."""

import ast
import importlib
import io
import json
import pkgutil
import re
import time
from contextlib import suppress
from dataclasses import fields, is_dataclass
from functools import cache, partial
from itertools import pairwise, product
from pathlib import Path
from re import _constants as constants  # type: ignore[attr-defined]
from re import _parser as parser  # type: ignore[attr-defined]

import numpy as np
import pytest

import stabdiag
from stabdiag.errors import LogError
from stabdiag.model.manifest import parse_manifest
from stabdiag.model.patterns import LazyPattern
from stabdiag.model.roles.foreign_names import _IN_ENGLISH
from stabdiag.readers.blocks import BLOCK, blocks
from stabdiag.readers.source import Stream
from stabdiag.readers.text.names.standard_names import find_normalizations
from tests.readers.conftest import read_columns

PARTS = ("model", "readers", "sources", "assemble", "tree", "symptoms", "comparison", "formats")

# A quadratic pattern takes 16 times as long for 4 times as much, a linear one 4 times.
SHORT, TIMES, MAX_RATIO = 250, 4, 8
# Shorter times are noise; quadratic patterns take longer.
MEASURABLE = 0.001


def modules():
    for part in PARTS:
        package = importlib.import_module(f"stabdiag.{part}")
        yield package
        for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            yield importlib.import_module(module.name)


def below(value):
    """Yield the patterns in a value, or that its methods are bound to."""
    if isinstance(value, LazyPattern):
        yield value.search.__self__
    elif isinstance(value, re.Pattern):
        yield value
    elif isinstance(getattr(value, "__self__", None), re.Pattern):
        yield value.__self__  # type: ignore[attr-defined]
    elif isinstance(value, tuple | list | frozenset | set):
        for item in value:
            yield from below(item)
    elif isinstance(value, dict):
        yield from below(tuple(value.values()))
    elif is_dataclass(value) and not isinstance(value, type):
        for field in fields(value):
            yield from below(getattr(value, field.name))


CALLS = re.compile(r"(\w+)\.(match|fullmatch|search|finditer|findall|sub|split)\b")
INLINE = re.compile(r'\bre\.(match|fullmatch|search|finditer|findall|sub|split)\(\s*(r?b?"[^"]*")')
# What few logs need is compiled where it is used: re.search(_PATTERN, text).
NAMED = re.compile(r"\bre\.(match|fullmatch|search|finditer|findall|sub|split)\((_[A-Z_]+),")


@cache
def used():
    """Return the patterns of all modules by name, each with its methods that are called."""
    inline = []
    names_by_pattern = {}
    calls = {}
    for module in modules():
        source = Path(module.__file__).read_text(encoding="utf-8")
        for owner, method in CALLS.findall(source):
            calls.setdefault(owner, set()).add(method)
        for method, pattern in INLINE.findall(source):
            inline.append((module.__name__, re.compile(ast.literal_eval(pattern)), {method}))
        for method, name in NAMED.findall(source):
            pattern = re.compile(vars(module)[name])
            inline.append((f"{module.__name__}.{name}", pattern, {method}))
        for name, value in vars(module).items():
            for pattern in below(value):
                names_by_pattern.setdefault(pattern, f"{module.__name__}.{name}")
    inline += [
        (str(english), re.compile(pattern, re.ASCII), {"sub"})
        for _, pattern, english in _IN_ENGLISH
    ]
    # Patterns called under another name may use search.
    return inline + [
        (name, pattern, calls.get(name.rpartition(".")[2], {"search"}))
        for pattern, name in names_by_pattern.items()
    ]


def alphabet(parsed):
    """Yield signs that a pattern takes, the different kinds of them."""
    for op, arg in parsed:
        if op is constants.LITERAL:
            yield chr(arg)
        elif op is constants.ANY:
            yield "a"
        elif op is constants.NOT_LITERAL:
            yield "a" if arg != ord("a") else "b"
        elif op is constants.RANGE:
            yield chr(arg[0])
        elif op is constants.CATEGORY:
            kind = str(arg)
            yield "0" if "DIGIT" in kind else " " if "SPACE" in kind else "a"
            if "WORD" in kind:
                yield "_"
        elif op is constants.IN:
            if arg[0][0] is constants.NEGATE:
                yield from "a0 -"
            else:
                yield from alphabet(arg)
        elif isinstance(arg, tuple):
            for part in arg:
                if isinstance(part, parser.SubPattern):
                    yield from alphabet(part)
                elif isinstance(part, list):
                    for branch in part:
                        yield from alphabet(branch)
        elif isinstance(arg, parser.SubPattern):
            yield from alphabet(arg)


def texts(parsed):
    """Yield the literal texts of a pattern, its beginning first."""
    text = ""
    for op, arg in parsed:
        if op is constants.LITERAL:
            text += chr(arg)
            continue
        yield text
        text = ""
        parts = arg if isinstance(arg, tuple) else (arg,)
        for item in (
            item for part in parts for item in (part if isinstance(part, list) else (part,))
        ):
            if isinstance(item, parser.SubPattern):
                yield from texts(item)
    yield text


def attacks(pattern):
    """Yield texts of any length that a pattern might be slow on: it begins, and then does not end.

    They are of one sign of the pattern's own, or two in turn, behind what may begin a match.
    """
    source = (
        pattern.pattern if isinstance(pattern.pattern, str) else pattern.pattern.decode("latin1")
    )
    parsed = parser.parse(source, pattern.flags & ~re.UNICODE & ~re.DEBUG)
    signs = list(dict.fromkeys(alphabet(parsed)))
    signs = sorted(signs, key=lambda sign: (sign.isalnum(), signs.index(sign)))
    kinds = [sign for sign in signs if not sign.isalnum()][:7]
    kinds += [sign for sign in signs if sign.isdigit()][:1] + [
        sign for sign in signs if sign.isalpha()
    ][:3]
    runs = list(texts(parsed))
    starts = dict.fromkeys(["", runs[0], *signs[:6]])
    bodies = [
        *kinds,
        *(sign + other for sign, other in pairwise(kinds)),
        *(f"{sign}0" for sign in kinds),
    ]
    bodies += [f"{sign}\n" for sign in kinds]
    bodies += list(dict.fromkeys(run for run in runs if len(run) > 1))[:8]
    for start in starts:
        for body in bodies:
            if isinstance(pattern.pattern, bytes):
                yield lambda n, s=start, b=body: f"{s}{(b * n)[:n]}\0".encode("latin1", "replace")
            else:
                yield lambda n, s=start, b=body: f"{s}{(b * n)[:n]}\0"


def ways(pattern, methods):
    for method in methods & {"match", "fullmatch"}:
        yield getattr(pattern, method)
    if methods - {"match", "fullmatch"}:
        yield lambda text: sum(1 for _ in pattern.finditer(text))


def taken(way, text, *, tries=1):
    spent = []
    for _ in range(tries):
        begun = time.process_time()
        way(text)
        spent.append(time.process_time() - begun)
    return min(spent)


def is_slow(way, attack):
    long, short = attack(SHORT * TIMES), attack(SHORT)
    if taken(way, long) < MEASURABLE or taken(way, long, tries=3) < MEASURABLE:
        return False
    return taken(way, long, tries=3) > MAX_RATIO * taken(way, short, tries=3)


def parts_of(parsed):
    for part in parsed:
        yield part[0]
        below = part[1] if isinstance(part[1], tuple) else (part[1],)
        for item in (
            item for kept in below for item in (kept if isinstance(kept, list) else [kept])
        ):
            if isinstance(item, parser.SubPattern):
                yield from parts_of(item)


def test_patterns_do_not_use_possessive_quantifiers():
    """Possessive quantifiers are new in Python 3.11, and wrong in its first versions."""
    new = {constants.POSSESSIVE_REPEAT, constants.ATOMIC_GROUP}
    possessive = {
        name
        for name, pattern, _ in used()
        if not new.isdisjoint(parts_of(parser.parse(pattern.pattern)))
    }
    assert not possessive


def test_every_pattern_takes_linear_time():
    slow = {}
    for name, pattern, methods in used():
        for way, attack in product(ways(pattern, methods), attacks(pattern)):
            # What else the machine does may take time of one look, and hardly of three.
            if all(is_slow(way, attack) for _ in range(3)):
                slow[name] = attack(20)
                break
    assert not slow


def log_with(keys):
    return "".join(json.dumps({"step": n, "loss": 2.0 + n / 99, **keys}) + "\n" for n in range(20))


def repeated(start, addition):
    return lambda n: start + addition * (n // len(addition))


# Texts that grow with a number, made to be slow.
HOSTILE = {
    "rules of a table": lambda n: f"step,loss\n|{'-' * n}x\n" + "1,2.5\n" * 5,
    "a key of numbers": lambda n: log_with({"1_" * (n // 2): 1}),
    "columns of pandas": repeated("", "1  2.5\nName: loss, dtype: float64\n"),
    "dotted keys": lambda n: json.dumps({"a." * (n // 2): 1}) + "\n" + log_with({}),
}


def diagnosed(text, path, length):
    path.write_text(text(length), encoding="utf-8")
    with suppress(LogError):
        stabdiag.diagnose(path)


def read_as_json(text, path, length):
    path.write_text(text(length), encoding="utf-8")
    for format in (None, "json", "jsonl"):
        with suppress(LogError):
            read_columns(path, format=format)


# JSON, each as a start and what is repeated after it.
ODD = {
    "quotes in a string without end": ('[{"a": "', '\\"'),
    "backslashes": ('[{"a": "', "\\"),
    "records of another kind": ("[", '{"a": nan nan},'),
    "records within records": ("[", '{"a": {"b": [1]}},'),
    "lists within lists": ("[", "[1, 2],"),
    "lists without an end": ("", '[{"step": 1, "loss": 2.5}, {"step": 2, "loss": 2.5}, '),
    "words with brackets": ('{"a": [', '"],",'),
    "braces and blanks": ("[{", "}      "),
    "blanks": ("[{\n", " \n"),
    "numbers with brackets": ("[{", '"nan(": nan('),
    "blanks after a key": ('{"log_history"', " "),
    "an index": ('{"a": {', '"1": 2,'),
}


def configured(_path, length):
    parse_manifest({f"{'a.' * (length // 5)}lr": 1e-3})


WAYS = {
    **{name: partial(diagnosed, text) for name, text in HOSTILE.items()},
    **{name: partial(read_as_json, repeated(*odd)) for name, odd in ODD.items()},
    "keys of a configuration with many dots": configured,
}


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
def test_hostile_logs_are_read_in_linear_time(tmp_path, way):
    def spent(length):
        begun = time.process_time()
        way(tmp_path / "run.log", length)
        return time.process_time() - begun

    spent(1000)  # imports
    # A busy machine may take three times as long for either.
    short, long = spent(5_000), spent(80_000)
    assert long < 64 * short + 0.15  # 16 times as long, and 256 times where it grew with the square


def test_lines_of_random_words_are_searched_for_fixed_texts_alone():
    """Markers of few letters are in any words. A search for a line start takes far longer."""
    random = np.random.default_rng(5)
    letters = random.choice(list(b"abcdefghijklmnopqrstuvwxyz   \n"), 1 << 20).astype(np.uint8)
    rows = find_normalizations(letters.tobytes())
    starts = {row.pattern: parser.parse(row.pattern.decode("latin1"))[0][0] for row in rows}
    assert all(op is constants.LITERAL for op in starts.values()), starts


def test_the_lines_of_a_wide_log_are_read_many_at_a_time():
    """Each block costs each column the same: blocks of few lines would cost the width squared."""
    line = b'{"step": 1, "loss": 2.5, "note": "' + b"x" * (BLOCK // 2) + b'"}\n'
    cut = list(blocks(Stream("run", io.BytesIO(96 * line))))
    assert sum(block.count(b"\n") for block in cut) == 96
    assert len(cut) <= 8
