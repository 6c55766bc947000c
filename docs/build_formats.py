"""The page of the formats of logs: from the table of readers, and from what they make of samples.

The samples are those of the tests, small logs in the shape in which each framework writes them.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from stabdiag.api import read
from stabdiag.cli.tables import log_formats
from stabdiag.model.manifest import parse_manifest
from stabdiag.model.manifest.keys import KEYS
from stabdiag.model.roles import ROLES

if TYPE_CHECKING:
    from collections.abc import Iterator

    from stabdiag.formats.lists import LogFormat

SAMPLES = Path(__file__).resolve().parent.parent / "tests" / "readers" / "samples"

HEAD = """\
# Formats of logs

A log is read as its framework left it, packed or not. Its format is told by its content, never by
its name alone: the formats are asked in the order of this page, those that are quick to tell first,
and each is told from all others in the tests. `--log-format NAME` goes before all that, and
`stabdiag formats` lists what can be read here, and which package is missing.

Which column serves which role is decided by [its name](names.md), in the same way for all formats.
Columns of other names are left alone; `--column loss=NAME` names one that is not known. Where only
the parts of a loss were logged, as by YOLO, the loss is their sum; of a generator and a
discriminator the discriminator's loss counts, unless another loss goes NaN.

Times are the run's clock in any of these spellings: seconds since 1970, `2026-01-02T03:04:05Z` or
with a blank, a fraction or an offset, `1:02:03` since the start; in text logs the stamps before the
lines. Differences are all that counts, so that a zone need not be told. A column called `time` is
that of a step, unless it rises all the way.

Lines that were put into JSON by what collected them, under a key such as `log`, `message` or
`MESSAGE` (Docker, journald, a JSON logger), are read from there, whatever their own format is. So
is what the cells of a Jupyter notebook printed, the tables of the HF Trainer and of fastai too.

What stands in a log beside its numbers is used too: settings fill in what the manifest does not
say, and messages such as an out-of-memory error come into the report with their line."""

BY_NAME = "every column or tag by its name."


def formats_page() -> str:
    """Return the page."""
    parts = [HEAD, *(section for one in log_formats() for section in _sections(one))]
    return "\n\n".join(parts) + "\n"


def _sections(one: LogFormat) -> Iterator[str]:
    yield f"## `{one.name}`: {one.title}"
    needs = f"`pip install 'stabdiag[{one.extra}]'`" if one.extra else "nothing besides stabdiag"
    facts = [f"**Recognised by:** {one.recognised}.", f"**Needs:** {needs}."]
    if one.loses:
        facts.append(f"**Not used:** {one.loses}.")
    facts.append(f"**Becomes:** {'; '.join(_roles(one)) or BY_NAME}")
    yield "\n".join(f"- {fact}" for fact in facts)
    if one.example:
        yield f"```text\n{one.example}\n```"


def _roles(one: LogFormat) -> Iterator[str]:
    """Yield what the samples of a format give: the columns of each role, and settings."""
    found: dict[str, list[str]] = {}
    settings: set[str] = set()
    # The page does not depend on which packages are installed.
    for path in () if one.extra else sorted((SAMPLES / one.name).glob("*")):
        history = read(path)
        for role, series in history.series.items():
            found.setdefault(role.partition("/")[0], []).append(series.column)
        manifest = parse_manifest(history.config)
        settings |= {key.name for key in KEYS if getattr(manifest, key.name) is not None}
    for role in ROLES:
        if role.name in found:
            columns = ", ".join(f"`{name}`" for name in dict.fromkeys(found[role.name]))
            yield f"{columns} → `{role.name}`"
    if settings:
        names = ", ".join(f"`{key.name}`" for key in KEYS if key.name in settings)
        yield f"settings → {names} of the manifest"
