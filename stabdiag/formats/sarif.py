"""The report as SARIF 2.1.0, for code scanning: a result and a rule for each finding.

Open questions and skipped checks are notifications: they did not pass.
"""

from __future__ import annotations

import re
from urllib.parse import quote

from stabdiag._version import __version__
from stabdiag.formats.issues import finding_line, fingerprints, is_partly_read, log_path
from stabdiag.formats.json import Json, dumps, escape, mapping
from stabdiag.formats.measured import changed_limits, visible
from stabdiag.model.findings import AnswerScope, Finding, Severity, Verdict
from stabdiag.model.limits import Limits
from stabdiag.model.report import Report
from stabdiag.model.text import filled, kept_text

SARIF_SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
LEVELS = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.NOTE: "note"}
_GITHUB = {"error": "error", "warning": "warning", "note": "recommendation"}
_MARKDOWN_SIGNS = re.compile(r"^#+ |\*\*|`", re.MULTILINE)
_MEANING_SECTION = re.compile(r"^## What it means\n\n(.+?)\n\n", re.DOTALL | re.MULTILINE)


def render(report: Report) -> str:
    """Return the report as a SARIF log of one run; a healthy run has no results."""
    results = [
        (finding, fingerprint)
        for finding, fingerprint in zip(report.findings, fingerprints(report), strict=True)
        if finding.severity in LEVELS
    ]
    rules = {finding.slug: _rule(finding, report.limits) for finding, _ in results}
    slugs = list(rules)
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
                    _notification(
                        check.symptom, f"{check.symptom} was not checked: {check.because}"
                    )
                    for check in report.not_checked
                ],
                "toolConfigurationNotifications": [
                    _notification("limits", clause) for clause in changed_limits(report.limits)
                ],
            }
        ],
        "results": [
            _result(finding, fingerprint, slugs.index(finding.slug), report)
            for finding, fingerprint in results
        ],
        "columnKind": "unicodeCodePoints",
    }
    return dumps({"$schema": SARIF_SCHEMA, "version": "2.1.0", "runs": [run]})


def _text(text: str) -> Json:
    """Return log text as a plain-text message."""
    # SARIF viewers turn [text](target) into a link.
    *before, tail = visible(text).split("](")
    parts = (part.rpartition("]") for part in before)
    inert = (
        before_bracket + bracket + after_bracket.replace("[", "\\[")
        for before_bracket, bracket, after_bracket in parts
    )
    return {"text": "](".join([*inert, tail])}


def _rule(finding: Finding, limits: Limits) -> Json:
    (meaning, markdown), level = rule_text(finding, limits), LEVELS[finding.severity]
    return {
        "id": finding.slug,
        "shortDescription": _text(finding.title),
        "fullDescription": {"text": meaning},
        "help": {"text": _plain(markdown), "markdown": markdown},
        "defaultConfiguration": {"level": level},
        "properties": {"tags": ["training", finding.section], "problem.severity": _GITHUB[level]},
    }


def _result(finding: Finding, fingerprint: str, rule: int, report: Report) -> Json:
    path = log_path(report.history.source, finding.step)
    line = finding_line(finding, report) or 1
    location: Json = {
        "physicalLocation": {
            "artifactLocation": {"uri": quote(escape(path or ""), safe="/:@!$&'()*+,;=~")},
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
        "locations": [] if path is None else [location],
        **({"suppressions": [{"kind": "external", "justification": why}]} if why else {}),
        "partialFingerprints": {"primaryLocationLineHash": f"{fingerprint}:1"},
        "properties": {
            "step": finding.step,
            "confidence": finding.confidence.value,
            "question": finding.question,
            "before_nan": finding.scope is AnswerScope.LEAD_UP,
            "first_action": escape(finding.first_action),
            "next_actions": [escape(action) for action in finding.next_actions],
            "evidence": mapping(finding.evidence),
        },
    }


def _notification(identifier: str, text: str, *, level: str = "note") -> Json:
    return {"descriptor": {"id": identifier}, "level": level, "message": _text(text)}


def rule_text(finding: Finding, limits: Limits) -> tuple[str, str]:
    """Return the meaning of a finding as a paragraph, and its whole explanation as Markdown."""
    kind = "symptoms" if finding.section == "symptom" else "outcomes"
    markdown = filled(kept_text(kind, finding.slug), limits)
    meaning = _MEANING_SECTION.search(markdown)
    return _plain(meaning[1]).replace("\n", " ") if meaning else finding.title, markdown


def _plain(markdown: str) -> str:
    return _MARKDOWN_SIGNS.sub("", markdown)
