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
    from stabdiag.model.checks import CheckReport

ROOT = Path(__file__).resolve().parent.parent
BROKEN = "fixtures/runs/spike-lr-jump"
FP16 = "fixtures/runs/loss-scale-static"

PREFLIGHT = """\
# Before the launch, and after a failure

Two commands write checklists. Both take `--format terminal`, `markdown` or `json` and `-o FILE`.
(This page is written by `docs/build.py`.)

## `stabdiag preflight MANIFEST`

Compares a configuration with what is usual before there is a log. Each check is `passed`,
`failed` or `unknown`, which never counts as passed. The manifest is a JSON, TOML or YAML file in
any framework's terms; `--set FIELD=VALUE` and `--dtype` override it. Exit code 1 means a line at or
above `--fail-on` (`error` by default). The thresholds are the limits of the section `preflight`
and a few of the symptoms' (`stabdiag thresholds`)."""

BY_HAND = """\
The checks of the second list are `manual`: no manifest shows whether they were done.
It gives the expected first loss if the manifest records the number of classes."""

CHECKLIST = """\
## `stabdiag checklist LOG`

Diagnoses the log and fills in four lists from log and manifest. Each check is passed, failed,
unknown or manual, with the reason and what to do or run. What no log can show, such as unit tests
of the data, is manual. If the run failed, the interventions start with the one of the diagnosis.

The options are the same as for `stabdiag diagnose`. The exit code is 0 once the lists are written;
with `--fail-on failed` it is 1 if a check failed."""

AS_JSON = """\
## As JSON

Both commands write one object: `schema` (2), `stabdiag` (the version), `kind` (`preflight` or
`checklist`), `subject`, `summary`, the slug of the check to `begin` with or null, and `findings`.
Each has a stable `slug`, its `state` (`passed`, `failed`, `unknown` or `manual`), a `severity`, the
`section` it belongs to, a `title`, a `summary`, and [`actions`](json.md#actions), in order."""


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
        "\n".join(f"- {check.title}." for check in list(empty.sections.values())[1]),
        _example(f"stabdiag preflight {FP16}/manifest.json", before),
        CHECKLIST,
        *(
            f"**{title}**\n\n{_table(table)}"
            for title, table in zip(after.sections, ("steps", "interventions"), strict=False)
        ),
        *(
            f"**{title}**\n\n" + "\n".join(f"- {check.title}" for check in checks)
            for title, checks in list(after.sections.items())[2:]
        ),
        _example(f"stabdiag checklist {BROKEN}/log.jsonl", after),
        AS_JSON,
    ]
    return "\n\n".join(parts) + "\n"


def _table(name: str) -> str:
    rows = [f"| `{slug}` | {title} | {asks} |" for slug, title, asks in kept_table(name)]
    return "\n".join(["| line | title | question |", "|---|---|---|", *rows])


def _example(command: str, report: CheckReport) -> str:
    """Return a command, and what it prints, in two blocks."""
    return f"```console\n$ {command}\n```\n\n```text\n{render(report, 'terminal', 'checks')}```"
