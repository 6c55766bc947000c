"""Explain an outcome, symptom, comparison finding, question or limit, as Markdown.

The texts are Markdown files with fixed headings, which ``model.text`` reads: next to this module
or, for a symptom, in the folder of its family. Limits are explained from their declarations.
"""

from __future__ import annotations

import re
from functools import cache
from textwrap import fill
from typing import TYPE_CHECKING

from stabdiag.errors import StabdiagError, did_you_mean
from stabdiag.explain.search import search
from stabdiag.formats.limits import bounds
from stabdiag.model.edges import OUTCOME_BY_SLUG, OUTCOMES, QUESTIONS, Question
from stabdiag.model.text import filled, find_limit_names, kept_text

if TYPE_CHECKING:
    from collections.abc import Collection

    from stabdiag.comparison.outcomes import ComparisonOutcome
    from stabdiag.model.limits import LimitInfo, Limits
    from stabdiag.symptoms.baseline.outcomes import BaselineOutcome
    from stabdiag.symptoms.symptom import Symptom

_TEXT_WIDTH = 100

_QUESTIONS = {question.id: question for question in QUESTIONS}


def explain(name: str, limits: Limits) -> str:
    """Explain a finding (by slug), a question (Q2.1) or a limit (spike.sigma), as Markdown.

    Findings are outcomes of the tree, symptoms, and outcomes of comparisons and baselines. If no
    entry has this name, its words are searched for; if several entries match, they are listed.

    Raises:
        StabdiagError: if nothing has this name.
    """
    names_by_lowercase = {known_name.lower(): known_name for known_name in names(limits)}
    exact = names_by_lowercase.get(name.lower())
    matches = [exact] if exact else _find_pages(name, limits)
    if not matches:
        raise StabdiagError(
            f"no finding, question or limit is named {name!r}{did_you_mean(name, names(limits))} "
            "(`stabdiag explain` lists all of them)"
        )
    if len(matches) > 1:
        title_of = titles(limits)
        entries = "".join(
            f"- `{match}`: {_with_period(title_of[match])}{_first_sentence(match, limits)}\n"
            for match in matches
        )
        return (
            f"# Pages that match {name!r}\n\n{entries}\n"
            "Run `stabdiag explain NAME` for the full entry.\n"
        )
    return _full_entry(matches[0], limits)


def _full_entry(name: str, limits: Limits) -> str:
    symptoms, comparisons = _symptoms(), _comparisons()
    if name in OUTCOME_BY_SLUG:
        return _outcome(name, limits)
    if name in symptoms:
        return _symptom(symptoms[name], limits)
    if name in comparisons:
        return _comparison(comparisons[name], limits)
    if name in (baselines := _baselines()):
        return _baseline(baselines[name], limits)
    if name in _QUESTIONS:
        return _question(_QUESTIONS[name], limits)
    return _limit(next(info for info in limits.items() if info.name == name))


def _find_pages(query: str, limits: Limits) -> list[str]:
    """Return the entries that match some words, or a part of a name; the best first."""
    title_of, part = titles(limits), query.strip().lower()
    if part and (matches := [name for name in title_of if part in name]):
        return matches
    headings = {name: f"{name} {title}" for name, title in title_of.items()}
    return search(query, headings, {name: _full_entry(name, limits) for name in title_of})


def _first_sentence(name: str, limits: Limits) -> str:
    """Return the first sentence of an entry, empty for a limit, whose title is enough."""
    if "." in name and name not in _QUESTIONS:
        return ""
    _, _, section = _full_entry(name, limits).partition("\n## ")
    paragraph = section.split("\n\n")[1].replace("\n", " ")
    return f"\n  {_with_period(paragraph.split('. ')[0])}"


def _with_period(sentence: str) -> str:
    return sentence if sentence.endswith((".", "?")) else f"{sentence}."


def titles(limits: Limits) -> dict[str, str]:
    """Return the title of every entry, by name."""
    return {
        **{outcome.slug: outcome.title for outcome in OUTCOMES},
        **{symptom.slug: symptom.title for symptom in _symptoms().values()},
        **{outcome.slug: outcome.title for outcome in _comparisons().values()},
        **{outcome.slug: outcome.title for outcome in _baselines().values()},
        **{question.id: question.text(limits) for question in _QUESTIONS.values()},
        **{info.name: info.why for info in limits.items()},
    }


def contents(limits: Limits) -> str:
    """List all entries, as Markdown."""
    groups = {
        "Outcomes": [(outcome.slug, outcome.title) for outcome in OUTCOMES],
        "Symptoms": [(symptom.slug, symptom.title) for symptom in _symptoms().values()],
        "Findings of comparisons": [
            (outcome.slug, outcome.title) for outcome in _comparisons().values()
        ],
        "Findings against a baseline": [
            (outcome.slug, outcome.title) for outcome in _baselines().values()
        ],
        "Questions": [(question.id, question.text(limits)) for question in _QUESTIONS.values()],
    }
    parts = (
        f"## {heading}\n\n" + "".join(f"- `{name}`: {title}\n" for name, title in entries)
        for heading, entries in groups.items()
    )
    limit_names = ", ".join(info.name for info in limits.items())
    return "\n".join(["# Entries\n", *parts, f"## Limits\n\n{limit_names}\n"])


def names(limits: Limits) -> tuple[str, ...]:
    """Return the names of all entries: slugs, question ids, limit names."""
    return tuple(titles(limits))


def _symptoms() -> dict[str, Symptom]:
    from stabdiag.symptoms.registry import SYMPTOM_BY_SLUG

    return SYMPTOM_BY_SLUG


def _comparisons() -> dict[str, ComparisonOutcome]:
    from stabdiag.comparison.outcomes import COMPARISON_OUTCOME_BY_SLUG

    return COMPARISON_OUTCOME_BY_SLUG


def _baselines() -> dict[str, BaselineOutcome]:
    from stabdiag.symptoms.baseline.outcomes import BASELINE_OUTCOME_BY_SLUG

    return BASELINE_OUTCOME_BY_SLUG


@cache
def _users_of_limit(limit: str) -> tuple[str, ...]:
    declarations: dict[str, Question | ComparisonOutcome] = {**_QUESTIONS, **_comparisons()}
    limits_by_user: dict[str, Collection[str]] = {
        name: declaration.limits for name, declaration in declarations.items()
    }
    limits_by_user |= {slug: find_limit_names(kept_text("symptoms", slug)) for slug in _symptoms()}
    return tuple(name for name, limits in limits_by_user.items() if limit in limits)


def _outcome(slug: str, limits: Limits) -> str:
    outcome = OUTCOME_BY_SLUG[slug]
    section = f", section {outcome.section.removeprefix('§')}" if outcome.section else ""
    facts = f"Severity: {outcome.severity.value}{section}."
    return _page("outcomes", slug, outcome.title, facts, limits)


def _question(question: Question, limits: Limits) -> str:
    needs = f"Needs: {', '.join(question.needs)}." if question.needs else ""
    page = _page("questions", question.id, question.text(limits), needs, limits)
    return _with_limits(page, question.limits, limits, before="Answers")


def _symptom(symptom: Symptom, limits: Limits) -> str:
    needs = f" Needs: {', '.join(symptom.needs)}." if symptom.needs else ""
    facts = f"Severity: {symptom.severity.value}, family {symptom.family}.{needs}"
    page = _page("symptoms", symptom.slug, symptom.title, facts, limits)
    limit_names = find_limit_names(kept_text("symptoms", symptom.slug))
    page = _with_limits(page, limit_names, limits, before="When it stays quiet")
    return _with_actions(page, [action.text for action in symptom.next_actions])


def _with_actions(page: str, actions: list[str]) -> str:
    """Append actions to a page's numbered list under "What to do"."""
    body, heading, citations = page.partition("\n## References\n")
    first = len(re.findall(r"^\d+\. ", body, re.MULTILINE)) + 1
    items = "".join(
        fill(f"{number}. {text}", _TEXT_WIDTH, subsequent_indent="   ", break_on_hyphens=False)
        + "\n"
        for number, text in enumerate(actions, first)
    )
    return f"{body}{items}{heading}{citations}"


def _comparison(outcome: ComparisonOutcome, limits: Limits) -> str:
    kinds = ", ".join(outcome.kinds)
    facts = f"Severity: {outcome.severity.value}, found by `stabdiag compare` of {kinds}."
    page = _page("comparisons", outcome.slug, outcome.title, facts, limits)
    return _with_limits(page, outcome.limits, limits, before="When it stays quiet")


def _baseline(outcome: BaselineOutcome, limits: Limits) -> str:
    facts = f"Severity: {outcome.severity.value}, found with `--baseline`."
    return _page("baselines", outcome.slug, outcome.title, facts, limits)


def _page(kind: str, name: str, title: str, facts: str, limits: Limits) -> str:
    """Return an entry's text under its title and facts, which come from its declaration."""
    head = "\n\n".join(filter(None, (f"# {name}: {title}", facts)))
    return f"{head}\n\n{filled(kept_text(kind, name), limits)}"


def _with_limits(page: str, names: Collection[str], limits: Limits, *, before: str) -> str:
    """Insert the values of the named limits before a heading."""
    lines = [
        f"- `{info.name}` = {_value(info)} ({info.about.source})"
        for info in limits.items()
        if info.name in names
    ]
    if not lines:
        return page
    section = "\n".join(["Limits in force:", "", *lines])
    return page.replace(f"\n## {before}\n", f"\n{section}\n\n## {before}\n", 1)


def _limit(info: LimitInfo) -> str:
    about, users = info.about, ", ".join(_users_of_limit(info.name))
    value = repr(info.value)
    section, _, entry = info.name.partition(".")
    return "\n".join(
        [
            f"# {info.name}",
            "",
            info.why,
            "",
            f"- In force: {_value(info)}",
            f"- Range: {bounds(info)}",
            f"- Source of the default: {about.source}",
            *([f"- Used in: {users}"] if users else []),
            "",
            "## To change it",
            "",
            f"Use `--limit {info.name}=VALUE`, or `stabdiag.toml` (with the value in force):",
            "",
            "```toml",
            f"[{section}]",
            f"{entry} = {value}",
            "```",
            "",
            f"In `pyproject.toml` the table is `[tool.stabdiag.limits.{section}]`.",
            "",
        ]
    )


def _value(info: LimitInfo) -> str:
    changed = f" (default {info.default:g})" if info.overridden else ""
    return f"{info.value:g} {info.about.unit}{changed}"
