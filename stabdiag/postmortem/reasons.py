"""Why it happened: what was ruled out and how, what was not, and the root cause."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stabdiag.explain import explain
from stabdiag.findings import Verdict
from stabdiag.formats.markdown_text import escape, table
from stabdiag.postmortem.alarm import SYMPTOM
from stabdiag.postmortem.suspects import Suspect, suspects
from stabdiag.postmortem.tables import limits_told
from stabdiag.symptoms import SYMPTOMS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from stabdiag.postmortem.study import Study


def ruled_out(told: Study) -> Iterator[str]:
    """Yield what was tested and not found, with the numbers; then what could not be tested."""
    all_ = tuple(suspects(told))
    out = [one for one in all_ if one.verdict is Verdict.NO]
    not_out = [one for one in all_ if one.verdict is Verdict.UNKNOWN]
    yield "## What was ruled out, and how"
    if out:
        yield table(
            ["Suspect", "How it was ruled out", "Limits"],
            [[_suspect(one), escape(one.because), limits_told(one.limits)] for one in out],
        )
    else:
        yield "None of the tree's other suspects could be ruled out."
    clear = _symptoms_not_found(told)
    if clear:
        yield f"Checked beside the tree and not found: {', '.join(clear)}."
    yield "### Not ruled out"
    if not_out:
        rows = [[_suspect(one), escape(one.because)] for one in not_out]
        yield table(["Suspect", "Why it is open"], rows)
    if told.report.not_checked:
        yield f"Not checked beside the tree, for lack of what it takes: {_unchecked(told)}."
    if not not_out and not told.report.not_checked:
        yield "Nothing that stabdiag asks about stayed open."


def _suspect(one: Suspect) -> str:
    return escape(one.what) + (f" ({one.question})" if one.question else "")


def _symptoms_not_found(told: Study) -> list[str]:
    """Return the symptoms that were checked and do not hold; to the letter, none is checked."""
    if told.report.literal:
        return []
    found = {finding.slug for finding in told.report.findings}
    unchecked = {one.symptom for one in told.report.not_checked}
    explained = tuple(
        finding.slug for finding in told.report.findings if finding.section != SYMPTOM
    )
    return [
        one.slug
        for one in SYMPTOMS
        if one.slug not in found | unchecked
        and not any(slug.startswith(one.explained_by) for slug in explained)
    ]


def _unchecked(told: Study) -> str:
    """Return the symptoms that were not checked; those that lack the same stand together."""
    by_need: dict[str, list[str]] = {}
    for one in told.report.not_checked:
        by_need.setdefault(one.because, []).append(one.symptom)
    return "; ".join(escape(f"{', '.join(symptoms)} ({why})") for why, symptoms in by_need.items())


def root_cause(told: Study) -> Iterator[str]:
    """Yield the cause as far as the log shows it, and what this kind of failure is."""
    cause = told.cause
    yield "## Root cause, as far as the log shows it"
    yield f"**{cause.sureness.value}**"
    if cause.because:
        yield "\n".join(f"- {escape(one)}" for one in cause.because)
    yield f"What this kind of failure is: {_meaning(told)}"


def _meaning(told: Study) -> str:
    """Return the paragraph of ``stabdiag explain`` on what an outcome means; it is Markdown."""
    page = explain(told.report.diagnosis.slug, told.report.limits)
    meaning = page.partition("## What it means\n")[2].partition("\n## ")[0]
    # On one line: some sites break lines where a paragraph of Markdown does.
    return " ".join(meaning.split())
