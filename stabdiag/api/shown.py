"""Reports and comparisons with output methods: terminal, notebook and JSON."""

from __future__ import annotations

import json
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn

from stabdiag.model import comparison as compared
from stabdiag.model import report as reported

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderResult

    from stabdiag.formats import Kind


class _Displayable:
    """Output methods shared by reports and comparisons."""

    _kind: ClassVar[Kind]
    _attribute: ClassVar[str]

    def to_json(self) -> str:
        """Return strict JSON, schema 2.

        >>> from stabdiag import compare
        >>> found = compare([{"loss": [3.0, 2.0]}, {"loss": [3.0, 2.5]}], kind="reruns")
        >>> json.loads(found.to_json())["kind"]
        'reruns'
        """
        from stabdiag.formats import render

        return render(self, "json", self._kind)

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON object, findings and all.

        >>> from stabdiag import diagnose
        >>> found = diagnose({"loss": [2.0] * 40}).to_dict()
        >>> found["findings"][0] == found["diagnosis"]
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
        raise TypeError(f"the truth value of a {self._kind} is ambiguous; use {self._attribute}")


class Report(_Displayable, reported.Report):
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


class Comparison(_Displayable, compared.Comparison):
    """The result of a comparison of runs, with output methods.

    A comparison has no truth value; use ``comparison.diagnosis``.
    """

    _kind = "comparison"
    _attribute = "comparison.diagnosis"
