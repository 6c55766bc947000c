"""Strict JSON of the report and the comparison: schema 2 (the ``.schema.json`` files here).

Each key is written by hand, so that a change of a class here does not change the output.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, TypeAlias

from stabdiag._version import __version__
from stabdiag.formats.measured import ORDERS

if TYPE_CHECKING:
    from stabdiag.model.baseline import BaselineComparison
    from stabdiag.model.checks import Check
    from stabdiag.model.comparison import ComparedRun, Comparison
    from stabdiag.model.findings import Action, Finding, IgnoreRule
    from stabdiag.model.history import Series
    from stabdiag.model.report import Report

Json: TypeAlias = "str | int | float | bool | list[Json] | dict[str, Json] | None"

REPORT_SCHEMA = 2

_ANSWER = "question asks answer=verdict branch because measured limit=limits steps scope"
_DIVERGENCE = (
    "role runs points first_difference=step values beyond_rounding_from=unrounded "
    "values_beyond_rounding=unrounded_values beyond_noise_from=lasting "
    "values_beyond_noise=lasting_values noise largest largest_at=largest_step"
)
_BASELINE_SERIES = (
    "role column status decides first_outside=step onset back level reference ratio closeness "
    "averaged deviation=peak allowed=bar intervals=bins first_step last_step"
)


def schema(kind: str = "report") -> str:
    """Return the JSON Schema of a report, a ``comparison`` or a ``scan``."""
    from importlib.resources import files

    return files("stabdiag.formats").joinpath(f"{kind}.schema.json").read_text(encoding="utf-8")


def as_json(report: Report) -> dict[str, Json]:
    """Return the report as lists, mappings and scalars for JSON."""
    history = report.history
    return {
        "schema": REPORT_SCHEMA,
        "stabdiag": __version__,
        "source": keys("name format records unreadable attempts attempt", history.source),
        "literal": report.literal,
        "diagnosis": finding(report.diagnosis),
        "tree": {
            "outcome": finding(report.tree.outcome),
            "answers": [keys(_ANSWER, answer) for answer in report.tree.answers],
        },
        "findings": [finding(item) for item in report.findings],
        "not_logged": [keys("role kind cost", item) for item in report.not_logged],
        "not_checked": [
            keys("symptom missing reason=because", item) for item in report.not_checked
        ],
        "events": [keys("kind code message step line", event) for event in history.events],
        "history": {escape(role): _series(series) for role, series in history.series.items()},
        "manifest": {
            **keys("path values=known inferred overridden logged", report.manifest),
            # Keys without values: a configuration may contain secrets.
            "unknown": [escape(str(key)) for key in report.manifest.unknown],
        },
        "limits": {info.name: info.value for info in report.limits.items()},
        **({} if report.baseline is None else {"baseline": _baseline(report.baseline)}),
    }


def _baseline(comparison: BaselineComparison) -> Json:
    """Return the comparison of a run with earlier good runs."""
    return {
        **keys("status unusable step references compared_until references_until", comparison),
        "deciding": None if comparison.deciding is None else escape(comparison.deciding.role),
        "series": [keys(_BASELINE_SERIES, series) for series in comparison.series],
        "settings": [keys("key value reference", item) for item in comparison.settings],
        "left_out": [keys("name reason step", item) for item in comparison.left_out],
        "odd_one": None if comparison.odd_one is None else escape(comparison.odd_one.name),
    }


def keys(names: str, subject: object) -> dict[str, Json]:
    """Return attributes by their JSON keys: ``"asks answer=verdict"`` names two of them."""
    pairs = (name.partition("=") for name in names.split())
    return {key: plain(getattr(subject, name or key)) for key, _, name in pairs}


def finding(subject: Finding) -> Json:
    """Return a finding for JSON."""
    return {
        **keys("slug severity confidence section question title summary step", subject),
        "actions": [_action(action) for action in subject.actions],
        **keys("evidence scope", subject),
        **({"ignored": ignored(subject.ignored)} if subject.ignored else {}),
    }


def check(subject: Check) -> Json:
    """Return a check for JSON: its state, and what a finding has."""
    return {
        **keys("slug state severity section title summary", subject),
        "actions": [_action(action) for action in subject.actions],
        **({"ignored": ignored(subject.ignored)} if subject.ignored else {}),
    }


def ignored(rule: IgnoreRule) -> Json:
    """Return the rule that ignores a finding: its reason, its end, the original severity."""
    return keys("reason until severity", rule)


def _action(action: Action) -> Json:
    """Return an action without the fields that do not apply."""
    detail = keys("setting from=from_ to step checkpoint", action)
    present = {key: value for key, value in detail.items() if value is not None}
    return keys("kind text also", action) | present


def _series(series: Series) -> Json:
    ends: list[object] = [None] * 3
    if len(series):
        ends = [series.steps[0], series.steps[-1], series.values[-1]]
    first, last, value = map(plain, ends)
    content: dict[str, Json] = {"column": escape(series.column), "points": len(series)}
    return content | {"first_step": first, "last_step": last, "last_value": value}


def comparison(subject: Comparison) -> str:
    """Return a comparison as one JSON object."""
    content: Json = {
        "schema": REPORT_SCHEMA,
        "stabdiag": __version__,
        **keys("kind why", subject),
        "runs": [_run(run) for run in subject.runs],
        **keys("reference common_points=common", subject),
        "diagnosis": finding(subject.diagnosis),
        "findings": [finding(item) for item in subject.findings],
        "divergences": [keys(_DIVERGENCE, item) for item in subject.divergences],
        "levels": [keys("run loss=value error noise", level) for level in subject.levels],
        "differences": [keys("key values relevance", item) for item in subject.differences],
        **keys("notes", subject),
        "limits": {
            info.name: info.value
            for info in subject.limits.items()
            if info.name.startswith(("compare.", "resume."))
        },
    }
    return dumps(content)


def _run(run: ComparedRun) -> Json:
    loss = run.history.get("loss")
    steps = [] if loss is None else loss.steps.tolist()
    return {
        "label": run.label,
        **keys("name format records unreadable attempts", run.history.source),
        "losses": len(steps),
        "first_step": steps[0] if steps else None,
        "last_step": steps[-1] if steps else None,
        "rank": run.rank,
        **keys("seed manifest=path", run.manifest),
        "messages": [escape(event.message) for event in run.history.messages],
    }


def dumps(value: Json, *, indent: int | None = 2) -> str:
    """Return a value as strict JSON, in ASCII, without a final newline.

    A CI server may execute ``##[error]`` anywhere in the output, so its first sign is escaped.
    """
    text = json.dumps(value, indent=indent, allow_nan=False)
    return ORDERS.sub(lambda sign: f"\\u{ord(sign.group()):04x}", text)


def escape(text: str) -> str:
    """Make a string safe to write as JSON.

    ``json.dumps`` escapes controls and non-ASCII characters, but it writes lone surrogates, which
    strict parsers reject.
    """
    return text.encode("utf-8", "replace").decode("utf-8")


def plain(value: object) -> Json:
    """Return a value for JSON; a number that is not finite becomes a string."""
    if value is None or isinstance(value, bool | int):
        return value
    if isinstance(value, str):
        return escape(value)
    if isinstance(value, tuple):
        return [plain(item) for item in value]
    if isinstance(value, Mapping):
        return mapping(value)
    # NumPy scalars: float64 is a float, the other types are not.
    if not isinstance(value, float) and hasattr(value, "item"):
        return plain(value.item())
    if not isinstance(value, float):
        return escape(str(value))
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    return float(value)


def mapping(values: Mapping[str, object]) -> dict[str, Json]:
    """Return named values for JSON; numbers that are not finite become strings."""
    return {escape(name): plain(value) for name, value in values.items()}
