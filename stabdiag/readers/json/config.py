"""The run's configuration in JSON records, as opposed to measured values."""

from __future__ import annotations

import re
from dataclasses import replace
from itertools import chain, islice
from typing import Final

from stabdiag.model.manifest.keys import KEYS
from stabdiag.model.manifest.parsing import plain
from stabdiag.model.patterns import lazy_pattern
from stabdiag.readers.columns import Columns
from stabdiag.readers.json.tolerant import decode_line

# {"config": {"lr": 0.001, …}}, {"model_config": {…}}
_HOLDER: Final = lazy_pattern(
    r"(?:.{0,60}_)?(?:config|configuration|cfg|hparams|hyper_?parameters|args)", re.IGNORECASE
)
_MAY_HOLD: Final = lazy_pattern(rb'(?i:config|configuration|cfg|hparams|parameters|args)"')

# A run logs its configuration before its first records.
_CONFIG_LINES: Final = 20

# The fields of a manifest that are words.
_WORD_FIELDS: Final = frozenset(
    name for key in KEYS if key.name in ("dtype", "optimizer", "schedule") for name in key.names
)


def head_config(head: bytes) -> dict[str, object]:
    """Return the configurations in the first lines."""
    configs: dict[str, object] = {}
    for line in islice(head.split(b"\n", _CONFIG_LINES), _CONFIG_LINES):
        # Without a brace inside, which is found fast, a record holds no configuration.
        if line.find(b"{", line.find(b"{") + 1) < 0 or not _MAY_HOLD.search(line):
            continue
        records = decode_line(line.decode("utf-8", "replace"))[0]
        for name, value in chain.from_iterable(record.items() for record in records):
            if isinstance(value, dict) and _HOLDER.fullmatch(name):
                configs.setdefault(name, value)
    return configs


def with_config(columns: Columns) -> Columns:
    """Move the columns of a configuration to ``config``.

    A number in a configuration is not a series, and a word that all records contain, such as
    ``"precision": "bfloat16"``, is a setting.
    """
    name_parts = {name: name.partition("/") for name in columns.names}
    names = tuple(
        name
        for name, (holder, bar, _) in name_parts.items()
        if not (bar and _HOLDER.fullmatch(holder))
    )
    words: dict[str, object] = {}
    for name in names:
        if plain(name) in _WORD_FIELDS:
            column = columns.load(name)
            if column.is_text and len(column.words) == 1 and not column.logged.any():
                words[name] = column.words[0]
    if len(names) == len(columns.names) and not words:
        return columns
    return replace(columns, names=names or columns.names, config={**words, **columns.config})
