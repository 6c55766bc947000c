"""The report as JUnit XML: a suite for the run, a test for each question.

The test of a question fails if the command fails for its finding. If the log was read only in part,
the test has an error. A question without an answer has no test: a property of the suite names it.
Milder findings are in the output of their test.
"""

from __future__ import annotations

import xml.etree.ElementTree as ET
from collections.abc import Mapping

from stabdiag._version import __version__
from stabdiag.formats.measured import changed_limits, pairs, visible
from stabdiag.model.fail_on import fails, is_check_error
from stabdiag.model.findings import (
    Answer,
    AnswerScope,
    Finding,
    Severity,
    Verdict,
)
from stabdiag.model.report import Report
from stabdiag.model.text import capitalized

_SECTION_NAMES = {"1": "nan", "2": "spike", "3": "precision", "4": "divergence"}


def render(report: Report, *, fail_on: str = "error") -> str:
    """Return the report as a JUnit file; tests fail for findings of ``fail_on`` or worse."""
    remaining = [finding for finding in report.findings if finding.severity is not Severity.OK]
    cases = []
    for answer in report.tree.answers:
        own = [f for f in remaining if (f.question, f.scope) == (answer.question, answer.scope)]
        remaining = [finding for finding in remaining if finding not in own]
        if own or answer.verdict is not Verdict.UNKNOWN:
            cases.append(_question(answer, own, fail_on))
    cases += [_found(finding, fail_on) for finding in remaining]
    failed = sum(case.find("failure") is not None for case in cases)
    errors = sum(case.find("error") is not None for case in cases)
    counts = {"tests": len(cases), "failures": failed, "errors": errors}
    suites = element("testsuites", {"name": "stabdiag", **counts})
    name = report.history.source.name
    suite = element("testsuite", {"name": name, **counts, "skipped": 0})
    suites.append(suite)
    suite.append(properties(_run_properties(report)))
    suite.extend(cases)
    ET.indent(suites)
    body = ET.tostring(suites, encoding="unicode")
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{body}\n'


def escape(text: str) -> str:
    """Remove characters that XML does not allow from log text; the writer escapes the rest."""
    return visible(text)


def element(tag: str, attributes: Mapping[str, object], text: str = "") -> ET.Element:
    """Return an element; its attributes and text may be log text."""
    result = ET.Element(tag, {name: escape(str(value)) for name, value in attributes.items()})
    result.text = "\n".join(map(escape, text.split("\n"))) or None
    return result


def properties(values: Mapping[str, object]) -> ET.Element:
    """Return the properties of a suite, by name."""
    result = element("properties", {})
    result.extend(
        element("property", {"name": name, "value": value}) for name, value in values.items()
    )
    return result


def _run_properties(report: Report) -> dict[str, object]:
    diagnosis, changed = report.diagnosis, "; ".join(changed_limits(report.limits))
    unanswered = [a.question for a in report.tree.answers if a.verdict is Verdict.UNKNOWN]
    return {
        "stabdiag": __version__,
        "diagnosis": diagnosis.slug,
        "severity": diagnosis.severity.value,
        "confidence": diagnosis.confidence.value,
        "step": "none" if diagnosis.step is None else diagnosis.step,
        "summary": diagnosis.summary,
        **({"unanswered": " ".join(unanswered)} if unanswered else {}),
        **({"limits": changed} if changed else {}),
    }


def _case(group: str, name: str) -> ET.Element:
    return element("testcase", {"classname": f"stabdiag.{group}", "name": name, "time": 0})


def _question(answer: Answer, findings: list[Finding], fail_on: str) -> ET.Element:
    suffix = " (before the NaN)" if answer.scope is AnswerScope.LEAD_UP else ""
    case = _case(_SECTION_NAMES[answer.question[1]], f"{answer.question} {answer.asks}{suffix}")
    output = [answer.because]
    if answer.measured:
        output.append(f"measured: {pairs(answer.measured)}")
    if answer.limits:
        output.append(f"limits: {pairs(answer.limits)}")
    return _with_findings(case, findings, fail_on, output)


def _found(finding: Finding, fail_on: str) -> ET.Element:
    case = _case("symptoms", finding.slug)
    return _with_findings(case, [finding], fail_on, [f"measured: {pairs(finding.evidence)}"])


def _with_findings(
    case: ET.Element, findings: list[Finding], fail_on: str, output: list[str]
) -> ET.Element:
    """Add findings to a test: failures, or for milder findings the top of its output."""
    for finding in findings:
        headline = finding.headline
        actions = "\n".join(
            f"{i}. {action}"
            for i, action in enumerate((finding.first_action, *finding.next_actions), start=1)
        )
        is_error = is_check_error(finding.slug, fail_on)
        if is_error or fails(finding.severity, fail_on):
            confidence = capitalized(finding.confidence.words)
            text = f"{finding.summary} {confidence}.\n\nWhat to do:\n{actions}"
            tag = "error" if is_error else "failure"
            case.append(element(tag, {"type": finding.slug, "message": headline}, text))
        else:
            level = f"{finding.severity.value}, {finding.confidence.words}"
            output = [f"{level}: {headline}. {finding.summary}", actions, *output]
    case.append(element("system-out", {}, "\n".join(output)))
    return case
