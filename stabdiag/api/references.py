"""The references of a baseline: logs, folders, patterns, URLs, stores and kept baselines."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from stabdiag.assemble.inputs import Options, loaded_run, run_found
from stabdiag.baseline.profile import run_profile
from stabdiag.errors import NoUsableRecord, StabdiagError
from stabdiag.model.baseline import UnusedReference
from stabdiag.model.conditions import Condition
from stabdiag.model.frozen import frozen
from stabdiag.model.profile import RunProfile
from stabdiag.model.report import Report
from stabdiag.model.text import plural, shown
from stabdiag.sources.find import find
from stabdiag.sources.group import Job, SkippedEntries
from stabdiag.sources.jobs import read_job
from stabdiag.sources.names import run_name
from stabdiag.sources.profiles import is_kept, is_store, read_kept, read_store

# A baseline of a thousand runs is a sweep; reading more logs than that is a mistake.
_MAX_LOGS: Final = 1000

# Folders above a run that its name may include, to tell it from other runs.
_MAX_PARENTS: Final = 4


@frozen
class References:
    """The profiles of earlier good runs, and the sources that cannot be used."""

    profiles: tuple[RunProfile, ...] = ()
    left_out: tuple[UnusedReference, ...] = ()

    @property
    def stamp(self) -> str:
        """Text that changes with the references and their lengths."""
        return repr([(run.key, run.name, run.last_step) for run in self.profiles])


def read_references(
    sources: Sequence[object], options: Options, where: Iterable[str] = ()
) -> References:
    """Read the references that a user names.

    Args:
        sources: paths, patterns and URLs of logs and folders, scan stores, kept baselines; or
            anything else that a diagnosis takes, a report included.
        options: how logs are read. Settings given by hand describe the run and are not used here.
        where: conditions on the fields and settings of a run, such as ``outcome=healthy``.

    Raises:
        StabdiagError: if a condition cannot be parsed.
    """
    conditions = [Condition.parse(text) for text in where]
    profiles: list[RunProfile] = []
    left_out: list[UnusedReference] = []
    for source in sources:
        if isinstance(source, References):
            profiles += source.profiles
            left_out += source.left_out
            continue
        try:
            for item in _read(source, options):
                (profiles if isinstance(item, RunProfile) else left_out).append(item)  # type: ignore[arg-type]
        except StabdiagError as error:
            left_out.append(
                UnusedReference(name=_source_name(source), reason=_without_name(error, source))
            )
    kept = [
        run
        for run in profiles
        if all(condition.is_met(_value(run, condition.name)) for condition in conditions)
    ]
    if profiles and not kept:
        left_out.append(
            UnusedReference(
                name=", ".join(where), reason=f"no match among {plural(len(profiles), 'run')}"
            )
        )
    return References(profiles=_unique(kept), left_out=tuple(left_out))


def _value(run: RunProfile, name: str) -> object:
    """Return the value of a field or a setting, or None."""
    fields = {"run": run.name, "outcome": run.outcome, "severity": run.severity}
    return fields.get(name) or run.settings.get(name)


def _unique(profiles: Iterable[RunProfile]) -> tuple[RunProfile, ...]:
    """Return the last profile of each run, with a distinct name if its path has one."""
    runs = list({profile.key or id(profile): profile for profile in profiles}.values())
    names = Counter(run.name for run in runs)
    for parents in range(_MAX_PARENTS):
        runs = [
            replace(run, name=run_name(run.key, parents=parents))
            if names[run.name] > 1 and run.key
            else run
            for run in runs
        ]
        names = Counter(run.name for run in runs)
        if max(names.values(), default=1) == 1:
            break
    return tuple(runs)


def _read(source: object, options: Options) -> Iterator[RunProfile | UnusedReference]:
    if isinstance(source, Report):
        outcome, severity = source.diagnosis.slug, source.diagnosis.severity.value
        yield run_profile(source.history, source.manifest, outcome=outcome, severity=severity)
    elif not isinstance(source, str | os.PathLike):
        yield run_profile(*loaded_run(source, None, options))
    elif is_kept(path := Path(os.fspath(source))):
        yield from read_kept(path)
    elif is_store(path):
        yield from read_store(path)
    else:
        yield from _logs(os.fspath(source), options)


def _logs(path: str, options: Options) -> Iterator[RunProfile | UnusedReference]:
    """Yield the profile of each run below a path, and what cannot be read."""
    skipped, number = SkippedEntries(), 0
    for number, job in enumerate(sorted(find([path], skipped), key=lambda job: job.run), start=1):
        if number > _MAX_LOGS:
            yield UnusedReference(
                name=shown(path), reason=f"only the first {_MAX_LOGS} logs are read"
            )
            return
        try:
            yield _profile(job, options)
        except StabdiagError as error:
            if not (isinstance(error, NoUsableRecord) and job.root and not job.is_certain):
                yield UnusedReference(name=job.run, reason=_without_name(error, job.run))
    if not number:
        yield UnusedReference(name=shown(path), reason="no log of a run in it")


def _profile(job: Job, options: Options) -> RunProfile:
    return run_profile(*run_found(read_job(job, options.log_columns), None, options))


def _source_name(source: object) -> str:
    return shown(os.fspath(source)) if isinstance(source, str | os.PathLike) else "a reference"


def _without_name(error: StabdiagError, source: object) -> str:
    """Return the message of an error without the path at its start."""
    name = _source_name(source)
    return str(error).removeprefix(f"{name}: ").removeprefix(f"{Path.cwd() / name}: ")
