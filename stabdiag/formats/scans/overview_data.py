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
from stabdiag.formats.json import Json, dumps, keys, plain
from stabdiag.formats.junit import element, properties
from stabdiag.formats.measured import visible
from stabdiag.model.findings import Severity, fails, is_check_error
from stabdiag.model.scan import Changes, Group, Overview, Peers, Row, Split

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
        told = keys(" ".join((*SCALARS, "settings")), row)
        yield f"{comma}    {dumps(told, indent=None)}"
        comma = ",\n"
    yield "\n  ]\n}"


def _content(overview: Overview) -> dict[str, Json]:
    return {
        "schema": SCHEMA,
        "stabdiag": __version__,
        **keys("places", overview),
        "summary": words.summary(overview),
        **keys("runs reused seconds lost_steps", overview),
        "outcomes": [keys("outcome severity runs lost_steps", one) for one in overview.counts],
        "groups": [_group(one) for one in overview.groups],
        "compared": {
            **keys("runs settings outcomes", overview.compared),
            "why_not": overview.compared.why or None,
        },
        "find_common": [
            {
                "text": plain(words.statement(one)),
                "outcome": plain(one.outcome),
                "chance": plain(float(f"{one.chance:.6g}")),  # the same on every machine
                **_split(one.split),
                "along": [_split(split) for split in one.along],
            }
            for one in overview.common
        ],
        "changes": None if overview.changes is None else _changes(overview.changes),
        "unread": [keys("reason logs example", one) for one in overview.unread],
        **({} if overview.peers is None else {"peers": _peers(overview.peers)}),
    }


def _peers(peers: Peers) -> Json:
    worse: list[Json] = [keys("path run outcome step peers summary", one) for one in peers.worse]
    return {**keys("runs compared", peers), "worse": worse}


def _group(one: Group) -> Json:
    steps: Json = None
    if one.steps is not None:
        steps = dict(zip(("first", "median", "last"), one.steps, strict=True))
    near: Json = None
    if one.near is not None:
        near = dict(zip(("first_step", "last_step", "runs"), one.near, strict=True))
    told = keys("outcome severity runs lost_steps", one) | {"steps": steps, "near": near}
    return told | keys("action_kind worst=path", one.worst)


def _split(split: Split) -> dict[str, Json]:
    told = keys("setting relation value", split)
    for side, (hits, runs) in (("inside", split.inside), ("outside", split.outside)):
        told[side] = {"with_outcome": hits, "runs": runs}
    return told


def _changes(since: Changes) -> Json:
    told = keys("new gone", since)
    for name in ("worse", "better", "other"):
        told[name] = [keys("path run before after", one) for one in getattr(since, name)]
    return told


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
    errors = sum(one.runs for one in overview.counts if is_check_error(one.outcome, fail_on))
    failed = sum(
        one.runs
        for one in overview.counts
        if one.severity is not None
        and fails(Severity(one.severity), fail_on)
        and not is_check_error(one.outcome, fail_on)
    )
    counts = {"tests": overview.runs, "failures": failed, "errors": errors}
    values = {"stabdiag": __version__, "summary": words.summary(overview)}
    values |= {"in common": "\n".join(map(words.statement, overview.common))}
    yield '<?xml version="1.0" encoding="UTF-8"?>\n'
    yield _opening("testsuites", {"name": "stabdiag", **counts})
    yield _opening("testsuite", {"name": "stabdiag scan", **counts, "skipped": overview.of(None)})
    yield _xml(properties(values))
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
    elif is_check_error(row.outcome, fail_on) or fails(Severity(row.severity), fail_on):
        tag = "error" if is_check_error(row.outcome, fail_on) else "failure"
        head = row.headline or row.outcome
        case.append(element(tag, {"type": row.outcome, "message": head}, row.action))
    else:
        case.append(element("system-out", {}, f"{row.outcome}: {row.headline}\n{row.action}"))
    return case
