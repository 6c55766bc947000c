"""The report as SARIF 2.1.0, for code scanning: a result for each finding, and the rule behind it.

What could not be answered or checked is a notification: it did not pass.
"""

from __future__ import annotations

import re
from urllib.parse import quote

from stabdiag._version import __version__
from stabdiag.formats.issues import fingerprints, is_partly_read, line_of, log_path
from stabdiag.formats.json import Json, dumps, escape, mapping
from stabdiag.formats.measured import changed_limits, visible
from stabdiag.model.findings import AskedOf, Finding, Severity, Verdict
from stabdiag.model.limits import Limits
from stabdiag.model.report import Report
from stabdiag.model.text import filled, kept_text

SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
LEVELS = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.NOTE: "note"}
_GITHUB = {"error": "error", "warning": "warning", "note": "recommendation"}
_SIGNS = re.compile(r"^#+ |\*\*|`", re.MULTILINE)
_MEANS = re.compile(r"^## What it means\n\n(.+?)\n\n", re.DOTALL | re.MULTILINE)


def render(report: Report) -> str:
    """Return the report as a SARIF log of one run; a healthy one has no results."""
    found = [
        (finding, print_)
        for finding, print_ in zip(report.findings, fingerprints(report), strict=True)
        if finding.severity in LEVELS
    ]
    rules = {finding.slug: _rule(finding, report.limits) for finding, _ in found}
    places = list(rules)
    run: Json = {
        "tool": {
            "driver": {
                "name": "stabdiag",
                "version": __version__,
                "semanticVersion": __version__,
                "rules": list(rules.values()),
            }
        },
        "invocations": [
            {
                "executionSuccessful": not any(map(is_partly_read, report.findings)),
                "toolExecutionNotifications": [
                    _notification(finding.slug, finding.summary, level="error")
                    for finding in report.findings
                    if is_partly_read(finding)
                ]
                + [
                    _notification(
                        answer.question,
                        f"{answer.question} could not be answered: {answer.because}",
                    )
                    for answer in report.tree.answers
                    if answer.verdict is Verdict.UNKNOWN
                ]
                + [
                    _notification(one.symptom, f"{one.symptom} was not checked: {one.because}")
                    for one in report.not_checked
                ],
                "toolConfigurationNotifications": [
                    _notification("limits", told) for told in changed_limits(report.limits)
                ],
            }
        ],
        "results": [
            _result(finding, print_, places.index(finding.slug), report)
            for finding, print_ in found
        ],
        "columnKind": "unicodeCodePoints",
    }
    return dumps({"$schema": SCHEMA, "version": "2.1.0", "runs": [run]})


def _text(text: str) -> Json:
    """Return log text as a message that is text and nothing else."""
    # [text](target) is a link.
    *before, rest = visible(text).split("](")
    parts = (part.rpartition("]") for part in before)
    inert = (sound + end + opened.replace("[", "\\[") for sound, end, opened in parts)
    return {"text": "](".join([*inert, rest])}


def _rule(finding: Finding, limits: Limits) -> Json:
    (meaning, markdown), level = rule_of(finding, limits), LEVELS[finding.severity]
    return {
        "id": finding.slug,
        "shortDescription": _text(finding.title),
        "fullDescription": {"text": meaning},
        "help": {"text": _plain(markdown), "markdown": markdown},
        "defaultConfiguration": {"level": level},
        "properties": {"tags": ["training", finding.section], "problem.severity": _GITHUB[level]},
    }


def _result(finding: Finding, fingerprint: str, rule: int, report: Report) -> Json:
    place = log_path(report.history.source, finding.step)
    line = line_of(finding, report) or 1
    location: Json = {
        "physicalLocation": {
            "artifactLocation": {"uri": quote(escape(place or ""), safe="/:@!$&'()*+,;=~")},
            "region": {"startLine": line},
        }
    }
    when = "" if finding.step is None else f" ({finding.unit} {finding.step})"
    ignored = finding.ignored
    why = ignored and escape(f"{ignored.reason} (until {ignored.until})")
    return {
        "ruleId": finding.slug,
        "ruleIndex": rule,
        "level": LEVELS[finding.severity],
        "message": _text(f"{finding.title}{when}. {finding.summary} {finding.first_action}"),
        "locations": [] if place is None else [location],
        **({"suppressions": [{"kind": "external", "justification": why}]} if why else {}),
        "partialFingerprints": {"primaryLocationLineHash": f"{fingerprint}:1"},
        "properties": {
            "step": finding.step,
            "confidence": finding.confidence.value,
            "question": finding.question,
            "before_nan": finding.asked_of is AskedOf.LEAD_UP,
            "first_action": escape(finding.first_action),
            "next_actions": [escape(action) for action in finding.next_actions],
            "evidence": mapping(finding.evidence),
        },
    }


def _notification(about: str, told: str, *, level: str = "note") -> Json:
    return {"descriptor": {"id": about}, "level": level, "message": _text(told)}


def rule_of(finding: Finding, limits: Limits) -> tuple[str, str]:
    """Return what a finding means, in a paragraph, and all that is written of it as Markdown."""
    kind = "symptoms" if finding.section == "symptom" else "outcomes"
    markdown = filled(kept_text(kind, finding.slug), limits)
    means = _MEANS.search(markdown)
    return _plain(means[1]).replace("\n", " ") if means else finding.title, markdown


def _plain(markdown: str) -> str:
    return _SIGNS.sub("", markdown)
