"""The overview as JUnit XML: a test for each run, skipped where its log could not be read."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from typing import TYPE_CHECKING

from stabdiag._version import __version__
from stabdiag.formats.junit import element
from stabdiag.formats.scans import words
from stabdiag.model.findings import Severity, fails

if TYPE_CHECKING:
    from collections.abc import Mapping

    from stabdiag.model.scan import Overview, Row


def render(overview: Overview, *, fail_on: str = "error") -> str:
    """Return the rows as a JUnit file, in which the tests of runs fail from ``fail_on`` on."""
    failed = sum(overview.of(one) for one in Severity if fails(one, fail_on))
    counts = {"tests": overview.runs, "failures": failed, "errors": 0}
    told = {"stabdiag": __version__, "summary": words.summary(overview)}
    told |= {"in common": "\n".join(map(words.statement, overview.common))}
    properties = element("properties", {})
    properties.extend(
        element("property", {"name": name, "value": value}) for name, value in told.items()
    )
    suite = {"name": "stabdiag scan", **counts, "skipped": overview.of(None)}
    lines = [
        '<?xml version="1.0" encoding="UTF-8"?>',
        _opening("testsuites", {"name": "stabdiag", **counts}),
        _opening("testsuite", suite),
        ET.tostring(properties, encoding="unicode"),
        # Each as text at once: there may be more than could be held as elements.
        *(ET.tostring(_case(row, overview, fail_on), encoding="unicode") for row in overview.rows),
        "</testsuite>\n</testsuites>\n",
    ]
    return "\n".join(lines)


def _opening(tag: str, attributes: Mapping[str, object]) -> str:
    return ET.tostring(element(tag, attributes), encoding="unicode").replace(" />", ">")


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
