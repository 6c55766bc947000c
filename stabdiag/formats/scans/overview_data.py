"""All rows and the overview as data: JSON (schema 1, ``scan.schema.json``), CSV and JUnit XML.

Each is written row by row because the rows may exceed memory.
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
"""The scalar fields of a row; the curve is only for pictures."""

# A spreadsheet treats a cell that starts with one of these as a formula.
_FORMULA = ("=", "+", "-", "@")


def to_json(overview: Overview) -> Iterator[str]:
    """Yield one strict JSON object in ASCII, one line per row, without a final newline."""
    yield f'{dumps(_content(overview))[:-2]},\n  "rows": [\n'
    comma = ""
    for row in overview.rows:
        content = keys(" ".join((*SCALARS, "settings")), row)
        yield f"{comma}    {dumps(content, indent=None)}"
        comma = ",\n"
    yield "\n  ]\n}"


def _content(overview: Overview) -> dict[str, Json]:
    return {
        "schema": SCHEMA,
        "stabdiag": __version__,
        **keys("places", overview),
        "summary": words.summary(overview),
        **keys("runs reused seconds lost_steps", overview),
        "outcomes": [keys("outcome severity runs lost_steps", item) for item in overview.counts],
        "groups": [_group(group) for group in overview.groups],
        "compared": {
            **keys("runs settings outcomes", overview.compared),
            "why_not": overview.compared.why or None,
        },
        "in_common": [
            {
                "text": plain(words.statement(item)),
                "outcome": plain(item.outcome),
                "chance": plain(float(f"{item.chance:.6g}")),  # the same on every machine
                **_split(item.split),
                "along": [_split(split) for split in item.along],
            }
            for item in overview.common
        ],
        "changes": None if overview.changes is None else _changes(overview.changes),
        "unread": [keys("reason logs example", item) for item in overview.unread],
        **({} if overview.peers is None else {"peers": _peers(overview.peers)}),
    }


def _peers(peers: Peers) -> Json:
    worse: list[Json] = [keys("path run outcome step peers summary", run) for run in peers.worse]
    return {**keys("runs compared", peers), "worse": worse}


def _group(failure: Group) -> Json:
    steps: Json = None
    if failure.steps is not None:
        steps = dict(zip(("first", "median", "last"), failure.steps, strict=True))
    cluster: Json = None
    if failure.near is not None:
        cluster = dict(zip(("first_step", "last_step", "runs"), failure.near, strict=True))
    content = keys("outcome severity runs lost_steps", failure) | {"steps": steps, "near": cluster}
    return content | keys("action_kind worst=path", failure.worst)


def _split(split: Split) -> dict[str, Json]:
    content = keys("setting relation value", split)
    for side, (hits, runs) in (("inside", split.inside), ("outside", split.outside)):
        content[side] = {"with_outcome": hits, "runs": runs}
    return content


def _changes(since: Changes) -> Json:
    content = keys("new gone", since)
    for name in ("worse", "better", "other"):
        content[name] = [keys("path run before after", change) for change in getattr(since, name)]
    return content


def to_csv(overview: Overview) -> Iterator[str]:
    """Yield the rows as CSV, worst first, with a column for each field and each setting."""
    names = dict.fromkeys(key for row in overview.rows for key in row.settings)
    yield _line([*SCALARS, *(f"settings.{key}" for key in names)])
    for row in overview.rows:
        cells = [getattr(row, name) for name in SCALARS]
        yield _line([*cells, *(row.settings.get(key) for key in names)])


def _line(cells: Sequence[object]) -> str:
    line = StringIO()
    escaped = [escape(cell) if isinstance(cell, str) else cell for cell in cells]
    csv.writer(line, lineterminator="\n").writerow(escaped)
    return line.getvalue()


def escape(text: str) -> str:
    """Return log text as one line that no spreadsheet treats as a formula."""
    shown = visible(text)
    return f"'{shown}" if shown.lstrip().startswith(_FORMULA) and not _number(shown) else shown


def _number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def to_junit(overview: Overview, *, fail_on: str = "error") -> Iterator[str]:
    """Yield a test for each run; it fails for ``fail_on`` or worse. Unread logs are skipped."""
    errors = sum(count.runs for count in overview.counts if is_check_error(count.outcome, fail_on))
    failed = sum(
        count.runs
        for count in overview.counts
        if count.severity is not None
        and fails(Severity(count.severity), fail_on)
        and not is_check_error(count.outcome, fail_on)
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


def _xml(tree: ET.Element) -> str:
    return f"{ET.tostring(tree, encoding='unicode')}\n"


def _opening(tag: str, attributes: Mapping[str, object]) -> str:
    return _xml(element(tag, attributes)).replace(" />", ">")


def _case(row: Row, overview: Overview, fail_on: str) -> ET.Element:
    attributes = {
        "classname": "stabdiag.scan",
        "name": words.name(row, overview),
        "time": round(row.seconds, 3),
    }
    case = element("testcase", attributes)
    if row.severity is None:
        case.append(element("skipped", {"message": row.reason}))
    elif is_check_error(row.outcome, fail_on) or fails(Severity(row.severity), fail_on):
        tag = "error" if is_check_error(row.outcome, fail_on) else "failure"
        head = row.headline or row.outcome
        case.append(element(tag, {"type": row.outcome, "message": head}, row.action))
    else:
        case.append(element("system-out", {}, f"{row.outcome}: {row.headline}\n{row.action}"))
    return case
