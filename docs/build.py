"""Write the generated parts of the documentation, or check that they are current.

    python docs/build.py            write them
    python docs/build.py --check    exit 1 and name those that are not current

Everything here is computed: pages from the texts of ``stabdiag explain``, tables from the
declarations in the code, the failure modes and the README's picture from the fixtures.
"""

from __future__ import annotations

import json
import re
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import chdir
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import numpy as np
import pyarrow.compute as pc
from build_compare import compare_page
from build_coverage import coverage_page
from build_explain import PAGES, explained
from build_formats import formats_page
from build_lists import lists_page
from build_man import man_page
from build_pictures import pictures
from pyarrow import parquet

import stabdiag
from stabdiag.formats import render
from stabdiag.formats.scans.overview_text import lines
from stabdiag.formats.terminal import picture as drawn
from stabdiag.model.findings import ActionKind
from stabdiag.model.manifest.keys import KEYS
from stabdiag.model.roles.table import ROLES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

ROOT = Path(__file__).resolve().parent.parent
SHOWN_NAMES = 6

# The scripts that the page on logging shows, by what they train with.
SNIPPETS = {
    "Plain PyTorch": "pytorch_loop",
    "Hugging Face Trainer": "hf_trainer",
    "Lightning": "lightning_module",
    "Accelerate": "accelerate_loop",
    "DeepSpeed": "deepspeed_loop",
    "JAX and Optax": "optax_loop",
    "Keras": "keras_callback",
}

# Healthy runs and some that failed, which have something in common.
SCANNED = "fixtures/runs/[hl]*"

# Runs of the cure benchmark: a constant, high learning rate, and healthy runs.
WORSE_RUN = "never-decays/blobs/5/0"
GOOD_RUNS = "healthy/blobs/"


@dataclass(frozen=True, kw_only=True)
class Mode:
    """A classic failure: the fixture that shows it, and how to recognize it."""

    title: str
    run: str
    columns: tuple[str, ...]
    before: int
    after: int
    signature: str


MODES = (
    Mode(
        title="NaN",
        run="nan-empty-mask-fp32",
        columns=("loss", "grad_norm", "lr"),
        before=6,
        after=2,
        signature="The loss is finite until one step, and no other series fails first. The "
        "gradient norm stays normal up to the last good step: nothing blew up, but one operation "
        "is undefined. Every later loss is NaN because the update wrote NaN into the weights.",
    ),
    Mode(
        title="Spike",
        run="spike-long-tail-garbage",
        columns=("loss", "grad_norm", "lr", "batch_id"),
        before=4,
        after=8,
        signature="The loss rises far above its noise within one step, and the gradient norm "
        "before clipping jumps far above its rolling mean. Learning rate and batch ids are "
        "normal. The loss recovers within a few steps: the weights moved only a little.",
    ),
    Mode(
        title="fp16 overflow",
        run="nan-activations-fp16",
        columns=("loss", "grad_norm", "loss_scale", "lr"),
        before=12,
        after=2,
        signature="The gradient norm becomes infinite while the loss is still finite, and the loss "
        "scale halves with every overflow: the scaler skips the step and tries a smaller scale. "
        "That helps if gradients are too large for fp16. It cannot help once activations pass "
        "65504 in the forward pass: then the loss becomes NaN.",
    ),
)


def main(arguments: list[str]) -> int:
    """Write or check everything; return the exit code."""
    stale = []
    for path, text in generated():
        if path.exists() and path.read_text(encoding="utf-8") == text:
            continue
        stale.append(str(path.relative_to(ROOT)))
        if "--check" not in arguments:
            path.write_text(text, encoding="utf-8")
    if "--check" in arguments and stale:
        sys.stderr.write(f"not current: {', '.join(stale)}; run make docs\n")
        return 1
    return 0


def generated() -> Iterable[tuple[Path, str]]:
    """Yield every generated file with what should be in it."""
    for name in PAGES:
        yield ROOT / "docs" / f"{name}.md", explained(name)
    yield ROOT / "docs" / "failure-modes.md", failure_modes()
    yield ROOT / "docs" / "formats.md", formats_page()
    yield ROOT / "docs" / "preflight.md", lists_page()
    yield ROOT / "docs" / "compare.md", compare_page()
    yield ROOT / "docs" / "coverage.md", coverage_page()
    yield ROOT / "data" / "share" / "man" / "man1" / "stabdiag.1", man_page()
    yield ROOT / "docs" / "report.svg", picture("spike-lr-jump")
    yield ROOT / "docs" / "scan.svg", overview()
    yield ROOT / "docs" / "baseline.svg", baseline_picture()
    yield from pictures()
    logging = (ROOT / "docs" / "logging.md").read_text(encoding="utf-8")
    yield ROOT / "docs" / "logging.md", _put(logging, "snippets", snippets)
    names = (ROOT / "docs" / "names.md").read_text(encoding="utf-8")
    for name, table in (("roles", roles), ("manifest", manifest)):
        names = _put(names, name, table)
    yield ROOT / "docs" / "names.md", names
    on_json = (ROOT / "docs" / "json.md").read_text(encoding="utf-8")
    yield ROOT / "docs" / "json.md", _put(on_json, "kinds", kinds)


def snippets() -> str:
    """Return the scripts that log, each under its heading."""
    folder = ROOT / "docs" / "logging"
    texts = ((folder / f"{name}.py").read_text(encoding="utf-8") for name in SNIPPETS.values())
    shown = zip(SNIPPETS, SNIPPETS.values(), texts, strict=True)
    return "\n\n".join(
        f"## {title}\n\n[{name}.py](logging/{name}.py)\n\n```python\n{text}```"
        for title, name, text in shown
    )


def roles() -> str:
    """Return the table of roles."""
    rows = [(f"`{role.shown}`", role.meaning, _names(role.names)) for role in ROLES]
    return _table(("role", "what it is", "found by, among others"), rows)


def kinds() -> str:
    """Return the table of the kinds of actions."""
    return _table(("kind", "what to do"), [(f"`{kind.value}`", kind.about) for kind in ActionKind])


def manifest() -> str:
    """Return the table of manifest fields."""
    rows = [
        (f"`{key.name}`", key.wants, _names(n for n in key.names if n != key.name)) for key in KEYS
    ]
    return _table(("field", "wants", "also known as"), rows)


def picture(run: str) -> str:
    """Return the report on a fixture as an SVG."""
    return render(_diagnose(run), "svg")


def baseline_picture() -> str:
    """Return the report on a run that is worse than good runs as an SVG."""
    data = ROOT / "benchmarks" / "cure" / "data"
    records = json.loads((data / "runs.json").read_text(encoding="utf-8"))
    table = parquet.read_table(data / "logs.parquet")
    with TemporaryDirectory() as name, chdir(name):
        for record in records:
            key = record["run"]
            if key != WORSE_RUN and not key.startswith(GOOD_RUNS):
                continue
            rows = table.filter(pc.field("run") == key).drop_columns("run").to_pylist()
            stem = "run" if key == WORSE_RUN else f"good_runs/{key.rpartition('/')[2]}"
            Path(stem).parent.mkdir(exist_ok=True)
            logged = [{k: v for k, v in row.items() if v is not None} for row in rows]
            Path(f"{stem}.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in logged))
            Path(f"{stem}.manifest.json").write_text(json.dumps(record["manifest"]))
        report = stabdiag.diagnose("run.jsonl", baseline="good_runs")
        return render(report, "svg", command="stabdiag diagnose run.jsonl --baseline good_runs/")


def overview() -> str:
    """Return the overview of a scan of some fixtures as an SVG."""
    with chdir(ROOT):
        scan = stabdiag.scan(SCANNED, executor=ThreadPoolExecutor, jobs=1, top=5)
    return drawn(partial(lines, replace(scan, seconds=None)), f"stabdiag scan '{SCANNED}'")


def failure_modes() -> str:
    """Return the page on the three classic failures, with the numbers of real runs."""
    parts = [
        "# Three classic failures and how to recognize them",
        "Each run is a small transformer trained on text on the CPU, with a real fault "
        "([recipes](../fixtures/README.md)). The numbers come from its log. "
        "(This page is generated by `docs/build.py`.)",
    ]
    for mode in MODES:
        report = _diagnose(mode.run)
        about = (ROOT / "fixtures" / "runs" / mode.run / "about.json").read_text(encoding="utf-8")
        fault = re.search(r'"what": "(.*?)",\n', about)
        parts += [
            f"## {mode.title}",
            f"**Fault:** {fault.group(1) if fault else ''}",
            f"**Signature:** {mode.signature}",
            _excerpt(report, mode),
            f"**Diagnosis** ([`{report.diagnosis.slug}`](outcomes.md)): {report.diagnosis.summary}",
            f"**First action:** {report.diagnosis.first_action}",
            f"```console\n$ stabdiag diagnose {_log(mode.run)}\n```",
        ]
    return "\n\n".join(parts) + "\n"


def _excerpt(report: stabdiag.Report, mode: Mode) -> str:
    """Return the steps around the event as a table; the step of the event is bold."""
    history, event = report.history, report.diagnosis.step or 0
    loss = history.series["loss"]
    at = int(np.searchsorted(loss.steps, event))
    rows = []
    for step in loss.steps[max(at - mode.before, 0) : at + mode.after + 1].tolist():
        cells = [f"**{step}**" if step == event else str(step)]
        for role in mode.columns:
            points = history.series[role].between(step, step)
            cells.append(f"{points.values[0]:.4g}" if len(points) else "")
        rows.append(cells)
    return _table(("step", *mode.columns), rows)


def _diagnose(run: str) -> stabdiag.Report:
    with chdir(ROOT):  # the report shows the path as given
        return stabdiag.diagnose(_log(run))


def _log(run: str) -> str:
    folder = ROOT / "fixtures" / "runs" / run
    return str(next(folder.glob("log.[!r]*")).relative_to(ROOT))


def _names(names: Iterable[str]) -> str:
    all_names = list(names)
    shown = ", ".join(f"`{name}`" for name in all_names[:SHOWN_NAMES])
    return f"{shown}, …" if len(all_names) > SHOWN_NAMES else shown


def _table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    names = list(head)
    lines = [names, ["---"] * len(names), *rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def _put(text: str, name: str, table: Callable[[], str]) -> str:
    """Return the text with the part between two marks replaced."""
    begin, end = f"<!-- {name}: written by docs/build.py -->", "<!-- end -->"
    before, _, tail = text.partition(begin)
    after = tail.partition(end)[2]
    return f"{before}{begin}\n\n{table()}\n\n{end}{after}"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
