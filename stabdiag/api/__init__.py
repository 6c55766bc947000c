"""From a log to a report: the functions shared by the command line and the Python API."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from stabdiag.api.diagnosis import first_detected, make_report, quiet
from stabdiag.api.shown import Comparison, Report
from stabdiag.assemble import build_history
from stabdiag.assemble.inputs import Options, as_limits, as_manifest, loaded_run, raw_columns
from stabdiag.errors import StabdiagError, refuse_unknown
from stabdiag.model.comparison import ComparisonKind
from stabdiag.model.history import History
from stabdiag.model.limits import Limits
from stabdiag.model.manifest import Manifest
from stabdiag.model.text import plural

if TYPE_CHECKING:
    from stabdiag.api.baselines import Baseline


@quiet
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
        columns: column names by role, if they are not recognized: ``{"loss": "train/ce"}``.
        attempt: which of several appended runs to take, from 1; the last by default.
        limits: thresholds, or values by dotted name; the defaults if not given.
        format: how to read the log, by a name of ``stabdiag formats``; detected if not given.

    Raises:
        LogError: if the log cannot be read or holds no usable record.
        LimitError: for an unknown limit or a value out of range.

    >>> history = read({"step": [0, 10, 20], "goal": [3.0, 2.0, 1.5]}, columns={"loss": "goal"})
    >>> history.series["loss"].values.tolist(), history.last_step
    ([3.0, 2.0, 1.5], 20)
    """
    options = Options(
        columns=columns or {}, attempt=attempt, limits=as_limits(limits), format=format
    )
    raw = raw_columns(source, options).columns
    return build_history(raw, options.limits, chosen=columns, attempt=attempt)


@quiet
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
    baseline: object = None,
    where: str | Sequence[str] = (),
) -> Report:
    """Diagnose one run.

    Args:
        source: a path or URL, a list of these for several files of one run, a DataFrame, an Arrow
            table, a mapping of arrays, or a ``History``.
        manifest: a manifest, its path, or its values; by default the file next to the log.
        settings: manifest fields that override the manifest: ``{"dtype": "fp16"}``.
        limits: thresholds, or values by dotted name: ``{"spike.sigma": 4}``.
        columns: column names by role, if they are not recognized.
        attempt: which of several appended runs to take, from 1; the last by default.
        literal: apply the original fixed rules of the tree, without symptoms.
        format: how to read the log, by a name of ``stabdiag formats``; detected if not given.
        assume: manifest fields to assume if the manifest and the log do not state them.
        baseline: earlier good runs for comparison: a source or result of ``baseline()``.
        where: conditions that select references from a store, such as ``outcome=healthy``.

    Raises:
        LogError: if the log cannot be read or holds no usable record.
        ManifestError: if the manifest cannot be read.
        LimitError: for an unknown limit or a value out of range.
        StabdiagError: if the references are runs of another task, dataset or model.

    >>> report = diagnose({"step": range(40), "loss": [2.0] * 39 + [float("nan")]})
    >>> report.diagnosis.slug
    'nan-dtype-unknown'
    """
    options = Options(
        settings=settings or {},
        assume=assume or {},
        limits=as_limits(limits),
        columns=columns or {},
        format=format,
        attempt=attempt,
    )
    history, known_manifest = loaded_run(source, manifest, options)
    report = make_report(history, known_manifest, options.limits, literal=literal)
    if baseline is None:
        return report
    from stabdiag.api.baselines import read_baseline, with_baseline

    return with_baseline(report, read_baseline(baseline, options, where))


@quiet
def baseline(
    sources: object,
    *,
    where: str | Sequence[str] = (),
    limits: Limits | Mapping[str, object] | None = None,
    columns: Mapping[str, str] | None = None,
    format: str | None = None,
    assume: Mapping[str, object] | None = None,
) -> Baseline:
    """Read earlier good runs of a task for comparisons.

    Args:
        sources: logs, folders, patterns and URLs, scan stores, kept baselines, reports, or anything
            else that ``diagnose`` takes; one of these, or a list of them.
        where: conditions on the fields and settings of a run, such as ``outcome=healthy``.
        limits: thresholds, or values by dotted name.
        columns: column names by role, if they are not recognized.
        format: how to read the logs, by a name of ``stabdiag formats``.
        assume: manifest fields to assume if the manifest and the log do not state them.

    Raises:
        StabdiagError: if no run is found, or a condition is invalid.

    >>> good = baseline([{"loss": [3.0 * 0.99**step for step in range(100)]}])
    >>> len(good)
    1
    """
    options = Options(
        assume=assume or {}, limits=as_limits(limits), columns=columns or {}, format=format
    ).checked()
    from stabdiag.api.baselines import read_baseline

    references = read_baseline(sources, options, where)
    if not references.profiles:
        why = "; ".join(f"{run.name}: {run.reason}" for run in references.left_out)
        raise StabdiagError(why or "baseline: no run is given")
    return references


@quiet
def postmortem(report: Report, format: str = "markdown") -> str:
    """Write a post-mortem of a spike or a NaN, as ``markdown`` or ``html``.

    Earlier parts of the log are diagnosed as well, to find when the problem was detectable.

    Raises:
        StabdiagError: for an unknown format.

    >>> report = diagnose({"loss": [2.0] * 39 + [float("nan")]})
    >>> print(postmortem(report).splitlines()[0])
    # Post-mortem: The loss went NaN, step 39
    """
    from stabdiag.formats import names, render
    from stabdiag.formats.postmortem import has_incident

    refuse_unknown(format, names("postmortem"))
    detected = first_detected(report) if has_incident(report) else None
    return render(report, format, "postmortem", detected=detected)


@quiet
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

    The file is written atomically and gives the same diagnosis as the log. See ``diagnose`` for the
    arguments.

    Raises:
        LogError: if the log cannot be read or holds no usable record.
        ManifestError: if the manifest cannot be read.
        StabdiagError: if the file cannot be written, or is the log itself.

    >>> history = convert({"loss": [3.0, 2.0, 1.5]}, "kept.parquet")
    >>> read("kept.parquet").series["loss"].values.tolist()
    [3.0, 2.0, 1.5]
    """
    from stabdiag.assemble.parquet import write_parquet
    from stabdiag.files import protect_inputs

    sources = source if isinstance(source, list | tuple) else [source]
    protect_inputs([Path(output)], [*sources, manifest])
    options = Options(
        settings=settings or {},
        assume=assume or {},
        limits=as_limits(limits),
        columns=columns or {},
        format=format,
        attempt=attempt,
    )
    history, known_manifest = loaded_run(source, manifest, options)
    protect_inputs([Path(output)], history.source.files)
    write_parquet(history, known_manifest, Path(output))
    return history


@quiet
def compare(
    runs: Sequence[object] | os.PathLike[str],
    *,
    kind: str | None = None,
    manifests: Sequence[Manifest | Mapping[str, object] | str | Path | None] | None = None,
    limits: Limits | Mapping[str, object] | None = None,
    columns: Mapping[str, str] | None = None,
    format: str | None = None,
) -> Comparison:
    """Compare runs that should match: where they diverge, by how much, and why.

    Args:
        runs: two or more, each anything that ``diagnose`` takes; or one folder that holds them, or
            the logs of several ranks of a job.
        kind: ``seeds``, ``reruns``, ``ranks`` or ``resume``; or ``baseline``: is the first run
            worse than the others? If not given, it is inferred from names, manifests and steps.
            If one run ends worse than two or more that agree, these are its baseline.
        manifests: a manifest for each run, or None to use the file next to its log.
        limits: thresholds, or values by dotted name: ``{"compare.rounding": 1e-4}``.
        columns: column names by role, if they are not recognized.
        format: how to read the logs, by a name of ``stabdiag formats``.

    Raises:
        LogError: if a log cannot be read or holds no usable record.
        ManifestError: if a manifest cannot be read.
        LimitError: for an unknown limit or a value out of range.
        StabdiagError: for fewer than two runs, or an unknown kind.

    >>> loss = [3.0 * 0.9**step for step in range(30)]
    >>> comparison = compare([{"loss": loss}, {"loss": loss}])
    >>> comparison.kind.value, comparison.diagnosis.slug
    ('reruns', 'agree')
    """
    from stabdiag.comparison import compare_runs
    from stabdiag.sources.logs import find_rank_logs, find_run_logs

    options = Options(limits=as_limits(limits), columns=columns or {}, format=format)
    if isinstance(runs, str | os.PathLike):
        runs = [runs]
    elif (
        isinstance(runs, Mapping | History)
        or hasattr(runs, "iloc")
        or not isinstance(runs, Iterable)
    ):
        raise StabdiagError("give the runs to compare as a list, one item for each run")
    sources: list[object] = list(runs)
    if len(sources) == 1 and isinstance(sources[0], str | os.PathLike):
        folder = sources[0]
        sources = [*(find_rank_logs(folder) or find_run_logs(folder))] or sources
    given = [
        None if manifest is None else as_manifest(manifest)
        for manifest in manifests or [None] * len(sources)
    ]
    if len(given) != len(sources):
        raise StabdiagError(
            f"there are {plural(len(sources), 'run')} and {plural(len(given), 'manifest')}; give "
            "one for each, or none"
        )
    loaded = [
        loaded_run(source, manifest, options)
        for source, manifest in zip(sources, given, strict=True)
    ]
    histories, known_manifests = zip(*loaded, strict=True) if loaded else ((), ())
    comparison = compare_runs(histories, known_manifests, options.limits, kind=kind)
    from stabdiag.api.baselines import compared_with_others, with_worse_run_first

    if comparison.kind is ComparisonKind.BASELINE:
        comparison = compared_with_others(comparison)
    elif kind is None:
        comparison = with_worse_run_first(comparison)
    return Comparison(**vars(comparison))
