"""The text of a configuration file as a mapping: JSON, TOML or YAML, by its suffix."""

from __future__ import annotations

import json
import tomllib
from typing import TYPE_CHECKING, Any, Final

from stabdiag.errors import ManifestError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

_WANTED: Final = 'a manifest is one JSON object such as {"dtype": "fp16"}'

# A configuration of more values than this, references followed, is none.
_MOST_VALUES: Final = 100_000


def mapping_of(name: str, data: bytes) -> Mapping[str, Any]:
    """Return what a configuration file says.

    Args:
        name: the file's name; its suffix tells the language, JSON if it is none of the others.
        data: what the file holds.

    Raises:
        ManifestError: if it is not one object.
    """
    language, parse = _LANGUAGES.get(name.rpartition(".")[2].lower(), _LANGUAGES["json"])
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise ManifestError(f"{name}: not a text file; {_WANTED}") from None
    if not text.strip() and language != "TOML":
        raise ManifestError(f"{name}: empty; {_WANTED}")
    try:
        raw = parse(text)
    except (ValueError, RecursionError) as error:
        reason = " ".join(str(error).split())
        raise ManifestError(f"{name}: not valid {language} ({reason})") from None
    if not isinstance(raw, dict):
        kinds = {list: "a list", str: "a string", bool: "true or false", type(None): "null"}
        kind = kinds.get(type(raw), "a number")
        raise ManifestError(f"{name}: {_WANTED}, not {kind}")
    return _without_notes({str(key): value for key, value in raw.items()})


def _yaml(text: str) -> object:
    import yaml

    class Loader(yaml.SafeLoader):
        """Takes the tags of Python objects, as Lightning writes them, for what they hold."""

    def plain(loader: Any, _suffix: str, node: yaml.Node) -> object:
        if isinstance(node, yaml.MappingNode):
            return loader.construct_mapping(node, deep=True)
        if isinstance(node, yaml.SequenceNode):
            return loader.construct_sequence(node, deep=True)
        return node.value

    Loader.add_multi_constructor("", plain)
    try:
        value = yaml.load(text, Loader)
    except yaml.YAMLError as error:
        raise ValueError(error) from error
    _refuse_endless(value)
    return value


def _refuse_endless(value: object) -> None:
    """Raise an error for references that make a few lines into more than anyone would write."""
    waiting = [value]
    count = 0
    while waiting:
        count += 1
        if count > _MOST_VALUES:
            raise ValueError("more values than a configuration has")
        one = waiting.pop()
        if isinstance(one, dict):
            waiting.extend(one.values())
        elif isinstance(one, list | tuple):
            waiting.extend(one)


def _without_notes(raw: dict[str, Any]) -> dict[str, Any]:
    """Return what W&B writes as ``lr: {desc: null, value: 0.1}`` as ``lr: 0.1``."""
    told = {key: one for key, one in raw.items() if key not in ("_wandb", "wandb_version")}
    if told and all(isinstance(one, dict) and "value" in one for one in told.values()):
        return {key: one["value"] for key, one in told.items()}
    return raw


_LANGUAGES: Final[Mapping[str, tuple[str, Callable[[str], object]]]] = {
    "json": ("JSON", json.loads),
    "toml": ("TOML", tomllib.loads),
    "yaml": ("YAML", _yaml),
    "yml": ("YAML", _yaml),
}
