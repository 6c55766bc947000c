"""From a log to a report: the way that the command line and the Python API share."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from stabdiag.assemble import build_history
from stabdiag.errors import StabdiagError
from stabdiag.given import limits_from, loaded_run, manifest_from, raw_columns
from stabdiag.history import History
from stabdiag.infer import in_its_steps, infer
from stabdiag.limits import Limits
from stabdiag.manifest import Manifest
from stabdiag.report import Report, Tree
from stabdiag.symptoms.check import Checked, check_symptoms, worst_first
from stabdiag.threads import both
from stabdiag.tree.advice.changed import with_changes
from stabdiag.tree.case import Case
from stabdiag.tree.unlogged import not_logged
from stabdiag.tree.walk import walk
from stabdiag.words import plural

if TYPE_CHECKING:
    from stabdiag.compared import Comparison
    from stabdiag.findings import Baseline

# From so many losses on, a second thread pays.
_LONG = 50_000

# Losses may be infinite or huge: what comes of them is then infinite or NaN, and is told as such.
_quiet = np.errstate(all="ignore")


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
        columns: column names by role, where they are not recognised: ``{"loss": "train/ce"}``.
        attempt: which of several appended runs to take, from 1; the last by default.
        limits: thresholds, or values by dotted name; the defaults if not given.
        format: how the log is to be read, by a name of ``stabdiag formats``; recognised if not
            given.

    Raises:
        LogError: if the log cannot be read or holds no usable record.
        LimitError: for an unknown limit or a value out of range.
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
        literal: apply the decision tree to the letter, and nothing beside it.
        format: how the log is to be read, by a name of ``stabdiag formats``; recognised if not
            given.

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
        source, manifest, settings, limits=held, columns=columns, attempt=attempt, format=format
    )
    return report_on(history, told, held, literal=literal)


@_quiet
def report_on(history: History, told: Manifest, limits: Limits, *, literal: bool = False) -> Report:
    """Diagnose a history as it is, with all that is told of its run."""
    told, history = in_its_steps(told, history)
    known = infer(told, history)
    case = Case(history=history, manifest=known, limits=limits, literal=literal)

    def beside() -> tuple[Baseline, Checked]:
        return case.baseline, Checked() if literal else check_symptoms(case)

    if len(case.loss) > _LONG:
        found, (baseline, symptoms) = both(partial(walk, case), beside)
    else:
        found, (baseline, symptoms) = walk(case), beside()
    of_the_tree, answers = with_changes(case, found.findings), found.answers
    beside_it = symptoms.findings(of_the_tree)
    if history.unit == "epoch":
        of_the_tree = tuple(finding.in_epochs() for finding in of_the_tree)
        beside_it = tuple(finding.in_epochs() for finding in beside_it)
        answers = tuple(answer.in_epochs() for answer in answers)
    outcome = symptoms.told_of(of_the_tree[0])
    return Report(
        findings=worst_first((outcome, *of_the_tree[1:]), beside_it),
        tree=Tree(outcome=outcome, answers=answers),
        not_logged=not_logged(case),
        history=history,
        manifest=known,
        limits=limits,
        literal=literal,
        not_checked=symptoms.not_checked,
        baseline=baseline,
    )


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
) -> History:
    """Write the history of a run as Parquet, with what is known of the run, and return it.

    The file is written as a whole or not at all. Whatever is asked of it has the answers that the
    log gives; the arguments are those of ``diagnose``.

    Raises:
        LogError: if the log cannot be read or holds no usable record.
        ManifestError: if the manifest cannot be read.
        StabdiagError: if the file cannot be written, or is the log itself.
    """
    from stabdiag.files import keep_inputs
    from stabdiag.store import write_parquet

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
    """Compare runs that ought to be the same: where they part, by how much, and what that tells.

    Args:
        runs: two or more, each anything that ``diagnose`` takes; or one folder that holds the logs
            of several ranks of a job.
        kind: what they are to each other: ``seeds``, ``reruns``, ``ranks`` or ``resume``; told from
            names, manifests and steps if not given.
        manifests: a manifest for each run, or None where what lies beside its log will do.
        limits: thresholds, or values by dotted name: ``{"compare.rounding": 1e-4}``.
        columns: column names by role, where they are not recognised.
        format: how the logs are to be read, by a name of ``stabdiag formats``.

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
    from stabdiag.places.ranks import ranks_in

    held = limits_from(limits)
    if isinstance(runs, str | os.PathLike):
        runs = [runs]
    elif isinstance(runs, Mapping) or hasattr(runs, "iloc") or not isinstance(runs, Iterable):
        raise StabdiagError("runs to compare are given as a list, one item for each run")
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
    return compare_runs(
        [history for history, _ in loaded], [told for _, told in loaded], held, kind=kind
    )
