"""What an outcome, a question or a limit means, as Markdown.

The texts are Markdown files beside this module, with fixed headings; ``{spike.sigma}`` in a text
is that limit's value in force. Limits are explained from their declarations.
"""

from __future__ import annotations

import re
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING

from stabdiag.errors import StabdiagError, did_you_mean
from stabdiag.formats.limits.rows import bounds
from stabdiag.tree.outcomes import BY_SLUG, OUTCOMES

if TYPE_CHECKING:
    from stabdiag.limits import LimitInfo, Limits
    from stabdiag.tree.question import Question

OUTCOME_HEADINGS = ("What it means", "How it is told", "What to do", "References")
QUESTION_HEADINGS = ("Why it is asked", "How it is measured", "Answers", "References")

_LIMIT = re.compile(r"\{([a-z]+\.[a-z_]+)\}")


def explain(name: str, limits: Limits) -> str:
    """Explain an outcome (by slug), a question (Q2.1) or a limit (spike.sigma) in Markdown.

    Raises:
        StabdiagError: for a name that is none of these.
    """
    questions = {question.id: question for question in _questions()}
    infos = {info.name: info for info in limits.items()}
    wanted = next((known for known in names(limits) if known.lower() == name.lower()), None)
    if wanted is None:
        raise StabdiagError(
            f"nothing is called {name!r}{did_you_mean(name, names(limits))}; "
            "explain takes an outcome's slug, a question (Q2.1) or a limit (spike.sigma)"
        )
    if wanted in BY_SLUG:
        return _outcome(wanted, limits)
    if wanted in questions:
        return _question(questions[wanted], limits)
    return _limit(infos[wanted])


def names(limits: Limits) -> tuple[str, ...]:
    """Return everything that can be explained: slugs, question ids, names of limits."""
    return (
        *(outcome.slug for outcome in OUTCOMES),
        *(question.id for question in _questions()),
        *(info.name for info in limits.items()),
    )


def text(kind: str, name: str) -> str:
    """Return the text as it is kept, limits not filled in; kind is outcomes or questions."""
    return files("stabdiag.explain").joinpath(kind, f"{name}.md").read_text(encoding="utf-8")


def _questions() -> tuple[Question, ...]:
    # Here and not above: the tree imports the statistics, which the texts do without.
    from stabdiag.tree import QUESTIONS

    return QUESTIONS


@cache
def _asking(limit: str) -> tuple[str, ...]:
    return tuple(question.id for question in _questions() if limit in question.limits)


def _outcome(slug: str, limits: Limits) -> str:
    outcome = BY_SLUG[slug]
    section = f", section {outcome.section}" if outcome.section else ""
    return _with_facts(
        _filled(text("outcomes", slug), limits), f"Severity: {outcome.severity.value}{section}."
    )


def _question(question: Question, limits: Limits) -> str:
    needs = f" Needs: {', '.join(question.needs)}." if question.needs else ""
    told = _with_facts(
        _filled(text("questions", question.id), limits), f"Asked as: {question.asks}{needs}"
    )
    held = [info for info in limits.items() if info.name in question.limits]
    if not held:
        return told
    lines = "\n".join(f"- `{info.name}` = {_value(info)}" for info in held)
    return told.replace("\n## Answers\n", f"\nLimits in force:\n\n{lines}\n\n## Answers\n", 1)


def _limit(info: LimitInfo) -> str:
    about, asked = info.about, ", ".join(_asking(info.name))
    value = repr(info.value)
    section, _, entry = info.name.partition(".")
    return "\n".join(
        [
            f"# {info.name}",
            "",
            about.why,
            "",
            f"- In force: {_value(info)}",
            f"- Range: {bounds(info)}",
            f"- Source of the default: {about.source}",
            *([f"- Asked in: {asked}"] if asked else []),
            "",
            "## To change it",
            "",
            f"`--limit {info.name}={value}`, or in a file of limits:",
            "",
            "```toml",
            f"[{section}]",
            f"{entry} = {value}",
            "```",
            "",
        ]
    )


def _value(info: LimitInfo) -> str:
    changed = f" (default {info.default:g})" if info.overridden else ""
    return f"{info.value:g} {info.about.unit}{changed}"


def _filled(content: str, limits: Limits) -> str:
    values = {info.name: f"{info.value:g}" for info in limits.items()}
    return _LIMIT.sub(lambda found: values[found.group(1)], content)


def _with_facts(content: str, facts: str) -> str:
    """Put a line of derived facts below the title."""
    title, _, rest = content.partition("\n")
    return f"{title}\n\n{facts}\n{rest}"
