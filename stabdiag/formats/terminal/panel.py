"""The panel of a watch: the last values, findings and answers so far."""

from __future__ import annotations

from collections.abc import Iterator

from rich.text import Text

from stabdiag.formats.canvas import View, strip
from stabdiag.formats.measured import number
from stabdiag.formats.terminal.page import Page
from stabdiag.formats.terminal.sections import ACCENT, ANSWER_STYLES, BADGE, answer_word
from stabdiag.model.edges import NAMES
from stabdiag.model.findings import AnswerScope, Verdict
from stabdiag.model.history import History
from stabdiag.model.report import Report
from stabdiag.model.text import plural

# The series to show first.
_FIRST_SERIES = (
    "loss",
    "eval_loss",
    "grad_norm",
    "lr",
    "loss_scale",
    "tokens_per_second",
    "step_time",
)
_MOST_VALUES = 6
_MOST_FINDINGS = 4
_LABEL_WIDTH = 8


def lines(report: Report | None, page: Page, *, name: str, status: str) -> Iterator[Text]:
    """Yield the lines of the panel."""
    yield _title(name, report, page)
    if report is not None:
        yield from _values(report.history, page)
        yield from _curve(report.history, page)
        yield from _verdict(report, page)
        yield from _trail(report, page)
    yield Text(page.clip(status, page.width), "dim")


def _title(name: str, report: Report | None, page: Page) -> Text:
    """Return the name of the log (the file name if the path is long) and the last step."""
    if report is None:
        return Text(page.clip(name, page.width), "bold")
    records = plural(report.history.source.records, "record")
    reached = f"  {report.history.unit} {report.history.last_step}, {records}"
    room = page.width - len(reached)
    if page.text(name).cell_len > room:
        name = name.rpartition("/")[2]
    return Text(page.clip(f"{page.clip(name, max(room, 1))}{reached}", page.width), "bold")


def _values(history: History, page: Page) -> Iterator[Text]:
    """Yield the last value of each series; groups are left out because there are too many."""
    plain = [role for role in history.series if "/" not in role and role != "batch_id"]
    roles = sorted(
        plain,
        key=lambda role: _FIRST_SERIES.index(role) if role in _FIRST_SERIES else len(_FIRST_SERIES),
    )
    logged = [history.series[role] for role in roles[:_MOST_VALUES]]
    values = [
        f"{series.role} {number(float(series.values[-1]))}" for series in logged if len(series)
    ]
    yield from page.wrap(", ".join(values), _label("last", page))


def _curve(history: History, page: Page) -> Iterator[Text]:
    loss = history.get("loss")
    columns = page.width - _LABEL_WIDTH
    if loss is None or len(loss.finite()) < 2 or columns < 1:
        return
    view = View(first=int(loss.steps[0]), last=int(loss.steps[-1]), columns=columns)
    bars = strip(loss, view, ascii=page.ascii)
    yield page.line(_label("loss", page), page.text(bars, "cyan"))


def _verdict(report: Report, page: Page) -> Iterator[Text]:
    findings = report.findings
    for finding in findings[:_MOST_FINDINGS]:
        is_first = finding is findings[0]
        badge = page.text(
            finding.severity.value.upper(), (BADGE if is_first else ACCENT)[finding.severity]
        )
        room = page.width - _LABEL_WIDTH - badge.cell_len - 2
        headline = page.clip(f"{finding.headline}  [{finding.slug}]", room)
        yield page.line(_label("so far" if is_first else "", page), badge, "  ", headline)
    hidden = len(findings) - _MOST_FINDINGS
    if hidden > 0:
        yield page.line(_label("", page), f"and {hidden} more")


def _trail(report: Report, page: Page) -> Iterator[Text]:
    """Yield each question about the run with its answer in one word."""
    answers = [answer for answer in report.tree.answers if answer.scope is AnswerScope.RUN]
    words = Text("  ").join(
        Text(f"{NAMES[answer.question]} {answer_word(answer)}", ANSWER_STYLES[answer.verdict])
        for answer in answers
    )
    yield from page.wrap(words, _label("trail", page))
    unknown = sum(answer.verdict is Verdict.UNKNOWN for answer in answers)
    if unknown:
        yield page.line(_label("", page), page.text(f"? {unknown} undecided so far", "dim"))


def _label(name: str, page: Page) -> Text:
    return page.text(f"{name:<{_LABEL_WIDTH}}", "dim")
