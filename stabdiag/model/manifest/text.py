"""The text of a configuration file as a mapping: JSON, TOML or YAML, by its suffix."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from itertools import chain
from typing import Any, Final

from stabdiag.errors import ManifestError

_EXPECTED_MANIFEST: Final = 'a manifest is one JSON object such as {"dtype": "fp16"}'

# Bounds of a configuration: keys and values with references expanded, nesting depth, digits of a
# number. Larger files are not configurations and may exhaust a parser.
_MAX_CONFIG_NODES: Final = 100_000
_MAX_TEXT_DEPTH: Final = 100
_LONGEST_NUMBER: Final = 1000  # characters
_LARGEST_NUMBER: Final = 10**_LONGEST_NUMBER

# Parser messages are cut to this length, because they may quote a key as long as the file.
_REASON: Final = 300


def parse_mapping(name: str, data: bytes) -> Mapping[str, Any]:
    """Parse a configuration file.

    Args:
        name: the name of the file; its suffix determines the language, JSON by default.
        data: the content of the file.

    Raises:
        ManifestError: if it is not one object.
    """
    language = _LANGUAGE_NAMES.get(name.rpartition(".")[2].lower(), "JSON")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise ManifestError(f"{name}: not a text file; {_EXPECTED_MANIFEST}") from None
    if not text.strip() and language != "TOML":
        raise ManifestError(f"{name}: empty; {_EXPECTED_MANIFEST}")
    try:
        raw = parsed(text, language)
    except ValueError as error:
        raise ManifestError(f"{name}: {error}") from None
    if not isinstance(raw, dict):
        kinds = {list: "a list", str: "a string", bool: "true or false", type(None): "null"}
        kind = kinds.get(type(raw), "a number")
        raise ManifestError(f"{name}: {_EXPECTED_MANIFEST}, not {kind}")
    return _without_notes({str(key): value for key, value in raw.items()})


def parsed(text: str, language: str) -> object:
    """Parse a text in JSON, TOML or YAML.

    Raises:
        ValueError: if the text is invalid, or exceeds the bounds; the message is one line.
    """
    try:
        value = _PARSERS[language](text)
        _refuse_odd(value)
    except Exception as error:  # noqa: BLE001 - parsers may raise any exception
        reason = " ".join(str(error).split())[:_REASON] or type(error).__name__
        raise ValueError(f"not valid {language} ({reason})") from None
    return value


def _refuse_odd(value: object) -> None:
    waiting = [(value, 0)]
    while waiting:
        item, depth = waiting.pop()
        if depth > _MAX_TEXT_DEPTH:
            raise ValueError(f"nested more than {_MAX_TEXT_DEPTH} levels deep")
        if isinstance(item, int) and abs(item) >= _LARGEST_NUMBER:
            raise ValueError(f"a number of more than {_LONGEST_NUMBER} digits")
        if isinstance(item, dict | list | tuple | set):
            inner = item.values() if isinstance(item, dict) else item
            waiting.extend((each, depth + 1) for each in inner)


def _yaml(text: str) -> object:
    import yaml

    class Loader(yaml.SafeLoader):
        """Reads tagged Python objects, as Lightning writes them, as plain values.

        The size of each node is checked before it is constructed; a reference has the size of its
        target.
        """

        sizes: dict[yaml.Node, int]

        def compose_node(self, parent: yaml.Node | None, index: int) -> Any:
            is_reference = self.check_event(yaml.AliasEvent)
            node: Any = super().compose_node(parent, index)
            if not is_reference:
                self.sizes[node] = self._size(node)
            # A node without a size yet refers to itself.
            size = self.sizes.get(node, _MAX_CONFIG_NODES + 1)
            if max(size, len(self.sizes)) > _MAX_CONFIG_NODES:
                raise ValueError("more values than a configuration has")
            return node

        def _size(self, node: yaml.Node) -> int:
            if not isinstance(node, yaml.CollectionNode):
                if len(node.value) > _LONGEST_NUMBER and node.tag.endswith((":int", ":float")):
                    raise ValueError(f"a number of more than {_LONGEST_NUMBER} digits")
                return 1
            pairs = isinstance(node, yaml.MappingNode)
            inner = chain.from_iterable(node.value) if pairs else node.value
            return 1 + sum(self.sizes[child] for child in inner)

        def construct_object(self, node: yaml.Node, deep: bool = False) -> object:
            try:
                return super().construct_object(node, deep=deep)
            except (yaml.YAMLError, RecursionError):
                raise
            except Exception as error:
                problem = f"{str(node.value)[:40]!r} is not of type {node.tag.rpartition(':')[2]}"
                raise yaml.constructor.ConstructorError(
                    None, None, problem, node.start_mark
                ) from error

    def plain(loader: Any, _suffix: str, node: yaml.Node) -> object:
        if isinstance(node, yaml.MappingNode):
            return loader.construct_mapping(node, deep=True)
        if isinstance(node, yaml.SequenceNode):
            return loader.construct_sequence(node, deep=True)
        return node.value

    Loader.add_multi_constructor("", plain)
    Loader.sizes = {}
    return yaml.load(text, Loader)


def _toml(text: str) -> object:
    import tomllib  # few runs need it, and it is slow to import

    return tomllib.loads(text)


def _without_notes(raw: dict[str, Any]) -> dict[str, Any]:
    """Replace W&B entries such as ``lr: {desc: null, value: 0.1}`` with ``lr: 0.1``."""
    entries = {key: entry for key, entry in raw.items() if key not in ("_wandb", "wandb_version")}
    if entries and all(isinstance(entry, dict) and "value" in entry for entry in entries.values()):
        return {key: entry["value"] for key, entry in entries.items()}
    return raw


_LANGUAGE_NAMES: Final = {"toml": "TOML", "yaml": "YAML", "yml": "YAML"}  # by suffix
_PARSERS: Final[Mapping[str, Callable[[str], object]]] = {
    "JSON": json.loads,
    "TOML": _toml,
    "YAML": _yaml,
}
