"""What an outcome, a symptom, a finding of a comparison, a question or a limit means, as Markdown.

The texts are Markdown files beside this module, with fixed headings; ``model.text`` reads them.
Limits are explained from their declarations.
"""

from __future__ import annotations

import re
from functools import cache
from textwrap import fill
from typing import TYPE_CHECKING

from stabdiag.errors import StabdiagError, did_you_mean
from stabdiag.formats.limits import bounds
from stabdiag.model.edges import BY_SLUG, OUTCOMES, QUESTIONS, Question
from stabdiag.model.text import filled, kept_text, limits_in

if TYPE_CHECKING:
    from collections.abc import Collection

    from stabdiag.baseline.outcomes import BaselineOutcome
    from stabdiag.comparison.outcomes import Outcome as Compared
    from stabdiag.model.limits import LimitInfo, Limits
    from stabdiag.symptoms import Symptom

_WIDTH = 100

_QUESTIONS = {question.id: question for question in QUESTIONS}


def explain(name: str, limits: Limits) -> str:
    """Explain a finding (by slug), a question (Q2.1) or a limit (spike.sigma), as Markdown.

    Findings are outcomes of the tree, symptoms, and what is found of several runs. Where a name is
    none of these but words that several pages hold, return the list of these.

    Raises:
        StabdiagError: for a name that nothing has.
    """
    known = {one.lower(): one for one in names(limits)}
    found = [known[name.lower()]] if name.lower() in known else _fitting(name, limits)
    if not found:
        raise StabdiagError(
            f"nothing is called {name!r}{did_you_mean(name, names(limits))} "
            "(`stabdiag explain` lists all findings, questions and limits)"
        )
    if len(found) > 1:
        told = titles(limits)
        listed = "".join(
            f"- `{one}`: {_ended(told[one])}{_first_sentence(one, limits)}\n" for one in found
        )
        return f"# What fits {name!r}\n\n{listed}\n`stabdiag explain NAME` tells all of one.\n"
    return _told(found[0], limits)


def _told(wanted: str, limits: Limits) -> str:
    """Explain what has just this name."""
    symptoms, compared = _symptoms(), _compared()
    if wanted in BY_SLUG:
        return _outcome(wanted, limits)
    if wanted in symptoms:
        return _symptom(symptoms[wanted], limits)
    if wanted in compared:
        return _comparison(compared[wanted], limits)
    if wanted in (baselines := _baselines()):
        return _baseline(baselines[wanted], limits)
    if wanted in _QUESTIONS:
        return _question(_QUESTIONS[wanted], limits)
    return _limit(next(info for info in limits.items() if info.name == wanted))


def _fitting(words: str, limits: Limits) -> list[str]:
    """Return what holds all of some words in its name and title, else in its text."""
    wanted = words.lower().split()
    told = {name: f"{name} {title}".lower() for name, title in titles(limits).items()}
    for within in (told, {name: _told(name, limits).lower() for name in told}):
        if found := [name for name in told if all(word in within[name] for word in wanted)]:
            return found
    return []


def _first_sentence(name: str, limits: Limits) -> str:
    """Return what a page begins with; nothing for a limit, whose title says it."""
    if "." in name and name not in _QUESTIONS:
        return ""
    _, _, section = _told(name, limits).partition("\n## ")
    paragraph = section.split("\n\n")[1].replace("\n", " ")
    return f"\n  {_ended(paragraph.split('. ')[0])}"


def _ended(sentence: str) -> str:
    return sentence if sentence.endswith((".", "?")) else f"{sentence}."


def titles(limits: Limits) -> dict[str, str]:
    """Return everything that can be explained, with its title."""
    return {
        **{outcome.slug: outcome.title for outcome in OUTCOMES},
        **{symptom.slug: symptom.title for symptom in _symptoms().values()},
        **{one.slug: one.title for one in _compared().values()},
        **{outcome.slug: outcome.title for outcome in _baselines().values()},
        **{one.id: one.asked(limits) for one in _QUESTIONS.values()},
        **{info.name: info.why for info in limits.items()},
    }


def contents(limits: Limits) -> str:
    """Return all that can be explained, as Markdown."""
    groups = {
        "Outcomes": [(outcome.slug, outcome.title) for outcome in OUTCOMES],
        "Symptoms": [(symptom.slug, symptom.title) for symptom in _symptoms().values()],
        "Findings of comparisons": [(one.slug, one.title) for one in _compared().values()],
        "Findings against a baseline": [
            (outcome.slug, outcome.title) for outcome in _baselines().values()
        ],
        "Questions": [(one.id, one.asked(limits)) for one in _QUESTIONS.values()],
    }
    parts = (
        f"## {heading}\n\n" + "".join(f"- `{name}`: {title}\n" for name, title in found)
        for heading, found in groups.items()
    )
    named = ", ".join(info.name for info in limits.items())
    return "\n".join(["# What can be explained\n", *parts, f"## Limits\n\n{named}\n"])


def names(limits: Limits) -> tuple[str, ...]:
    """Return everything that can be explained: slugs, question ids, names of limits."""
    return tuple(titles(limits))


def _symptoms() -> dict[str, Symptom]:
    from stabdiag.symptoms import BY_SLUG

    return BY_SLUG


def _compared() -> dict[str, Compared]:
    from stabdiag.comparison.outcomes import BY_SLUG

    return BY_SLUG


def _baselines() -> dict[str, BaselineOutcome]:
    from stabdiag.baseline.outcomes import BY_SLUG

    return BY_SLUG


@cache
def _asking(limit: str) -> tuple[str, ...]:
    known: dict[str, Question | Compared] = {**_QUESTIONS, **_compared()}
    held: dict[str, Collection[str]] = {name: one.limits for name, one in known.items()}
    held |= {slug: limits_in(kept_text("symptoms", slug)) for slug in _symptoms()}
    return tuple(name for name, limits in held.items() if limit in limits)


def _outcome(slug: str, limits: Limits) -> str:
    outcome = BY_SLUG[slug]
    section = f", section {outcome.section.removeprefix('§')}" if outcome.section else ""
    facts = f"Severity: {outcome.severity.value}{section}."
    return _page("outcomes", slug, outcome.title, facts, limits)


def _question(question: Question, limits: Limits) -> str:
    needs = f"Needs: {', '.join(question.needs)}." if question.needs else ""
    told = _page("questions", question.id, question.asked(limits), needs, limits)
    return _with_limits(told, question.limits, limits, before="Answers")


def _symptom(symptom: Symptom, limits: Limits) -> str:
    needs = f" Needs: {', '.join(symptom.needs)}." if symptom.needs else ""
    facts = f"Severity: {symptom.severity.value}, symptom of {symptom.family}.{needs}"
    told = _page("symptoms", symptom.slug, symptom.title, facts, limits)
    held = limits_in(kept_text("symptoms", symptom.slug))
    told = _with_limits(told, held, limits, before="When it stays quiet")
    return _with_actions(told, [action.text for action in symptom.then])


def _with_actions(told: str, then: list[str]) -> str:
    """Go on with a page's list of what to do."""
    page, references, cited = told.partition("\n## References\n")
    first = len(re.findall(r"^\d+\. ", page, re.MULTILINE)) + 1
    listed = "".join(
        fill(f"{number}. {text}", _WIDTH, subsequent_indent="   ", break_on_hyphens=False) + "\n"
        for number, text in enumerate(then, first)
    )
    return f"{page}{listed}{references}{cited}"


def _comparison(outcome: Compared, limits: Limits) -> str:
    kinds = ", ".join(outcome.kinds)
    facts = f"Severity: {outcome.severity.value}, found by `stabdiag compare` of {kinds}."
    told = _page("comparisons", outcome.slug, outcome.title, facts, limits)
    return _with_limits(told, outcome.limits, limits, before="When it stays quiet")


def _baseline(outcome: BaselineOutcome, limits: Limits) -> str:
    facts = f"Severity: {outcome.severity.value}, found with `--baseline`."
    return _page("baselines", outcome.slug, outcome.title, facts, limits)


def _page(kind: str, name: str, title: str, facts: str, limits: Limits) -> str:
    """Return a text below its title and a line of facts, both from its declaration."""
    head = "\n\n".join(filter(None, (f"# {name}: {title}", facts)))
    return f"{head}\n\n{filled(kept_text(kind, name), limits)}"


def _with_limits(told: str, held: Collection[str], limits: Limits, *, before: str) -> str:
    """List the limits in force before a heading."""
    lines = [
        f"- `{i.name}` = {_value(i)} ({i.about.source})" for i in limits.items() if i.name in held
    ]
    if not lines:
        return told
    listed = "\n".join(lines)
    return told.replace(f"\n## {before}\n", f"\nLimits in force:\n\n{listed}\n\n## {before}\n", 1)


def _limit(info: LimitInfo) -> str:
    about, asked = info.about, ", ".join(_asking(info.name))
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
            *([f"- Asked in: {asked}"] if asked else []),
            "",
            "## To change it",
            "",
            f"With `--limit {info.name}=VALUE`, or in `stabdiag.toml` (now in force):",
            "",
            "```toml",
            f"[{section}]",
            f"{entry} = {value}",
            "```",
            "",
            f"In `pyproject.toml` the heading is `[tool.stabdiag.limits.{section}]`.",
            "",
        ]
    )


def _value(info: LimitInfo) -> str:
    changed = f" (default {info.default:g})" if info.overridden else ""
    return f"{info.value:g} {info.about.unit}{changed}"
