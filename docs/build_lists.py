"""The page of ``stabdiag preflight`` and ``stabdiag checklist``: what they hold, and an example."""

from __future__ import annotations

from contextlib import chdir
from pathlib import Path
from typing import TYPE_CHECKING

import stabdiag
from stabdiag.checks.checklist import checklist
from stabdiag.checks.preflight import preflight
from stabdiag.formats import render
from stabdiag.model.limits import Limits
from stabdiag.model.manifest import Manifest, read_manifest
from stabdiag.model.text import kept_table

if TYPE_CHECKING:
    from stabdiag.model.checks import ChecklistReport

ROOT = Path(__file__).resolve().parent.parent
BROKEN = "fixtures/runs/spike-lr-jump"
FP16 = "fixtures/runs/loss-scale-static"

PREFLIGHT = """\
# Before the launch, and after a failure

Two commands write checklists. Both take `--format terminal`, `markdown` or `json` and `-o FILE`.
(This page is written by `docs/build.py`.)

## `stabdiag preflight MANIFEST`

Compares a configuration with what is usual before there is a log. Each line is `fine`, `look`
or `not recorded`, which never counts as fine. The manifest is a JSON, TOML or YAML file in any
framework's terms; `--set FIELD=VALUE` and `--dtype` override it. Exit code 1 means a line at or
above `--fail-on` (`error` by default). The thresholds are the limits of the section `preflight`
and a few of the symptoms' (`stabdiag thresholds`)."""

BY_HAND = """\
Tick the second list by hand. It contains checks before a long run that no manifest shows.
It gives the expected first loss if the manifest records the number of classes."""

CHECKLIST = """\
## `stabdiag checklist LOG`

Diagnoses the log and fills in four lists from log and manifest. Each line is done, not done or
unknown, with the reason and, if it is open, what to do or run. Items that no log can show, such
as unit tests of the data, are never ticked. The list of interventions starts at the first one that
this run has not tried.

The options are the same as for `stabdiag diagnose`. The exit code is 0 once the lists are written;
with `--fail-on not-done` it is 1 if a line is not done."""

AS_JSON = """\
## As JSON

Both commands write one object: `schema` (1), `stabdiag` (the version), `kind` (`preflight` or
`checklist`), `subject`, `summary` and `lists`. A list has a `title`, the slug of the line to
`begin` with or null, and `items`. Each has a stable `slug`, a `title`, its `state` (`passed`,
`failed` or `unknown`), the list's `word` for that state, a `severity` if it failed, the
sentence `because`, and `do`: what to do or run, in order."""


def lists_page() -> str:
    """Return the page."""
    with chdir(ROOT):  # the lists name the files as given on the command line
        before = preflight(read_manifest(f"{FP16}/manifest.json"), Limits())
        after = checklist(stabdiag.diagnose(f"{BROKEN}/log.jsonl"))
    empty = preflight(Manifest(), Limits())
    parts = [
        PREFLIGHT,
        _table("configuration"),
        BY_HAND,
        "\n".join(f"- {item.title}." for item in empty.lists[1].items),
        _example(f"stabdiag preflight {FP16}/manifest.json", before),
        CHECKLIST,
        *(
            f"**{checklist.title}**\n\n{_table(table)}"
            for checklist, table in zip(after.lists, ("steps", "interventions"), strict=False)
        ),
        *(
            f"**{checklist.title}**\n\n" + "\n".join(f"- {item.title}" for item in checklist.items)
            for checklist in after.lists[2:]
        ),
        _example(f"stabdiag checklist {BROKEN}/log.jsonl", after),
        AS_JSON,
    ]
    return "\n\n".join(parts) + "\n"


def _table(name: str) -> str:
    rows = [f"| `{slug}` | {title} | {asks} |" for slug, title, asks in kept_table(name)]
    return "\n".join(["| line | title | question |", "|---|---|---|", *rows])


def _example(command: str, report: ChecklistReport) -> str:
    """Return a command, and what it prints, in two blocks."""
    return f"```console\n$ {command}\n```\n\n```text\n{render(report, 'terminal', 'sheet')}```"
