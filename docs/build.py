"""Write the generated parts of the documentation, or check that they are current.

    python docs/build.py                       write them
    python docs/build.py --check               exit 1 and name those that are not current
    python docs/build.py --site build/pages    write the pages of the site instead

``FILES`` lists the files that are generated as a whole, and ``BLOCKS`` the parts of pages that are
otherwise written by hand, each with its function. Everything is computed from the texts of
``stabdiag explain``, the declarations in the code, and the fixtures.
"""

from __future__ import annotations

import argparse
import json
import sys
import tomllib
from contextlib import chdir
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from build_man import man_page
from build_pictures import ROOT, RUNS, diagnosed, has_run, log_of, pictures
from build_site import write_site

import stabdiag
from stabdiag.api import read
from stabdiag.checks.checklist import checklist
from stabdiag.checks.preflight import preflight
from stabdiag.comparison.outcomes import COMPARISON_OUTCOME_BY_SLUG as COMPARED
from stabdiag.explain import explain, names
from stabdiag.formats import render
from stabdiag.model.edges import OUTCOME_BY_SLUG as OUTCOMES
from stabdiag.model.edges import QUESTIONS
from stabdiag.model.findings import ActionKind
from stabdiag.model.limits import Limits
from stabdiag.model.manifest import Manifest, parse_manifest, read_manifest
from stabdiag.model.manifest.keys import KEYS
from stabdiag.model.roles.table import ROLES
from stabdiag.model.text import kept_table
from stabdiag.readers.registry import READERS
from stabdiag.stats.means import chi_squared_quantile
from stabdiag.symptoms.registry import SYMPTOM_BY_SLUG as SYMPTOMS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from stabdiag.model.checks import CheckReport
    from stabdiag.readers.reader import Reader

DOCS: Final = ROOT / "docs"
SAMPLES: Final = ROOT / "tests" / "readers" / "samples"
MAN: Final = ROOT / "data" / "share" / "man" / "man1" / "stabdiag.1"

# Spellings listed for a role or a field.
MAX_NAMES: Final = 6

# The pages of ``stabdiag explain``, and the line below their title.
EXPLAINED: Final = {
    "outcomes": "The findings of the tree, worst first within each section.",
    "symptoms": "The checks outside the tree, by family.",
    "comparisons": "What `stabdiag compare` finds, worst first; [the guide](compare.md) shows how "
    "to use it.",
    "questions": "The questions of the tree, in order.",
    "limits": "Every threshold, with its default and its reason.",
}

# The scripts of the page on logging, by framework.
SNIPPETS: Final = {
    "Plain PyTorch": "pytorch_loop",
    "Hugging Face Trainer": "hf_trainer",
    "Lightning": "lightning_module",
    "Accelerate": "accelerate_loop",
    "DeepSpeed": "deepspeed_loop",
    "JAX and Optax": "optax_loop",
    "Keras": "keras_callback",
}

# The comparisons shown as examples, by pair of fixtures.
COMPARISONS: Final = {
    "config-differs-lr": "A different learning rate",
    "rank-died": "A rank that was killed",
    "nondeterminism-grows": "Sums in no fixed order",
}

# The runs of the examples on the page of preflight and checklist.
BROKEN: Final = "fixtures/runs/spike-lr-jump"
FP16: Final = "fixtures/runs/loss-scale-static"


@dataclass(frozen=True, kw_only=True)
class Excerpt:
    """The part of a log that shows a failure: columns, and records around the event."""

    columns: tuple[str, ...]
    before: int
    after: int


# The runs of the page on classic failures.
EXCERPTS: Final = {
    "nan-empty-mask-fp32": Excerpt(columns=("loss", "grad_norm", "lr"), before=6, after=2),
    "spike-long-tail-garbage": Excerpt(
        columns=("loss", "grad_norm", "lr", "batch_id"), before=4, after=8
    ),
    "nan-activations-fp16": Excerpt(
        columns=("loss", "grad_norm", "loss_scale", "lr"), before=12, after=2
    ),
}


def main() -> int:
    """Write or check everything, or write the site; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--check", action="store_true", help="only name what is not current")
    parser.add_argument("--site", type=Path, metavar="FOLDER", help="write the pages of the site")
    arguments = parser.parse_args()
    if arguments.site:
        write_site(arguments.site.resolve())
        return 0
    stale = []
    for path, text in generated():
        if path.exists() and path.read_text(encoding="utf-8") == text:
            continue
        stale.append(str(path.relative_to(ROOT)))
        if not arguments.check:
            path.write_text(text, encoding="utf-8")
    if arguments.check and stale:
        sys.stderr.write(f"not current: {', '.join(stale)}; run make docs\n")
        return 1
    return 0


def generated() -> Iterator[tuple[Path, str]]:
    """Yield each file with a generated part, and its text."""
    for path, content in FILES.items():
        yield path, content()
    for name, blocks in BLOCKS.items():
        text = (DOCS / f"{name}.md").read_text(encoding="utf-8")
        for block, content in blocks.items():
            text = _put(text, block, content())
        yield DOCS / f"{name}.md", text
    yield from pictures()


def explained(kind: str) -> str:
    """Return one of the pages of ``stabdiag explain``, with the defaults filled in."""
    limits = Limits()
    source = "the families of stabdiag/symptoms" if kind == "symptoms" else "stabdiag/explain"
    note = f"<!-- Made by docs/build.py; edit the texts in {source}, not this page. -->"
    head = f"# {kind.capitalize()}\n\n{EXPLAINED[kind]}\n\n{note}\n\n"
    if kind == "limits":
        return head + render(limits, "markdown", "limits")
    kinds = {"outcomes": set(OUTCOMES), "symptoms": set(SYMPTOMS), "comparisons": set(COMPARED)}
    members = kinds.get(kind) or {name for name in names(limits) if name[0] == "Q"}
    entries = []
    for name in names(limits):
        if name in members:
            entry = _with_lower_headings(explain(name, limits))
            if kind == "symptoms" and has_run(SYMPTOMS[name]):
                title, facts, body = entry.split("\n\n", 2)
                picture = f"![What a run logged](symptoms/{name}.svg)"
                entry = f"{title}\n\n{facts}\n\n{picture}\n\n{body}"
            entries.append(entry)
    return head + "\n".join(entries)


def _with_lower_headings(content: str) -> str:
    return "".join(
        f"#{line}" if line.startswith("#") else line for line in content.splitlines(keepends=True)
    )


def snippets() -> str:
    """Return the scripts that log, each under its heading."""
    parts = []
    for title, name in SNIPPETS.items():
        script = (DOCS / "logging" / f"{name}.py").read_text(encoding="utf-8")
        parts.append(f"## {title}\n\n[{name}.py](logging/{name}.py)\n\n```python\n{script}```")
    return "\n\n".join(parts)


def roles() -> str:
    """Return the table of roles."""
    rows = [(f"`{role.shown}`", role.meaning, _names(role.names)) for role in ROLES]
    return _table(("role", "what it is", "found by, among others"), rows)


def manifest() -> str:
    """Return the table of manifest fields."""
    rows = [
        (f"`{key.name}`", key.wants, _names(n for n in key.names if n != key.name)) for key in KEYS
    ]
    return _table(("field", "value", "also known as"), rows)


def kinds() -> str:
    """Return the table of the kinds of actions."""
    return _table(("kind", "what to do"), [(f"`{kind.value}`", kind.about) for kind in ActionKind])


def failure(run: str) -> str:
    """Return the fault of a run, an excerpt of its log, and the diagnosis."""
    report, excerpt = diagnosed(run), EXCERPTS[run]
    about = json.loads((RUNS / run / "about.json").read_text(encoding="utf-8"))
    history, event = report.history, report.diagnosis.step or 0
    steps = history.series["loss"].steps
    at = int(np.searchsorted(steps, event))
    rows = []
    for step in steps[max(at - excerpt.before, 0) : at + excerpt.after + 1].tolist():
        cells = [f"**{step}**" if step == event else str(step)]
        for role in excerpt.columns:
            points = history.series[role].between(step, step)
            cells.append(f"{points.values[0]:.4g}" if len(points) else "")
        rows.append(cells)
    diagnosis = report.diagnosis
    return "\n\n".join(
        (
            f"**Fault:** {about['what']}",
            _table(("step", *excerpt.columns), rows),
            f"**Diagnosis** ([`{diagnosis.slug}`](outcomes.md)): {diagnosis.summary}",
            f"**First action:** {diagnosis.first_action}",
            f"```console\n$ stabdiag diagnose {log_of(run)}\n```",
        )
    )


def comparison_findings() -> str:
    """Return the table of the findings of comparisons."""
    rows = [
        (
            f"[`{outcome.slug}`](comparisons.md)",
            outcome.severity.value,
            outcome.title,
            ", ".join(outcome.kinds),
        )
        for outcome in COMPARED.values()
    ]
    return _table(("finding", "at worst", "", "of"), rows)


def seed_intervals() -> str:
    """Return the interval of the standard deviation between seeds, by their number."""
    rows = []
    for seeds in (2, 3, 5, 10, 20):
        tails = (chi_squared_quantile(share, seeds - 1) for share in (0.025, 0.975))
        low, high = (((seeds - 1) / tail) ** 0.5 for tail in tails)
        rows.append((str(seeds), f"{low:.2f}", f"{high:.1f}"))
    return _table(("seeds", "from", "to"), rows)


def comparisons() -> str:
    """Return examples of comparisons: the runs, the command and its output."""
    parts = []
    for pair, title in COMPARISONS.items():
        folder = Path("fixtures/pairs") / pair
        about = json.loads((ROOT / folder / "about.json").read_text(encoding="utf-8"))
        with chdir(ROOT):  # the report names the logs as given on the command line
            logs = sorted(folder.glob("*.jsonl")) if about["kind"] != "ranks" else [folder]
            text = render(stabdiag.compare([str(log) for log in logs]), "terminal", "comparison")
        command = f"stabdiag compare {' '.join(map(str, logs))}"
        parts += [f"## {title}", about["what"], _example(command, text)]
    return "\n\n".join(parts)


def log_formats() -> str:
    """Return a section for each log format, with the roles that its samples give."""
    parts = []
    for reader in READERS:
        needs = f"`pip install 'stabdiag[{reader.extra}]'`" if reader.extra else "only stabdiag"
        facts = [f"**Detected by:** {reader.detected_by}.", f"**Needs:** {needs}."]
        if reader.not_read:
            facts.append(f"**Not used:** {reader.not_read}.")
        becomes = "; ".join(_roles_of_samples(reader)) or "every column or tag by its name."
        facts.append(f"**Becomes:** {becomes}")
        parts += [f"## `{reader.name}`: {reader.title}", "\n".join(f"- {fact}" for fact in facts)]
        parts += [f"```text\n{reader.example}\n```"] * bool(reader.example)
    return "\n\n".join(parts)


def _roles_of_samples(reader: Reader) -> Iterator[str]:
    """Yield the columns of each role in the samples of a format, and the settings in them."""
    columns_by_role: dict[str, list[str]] = {}
    settings: set[str] = set()
    # Skip readers with an optional package, so that the page is the same without it.
    for path in () if reader.extra else sorted((SAMPLES / reader.name).glob("*")):
        history = read(path)
        for role, series in history.series.items():
            columns_by_role.setdefault(role.partition("/")[0], []).append(series.column)
        settings |= parse_manifest(history.config).known.keys()
    for role in ROLES:
        if role.name in columns_by_role:
            columns = ", ".join(f"`{name}`" for name in dict.fromkeys(columns_by_role[role.name]))
            yield f"{columns} → `{role.name}`"
    if settings:
        fields = ", ".join(f"`{key.name}`" for key in KEYS if key.name in settings)
        yield f"settings → {fields} of the manifest"


def coverage() -> str:
    """Return the tables of what guides to training look for, and what covers it."""
    parts = []
    for guide in guides():
        parts.append(f"## {guide['title']}")
        for topic in guide["list"]:
            rows = []
            for row in topic["rows"]:
                by = ", ".join(f"`{name.replace(':', ' ')}`" for name in row["by"])
                rows.append((row["row"], by, row.get("but", "")))
            table = _table(("looked for", "covered by", "what a log cannot show"), rows)
            parts += [f"### {topic['title']}", table]
    return "\n\n".join(parts)


def guides() -> list[dict[str, Any]]:
    """Return the guides with their lists and rows."""
    text = (DOCS / "coverage.toml").read_text(encoding="utf-8")
    loaded: list[dict[str, Any]] = tomllib.loads(text)["guide"]
    return loaded


def covering() -> set[str]:
    """Return every name that a row of the coverage may contain."""
    # The dtype adds the checks that only fp16 has.
    log = {"step": np.arange(9), "loss": np.ones(9)}
    reports = (
        preflight(Manifest(), Limits()),
        checklist(stabdiag.diagnose(log, manifest={"dtype": "fp16"})),
    )
    checks = {f"{report.name}:{check.slug}" for report in reports for check in report.checks}
    questions = {question.id for question in QUESTIONS}
    return {*questions, *OUTCOMES, *SYMPTOMS, *(f"compare:{slug}" for slug in COMPARED), *checks}


def checks_of(name: str) -> str:
    """Return the table of a list of checks."""
    rows = [(f"`{slug}`", title, asks) for slug, title, asks in kept_table(name)]
    return _table(("line", "title", "question"), rows)


def trials() -> str:
    """Return the checks that only a person can do before a launch."""
    checks = list(preflight(Manifest(), Limits()).sections.values())[1]
    return "\n".join(f"- {check.title}." for check in checks)


def lists() -> str:
    """Return the lists of ``stabdiag checklist``."""
    steps, interventions, *others = _checklist().sections.items()
    parts = [f"**{steps[0]}**", checks_of("steps")]
    parts += [f"**{interventions[0]}**", checks_of("interventions")]
    for title, checks in others:
        parts += [f"**{title}**", "\n".join(f"- {check.title}" for check in checks)]
    return "\n\n".join(parts)


def preflight_example() -> str:
    """Return an example of ``stabdiag preflight``."""
    with chdir(ROOT):
        report = preflight(read_manifest(f"{FP16}/manifest.json"), Limits())
    return _example(
        f"stabdiag preflight {FP16}/manifest.json", render(report, "terminal", "checks")
    )


def checklist_example() -> str:
    """Return an example of ``stabdiag checklist``."""
    text = render(_checklist(), "terminal", "checks")
    return _example(f"stabdiag checklist {BROKEN}/log.jsonl", text)


def _checklist() -> CheckReport:
    with chdir(ROOT):  # the list names the file as given on the command line
        return checklist(stabdiag.diagnose(f"{BROKEN}/log.jsonl"))


def _example(command: str, output: str) -> str:
    """Return a command and its output in two blocks."""
    return f"```console\n$ {command}\n```\n\n```text\n{output}```"


def _names(spellings: Iterable[str]) -> str:
    all_names = list(spellings)
    shown = ", ".join(f"`{name}`" for name in all_names[:MAX_NAMES])
    return f"{shown}, …" if len(all_names) > MAX_NAMES else shown


def _table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    titles = list(head)
    lines = [titles, ["---"] * len(titles), *rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def _put(text: str, name: str, content: str) -> str:
    """Return the text with the part between two marks replaced.

    Raises:
        SystemExit: if the page has no such part.
    """
    begin, end = f"<!-- {name}: written by docs/build.py -->", "<!-- end -->"
    before, mark, tail = text.partition(begin)
    if not mark:
        sys.exit(f"no page has the mark {begin}")
    return f"{before}{begin}\n\n{content}\n\n{end}{tail.partition(end)[2]}"


FILES: Final[Mapping[Path, Callable[[], str]]] = {
    **{DOCS / f"{kind}.md": partial(explained, kind) for kind in EXPLAINED},
    MAN: man_page,
}
"""The files that are generated as a whole. The pictures are drawn together."""

BLOCKS: Final[Mapping[str, Mapping[str, Callable[[], str]]]] = {
    "failure-modes": {run: partial(failure, run) for run in EXCERPTS},
    "formats": {"formats": log_formats},
    "preflight": {
        "configuration": partial(checks_of, "configuration"),
        "trials": trials,
        "preflight": preflight_example,
        "lists": lists,
        "checklist": checklist_example,
    },
    "compare": {
        "findings": comparison_findings,
        "intervals": seed_intervals,
        "examples": comparisons,
    },
    "coverage": {"coverage": coverage},
    "logging": {"snippets": snippets},
    "names": {"roles": roles, "manifest": manifest},
    "json": {"kinds": kinds},
}
"""The generated parts of each page in ``docs``, by the name in their marks."""


if __name__ == "__main__":
    sys.exit(main())
