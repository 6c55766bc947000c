"""Strict JSON; the report and the comparison in it, schema 2 (the ``.schema.json`` files here).

Written by hand, key by key: what others parse must not change because a class here did.
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
    from stabdiag.model.comparison import Comparison, Run
    from stabdiag.model.findings import Action, Finding, Ignored
    from stabdiag.model.history import Series
    from stabdiag.model.report import Report

Json: TypeAlias = "str | int | float | bool | list[Json] | dict[str, Json] | None"

SCHEMA = 2

_ANSWER = "question asks answer=verdict branch because measured limit=limits steps asked_of"
_PARTING = (
    "role runs points first_difference=step values beyond_rounding_from=unrounded "
    "values_beyond_rounding=unrounded_values beyond_noise_from=lasting "
    "values_beyond_noise=lasting_values noise largest largest_at=largest_step"
)
_COMPARED = (
    "role column status decides first_outside=step onset back level reference ratio closeness "
    "deviation=peak allowed=bar intervals=bins first_step last_step"
)


def render(report: Report, *, indent: int | None = 2) -> str:
    """Return the report as one JSON object, in ASCII, without a newline at its end."""
    return dumps(as_json(report), indent=indent)


def schema(of: str = "report") -> str:
    """Return the JSON Schema that every report satisfies, or every ``comparison`` or ``scan``."""
    from importlib.resources import files

    return files("stabdiag.formats").joinpath(f"{of}.schema.json").read_text(encoding="utf-8")


def as_json(report: Report) -> dict[str, Json]:
    """Return the report as plain lists, mappings and scalars that JSON can hold."""
    history = report.history
    return {
        "schema": SCHEMA,
        "stabdiag": __version__,
        "source": keys("name format records unreadable attempts attempt", history.source),
        "literal": report.literal,
        "diagnosis": finding(report.diagnosis),
        "tree": {
            "outcome": finding(report.tree.outcome),
            "answers": [keys(_ANSWER, answer) for answer in report.tree.answers],
        },
        "findings": [finding(one) for one in report.findings],
        "not_logged": [keys("role kind cost", one) for one in report.not_logged],
        "not_checked": [keys("symptom missing reason=because", one) for one in report.not_checked],
        "events": [keys("kind code message step line", event) for event in history.events],
        "history": {escape(role): _series(series) for role, series in history.series.items()},
        "manifest": {
            **keys("path values=known inferred overridden logged", report.manifest),
            # The keys alone: a configuration may hold what nobody wants in a report.
            "unknown": [escape(str(key)) for key in report.manifest.unknown],
        },
        "limits": {info.name: info.value for info in report.limits.items()},
        **({} if report.baseline is None else {"baseline": _baseline(report.baseline)}),
    }


def _baseline(comparison: BaselineComparison) -> Json:
    """Return how a run compares with earlier good runs."""
    return {
        **keys("status unusable step references compared_until references_until", comparison),
        "deciding": None if comparison.deciding is None else escape(comparison.deciding.role),
        "series": [keys(_COMPARED, series) for series in comparison.series],
        "settings": [keys("key value reference", one) for one in comparison.settings],
        "left_out": [keys("name reason step", one) for one in comparison.left_out],
        "odd_one": None if comparison.odd_one is None else escape(comparison.odd_one.name),
    }


def keys(names: str, one: object) -> dict[str, Json]:
    """Return attributes of something by their keys: ``"asks answer=verdict"`` names two."""
    pairs = (name.partition("=") for name in names.split())
    return {key: plain(getattr(one, name or key)) for key, _, name in pairs}


def finding(found: Finding) -> Json:
    """Return a finding as JSON can hold it."""
    return {
        **keys("slug severity confidence section question title summary step", found),
        "actions": [_action(action) for action in found.actions],
        **keys("evidence asked_of", found),
        **({"ignored": ignored(found.ignored)} if found.ignored else {}),
    }


def ignored(rule: Ignored) -> Json:
    """Return why a finding does not count, until when, and how severe it would be."""
    return keys("reason until severity", rule)


def _action(action: Action) -> Json:
    """Return what to do; what does not apply is left out."""
    told = keys("setting from=from_ to step checkpoint", action)
    known = {key: value for key, value in told.items() if value is not None}
    return keys("kind text also", action) | known


def _series(series: Series) -> Json:
    ends: list[object] = [None] * 3
    if len(series):
        ends = [series.steps[0], series.steps[-1], series.values[-1]]
    first, last, value = map(plain, ends)
    told: dict[str, Json] = {"column": escape(series.column), "points": len(series)}
    return told | {"first_step": first, "last_step": last, "last_value": value}


def comparison(found: Comparison) -> str:
    """Return a comparison as one JSON object."""
    content: Json = {
        "schema": SCHEMA,
        "stabdiag": __version__,
        **keys("kind why", found),
        "runs": [_run(run) for run in found.runs],
        **keys("reference common_points=common", found),
        "diagnosis": finding(found.diagnosis),
        "findings": [finding(one) for one in found.findings],
        "partings": [keys(_PARTING, one) for one in found.partings],
        "levels": [keys("run loss=value error noise", level) for level in found.levels],
        "differences": [keys("key values bearing", one) for one in found.differences],
        **keys("notes", found),
        "limits": {
            info.name: info.value
            for info in found.limits.items()
            if info.name.startswith(("compare.", "resume."))
        },
    }
    return dumps(content)


def _run(run: Run) -> Json:
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
    """Return a value as strict JSON, in ASCII, without a newline at its end.

    A CI server may take ``##[error]`` anywhere for an order; JSON can write it differently.
    """
    text = json.dumps(value, indent=indent, allow_nan=False)
    return ORDERS.sub(lambda sign: f"\\u{ord(sign.group()):04x}", text)


def escape(text: str) -> str:
    """Make a string safe to write as JSON.

    ``json.dumps`` escapes controls and all that is not ASCII; what is left is the lone surrogate,
    which it would write and which strict parsers refuse.
    """
    return text.encode("utf-8", "replace").decode("utf-8")


def plain(value: object) -> Json:
    """Return a value as JSON can hold it, a number that is not finite as a string."""
    if value is None or isinstance(value, bool | int):
        return value
    if isinstance(value, str):
        return escape(value)
    if isinstance(value, tuple):
        return [plain(one) for one in value]
    if isinstance(value, Mapping):
        return mapping(value)
    # A numpy scalar that slipped into an answer: float64 is a float, the others are not.
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
    """Return named values as JSON can hold them, those that are not finite as strings."""
    return {escape(name): plain(value) for name, value in values.items()}
