"""Configuration files as text with the position of each value: JSON, YAML and TOML.

An edit replaces the characters of one value, or inserts one line. The edited text is parsed again,
and must differ from the original in nothing else.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, TypeAlias

from stabdiag.errors import ConfigError
from stabdiag.model.frozen import frozen
from stabdiag.model.manifest.text import parsed

KeyPath: TypeAlias = tuple[str, ...]

# From here on, a number is written without an exponent.
_MIN_PLAIN: Final = 0.01

_LANGUAGE_BY_SUFFIX: Final = {".json": "JSON", ".yaml": "YAML", ".yml": "YAML", ".toml": "TOML"}
_CODE_SUFFIXES: Final = frozenset(
    {".py", ".ipynb", ".sh", ".bash", ".slurm", ".sbatch", ".cfg", ".gin"}
)


@frozen
class DocumentEntry:
    """One key of a file: its value, where key and value are, and the column of the key.

    ``is_inline`` marks an entry of a mapping on one line, such as ``{lr: 0.1, eps: 1e-8}``.
    """

    value: Any
    key_start: int
    start: int
    end: int
    is_inline: bool = False


@frozen
class Document:
    """A configuration file: its text, its language, and its entries by path."""

    name: str
    language: str
    text: str
    entries: Mapping[KeyPath, DocumentEntry]

    def values(self) -> dict[KeyPath, Any]:
        """Return the values that are not mappings, by path."""
        return {
            path: entry.value
            for path, entry in self.entries.items()
            if not isinstance(entry.value, dict)
        }


@frozen(eq=True)
class Edit:
    """A new value at a path.

    ``before`` is the old value; a new key follows the entry ``after``.
    """

    path: KeyPath
    value: object
    before: object = None
    after: KeyPath | None = None


def read_document(name: str, data: bytes) -> Document:
    """Read a configuration file.

    Raises:
        ConfigError: if it is code, has another format, or is not one mapping.
    """
    suffix = f".{name.rpartition('.')[2].lower()}"
    language = _LANGUAGE_BY_SUFFIX.get(suffix)
    if suffix in _CODE_SUFFIXES:
        raise ConfigError(f"{name}: this is code, which apply never changes; edit it by hand")
    if language is None:
        raise ConfigError(f"{name}: apply changes JSON, YAML and TOML files; edit others by hand")
    try:
        text = data.decode("utf-8")
        value = parsed(text, language)
        entries = dict(_POSITIONS[language](text)) if isinstance(value, dict) else {}
    except UnicodeDecodeError:
        raise ConfigError(f"{name}: not a text file") from None
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"{name}: {error}") from None
    if not isinstance(value, dict):
        raise ConfigError(f"{name}: not a configuration: expected one mapping of settings")
    with_value = {path: entry for path, entry in entries.items() if _has(value, path)}
    entries = {
        path: DocumentEntry(
            value=_get(value, path),
            key_start=entry.key_start,
            start=entry.start,
            end=entry.end,
            is_inline=entry.is_inline,
        )
        for path, entry in with_value.items()
    }
    return Document(name=name, language=language, text=text, entries=entries)


def edited(document: Document, edits: Iterable[Edit]) -> str:
    """Return the text of a document after some edits.

    Raises:
        ConfigError: if the file is written in a way that does not allow one of them.
    """
    edits = tuple(edits)
    text = document.text
    for edit in sorted(edits, key=lambda edit: _position(document, edit), reverse=True):
        text = _with_edit(document, text, edit)
    before, after = parsed(document.text, document.language), _parsed_or_none(document, text)
    expected = _copy(before)
    for edit in edits:
        _set(expected, edit.path, edit.value)
    if not _same(expected, after):
        names = ", ".join(".".join(edit.path) for edit in edits)
        raise ConfigError(f"{document.name}: {names} cannot be changed alone; edit it by hand")
    return text


def _position(document: Document, edit: Edit) -> int:
    if edit.after is not None:
        return document.entries[edit.after].end
    return document.entries[edit.path].start


def _with_edit(document: Document, text: str, edit: Edit) -> str:
    if edit.after is None:
        entry = document.entries[edit.path]
        old = document.text[entry.start : entry.end]
        gap = " " if not old and document.language == "YAML" else ""
        return f"{text[: entry.start]}{gap}{_written(edit.value, old, document)}{text[entry.end :]}"
    entry, key = document.entries[edit.after], edit.path[-1]
    value = _written(edit.value, "", document)
    line_start = text.rfind("\n", 0, entry.key_start) + 1
    indent = text[line_start : entry.key_start]
    newline = "\r\n" if "\r\n" in text else "\n"
    if document.language == "JSON":
        between = f",{newline}{indent}" if not indent.strip() else ", "
        return f"{text[: entry.end]}{between}{json.dumps(key)}: {value}{text[entry.end :]}"
    if entry.is_inline:
        return f"{text[: entry.end]}, {key}: {value}{text[entry.end :]}"
    sign = " = " if document.language == "TOML" else ": "
    line_end = text.find("\n", entry.end)
    line_end = len(text) if line_end < 0 else line_end - (text[line_end - 1] == "\r")
    return f"{text[:line_end]}{newline}{indent}{key}{sign}{value}{text[line_end:]}"


def _written(value: object, old: str, document: Document) -> str:
    """Return a value as text, in the style of the old one."""
    quote = old[:1] if old[:1] in ("'", '"') else ""
    if isinstance(value, dict):
        return json.dumps(value)
    if isinstance(value, bool):
        text = str(value).lower()
        return (
            text.capitalize() if old in ("True", "False") and document.language == "YAML" else text
        )
    if isinstance(value, float):
        return f"{quote}{_number(value, old.strip(quote) if quote else old)}{quote}"
    if isinstance(value, str) and document.language != "YAML":
        return json.dumps(value)
    return f"{quote}{value}{quote}"


def _number(value: float, old: str) -> str:
    """Return a number in a form that YAML 1.1 reads as a number, too: 1.0e-05, with dot and sign.

    A number without the dot stays in its form, because the program that reads it converts it.
    """
    scientific = re.fullmatch(r"\d+(\.\d+)?[eE]([+-]?)(\d+)", old)
    if 1e-4 <= abs(value) < 1e6 and (scientific is None or abs(value) >= _MIN_PLAIN):
        return str(value)
    mantissa, _, exponent = f"{value:.12e}".partition("e")
    mantissa = mantissa.rstrip("0")
    width = len(scientific[3]) if scientific else 2
    dotted = scientific is None or scientific[1] is not None
    mantissa = f"{mantissa}0" if mantissa.endswith(".") else mantissa
    mantissa = mantissa if dotted else mantissa.removesuffix(".0")
    plus = "+" if scientific is None or scientific[2] else ""
    sign = "-" if exponent.startswith("-") else plus
    return f"{mantissa}e{sign}{exponent.lstrip('+-').lstrip('0').rjust(width, '0')}"


_TOML_SPACE: Final = re.compile(r"\s*")
_JSON: Final = json.JSONDecoder()


def _json_positions(text: str) -> Iterator[tuple[KeyPath, DocumentEntry]]:
    yield from _json_object(text, _skip(text, 0), ())[1]


def _skip(text: str, at: int) -> int:
    match = _TOML_SPACE.match(text, at)
    return match.end() if match else at


def _json_object(
    text: str, at: int, path: KeyPath
) -> tuple[int, list[tuple[KeyPath, DocumentEntry]]]:
    """Return the end of an object, and its entries."""
    entries: list[tuple[KeyPath, DocumentEntry]] = []
    at = _skip(text, at + 1)
    while text[at] != "}":
        key_start = at
        key, at = _JSON.raw_decode(text, at)
        start = _skip(text, _skip(text, at) + 1)
        inner: list[tuple[KeyPath, DocumentEntry]] = []
        if text[start] == "{":
            end, inner = _json_object(text, start, (*path, key))
        else:
            end = _JSON.raw_decode(text, start)[1]
        entries += [
            ((*path, key), DocumentEntry(value=None, key_start=key_start, start=start, end=end))
        ]
        entries += inner
        at = _skip(text, end)
        if text[at] == ",":
            at = _skip(text, at + 1)
    return at + 1, entries


def _yaml_positions(text: str) -> Iterator[tuple[KeyPath, DocumentEntry]]:
    import yaml

    try:
        root = yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.YAMLError as error:
        raise ValueError(" ".join(str(error).split())) from None
    waiting: list[tuple[KeyPath, Any]] = [((), root)]
    while waiting:
        path, node = waiting.pop()
        for key, value in node.value:
            if not isinstance(key, yaml.ScalarNode):
                continue
            name = (*path, str(key.value))
            yield (
                name,
                DocumentEntry(
                    value=None,
                    key_start=key.start_mark.index,
                    start=value.start_mark.index,
                    end=value.end_mark.index,
                    is_inline=bool(node.flow_style),
                ),
            )
            if isinstance(value, yaml.MappingNode) and len(name) < _MAX_NESTING:
                waiting.append((name, value))


_MAX_NESTING: Final = 20
_TABLE_HEADER: Final = re.compile(r"^\s*\[([^\[\]]+)\]\s*(#.*)?$")
_ASSIGNMENT: Final = re.compile(
    r"""^(\s*)([\w-]+|"[^"]*")\s*=\s*("[^"]*"|'[^']*'|[^\s#\[{"']+)\s*(#.*)?$"""
)


def _toml_positions(text: str) -> Iterator[tuple[KeyPath, DocumentEntry]]:
    """Yield the keys with a simple value on one line; others cannot be edited."""
    table: KeyPath = ()
    at = 0
    for line in text.splitlines(keepends=True):
        header = _TABLE_HEADER.match(line)
        if header:
            table = tuple(part.strip().strip("\"'") for part in header[1].split("."))
        assignment = _ASSIGNMENT.match(line)
        if assignment:
            entry = DocumentEntry(
                value=None,
                key_start=at + assignment.start(2),
                start=at + assignment.start(3),
                end=at + assignment.end(3),
            )
            yield (*table, assignment[2].strip('"')), entry
        at += len(line)


_POSITIONS: Final = {"JSON": _json_positions, "YAML": _yaml_positions, "TOML": _toml_positions}


def _parsed_or_none(document: Document, text: str) -> object:
    try:
        return parsed(text, document.language)
    except ValueError:
        return None


def _copy(value: Any) -> Any:
    return {key: _copy(item) for key, item in value.items()} if isinstance(value, dict) else value


def _has(value: Any, path: KeyPath) -> bool:
    for key in path:
        if not isinstance(value, dict) or key not in value:
            return False
        value = value[key]
    return True


def _get(value: Any, path: KeyPath) -> Any:
    for key in path:
        value = value[key]
    return value


def _set(value: Any, path: KeyPath, new: object) -> None:
    for key in path[:-1]:
        value = value[key]
    value[path[-1]] = new


def _same(first: Any, second: Any) -> bool:
    """Return True if two configurations are equal; a number may be written as a text."""
    if isinstance(first, dict) and isinstance(second, dict):
        is_equal = all(_same(first[key], second.get(key)) for key in first)
        return first.keys() == second.keys() and is_equal
    if isinstance(first, float) and isinstance(second, str):
        return str(_as_number(second)) == str(first)
    if type(first) is not type(second) and not {type(first), type(second)} <= {int, float}:
        return False
    return bool(first == second) or (first != first and second != second)


def _as_number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None
