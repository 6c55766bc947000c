"""The gallery of failures: what a run logged that shows each finding, and the report on it."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

from build_pictures import ROOT, RUNS, diagnosed, drawing, has_run, run_of

from stabdiag.formats import render
from stabdiag.model.edges import BY_SLUG
from stabdiag.model.findings import EARLIER_RUN_FAILED, PARTLY_READ
from stabdiag.symptoms import SYMPTOMS

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from stabdiag import Report

# Outcomes that are about a log, and that no run of the gallery shows.
_OF_THE_LOG = frozenset({EARLIER_RUN_FAILED, PARTLY_READ})

HEAD = """\
# Gallery of failures

Every finding in a real run: the fault, the log, and the report. In the pictures, red marks the
finding. The runs are small and were [trained for this](fixtures.md).
"""


def gallery(folder: Path) -> Iterator[tuple[str, str]]:
    """Write the pictures into a folder; yield the name and the text of each page."""
    folder.mkdir()
    shown = {"outcomes": {slug: _run(slug) for slug in BY_SLUG if slug not in _OF_THE_LOG}}
    shown["symptoms"] = {symptom.slug: run_of(symptom) for symptom in filter(has_run, SYMPTOMS)}
    parts = [HEAD]
    for kind, runs in shown.items():
        parts.append(f"## {kind.capitalize()}\n")
        for slug, run in runs.items():
            report = diagnosed(run)
            title = next(finding.title for finding in report.findings if finding.slug == slug)
            (folder / f"{slug}.svg").write_text(drawing(report, slug), encoding="utf-8")
            about = json.loads((RUNS / run / "about.json").read_text(encoding="utf-8"))
            yield f"gallery/{slug}.md", _page(slug, kind, title, about["what"], report)
            parts.append(f"### [{title}](gallery/{slug}.md)\n\n`{slug}`\n")
            parts.append(f"[![What the run logged](gallery/{slug}.svg)](gallery/{slug}.md)\n")
    parts.append("```{toctree}\n:hidden:\n:glob:\n\ngallery/*\n```\n")
    yield "gallery.md", "\n".join(parts)


def _run(slug: str) -> str:
    """Return the run that shows an outcome: the one of its name, or the first that ends in it."""
    runs = [path.parent for path in sorted(RUNS.glob("*/about.json")) if _expects(path, slug)]
    return min((run.name for run in runs), key=lambda name: (name != slug, len(name)))


def _expects(about: Path, slug: str) -> bool:
    return bool(json.loads(about.read_text(encoding="utf-8"))["expect"] == slug)


def _anchor(slug: str, kind: str) -> str:
    """Return the name of the heading under which a finding is explained."""
    page = (ROOT / "docs" / f"{kind}.md").read_text(encoding="utf-8")
    (heading,) = re.findall(rf"^## ({slug}: .*)$", page, re.MULTILINE)
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def _page(slug: str, kind: str, title: str, fault: str, report: Report) -> str:
    log = report.history.source.name
    return f"""\
# {slug}: {title}

[What it means, and what to do](../{kind}.md#{_anchor(slug, kind)})

**What was done:** {fault}

![What the run logged]({slug}.svg)

```console
$ stabdiag diagnose {log}
```

```text
{render(report, "terminal")}```
"""
