"""Strict JSON; the report and the comparison in it, schema 2 (the ``.schema.json`` files here).

Written by hand, key by key: what others parse must not change because a class here did.
"""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING, TypeAlias

from stabdiag._version import __version__
from stabdiag.formats.measured import ORDERS

if TYPE_CHECKING:
    import re
    from collections.abc import Mapping

    from stabdiag.model.comparison import Comparison, Parting, Run
    from stabdiag.model.findings import Action, Answer, Finding, Ignored
    from stabdiag.model.history import Event, Series, Source
    from stabdiag.model.limits import Limits
    from stabdiag.model.manifest import Manifest
    from stabdiag.model.report import NotChecked, NotLogged, Report

Json: TypeAlias = "str | int | float | bool | list[Json] | dict[str, Json] | None"

SCHEMA = 2


def render(report: Report, *, indent: int | None = 2) -> str:
    """Return the report as one JSON object, in ASCII, without a newline at its end."""
    return dumps(as_json(report), indent=indent)


def schema(of: str = "report") -> str:
    """Return the JSON Schema that every report satisfies, or every ``comparison`` or ``scan``."""
    from importlib.resources import files

    return files("stabdiag.formats").joinpath(f"{of}.schema.json").read_text(encoding="utf-8")


def as_json(report: Report) -> dict[str, Json]:
    """Return the report as plain lists, mappings and scalars that JSON can hold."""
    return {
        "schema": SCHEMA,
        "stabdiag": __version__,
        "source": _source(report.history.source),
        "literal": report.literal,
        "diagnosis": finding(report.diagnosis),
        "tree": {
            "outcome": finding(report.tree.outcome),
            "answers": [_answer(answer) for answer in report.tree.answers],
        },
        "findings": [finding(one) for one in report.findings],
        "not_logged": [_not_logged(missing) for missing in report.not_logged],
        "not_checked": [_not_checked(one) for one in report.not_checked],
        "events": [_event(event) for event in report.history.events],
        "history": {
            escape(role): _series(series) for role, series in report.history.series.items()
        },
        "manifest": _manifest(report.manifest),
        "limits": _limits(report.limits),
    }


def _source(source: Source) -> Json:
    return {
        "name": escape(source.name),
        "format": escape(source.format),
        "records": source.records,
        "unreadable": source.unreadable,
        "attempts": source.attempts,
        "attempt": source.attempt,
    }


def finding(found: Finding) -> Json:
    """Return a finding as JSON can hold it."""
    return {
        "slug": found.slug,
        "severity": found.severity.value,
        "section": found.section,
        "question": found.question,
        "title": escape(found.title),
        "summary": escape(found.summary),
        "step": scalar(found.step),
        "actions": [_action(action) for action in found.actions],
        "evidence": mapping(found.evidence),
        "asked_of": found.asked_of.value,
        **({"ignored": ignored(found.ignored)} if found.ignored else {}),
    }


def ignored(rule: Ignored) -> Json:
    """Return why a finding does not count, until when, and how severe it would be."""
    return {
        "reason": escape(rule.reason),
        "until": rule.until.isoformat(),
        "severity": rule.severity and rule.severity.value,
    }


def _action(action: Action) -> Json:
    """Return what to do; what does not apply is left out."""
    told = {
        "setting": action.setting,
        "from": action.from_,
        "to": action.to,
        "step": action.step,
        "checkpoint": action.checkpoint,
    }
    return {
        "kind": action.kind.value,
        "text": escape(action.text),
        "also": [kind.value for kind in action.also],
        **mapping({name: value for name, value in told.items() if value is not None}),
    }


def _answer(answer: Answer) -> Json:
    return {
        "question": answer.question,
        "asks": escape(answer.asks),
        "answer": answer.verdict.value,
        "branch": answer.branch,
        "because": escape(answer.because),
        "measured": mapping(answer.measured),
        "limit": mapping(answer.limits),
        "steps": [scalar(step) for step in answer.steps],
        "asked_of": answer.asked_of.value,
    }


def _not_logged(missing: NotLogged) -> Json:
    return {"role": escape(missing.role), "cost": escape(missing.cost)}


def _not_checked(one: NotChecked) -> Json:
    return {
        "symptom": one.symptom,
        "missing": [escape(role) for role in one.missing],
        "reason": escape(one.because),
    }


def _event(event: Event) -> Json:
    return {
        "kind": event.kind.value,
        "code": scalar(event.code),
        "message": escape(event.message),
        "step": scalar(event.step),
        "line": scalar(event.line),
    }


def _series(series: Series) -> Json:
    some = len(series) > 0
    return {
        "column": escape(series.column),
        "points": len(series),
        "first_step": int(series.steps[0]) if some else None,
        "last_step": int(series.steps[-1]) if some else None,
        "last_value": scalar(float(series.values[-1])) if some else None,
    }


def _manifest(manifest: Manifest) -> Json:
    return {
        "path": scalar(manifest.path),
        "values": mapping(manifest.known),
        "inferred": mapping(manifest.inferred),
        "overridden": [escape(name) for name in manifest.overridden],
        "logged": [escape(name) for name in manifest.logged],
        # The keys alone: a configuration may hold what nobody wants in a report.
        "unknown": [escape(str(key)) for key in manifest.unknown],
    }


def _limits(limits: Limits) -> Json:
    return {info.name: info.value for info in limits.items()}


def comparison(found: Comparison) -> str:
    """Return a comparison as one JSON object."""
    content: Json = {
        "schema": SCHEMA,
        "stabdiag": __version__,
        "kind": found.kind.value,
        "why": escape(found.why),
        "runs": [_run(run) for run in found.runs],
        "reference": found.reference,
        "common_points": found.common,
        "diagnosis": finding(found.diagnosis),
        "findings": [finding(one) for one in found.findings],
        "partings": [_parting(one) for one in found.partings],
        "levels": [
            {
                "run": level.run,
                "loss": scalar(level.value),
                "error": scalar(level.error),
                "noise": scalar(level.noise),
            }
            for level in found.levels
        ],
        "differences": [
            {"key": escape(one.key), "values": mapping(one.values), "bearing": one.bearing.value}
            for one in found.differences
        ],
        "notes": [escape(note) for note in found.notes],
        "limits": {
            info.name: info.value
            for info in found.limits.items()
            if info.name.startswith(("compare.", "resume."))
        },
    }
    return dumps(content)


def _run(run: Run) -> Json:
    source, loss = run.history.source, run.history.get("loss")
    steps = [] if loss is None else loss.steps.tolist()
    return {
        "label": run.label,
        "name": escape(source.name),
        "format": escape(source.format),
        "records": source.records,
        "unreadable": source.unreadable,
        "attempts": source.attempts,
        "losses": len(steps),
        "first_step": steps[0] if steps else None,
        "last_step": steps[-1] if steps else None,
        "rank": run.rank,
        "seed": run.manifest.seed,
        "manifest": scalar(run.manifest.path),
        "messages": [escape(event.message) for event in run.history.messages],
    }


def _parting(one: Parting) -> Json:
    return {
        "role": escape(one.role),
        "runs": list(one.runs),
        "points": one.points,
        "first_difference": one.step,
        "values": _pair(one.values),
        "beyond_rounding_from": one.unrounded,
        "values_beyond_rounding": _pair(one.unrounded_values),
        "beyond_noise_from": one.lasting,
        "values_beyond_noise": _pair(one.lasting_values),
        "noise": scalar(one.noise),
        "largest": scalar(one.largest),
        "largest_at": one.largest_step,
    }


def _pair(values: tuple[float, float] | None) -> Json:
    return None if values is None else [scalar(value) for value in values]


def dumps(value: Json, *, indent: int | None = 2) -> str:
    """Return a value as strict JSON, in ASCII, without a newline at its end.

    A CI server may take ``##[error]`` anywhere for an order; JSON can write it differently.
    """
    return ORDERS.sub(_sign, json.dumps(value, indent=indent, allow_nan=False))


def _sign(order: re.Match[str]) -> str:
    return f"\\u{ord(order.group()):04x}"


def escape(text: str) -> str:
    """Make a string safe to write as JSON.

    ``json.dumps`` escapes controls and all that is not ASCII; what is left is the lone surrogate,
    which it would write and which strict parsers refuse.
    """
    return text.encode("utf-8", "replace").decode("utf-8")


def scalar(value: object) -> Json:
    """Return a number or a text as JSON can hold it, what is not finite as a string."""
    if value is None or isinstance(value, bool | int):
        return value
    if isinstance(value, str):
        return escape(value)
    # A numpy scalar that slipped into an answer: float64 is a float, the others are not.
    if not isinstance(value, float) and hasattr(value, "item"):
        return scalar(value.item())
    if not isinstance(value, float):
        return escape(str(value))
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    return float(value)


def mapping(values: Mapping[str, object]) -> dict[str, Json]:
    """Return named values as JSON can hold them, those that are not finite as strings."""
    return {escape(name): scalar(value) for name, value in values.items()}
