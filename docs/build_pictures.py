"""Pictures of the logged series that show a finding; symptoms have theirs in their page."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from contextlib import chdir
from dataclasses import replace
from functools import partial
from html import escape
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import numpy as np
import pyarrow.compute as pc
from pyarrow import parquet

import stabdiag
from stabdiag.formats import render
from stabdiag.formats.scans.overview_text import lines
from stabdiag.formats.terminal import picture as drawn
from stabdiag.symptoms.registry import SYMPTOM_BY_SLUG, SYMPTOMS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from stabdiag.model.findings import Finding
    from stabdiag.model.history import History, Series
    from stabdiag.symptoms.symptom import Symptom

    Floats = NDArray[np.float64]

ROOT = Path(__file__).resolve().parent.parent
RUNS = ROOT / "fixtures" / "runs"

# Healthy runs and some that failed, which have something in common.
SCANNED = "fixtures/runs/[hl]*"
# Runs of the cure benchmark: a constant, high learning rate, and healthy runs.
WORSE_RUN = "never-decays/blobs/5/0"
GOOD_RUNS = "healthy/blobs/"

# Exceptions: runs whose name is not their symptom, and series that show a symptom better.
RUN = {"lr-decays-early": "symptom-plateau-early"}
SHOWN = {
    "adam-underflow-risk": ("loss",),
    "stall": ("loss",),
    "mfu-low": ("mfu",),
    "grad-vanishing": ("grad_norm", "loss"),
    "grad-exploding": ("grad_norm", "loss"),
    "lr-no-warmup": ("loss", "lr"),
    "resume-data-replayed": ("batch_id",),
    "nan-fp16-overflow": ("loss", "loss_scale"),
    "spike-lr-jump": ("loss", "lr"),
    "spike-duplicate-batch": ("loss", "batch_id"),
    "gradient-overflow": ("grad_norm", "loss"),
    "loss-scale-static": ("loss_scale", "grad_norm"),
    "loss-scale-collapsed": ("loss_scale", "loss"),
    "divergence-lr-rising": ("loss", "lr"),
    "divergence-weight-norm-climbing": ("loss", "weight_norm"),
    "divergence-weight-norm-collapsing": ("loss", "weight_norm"),
}

WIDTH, PANEL, LEFT, TOP = 640, 92, 62, 16
COLUMNS = 200
LOG_FROM = 50.0
STYLE = (
    "text{font:11px sans-serif;fill:#57606a}path{fill:none;stroke:#0969da;stroke-width:1.2}"
    ".lost,.at{stroke:#cf222e}.at{stroke-dasharray:3 3}.axis{stroke:#8c959f;stroke-width:.6}"
    "@media(prefers-color-scheme:dark){text{fill:#9198a1}path{stroke:#4493f8}.lost,.at{stroke:#f85149}}"
)


def pictures() -> Iterator[tuple[Path, str]]:
    """Yield the file of each picture, and its content."""
    yield ROOT / "docs" / "report.svg", render(diagnosed("spike-lr-jump"), "svg")
    yield ROOT / "docs" / "scan.svg", overview()
    yield ROOT / "docs" / "baseline.svg", baseline_picture()
    for symptom in filter(has_run, SYMPTOMS):
        report = diagnosed(symptom_run(symptom))
        yield ROOT / "docs" / "symptoms" / f"{symptom.slug}.svg", drawing(report, symptom.slug)


def symptom_run(symptom: Symptom) -> str:
    """Return the name of the run that shows a symptom."""
    return RUN.get(symptom.slug, f"symptom-{symptom.slug}")


def has_run(symptom: Symptom) -> bool:
    """Return True if a run of the fixtures shows a symptom; synthetic logs show the others."""
    return (RUNS / symptom_run(symptom)).is_dir()


def diagnosed(run: str) -> stabdiag.Report:
    """Return the report on a fixture, which names its log as one asks for it here."""
    with chdir(ROOT):
        return stabdiag.diagnose(log_of(run))


def log_of(run: str) -> str:
    """Return the path of the log of a fixture, as seen from the top of the repository."""
    return str(next((RUNS / run).glob("log.[!r]*")).relative_to(ROOT))


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


def drawing(report: stabdiag.Report, slug: str) -> str:
    """Return the logged values of the series that show a finding."""
    finding = next(item for item in report.findings if item.slug == slug)
    panels = _series(finding, report.history)
    first = min(int(panel.steps[0]) for panel in panels)
    last = max(int(panel.steps[-1]) for panel in panels)
    height = len(panels) * (PANEL + TOP) + 18
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" '
        f'width="{WIDTH}" height="{height}" role="img">',
        f"<title>{escape(finding.summary)}</title><style>{STYLE}</style>",
    ]
    for number, series in enumerate(panels):
        parts += _panel(series, number * (PANEL + TOP) + TOP, first, last, finding.step)
    parts += [
        f'<text x="{LEFT}" y="{height - 4}">step {first}</text>',
        f'<text x="{WIDTH - 4}" y="{height - 4}" text-anchor="end">{last}</text>',
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


def _series(finding: Finding, history: History) -> list[Series]:
    """Return the series to draw: at most two of those that show the finding."""
    panels = []
    symptom = SYMPTOM_BY_SLUG.get(finding.slug)
    needs = symptom.needs if symptom else ()  # a symptom of the manifest needs no series
    for need in SHOWN.get(finding.slug, needs or ("loss", "grad_norm")):
        logged = (history.group(role) for role in need.split(" or "))
        groups = next((group for group in logged if group), {})
        named = groups.get(str(finding.evidence.get("group"))) or groups.get("all")
        series = named or next(iter(groups.values()), None)
        if series is not None:
            panels.append(series)
    return panels[:2]


def _panel(series: Series, top: int, first: int, last: int, step: int | None) -> Iterator[str]:
    """Yield one curve with its range, role, finding location and non-finite values."""
    finite, bottom = series.finite(), top + PANEL
    x = _across(finite.steps, first, last)
    low, high = float(finite.values.min()), float(finite.values.max())
    if "fraction" in series.role:
        low, high = 0.0, max(high, 1.0)
    is_log = low > 0 and high > LOG_FROM * low
    y = top + PANEL * (1 - _shares(finite.values, low, high, is_log=is_log))
    lost = _across(series.steps[~np.isfinite(series.values)], first, last)
    if len(lost):
        yield f'<path class="lost" d="{"".join(f"M{at:.0f} {top}v8" for at in lost)}"/>'
    if step is not None:
        at = float(_across(np.array([step]), first, last)[0])
        yield f'<path class="at" d="M{at:.0f} {top}V{bottom}"/>'
    yield f'<path class="axis" d="M{LEFT} {top}V{bottom}H{WIDTH - 4}"/>'
    yield f'<path d="{_line(x, y)}"/>'
    scale = ", log" if is_log else ""
    yield f'<text x="{LEFT}" y="{top - 4}">{escape(series.role)}{scale}</text>'
    for value, height in ((high, top + 9), (low, bottom)):
        yield f'<text x="{LEFT - 4}" y="{height}" text-anchor="end">{value:.3g}</text>'


def _across(steps: NDArray[np.int64], first: int, last: int) -> Floats:
    return LEFT + (WIDTH - 4 - LEFT) * (steps - first) / max(last - first, 1)


def _shares(values: Floats, low: float, high: float, *, is_log: bool) -> Floats:
    """Return the values scaled so that the lowest is 0 and the highest 1."""
    if high <= low:
        return np.full(len(values), 0.5)
    if is_log:
        return np.asarray(np.log(values / low) / np.log(high / low))
    return (values - low) / (high - low)


def _line(x: Floats, y: Floats) -> str:
    """Return a path through the highest and the lowest point of each column."""
    column = ((x - LEFT) / (WIDTH - LEFT) * COLUMNS).astype(np.int64)
    points: list[str] = []
    for pixel in np.unique(column):
        here = np.flatnonzero(column == pixel)
        ends = sorted({int(here[y[here].argmin()]), int(here[y[here].argmax()])})
        points += [f"{x[at]:.0f} {y[at]:.0f}" for at in ends]
    return "M" + "L".join(points)
