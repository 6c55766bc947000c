"""All rows and the overview as data: JSON (schema 1, ``scan.schema.json``), CSV and JUnit XML.

Each is written row by row: there may be more rows than memory holds.
"""

from __future__ import annotations

import csv
import xml.etree.ElementTree as ET
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields
from io import StringIO

from stabdiag._version import __version__
from stabdiag.formats import scans as words
from stabdiag.formats.json import Json, dumps, mapping, scalar
from stabdiag.formats.json import escape as text
from stabdiag.formats.junit import element
from stabdiag.formats.measured import visible
from stabdiag.model.findings import Severity, fails
from stabdiag.model.scan import Change, Group, Overview, Row, Split

SCHEMA = 1

SCALARS = tuple(field.name for field in fields(Row) if field.name not in ("curve", "settings"))
"""The fields of a row that are one value; the curve is for a picture, and is left out."""

# A cell that begins with one of these is a formula to a spreadsheet.
_FORMULA = ("=", "+", "-", "@")


def json_of(overview: Overview) -> Iterator[str]:
    """Yield one strict JSON object, in ASCII, without a newline at its end; a row a line."""
    yield f'{dumps(_content(overview))[:-2]},\n  "rows": [\n'
    comma = ""
    for row in overview.rows:
        values = {name: scalar(getattr(row, name)) for name in SCALARS}
        yield f"{comma}    {dumps({**values, 'settings': mapping(row.settings)}, indent=None)}"
        comma = ",\n"
    yield "\n  ]\n}"


def _content(overview: Overview) -> dict[str, Json]:
    tested, since = overview.compared, overview.changes
    return {
        "schema": SCHEMA,
        "stabdiag": __version__,
        "places": [text(place) for place in overview.places],
        "summary": words.summary(overview),
        "runs": overview.runs,
        "reused": overview.reused,
        "seconds": scalar(overview.seconds),
        "lost_steps": overview.lost_steps,
        "outcomes": [
            {
                "outcome": text(one.outcome),
                "severity": one.severity,
                "runs": one.runs,
                "lost_steps": one.lost_steps,
            }
            for one in overview.counts
        ],
        "groups": [_group(one) for one in overview.groups],
        "compared": {
            "runs": tested.runs,
            "settings": tested.settings,
            "outcomes": [text(one) for one in tested.outcomes],
            "why_not": tested.why or None,
        },
        "in_common": [
            {
                "text": text(words.statement(one)),
                "outcome": text(one.outcome),
                "chance": scalar(float(f"{one.chance:.6g}")),  # the same on every machine
                **_split(one.split),
                "along": [_split(split) for split in one.along],
            }
            for one in overview.common
        ],
        "changes": None
        if since is None
        else {
            "new": since.new,
            "gone": since.gone,
            "worse": _changed(since.worse),
            "better": _changed(since.better),
            "other": _changed(since.other),
        },
        "unread": [
            {"reason": text(one.reason), "logs": one.logs, "example": text(one.example)}
            for one in overview.unread
        ],
    }


def _group(one: Group) -> Json:
    steps: Json = None
    if one.steps is not None:
        steps = dict(zip(("first", "median", "last"), one.steps, strict=True))
    near: Json = None
    if one.near is not None:
        near = {"first_step": one.near[0], "last_step": one.near[1], "runs": one.near[2]}
    return {
        "outcome": text(one.outcome),
        "severity": one.severity,
        "runs": one.runs,
        "lost_steps": one.lost_steps,
        "steps": steps,
        "near": near,
        "action_kind": scalar(one.worst.action_kind),
        "worst": text(one.worst.path),
    }


def _split(split: Split) -> dict[str, Json]:
    return {
        "setting": text(split.setting),
        "relation": split.relation,
        "value": scalar(split.value),
        "inside": {"with_outcome": split.inside[0], "runs": split.inside[1]},
        "outside": {"with_outcome": split.outside[0], "runs": split.outside[1]},
    }


def _changed(changes: Sequence[Change]) -> Json:
    return [
        {
            "path": text(one.path),
            "run": text(one.run),
            "before": text(one.before),
            "after": text(one.after),
        }
        for one in changes
    ]


def csv_of(overview: Overview) -> Iterator[str]:
    """Yield the rows as CSV, the worst first: a column for each field and each setting."""
    names = dict.fromkeys(key for row in overview.rows for key in row.settings)
    yield _line([*SCALARS, *(f"settings.{key}" for key in names)])
    for row in overview.rows:
        cells = [getattr(row, name) for name in SCALARS]
        yield _line([*cells, *(row.settings.get(key) for key in names)])


def _line(cells: Sequence[object]) -> str:
    line = StringIO()
    escaped = [escape(one) if isinstance(one, str) else one for one in cells]
    csv.writer(line, lineterminator="\n").writerow(escaped)
    return line.getvalue()


def escape(text: str) -> str:
    """Return log text as a cell that no spreadsheet takes for a formula, on one line."""
    shown = visible(text)
    return f"'{shown}" if shown.lstrip().startswith(_FORMULA) and not _number(shown) else shown


def _number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def junit_of(overview: Overview, *, fail_on: str = "error") -> Iterator[str]:
    """Yield a test for each run, which fails from ``fail_on`` on; unread logs are skipped."""
    failed = sum(overview.of(one) for one in Severity if fails(one, fail_on))
    counts = {"tests": overview.runs, "failures": failed, "errors": 0}
    values = {"stabdiag": __version__, "summary": words.summary(overview)}
    values |= {"in common": "\n".join(map(words.statement, overview.common))}
    properties = element("properties", {})
    properties.extend(
        element("property", {"name": name, "value": value}) for name, value in values.items()
    )
    yield '<?xml version="1.0" encoding="UTF-8"?>\n'
    yield _opening("testsuites", {"name": "stabdiag", **counts})
    yield _opening("testsuite", {"name": "stabdiag scan", **counts, "skipped": overview.of(None)})
    yield _xml(properties)
    for row in overview.rows:
        yield _xml(_case(row, overview, fail_on))
    yield "</testsuite>\n</testsuites>\n"


def _xml(made: ET.Element) -> str:
    return f"{ET.tostring(made, encoding='unicode')}\n"


def _opening(tag: str, attributes: Mapping[str, object]) -> str:
    return _xml(element(tag, attributes)).replace(" />", ">")


def _case(row: Row, overview: Overview, fail_on: str) -> ET.Element:
    told = {
        "classname": "stabdiag.scan",
        "name": words.name(row, overview),
        "time": round(row.seconds, 3),
    }
    case = element("testcase", told)
    if row.severity is None:
        case.append(element("skipped", {"message": row.reason}))
    elif fails(Severity(row.severity), fail_on):
        head = row.headline or row.outcome
        case.append(element("failure", {"type": row.outcome, "message": head}, row.action))
    else:
        case.append(element("system-out", {}, f"{row.outcome}: {row.headline}\n{row.action}"))
    return case
