"""The pages of what ``stabdiag explain`` tells, with the defaults filled in."""

from __future__ import annotations

from build_pictures import has_run

from stabdiag.comparison.outcomes import BY_SLUG as COMPARED
from stabdiag.explain import explain, names
from stabdiag.formats import render
from stabdiag.model.edges import BY_SLUG
from stabdiag.model.limits import Limits
from stabdiag.symptoms import BY_SLUG as SYMPTOMS

PAGES = {
    "outcomes": "The findings of the tree, worst first within each section.",
    "symptoms": "The checks outside the tree, by family.",
    "comparisons": "What `stabdiag compare` finds, worst first; [the guide](compare.md) shows how "
    "to use it.",
    "questions": "The questions of the tree, in order.",
    "limits": "Every threshold, with its default and its reason.",
}


def explained(kind: str) -> str:
    """Return one of the pages as Markdown."""
    limits = Limits()
    made = "<!-- Made by docs/build.py; edit the texts in stabdiag/explain, not this page. -->"
    head = f"# {kind.capitalize()}\n\n{PAGES[kind]}\n\n{made}\n\n"
    if kind == "limits":
        return head + render(limits, "markdown", "limits")
    kinds = {"outcomes": set(BY_SLUG), "symptoms": set(SYMPTOMS), "comparisons": set(COMPARED)}
    members = kinds.get(kind) or {name for name in names(limits) if name[0] == "Q"}
    selected = [name for name in names(limits) if name in members]
    contents = (_lowered(explain(name, limits)) for name in selected)
    if kind == "symptoms":
        contents = (
            _illustrated(name, content) for name, content in zip(selected, contents, strict=True)
        )
    return head + "\n".join(contents)


def _illustrated(slug: str, content: str) -> str:
    """Put the picture of a run that shows a symptom, if there is one, below its title and facts."""
    if not has_run(SYMPTOMS[slug]):
        return content
    title, facts, body = content.split("\n\n", 2)
    return f"{title}\n\n{facts}\n\n![What a run logged](symptoms/{slug}.svg)\n\n{body}"


def _lowered(content: str) -> str:
    """Put all headings one level deeper, below the page's own."""
    return "".join(
        f"#{line}" if line.startswith("#") else line for line in content.splitlines(keepends=True)
    )
