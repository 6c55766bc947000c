"""Write a page of the documentation: ``python -m stabdiag.explain outcomes > docs/outcomes.md``.

Pages are made from the texts, with the defaults filled in.
"""

from __future__ import annotations

import sys

from stabdiag.comparison.outcomes import BY_SLUG as COMPARED
from stabdiag.explain import explain, names
from stabdiag.formats import render
from stabdiag.model.leaves import BY_SLUG
from stabdiag.model.limits import Limits
from stabdiag.symptoms import BY_SLUG as SYMPTOMS

PAGES = {
    "outcomes": "What can be found, worst first within each section of the tree.",
    "symptoms": "What is checked beside the tree, by family, from what a log and a manifest tell.",
    "comparisons": "What `stabdiag compare` finds of several runs, worst first; "
    "[the page](compare.md) tells how it is used.",
    "questions": "What is asked of a run, in the order of the tree.",
    "limits": "Every threshold, with its default and its reason.",
}


def page(kind: str) -> str:
    """Return one page of the documentation as Markdown."""
    limits = Limits()
    made = f"<!-- Made by `python -m stabdiag.explain {kind}`; edit the texts, not this page. -->"
    head = f"# {kind.capitalize()}\n\n{PAGES[kind]}\n\n{made}\n\n"
    if kind == "limits":
        return head + render(limits, "markdown", "limits")
    kinds = {"outcomes": set(BY_SLUG), "symptoms": set(SYMPTOMS), "comparisons": set(COMPARED)}
    known = kinds.get(kind) or {name for name in names(limits) if name[0] == "Q"}
    wanted = [name for name in names(limits) if name in known]
    told = (_lowered(explain(name, limits)) for name in wanted)
    if kind == "symptoms":
        told = (_illustrated(name, content) for name, content in zip(wanted, told, strict=True))
    return head + "\n".join(told)


def _illustrated(slug: str, content: str) -> str:
    """Put the picture of a run that shows a symptom below its title and facts."""
    title, facts, rest = content.split("\n\n", 2)
    return f"{title}\n\n{facts}\n\n![What a run logged](symptoms/{slug}.svg)\n\n{rest}"


def _lowered(content: str) -> str:
    """Put all headings one level deeper, below the page's own."""
    return "".join(
        f"#{line}" if line.startswith("#") else line for line in content.splitlines(keepends=True)
    )


def main(arguments: list[str]) -> int:
    """Write one page to standard output; 2 for a page that does not exist."""
    if len(arguments) != 1 or arguments[0] not in PAGES:
        sys.stderr.write(f"usage: python -m stabdiag.explain {{{','.join(PAGES)}}}\n")
        return 2
    sys.stdout.write(page(arguments[0]))
    return 0


if __name__ == "__main__":  # pragma: no cover
    sys.exit(main(sys.argv[1:]))
