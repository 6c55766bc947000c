"""The comparison as strict JSON, schema 2 (``comparison.schema.json``)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from stabdiag._version import __version__
from stabdiag.formats.json import dumps, escape, finding, mapping, scalar

if TYPE_CHECKING:
    from stabdiag.formats.json import Json
    from stabdiag.model.comparison import Comparison, Parting, Run

SCHEMA: Final = 2


def render(comparison: Comparison) -> str:
    """Return the comparison as one JSON object, in ASCII, without a newline at its end."""
    content: Json = {
        "schema": SCHEMA,
        "stabdiag": __version__,
        "kind": comparison.kind.value,
        "why": escape(comparison.why),
        "runs": [_run(run) for run in comparison.runs],
        "reference": comparison.reference,
        "common_points": comparison.common,
        "diagnosis": finding(comparison.diagnosis),
        "findings": [finding(one) for one in comparison.findings],
        "partings": [_parting(one) for one in comparison.partings],
        "levels": [
            {
                "run": level.run,
                "loss": scalar(level.value),
                "error": scalar(level.error),
                "noise": scalar(level.noise),
            }
            for level in comparison.levels
        ],
        "differences": [
            {"key": escape(one.key), "values": mapping(one.values), "bearing": one.bearing.value}
            for one in comparison.differences
        ],
        "notes": [escape(note) for note in comparison.notes],
        "limits": {
            info.name: info.value
            for info in comparison.limits.items()
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
