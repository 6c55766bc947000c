"""Lay out the site for Sphinx: the pages of the repository in groups, and a gallery of failures.

Pages stay where the repository has them. Here they get their places in the site, links between them
are made to fit, and files that they link to come along.
"""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

from build_pictures import ROOT, RUNS, diagnosed, drawing, has_run, symptom_run

from stabdiag.formats import render
from stabdiag.model.edges import OUTCOME_BY_SLUG
from stabdiag.model.findings import EARLIER_RUN_FAILED, PARTLY_READ
from stabdiag.symptoms.registry import SYMPTOMS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from stabdiag import Report

# What people come for, and the pages for it, by the files that they are made from.
GROUPS = {
    "Start": (
        *("docs/logging.md", "docs/recorder.md", "docs/formats.md", "docs/places.md"),
        "docs/names.md",
    ),
    "A run failed": ("docs/failure-modes.md", "docs/pages.md", "docs/postmortem.md"),
    "In CI": ("docs/ci.md", "docs/json.md", "docs/agents.md"),
    "Before and during a job": ("docs/preflight.md", "docs/watch.md"),
    "Many runs": (
        *("docs/scan.md", "docs/baselines.md", "docs/compare.md"),
        "docs/comparisons.md",
    ),
    "Understand a finding": (
        *("gallery.md", "docs/outcomes.md", "docs/symptoms.md", "docs/questions.md"),
        "docs/limits.md",
    ),
    "Reference": ("docs/cli.md", "docs/python.md", "docs/coverage.md", "CHANGELOG.md"),
    "How it is made": (
        *("docs/accuracy.md", "docs/calibration.md", "docs/rules.md", "docs/architecture.md"),
        *("docs/invariance.md", "docs/references.md", "fixtures/README.md", "benchmarks/README.md"),
        *("benchmarks/accuracy/README.md", "benchmarks/cure/README.md"),
        *("benchmarks/baseline/README.md", "CONTRIBUTING.md"),
    ),
}
NAMED = {
    "README.md": "index.md",
    "CHANGELOG.md": "changes.md",
    "fixtures/README.md": "fixtures.md",
    "benchmarks/README.md": "benchmarks.md",
    "benchmarks/accuracy/README.md": "labeled-runs.md",
    "benchmarks/cure/README.md": "first-actions.md",
    "benchmarks/baseline/README.md": "baseline-figures.md",
}
LINK = re.compile(r'(\]\(|src="|srcset=")([^)"\s#:]+)(?=[)"#])')
FENCE = re.compile(r"(^```.*?^```$)", re.DOTALL | re.MULTILINE)


def write_site(out: Path) -> None:
    """Write the pages of the site into a folder, which is replaced."""
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)
    groups = with_the_rest()
    pages = {source: place(source) for group in groups.values() for source in group}
    pages["README.md"] = place("README.md")
    for source, page in pages.items():
        if (ROOT / source).exists():
            text = moved((ROOT / source).read_text(encoding="utf-8"), source, pages, out)
            (out / page).write_text(text, encoding="utf-8")
    for name, text in gallery(out / "gallery"):
        (out / name).write_text(text, encoding="utf-8")
    with (out / "index.md").open("a", encoding="utf-8") as index:
        for title, sources in groups.items():
            index.write(contents(title, [pages[source] for source in sources]))


def with_the_rest() -> dict[str, tuple[str, ...]]:
    """Return the groups; a page of docs/ that none of them names is for reference."""
    named = {source for group in GROUPS.values() for source in group}
    match = {f"docs/{path.name}" for path in (ROOT / "docs").glob("*.md")}
    return GROUPS | {"Reference": (*sorted(match - named), *GROUPS["Reference"])}


def place(source: str) -> str:
    """Return the position of a page in the site."""
    return NAMED.get(source, Path(source).name.lower())


def moved(text: str, source: str, pages: dict[str, str], out: Path) -> str:
    """Return a page with its links as they are in the site; copy other files that it links to."""

    def link(match: re.Match[str]) -> str:
        target = (ROOT / source).parent / match[2]
        target_path = target.resolve().relative_to(ROOT).as_posix()
        if target_path in pages:
            return match[1] + pages[target_path]
        if not target.is_file():
            return match[0]  # Sphinx says that it leads nowhere
        copy = out / "_files" / target_path
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(target, copy)
        return f"{match[1]}_files/{target_path}"

    parts = FENCE.split(text)
    return "".join(part if part.startswith("```") else LINK.sub(link, part) for part in parts)


def contents(title: str, pages: list[str]) -> str:
    """Return a part of the table of contents, which every page shows."""
    names = "\n".join(pages)
    return f"\n```{{toctree}}\n:hidden:\n:caption: {title}\n\n{names}\n```\n"


# Outcomes that are about a log, and that no run of the gallery shows.
_OF_THE_LOG = frozenset({EARLIER_RUN_FAILED, PARTLY_READ})

GALLERY = """\
# Gallery of failures

Every finding in a real run: the fault, the log, and the report. In the pictures, red marks the
finding. The runs are small and were [trained for this](fixtures.md).
"""


def gallery(folder: Path) -> Iterator[tuple[str, str]]:
    """Write the pictures into a folder; yield the name and the text of each page."""
    folder.mkdir()
    shown = {"outcomes": {slug: _run(slug) for slug in OUTCOME_BY_SLUG if slug not in _OF_THE_LOG}}
    shown["symptoms"] = {
        symptom.slug: symptom_run(symptom) for symptom in filter(has_run, SYMPTOMS)
    }
    parts = [GALLERY]
    for kind, runs in shown.items():
        parts.append(f"## {kind.capitalize()}\n")
        for slug, run in runs.items():
            report = diagnosed(run)
            title = next(finding.title for finding in report.findings if finding.slug == slug)
            (folder / f"{slug}.svg").write_text(drawing(report, slug), encoding="utf-8")
            about = json.loads((RUNS / run / "about.json").read_text(encoding="utf-8"))
            yield f"gallery/{slug}.md", _gallery_page(slug, kind, title, about["what"], report)
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


def _gallery_page(slug: str, kind: str, title: str, fault: str, report: Report) -> str:
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
