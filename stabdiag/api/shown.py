"""Reports and comparisons that show themselves: in a terminal, in a notebook, as JSON."""

from __future__ import annotations

import json
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn

from stabdiag.model import comparison as compared
from stabdiag.model import report as reported

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderResult

    from stabdiag.formats import Kind


class _Shown:
    """What reports and comparisons have in common."""

    _kind: ClassVar[Kind]
    _ask: ClassVar[str]

    def to_json(self) -> str:
        """Return it as strict JSON, schema 2.

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
        found: dict[str, Any] = json.loads(self.to_json())
        return found

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Show the terminal report where rich prints."""
        from stabdiag.formats import load_writer
        from stabdiag.formats.terminal.page import Printable

        yield Printable(lines=partial(load_writer("terminal", self._kind), self))

    def __bool__(self) -> NoReturn:
        """Refuse: what is there could be taken for what is good."""
        raise TypeError(f"a {self._kind} is neither true nor false; ask {self._ask}")


class Report(_Shown, reported.Report):
    """One diagnosis with all that led to it, which writes and shows itself.

    It is neither true nor false; ``report.ok`` says whether all is well.

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
    _ask = "report.ok"

    def __str__(self) -> str:
        """Return the terminal report."""
        from stabdiag.formats import render

        return render(self, "terminal")

    def _repr_html_(self) -> str:
        """Show the report in a notebook."""
        from stabdiag.formats.html import notebook

        return notebook(self)


class Comparison(_Shown, compared.Comparison):
    """What was found of several runs, which writes and shows itself.

    It is neither true nor false; ``comparison.diagnosis`` says what was found.
    """

    _kind = "comparison"
    _ask = "comparison.diagnosis"
