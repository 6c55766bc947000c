"""The short document on a run that has nothing to write up."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stabdiag.findings import Severity, Verdict
from stabdiag.formats.markdown_text import escape, table
from stabdiag.words import uncapitalised, whole_sentence

if TYPE_CHECKING:
    from collections.abc import Iterator

    from stabdiag.report import Report


def title(report: Report) -> str:
    """Return the title, as plain text."""
    found = report.diagnosis
    if found.severity is Severity.WARNING:
        return f"Short post-mortem: {found.title}"
    return f"No post-mortem to write: {uncapitalised(found.title)}"


def quiet(report: Report) -> Iterator[str]:
    """Yield what was found, what was tested, what was not, and where to look if it failed."""
    yield f"# {escape(title(report))}"
    yield f"**Run.** {escape(report.history.source.name)}"
    found, rest = report.diagnosis, report.also_found
    told = f"{whole_sentence(found.summary)} {report.otherwise}".rstrip()
    yield f"**What was found.** {escape(told)}"
    if found.first_action:
        yield f"**What to do.** {escape(found.first_action)}"
    yield "## What was asked"
    rows = [[a.question, escape(a.asks), a.word, escape(a.because)] for a in report.tree.answers]
    yield table(["Question", "What it asks", "Answer", "Because"], rows)
    if rest:
        yield "## What was noticed beside it"
        yield "\n".join(
            f"- {one.severity}, {escape(one.title)} (`{one.slug}`): "
            f"{escape(whole_sentence(one.summary))} {escape(one.first_action)}"
            for one in rest
        )
    yield "## If the run failed nevertheless"
    yield "\n".join(f"- {hint}" for hint in _hints(report))


def _hints(report: Report) -> Iterator[str]:
    source = report.history.source
    open_ = [a.question for a in report.tree.answers if a.verdict is Verdict.UNKNOWN]
    if source.attempts > 1:
        yield (
            f"The log holds {source.attempts} runs, and this is number {source.attempt}: "
            "`--attempt N` takes another."
        )
    if open_:
        yield f"These questions could not be answered: {', '.join(open_)}."
    for missing in report.not_logged:
        yield f"Not logged: {escape(missing.role)}; {escape(missing.cost)}."
    loss = report.history.get("loss")
    if loss is not None:
        yield f"The loss was read from {escape(loss.column)}: `--column loss=NAME` takes another."
    yield (
        "A crash, a hang or an error outside of the training loop leaves no trace in its scalars: "
        "look at what every rank printed last."
    )
