"""The text of a configuration file as a mapping: JSON, TOML or YAML, by its suffix."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from itertools import chain
from typing import Any, Final

from stabdiag.errors import ManifestError

_WANTED: Final = 'a manifest is one JSON object such as {"dtype": "fp16"}'

# A configuration of more keys and values than this, references followed, is none; nor is one of
# deeper levels, or of longer numbers: nobody writes these, and what works with them stumbles.
_MOST_NODES: Final = 100_000
_DEEPEST: Final = 100
_LONGEST_NUMBER: Final = 1000  # characters
_LARGEST_NUMBER: Final = 10**_LONGEST_NUMBER

# A parser's complaint is cut to this length: it may hold a key as long as the file.
_REASON: Final = 300


def mapping_of(name: str, data: bytes) -> Mapping[str, Any]:
    """Return what a configuration file says.

    Args:
        name: the file's name; its suffix tells the language, JSON if it is none of the others.
        data: what the file holds.

    Raises:
        ManifestError: if it is not one object.
    """
    language = _LANGUAGES.get(name.rpartition(".")[2].lower(), "JSON")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise ManifestError(f"{name}: not a text file; {_WANTED}") from None
    if not text.strip() and language != "TOML":
        raise ManifestError(f"{name}: empty; {_WANTED}")
    try:
        raw = parsed(text, language)
    except ValueError as error:
        raise ManifestError(f"{name}: {error}") from None
    if not isinstance(raw, dict):
        kinds = {list: "a list", str: "a string", bool: "true or false", type(None): "null"}
        kind = kinds.get(type(raw), "a number")
        raise ManifestError(f"{name}: {_WANTED}, not {kind}")
    return _without_notes({str(key): value for key, value in raw.items()})


def parsed(text: str, language: str) -> object:
    """Return what a text says in one of the languages of configurations: JSON, TOML or YAML.

    Raises:
        ValueError: if it is none, or holds what no configuration does; the message is one line.
    """
    try:
        value = _PARSERS[language](text)
        _refuse_odd(value)
    except Exception as error:  # noqa: BLE001 - a parser raises whatever its code stumbles over
        reason = " ".join(str(error).split())[:_REASON] or type(error).__name__
        raise ValueError(f"not valid {language} ({reason})") from None
    return value


def _refuse_odd(value: object) -> None:
    waiting = [(value, 0)]
    while waiting:
        one, depth = waiting.pop()
        if depth > _DEEPEST:
            raise ValueError(f"nested more than {_DEEPEST} levels deep")
        if isinstance(one, int) and abs(one) >= _LARGEST_NUMBER:
            raise ValueError(f"a number of more than {_LONGEST_NUMBER} digits")
        if isinstance(one, dict | list | tuple | set):
            inner = one.values() if isinstance(one, dict) else one
            waiting.extend((each, depth + 1) for each in inner)


def _yaml(text: str) -> object:
    import yaml

    class Loader(yaml.SafeLoader):
        """Takes the tags of Python objects, as Lightning writes them, for what they hold.

        It weighs each node before anything is made of it: a reference is as large as what it
        refers to.
        """

        sizes: dict[yaml.Node, int]

        def compose_node(self, parent: yaml.Node | None, index: int) -> Any:
            is_reference = self.check_event(yaml.AliasEvent)
            node: Any = super().compose_node(parent, index)
            if not is_reference:
                self.sizes[node] = self._size(node)
            # What has no size yet refers to itself.
            size = self.sizes.get(node, _MOST_NODES + 1)
            if max(size, len(self.sizes)) > _MOST_NODES:
                raise ValueError("more values than a configuration has")
            return node

        def _size(self, node: yaml.Node) -> int:
            if not isinstance(node, yaml.CollectionNode):
                if len(node.value) > _LONGEST_NUMBER and node.tag.endswith((":int", ":float")):
                    raise ValueError(f"a number of more than {_LONGEST_NUMBER} digits")
                return 1
            pairs = isinstance(node, yaml.MappingNode)
            inner = chain.from_iterable(node.value) if pairs else node.value
            return 1 + sum(self.sizes[one] for one in inner)

        def construct_object(self, node: yaml.Node, deep: bool = False) -> object:
            try:
                return super().construct_object(node, deep=deep)
            except (yaml.YAMLError, RecursionError):
                raise
            except Exception as error:
                told = f"{str(node.value)[:40]!r} is no {node.tag.rpartition(':')[2]}"
                raise yaml.constructor.ConstructorError(
                    None, None, told, node.start_mark
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
    import tomllib  # of few runs, and it takes long to load

    return tomllib.loads(text)


def _without_notes(raw: dict[str, Any]) -> dict[str, Any]:
    """Return what W&B writes as ``lr: {desc: null, value: 0.1}`` as ``lr: 0.1``."""
    told = {key: one for key, one in raw.items() if key not in ("_wandb", "wandb_version")}
    if told and all(isinstance(one, dict) and "value" in one for one in told.values()):
        return {key: one["value"] for key, one in told.items()}
    return raw


_LANGUAGES: Final = {"toml": "TOML", "yaml": "YAML", "yml": "YAML"}  # by suffix
_PARSERS: Final[Mapping[str, Callable[[str], object]]] = {
    "JSON": json.loads,
    "TOML": _toml,
    "YAML": _yaml,
}
