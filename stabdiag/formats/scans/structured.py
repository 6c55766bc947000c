"""The overview as strict JSON, schema 1 (``scan.schema.json`` beside this file), with all rows."""

from __future__ import annotations

from dataclasses import fields
from importlib.resources import files
from typing import TYPE_CHECKING

from stabdiag._version import __version__
from stabdiag.formats.json import dumps, escape, mapping, scalar
from stabdiag.formats.scans import words
from stabdiag.model.scan import Row

if TYPE_CHECKING:
    from stabdiag.formats.json import Json
    from stabdiag.model.scan import Change, Common, Count, Group, Overview, Split, Unread

SCHEMA = 1

SCALARS = tuple(field.name for field in fields(Row) if field.name not in ("curve", "settings"))
"""The fields of a row that are one value; the curve is for a picture, and is left out."""


def render(overview: Overview) -> str:
    """Return the overview as one JSON object, in ASCII, without a newline at its end."""
    content: Json = {
        "schema": SCHEMA,
        "stabdiag": __version__,
        "places": [escape(place) for place in overview.places],
        "summary": words.summary(overview),
        "runs": overview.runs,
        "reused": overview.reused,
        "seconds": scalar(overview.seconds),
        "lost_steps": overview.lost_steps,
        "outcomes": [_count(one) for one in overview.counts],
        "groups": [_group(one) for one in overview.groups],
        "compared": {
            "runs": overview.compared.runs,
            "settings": overview.compared.settings,
            "outcomes": [escape(one) for one in overview.compared.outcomes],
            "why_not": overview.compared.why or None,
        },
        "in_common": [_common(one) for one in overview.common],
        "changes": _changes(overview),
        "unread": [_unread(one) for one in overview.unread],
    }
    # A row a line: there may be more than could be held as anything but text.
    rows = ",\n".join(f"    {dumps(_row(row), indent=None)}" for row in overview.rows)
    return f'{dumps(content)[:-2]},\n  "rows": [\n{rows}\n  ]\n}}'


def schema() -> str:
    """Return the JSON Schema that every overview satisfies."""
    return files("stabdiag.formats.scans").joinpath("scan.schema.json").read_text(encoding="utf-8")


def _count(one: Count) -> Json:
    return {
        "outcome": escape(one.outcome),
        "severity": one.severity,
        "runs": one.runs,
        "lost_steps": one.lost_steps,
    }


def _group(one: Group) -> Json:
    steps: Json = None
    if one.steps is not None:
        steps = dict(zip(("first", "median", "last"), one.steps, strict=True))
    near: Json = None
    if one.near is not None:
        near = {"first_step": one.near[0], "last_step": one.near[1], "runs": one.near[2]}
    return {
        "outcome": escape(one.outcome),
        "severity": one.severity,
        "runs": one.runs,
        "lost_steps": one.lost_steps,
        "steps": steps,
        "near": near,
        "action_kind": scalar(one.worst.action_kind),
        "worst": escape(one.worst.path),
    }


def _common(one: Common) -> Json:
    return {
        "text": escape(words.statement(one)),
        "outcome": escape(one.outcome),
        "chance": scalar(float(f"{one.chance:.6g}")),  # the same on every machine
        **_split(one.split),
        "along": [_split(split) for split in one.along],
    }


def _split(split: Split) -> dict[str, Json]:
    return {
        "setting": escape(split.setting),
        "relation": split.relation,
        "value": scalar(split.value),
        "inside": {"with_outcome": split.inside[0], "runs": split.inside[1]},
        "outside": {"with_outcome": split.outside[0], "runs": split.outside[1]},
    }


def _changes(overview: Overview) -> Json:
    told = overview.changes
    if told is None:
        return None
    return {
        "new": told.new,
        "gone": told.gone,
        "worse": [_change(one) for one in told.worse],
        "better": [_change(one) for one in told.better],
        "other": [_change(one) for one in told.other],
    }


def _change(one: Change) -> Json:
    return {
        "path": escape(one.path),
        "run": escape(one.run),
        "before": escape(one.before),
        "after": escape(one.after),
    }


def _unread(one: Unread) -> Json:
    return {"reason": escape(one.reason), "logs": one.logs, "example": escape(one.example)}


def _row(row: Row) -> Json:
    told = {name: scalar(getattr(row, name)) for name in SCALARS}
    return {**told, "settings": mapping(row.settings)}
