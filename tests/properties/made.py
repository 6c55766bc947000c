"""Runs, manifests and every document that can be written about them."""

import json
import xml.etree.ElementTree as ET

import numpy as np

import stabdiag
from stabdiag.api import postmortem
from stabdiag.checks.checklist import checklist
from stabdiag.checks.preflight import preflight
from stabdiag.formats import names, render
from stabdiag.model.manifest.keys import KEYS
from stabdiag.model.roles.table import ROLES
from stabdiag.scan.overview import make_overview
from stabdiag.scan.report_row import make_row

STEPS = 240


def falling(count=STEPS, seed=0, level=1.0, drop=3.0, noise=0.03):
    """Return a loss that falls and settles."""
    rng = np.random.default_rng(seed)
    curve = level + drop * np.exp(-np.arange(count) / (count / 8))
    return curve + noise * rng.standard_normal(count)


def _spiked(loss):
    loss[150] += 5.0
    return loss


def _stepped(loss):
    loss[150:] += 5.0
    return loss


def _not_finite(loss):
    loss[200:] = np.nan
    return loss


def _climbing(loss):
    loss[120:] += np.linspace(0.0, 6.0, len(loss) - 120)
    return loss


LOSSES = {
    "healthy": falling,
    "spike": lambda: _spiked(falling()),
    "step": lambda: _stepped(falling()),
    "nan": lambda: _not_finite(falling()),
    "climb": lambda: _climbing(falling()),
    "flat": lambda: falling(drop=0.0),
    "constant": lambda: np.full(STEPS, 2.0),
    "huge": lambda: 1e300 * falling(),
    "short": lambda: falling(count=3),
    "all nan": lambda: np.full(STEPS, np.nan),
}

# One column for each role except the step, the loss, and the values of unknown meaning; a role with
# groups gets two.
COLUMNS = {
    column: role.name
    for role in ROLES
    if role.name not in ("step", "loss", "failed_value")
    for column in ([f"{role.name}/a", f"{role.name}/b"] if role.prefixes else [role.names[0]])
}

# Values of every type that the parsers of the manifest accept.
CANDIDATES = (
    *("fp16", "bf16", "adamw", "cosine", True, False, 1, 50, 0.5, 1e-3, 1e300),
    *("100,200", tuple(range(0, 5000, 25)), "1e-3", [3]),
)
FIELDS = {key.name: [value for value in CANDIDATES if key.parse(value) is not None] for key in KEYS}

# Values of other keys: configurations hold anything.
ODD_KEYS = {
    "betas": [0.9, 0.999],
    "model.layers": {"a": [1, {"b": None}], "c": {}},
    "note": 'two\nlines <b>&amp;</b> | ``` "\udc80',
    "ratio": float("nan"),
    "bound": float("inf"),
    "nothing": None,
    "long": "x" * 5000,
    "warmup_ratio": 0.1,
    "num_train_epochs": 3,
    "api_key": "hidden",
    "flag": True,
    "big": 10**400,
}


def columns_for(names, count, seed=0):
    """Return a column of plausible values for each name, with some values not finite."""
    rng = np.random.default_rng(seed)
    columns = {}
    for i, name in enumerate(names):
        values = 1.0 + 0.1 * rng.standard_normal(count)
        if i % 3 == 1 and count > 20:
            values[count // 2] = 1e9
        if i % 5 == 2:
            values[-1:] = np.inf
        columns[name] = values
    return columns


def log_of(loss, columns=()):
    """Return a log with a loss and some more columns."""
    count = len(loss)
    return {"step": np.arange(count), "loss": loss, **columns_for(columns, count)}


def strict_json(text):
    """Parse JSON that must not contain NaN or infinities."""

    def refuse(constant):
        raise AssertionError(f"{constant} in JSON")

    return json.loads(text, parse_constant=refuse)


def check_text(text, format_name):
    """Check that a document is complete and well-formed."""
    assert isinstance(text, str)
    text.encode("utf-8")
    if format_name in ("json", "sarif", "gitlab"):
        strict_json(text)
    elif format_name in ("junit", "svg"):
        ET.fromstring(text)
    elif format_name == "html":
        assert text.rstrip().endswith("</html>")


def write_all(subject, kind="report", **options):
    """Write something in each of its formats, and check each document."""
    for name in names(kind):
        check_text(render(subject, name, kind, **options), name)


def write_every_document(report):
    """Write each kind of document about one run, in each of its formats."""
    write_all(report)
    check_text(render(report, "terminal", verbose=True, width=40, encoding="ascii"), "terminal")
    check_text(render(report, "markdown", verbose=True, command="stabdiag x"), "markdown")
    for name in names("postmortem"):
        check_text(postmortem(report, name), name)
    write_all(checklist(report), "checks")
    write_all(preflight(report.manifest, report.limits), "checks")
    write_all(make_overview([make_row(report, "run", "run")] * 2, places=("runs",)), "overview")


def write_comparisons(logs, manifests):
    """Compare runs as each kind of relation, and write each comparison in each format."""
    for kind in ("seeds", "reruns", "ranks", "resume"):
        comparison = stabdiag.compare(logs, kind=kind, manifests=manifests)
        write_all(comparison, "comparison", verbose=True)
