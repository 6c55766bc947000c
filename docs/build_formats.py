"""The page of the formats of logs: from the table of readers, and from what they make of samples.

The samples come from the tests: small logs in the form that each framework writes.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from stabdiag.api import read
from stabdiag.model.manifest import parse_manifest
from stabdiag.model.manifest.keys import KEYS
from stabdiag.model.roles.table import ROLES
from stabdiag.readers.registry import READERS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from stabdiag.readers.reader import Reader

SAMPLES = Path(__file__).resolve().parent.parent / "tests" / "readers" / "samples"

HEAD = """\
# Formats of logs

Logs are read as their framework left them, packed or not. Content decides the format, never the
name alone; this page lists the formats in the order of detection. `--log-format NAME`
overrides that, and `stabdiag formats` lists what can be read here and which package is missing.

Columns get their role by [their name](names.md) in all formats; `--column loss=NAME` names an
unknown one. If only the parts of a loss were logged, as by YOLO, the loss is their sum. For
GANs, the loss of the discriminator is used unless the loss of the generator becomes NaN.

Times may be seconds since 1970, `2026-01-02T03:04:05Z` (or with a blank, a fraction or an offset),
`1:02:03` since the start, or the stamps before the lines of a text log. Only differences count, so
the zone does not matter. A column called `time` is the time of a step, unless it only ever rises.

Lines that a collector wrapped in JSON, under a key such as `log`, `message` or `MESSAGE` (Docker,
journald, a JSON logger), are read from there. So is the output of the cells of a Jupyter notebook,
including the tables of the HF Trainer and fastai.

Settings in a log fill in missing fields of the manifest. Messages such as an out-of-memory
error appear in the report with their line."""

BY_NAME = "every column or tag by its name."


def formats_page() -> str:
    """Return the page."""
    parts = [HEAD, *(section for entry in READERS for section in _sections(entry))]
    return "\n\n".join(parts) + "\n"


def _sections(entry: Reader) -> Iterator[str]:
    yield f"## `{entry.name}`: {entry.title}"
    needs = f"`pip install 'stabdiag[{entry.extra}]'`" if entry.extra else "only stabdiag"
    facts = [f"**Detected by:** {entry.detected_by}.", f"**Needs:** {needs}."]
    if entry.not_read:
        facts.append(f"**Not used:** {entry.not_read}.")
    facts.append(f"**Becomes:** {'; '.join(_roles(entry)) or BY_NAME}")
    yield "\n".join(f"- {fact}" for fact in facts)
    if entry.example:
        yield f"```text\n{entry.example}\n```"


def _roles(entry: Reader) -> Iterator[str]:
    """Yield what the samples of a format give: the columns of each role, and settings."""
    columns_by_role: dict[str, list[str]] = {}
    settings: set[str] = set()
    # The page does not depend on which packages are installed.
    for path in () if entry.extra else sorted((SAMPLES / entry.name).glob("*")):
        history = read(path)
        for role, series in history.series.items():
            columns_by_role.setdefault(role.partition("/")[0], []).append(series.column)
        settings |= parse_manifest(history.config).known.keys()
    for role in ROLES:
        if role.name in columns_by_role:
            columns = ", ".join(f"`{name}`" for name in dict.fromkeys(columns_by_role[role.name]))
            yield f"{columns} → `{role.name}`"
    if settings:
        names = ", ".join(f"`{key.name}`" for key in KEYS if key.name in settings)
        yield f"settings → {names} of the manifest"
