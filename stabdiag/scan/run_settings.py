"""The settings of a run that a row keeps: from its manifest, its log and its name."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from stabdiag.comparison.settings import is_secret
from stabdiag.model.comparison import same
from stabdiag.model.manifest.keys import KEYS
from stabdiag.model.manifest.parsing import plain
from stabdiag.model.report import Report
from stabdiag.model.text import shown
from stabdiag.scan.common import TYPED

# Limits that keep a row small: settings, and characters of a setting.
_MAX_ROW_SETTINGS: Final = 500
_MAX_SETTING_LENGTH: Final = 200

_FIELD_OF_SPELLING: Final = {name: key.name for key in KEYS for name in key.names}

# Settings in file and folder names, such as ``lr0.01_seed1`` and ``lr=3e-4,batch_size=64``.
_SETTING_WORDS: Final = {
    "peak_lr": "lr|learning[_-]?rate|peak[_-]?lr|max[_-]?lr",
    "batch_size": "bs|bsz|batch[_-]?size",
    "seed": "seed",
    "weight_decay": "wd|weight[_-]?decay",
    "warmup_steps": "warmup(?:[_-]?steps)?",
}
_SETTING_IN_NAME: Final = {
    field: re.compile(
        rf"(?<![a-z0-9])(?:{words})[=:_-]?(\d+(?:\.\d+)?(?:e[+-]?\d+)?)(?![a-z0-9]|\.\d)"
    )
    for field, words in _SETTING_WORDS.items()
}


def typed_settings(report: Report, run: str) -> dict[str, Any]:
    """Return the settings with columns of their own; values inferred from the log do not count."""
    manifest, by_name = report.manifest, settings_in_name(run)
    values = {name: getattr(manifest, name) for name in TYPED if name not in manifest.inferred}
    for name, value in by_name.items():
        if name in TYPED and values.get(name) is None:
            values[name] = int(value) if name == "seed" and value == int(value) else value
    return values


def other_settings(report: Report, run: str, typed: Mapping[str, Any]) -> dict[str, str]:
    """Return all other settings by name, without those that repeat a column."""
    manifest = report.manifest
    fields = {
        key.name: getattr(manifest, key.name)
        for key in KEYS
        if key.name not in manifest.inferred and key.name not in TYPED
    }
    settings = {
        **{name: value for name, value in settings_in_name(run).items() if name not in TYPED},
        **report.history.config,
        **manifest.unknown,
        **manifest.also,
        **{name: value for name, value in fields.items() if value is not None},
    }
    return dict(_kept(settings, typed))


def _kept(settings: Mapping[str, Any], typed: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield the settings that a row keeps, as text.

    Rows are shared: API keys, and passwords in URLs, are left out.
    """
    names = [
        name
        for name, value in settings.items()
        if isinstance(value, str | int | float)
        and not is_secret(name)
        and not _repeats_column(name, value, typed)
    ]
    for name in names[:_MAX_ROW_SETTINGS]:
        yield name[:_MAX_SETTING_LENGTH], shown(str(settings[name]))[:_MAX_SETTING_LENGTH]


def _repeats_column(name: str, value: object, typed: Mapping[str, Any]) -> bool:
    """Return True if a setting is another spelling of a column and has its value."""
    column = typed.get(_FIELD_OF_SPELLING.get(plain(name), ""))
    return column is not None and same(value) == same(column)


def settings_in_name(run: str) -> dict[str, float]:
    """Return the settings that the name of a run mentions, the last one of each.

    >>> settings_in_name("sweep/lr3e-4_bs64/seed1.jsonl")
    {'peak_lr': 0.0003, 'batch_size': 64.0, 'seed': 1.0}
    """
    matches = {field: pattern.findall(run.lower()) for field, pattern in _SETTING_IN_NAME.items()}
    return {field: float(values[-1]) for field, values in matches.items() if values}
