"""Reports and comparisons with output methods: terminal, notebook, JSON and pandas."""

from __future__ import annotations

import json
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Final, NoReturn

from stabdiag.model import comparison as compared
from stabdiag.model import report as reported

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderResult

    from stabdiag.formats import Kind
    from stabdiag.model.findings import Finding
    from stabdiag.model.frames import DataFrame

# The columns of a DataFrame of findings.
_FINDING_COLUMNS: Final = (
    *("slug", "severity", "confidence", "section", "question", "step", "title", "summary"),
    *("action_kind", "action"),
)


class Displayable:
    """Output methods shared by reports, comparisons and overviews."""

    _kind: ClassVar[Kind]
    _attribute: ClassVar[str]

    def to_json(self) -> str:
        """Return strict JSON, schema 2.

        >>> from stabdiag import compare
        >>> comparison = compare([{"loss": [3.0, 2.0]}, {"loss": [3.0, 2.5]}], kind="reruns")
        >>> json.loads(comparison.to_json())["kind"]
        'reruns'
        """
        from stabdiag.formats import render

        return render(self, "json", self._kind)

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON object, findings and all.

        >>> from stabdiag import diagnose
        >>> report = diagnose({"loss": [2.0] * 40}).to_dict()
        >>> report["findings"][0] == report["diagnosis"]
        True
        """
        content: dict[str, Any] = json.loads(self.to_json())
        return content

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Render the terminal report for rich."""
        from stabdiag.formats import load_writer
        from stabdiag.formats.terminal.page import Printable

        yield Printable(lines=partial(load_writer("terminal", self._kind), self))

    def __bool__(self) -> NoReturn:
        """Refuse: truth could be mistaken for a healthy result."""
        article = "an" if self._kind == "overview" else "a"
        raise TypeError(
            f"the truth value of {article} {self._kind} is ambiguous; use {self._attribute}"
        )


class _WithFindings(Displayable):
    """Output methods of a result that has findings."""

    findings: tuple[Finding, ...]

    def to_pandas(self) -> DataFrame:
        """Return a DataFrame with one row for each finding, the worst first.

        ``action_kind`` and ``action`` are the first action.

        >>> from stabdiag import diagnose
        >>> frame = diagnose({"loss": [2.0] * 39 + [float("nan")]}).to_pandas()
        >>> frame[["slug", "severity", "step"]]
                        slug severity  step
        0  nan-dtype-unknown    error    39
        """
        from stabdiag.model.frames import data_frame

        rows = [_finding_row(finding) for finding in self.findings]
        columns = {name: [row[name] for row in rows] for name in _FINDING_COLUMNS}
        return data_frame(columns, counts=("step",))


def _finding_row(finding: Finding) -> dict[str, object]:
    """Return the fields of a finding and of its first action."""
    first = next(iter(finding.actions), None)
    return {
        "slug": finding.slug,
        "severity": finding.severity.value,
        "confidence": finding.confidence.value,
        "section": finding.section,
        "question": finding.question,
        "step": finding.step,
        "title": finding.title,
        "summary": finding.summary,
        "action_kind": None if first is None else first.kind.value,
        "action": None if first is None else first.text,
    }


class Report(_WithFindings, reported.Report):
    """A diagnosis with its evidence and output methods.

    A report has no truth value; use ``report.ok``.

    >>> from stabdiag import diagnose
    >>> report = diagnose({"loss": [2.0] * 39 + [float("inf")]}, settings={"dtype": "fp32"})
    >>> report.ok, report.diagnosis.slug, report.diagnosis.step
    (False, 'nan-fp32', 39)
    >>> print(report.diagnosis.first_action)  # doctest: +ELLIPSIS
    Reload ...
    >>> [answer.verdict.value for answer in report.tree.answers][:1]
    ['yes']
    """

    _kind = "report"
    _attribute = "report.ok"

    def __str__(self) -> str:
        """Return the terminal report."""
        from stabdiag.formats import render

        return render(self, "terminal")

    def _repr_html_(self) -> str:
        """Return the report as HTML for a notebook."""
        from stabdiag.formats.html import notebook

        return notebook(self)


class Comparison(_WithFindings, compared.Comparison):
    """The result of a comparison of runs, with output methods.

    A comparison has no truth value; use ``comparison.diagnosis``.
    """

    _kind = "comparison"
    _attribute = "comparison.diagnosis"

    def _repr_html_(self) -> str:
        """Return the comparison as a page for a notebook."""
        from stabdiag.formats import render
        from stabdiag.formats.html import framed

        return framed(render(self, "html", self._kind), title=self.diagnosis.title)
