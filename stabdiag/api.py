"""From a log to a report: the way that the command line and the Python API share."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from stabdiag.assemble import build_history
from stabdiag.assemble.inputs import (
    in_its_steps,
    infer,
    limits_from,
    loaded_run,
    manifest_from,
    raw_columns,
)
from stabdiag.errors import StabdiagError, refuse_unknown
from stabdiag.model import comparison as compared
from stabdiag.model import report as reported
from stabdiag.model.findings import Severity
from stabdiag.model.history import History
from stabdiag.model.limits import Limits
from stabdiag.model.manifest import Manifest
from stabdiag.model.text import plural
from stabdiag.symptoms import Checked, check_symptoms, worst_first
from stabdiag.tree.advice.shared import with_changes
from stabdiag.tree.case import Case
from stabdiag.tree.literal import LiteralCase
from stabdiag.tree.nothing_found import not_logged
from stabdiag.tree.walk import walk

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TypeVar

    from rich.console import Console, ConsoleOptions, RenderResult

    from stabdiag.model.findings import Baseline, Finding

    One = TypeVar("One")
    Other = TypeVar("Other")

# Sections whose errors are about the same trouble: a climb may look like a jump at first.
_LOSS_WENT_UP = ("§2", "§4")

# From this many losses on, a second thread pays.
_LONG = 50_000

# Losses may be infinite or huge; results are then infinite or NaN, and reported as such.
_quiet = np.errstate(all="ignore")


class Report(reported.Report):
    """One diagnosis with all that led to it, which writes and shows itself.

    It is neither true nor false; ``report.ok`` says whether all is well.

    >>> report = diagnose({"loss": [2.0] * 39 + [float("inf")]}, settings={"dtype": "fp32"})
    >>> report.ok, report.diagnosis.slug, report.diagnosis.step
    (False, 'nan-fp32', 39)
    >>> print(report.diagnosis.first_action)  # doctest: +ELLIPSIS
    Reload ...
    >>> [answer.verdict.value for answer in report.tree.answers][:1]
    ['yes']
    """

    def to_json(self) -> str:
        """Return the report as strict JSON, schema 2.

        >>> report = diagnose({"loss": [2.0] * 40})
        >>> json.loads(report.to_json())["diagnosis"]["slug"]
        'loss-constant'
        """
        from stabdiag.formats import render

        return render(self, "json")

    def to_dict(self) -> dict[str, Any]:
        """Return the report as the JSON object, schema 2, findings and all.

        >>> found = diagnose({"loss": [2.0] * 40}).to_dict()
        >>> found["findings"][0] == found["diagnosis"]
        True
        >>> len(json.dumps(found["findings"])) > 100
        True
        """
        found: dict[str, Any] = json.loads(self.to_json())
        return found

    def __bool__(self) -> NoReturn:
        """Refuse: a report that is there could be taken for one that is good."""
        raise TypeError("a report is neither true nor false; ask report.ok")

    def __str__(self) -> str:
        """Return the terminal report."""
        from stabdiag.formats import render

        return render(self, "terminal")

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Show the terminal report where rich prints."""
        from stabdiag.formats.terminal import lines
        from stabdiag.formats.terminal.page import Printable

        yield Printable(lines=partial(lines, self))

    def _repr_html_(self) -> str:
        """Show the report in a notebook."""
        from stabdiag.formats.html import notebook

        return notebook(self)


class Comparison(compared.Comparison):
    """What was found of several runs, which writes and shows itself.

    It is neither true nor false; ``comparison.diagnosis`` says what was found.
    """

    def to_json(self) -> str:
        """Return the comparison as strict JSON, schema 2.

        >>> found = compare([{"loss": [3.0, 2.0]}, {"loss": [3.0, 2.5]}], kind="reruns")
        >>> json.loads(found.to_json())["kind"]
        'reruns'
        """
        from stabdiag.formats import render

        return render(self, "json", "comparison")

    def to_dict(self) -> dict[str, Any]:
        """Return the comparison as the JSON object.

        >>> found = compare([{"loss": [3.0, 2.0]}, {"loss": [3.0, 2.5]}], kind="reruns")
        >>> found.to_dict()["kind"]
        'reruns'
        """
        found: dict[str, Any] = json.loads(self.to_json())
        return found

    def __bool__(self) -> NoReturn:
        """Refuse: a comparison that is there could be taken for one that is good."""
        raise TypeError("a comparison is neither true nor false; ask comparison.diagnosis")

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Show the terminal report where rich prints."""
        from stabdiag.formats.compared.text import lines
        from stabdiag.formats.terminal.page import Printable

        yield Printable(lines=partial(lines, self))


@_quiet
def read(
    source: object,
    *,
    columns: Mapping[str, str] | None = None,
    attempt: int | None = None,
    limits: Limits | Mapping[str, object] | None = None,
    format: str | None = None,
) -> History:
    """Read a log into a history.

    Args:
        source: a path (``-`` is standard input) or URL of a log, a folder or an archive; a list of
            these for several files of one run; a DataFrame, an Arrow table, or a mapping of arrays.
        columns: column names by role, if they are not recognised: ``{"loss": "train/ce"}``.
        attempt: which of several appended runs to take, from 1; the last by default.
        limits: thresholds, or values by dotted name; the defaults if not given.
        format: how to read the log, by a name of ``stabdiag formats``; recognised if not given.

    Raises:
        LogError: if the log cannot be read or holds no usable record.
        LimitError: for an unknown limit or a value out of range.

    >>> history = read({"step": [0, 10, 20], "goal": [3.0, 2.0, 1.5]}, columns={"loss": "goal"})
    >>> history.series["loss"].values.tolist(), history.last_step
    ([3.0, 2.0, 1.5], 20)
    """
    held = limits_from(limits)
    raw = raw_columns(source, format, columns).columns
    return build_history(raw, held, chosen=columns, attempt=attempt)


@_quiet
def diagnose(
    source: object,
    *,
    manifest: Manifest | Mapping[str, object] | str | Path | None = None,
    settings: Mapping[str, object] | None = None,
    limits: Limits | Mapping[str, object] | None = None,
    columns: Mapping[str, str] | None = None,
    attempt: int | None = None,
    literal: bool = False,
    format: str | None = None,
    assume: Mapping[str, object] | None = None,
) -> Report:
    """Diagnose one run.

    Args:
        source: a path or URL, a list of these for several files of one run, a DataFrame, an Arrow
            table, a mapping of arrays, or a ``History``.
        manifest: a manifest, its path, or its values; what lies beside the log if not given.
        settings: manifest fields that go before those of the manifest: ``{"dtype": "fp16"}``.
        limits: thresholds, or values by dotted name: ``{"spike.sigma": 4}``.
        columns: column names by role, where they are not recognised.
        attempt: which of several appended runs to take, from 1; the last by default.
        literal: use the tree's original fixed rules, and no symptoms.
        format: how to read the log, by a name of ``stabdiag formats``; recognised if not given.
        assume: manifest fields that hold where neither a manifest nor the log tells them.

    Raises:
        LogError: if the log cannot be read or holds no usable record.
        ManifestError: if the manifest cannot be read.
        LimitError: for an unknown limit or a value out of range.

    >>> report = diagnose({"step": range(40), "loss": [2.0] * 39 + [float("nan")]})
    >>> report.diagnosis.slug
    'nan-dtype-unknown'
    """
    held = limits_from(limits)
    history, told = loaded_run(
        source,
        manifest,
        settings,
        limits=held,
        columns=columns,
        attempt=attempt,
        format=format,
        assume=assume,
    )
    return report_on(history, told, held, literal=literal)


@_quiet
def report_on(history: History, told: Manifest, limits: Limits, *, literal: bool = False) -> Report:
    """Diagnose a history as it is, with the manifest of its run."""
    told, history = in_its_steps(told, history)
    known = infer(told, history)
    case = (LiteralCase if literal else Case)(history=history, manifest=known, limits=limits)

    def beside() -> tuple[Baseline, Checked]:
        return case.baseline, Checked() if literal else check_symptoms(case)

    if len(case.loss) > _LONG:
        found, (baseline, symptoms) = _both(partial(walk, case), beside)
    else:
        found, (baseline, symptoms) = walk(case), beside()
    of_the_tree, answers = symptoms.led(with_changes(case, found.findings)), found.answers
    beside_it = symptoms.findings(of_the_tree, history.unit)
    outcome = symptoms.told_of(of_the_tree[0])
    return Report(
        findings=worst_first((outcome, *of_the_tree[1:]), beside_it),
        tree=reported.Tree(outcome=outcome, answers=answers),
        not_logged=not_logged(case),
        history=history,
        manifest=known,
        limits=limits,
        literal=literal,
        not_checked=symptoms.not_checked,
        clear=symptoms.clear(of_the_tree),
        baseline=baseline,
    )


@_quiet
def postmortem(report: Report, format: str = "markdown") -> str:
    """Write a post-mortem of a spike or a NaN, as ``markdown`` or ``html``.

    Earlier parts of the log are diagnosed too, to find when the trouble was detectable.

    Raises:
        StabdiagError: for an unknown format.

    >>> report = diagnose({"loss": [2.0] * 39 + [float("nan")]})
    >>> print(postmortem(report).splitlines()[0])
    # Post-mortem: The loss went NaN, step 39
    """
    from stabdiag.formats import names, render

    refuse_unknown(format, names("postmortem"))
    nothing = not report.tree.outcome.section and report.diagnosis.severity is not Severity.ERROR
    detected = None if nothing else first_detected(report)
    return render(report, format, "postmortem", detected=detected)


def first_detected(report: Report) -> reported.Detected | None:
    """Return the step at which a diagnosis would first have reported the trouble.

    The log is cut at the onset, and 1, 5, 21, … points later, until the finding is as bad as the
    diagnosis. The last gap is then searched, to a hundredth of its distance from the onset. A
    finding that comes and goes within a gap may be missed.
    """
    from stabdiag.formats.postmortem import incident_of

    onset, loss = incident_of(report).onset, report.history.get("loss")
    longest = max(report.history.series.values(), key=len) if loss is None else loss
    steps = longest.steps
    begin = min(int(np.searchsorted(steps, onset)), len(steps) - 1)
    quiet, cut, ahead = begin - 1, begin, 1
    found = _found_by(report, onset, int(steps[cut]))
    while found is None and cut < len(steps) - 1:
        quiet, cut, ahead = cut, min(cut + ahead, len(steps) - 1), 4 * ahead
        found = _found_by(report, onset, int(steps[cut]))
    while found is not None and cut - quiet > max((cut - begin) // 100, 1):
        middle = (quiet + cut) // 2
        earlier = _found_by(report, onset, int(steps[middle]))
        if earlier is None:
            quiet = middle
        else:
            cut, found = middle, earlier
    return None if found is None else reported.Detected(step=int(steps[cut]), slug=found.slug)


def _found_by(report: Report, onset: int, last: int) -> Finding | None:
    """Return the finding of the log up to a step that is about the trouble of the whole, if any."""
    whole, cut = report.diagnosis, report.history.before(last + 1)
    # Later events were not known then.
    events = tuple(e for e in cut.events if e.step is None or e.step <= last)
    early = report_on(
        replace(cut, events=events), report.manifest, report.limits, literal=report.literal
    )
    for found in early.findings:
        about = found.section in (whole.section, *_LOSS_WENT_UP) or (found.step or 0) >= onset
        if found.slug == whole.slug or (about and found.severity.rank <= whole.severity.rank):
            return found
    return None


@_quiet
def convert(
    source: object,
    output: str | Path,
    *,
    manifest: Manifest | Mapping[str, object] | str | Path | None = None,
    settings: Mapping[str, object] | None = None,
    limits: Limits | Mapping[str, object] | None = None,
    columns: Mapping[str, str] | None = None,
    attempt: int | None = None,
    format: str | None = None,
    assume: Mapping[str, object] | None = None,
) -> History:
    """Write the history of a run and its manifest as Parquet, and return the history.

    The file is written as a whole or not at all. It gives the same diagnosis as the log. The
    arguments are those of ``diagnose``.

    Raises:
        LogError: if the log cannot be read or holds no usable record.
        ManifestError: if the manifest cannot be read.
        StabdiagError: if the file cannot be written, or is the log itself.

    >>> history = convert({"loss": [3.0, 2.0, 1.5]}, "kept.parquet")
    >>> read("kept.parquet").series["loss"].values.tolist()
    [3.0, 2.0, 1.5]
    """
    from stabdiag.assemble.parquet import write_parquet
    from stabdiag.files import keep_inputs

    sources = source if isinstance(source, list | tuple) else [source]
    keep_inputs([Path(output)], [*sources, manifest])
    history, told = loaded_run(
        source,
        manifest,
        settings,
        limits=limits_from(limits),
        columns=columns,
        attempt=attempt,
        format=format,
        assume=assume,
    )
    keep_inputs([Path(output)], history.source.files)
    write_parquet(history, told, Path(output))
    return history


@_quiet
def compare(
    runs: Sequence[object] | os.PathLike[str],
    *,
    kind: str | None = None,
    manifests: Sequence[Manifest | Mapping[str, object] | str | Path | None] | None = None,
    limits: Limits | Mapping[str, object] | None = None,
    columns: Mapping[str, str] | None = None,
    format: str | None = None,
) -> Comparison:
    """Compare runs that should be the same: where they part, by how much, and why.

    Args:
        runs: two or more, each anything that ``diagnose`` takes; or one folder that holds the logs
            of several ranks of a job.
        kind: ``seeds``, ``reruns``, ``ranks`` or ``resume``; recognised from names, manifests and
            steps if not given.
        manifests: a manifest for each run, or None to use the one beside its log.
        limits: thresholds, or values by dotted name: ``{"compare.rounding": 1e-4}``.
        columns: column names by role, where they are not recognised.
        format: how to read the logs, by a name of ``stabdiag formats``.

    Raises:
        LogError: if a log cannot be read or holds no usable record.
        ManifestError: if a manifest cannot be read.
        LimitError: for an unknown limit or a value out of range.
        StabdiagError: for fewer than two runs, or an unknown kind.

    >>> loss = [3.0 * 0.9**step for step in range(30)]
    >>> found = compare([{"loss": loss}, {"loss": loss}])
    >>> found.kind.value, found.diagnosis.slug
    ('reruns', 'agree')
    """
    from stabdiag.comparison import compare_runs
    from stabdiag.places.logs import ranks_in

    held = limits_from(limits)
    if isinstance(runs, str | os.PathLike):
        runs = [runs]
    elif isinstance(runs, Mapping) or hasattr(runs, "iloc") or not isinstance(runs, Iterable):
        raise StabdiagError("give the runs to compare as a list, one item for each run")
    sources: list[object] = list(runs)
    if len(sources) == 1 and isinstance(sources[0], str | os.PathLike):
        sources = [*ranks_in(sources[0])] or sources
    given = [
        None if one is None else manifest_from(one) for one in manifests or [None] * len(sources)
    ]
    if len(given) != len(sources):
        raise StabdiagError(
            f"there are {plural(len(sources), 'run')} and {plural(len(given), 'manifest')}; give "
            "one for each, or none"
        )
    loaded = [
        loaded_run(
            source, manifest, None, limits=held, columns=columns, attempt=None, format=format
        )
        for source, manifest in zip(sources, given, strict=True)
    ]
    found = compare_runs(
        [history for history, _ in loaded], [told for _, told in loaded], held, kind=kind
    )
    return Comparison(**vars(found))


def _both(one: Callable[[], One], other: Callable[[], Other]) -> tuple[One, Other]:
    """Return the results of two calls; the second runs in a thread of its own.

    An error of either is raised once both are done.
    """
    # Imported here: it brings logging along, which a small log does not wait for.
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(1) as pool:
        # A thread begins with NumPy's own setting, by which it warns of an infinite result.
        beside = pool.submit(np.errstate(all="ignore")(other))
        return one(), beside.result()
