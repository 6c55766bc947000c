"""The references of a baseline, from all that a user may name: logs, folders, patterns, stores."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final

from stabdiag.assemble.inputs import Options, loaded_run, run_found
from stabdiag.baseline.conditions import Condition
from stabdiag.baseline.kept import is_kept, is_store, read_kept, read_store
from stabdiag.baseline.profile import RunProfile, profile_of
from stabdiag.errors import NoUsableRecord, StabdiagError
from stabdiag.model.baseline import LeftOut
from stabdiag.model.frozen import frozen
from stabdiag.model.report import Report
from stabdiag.model.text import shown
from stabdiag.sources.find import find
from stabdiag.sources.group import Job, SkippedEntries
from stabdiag.sources.jobs import read_job

# A baseline of a thousand runs is a sweep; reading more logs than that is a mistake.
_MOST_LOGS: Final = 1000


@frozen
class References:
    """The profiles of earlier good runs, and what was named and cannot be used."""

    profiles: tuple[RunProfile, ...] = ()
    left_out: tuple[LeftOut, ...] = ()

    @property
    def stamp(self) -> str:
        """Text that differs if other runs, or more of the same runs, serve as references."""
        return repr([(one.key, one.name, one.last_step) for one in self.profiles])


def read_references(
    sources: Sequence[object], options: Options, where: Iterable[str] = ()
) -> References:
    """Read the references that a user names.

    Args:
        sources: paths, patterns and URLs of logs and folders, scan stores, kept baselines; or
            anything else that a diagnosis takes, a report included.
        options: how logs are read. Settings given by hand are those of the run, and not used here.
        where: conditions on the fields and settings of a run, such as ``outcome=healthy``.

    Raises:
        StabdiagError: if a condition is not one.
    """
    conditions = [Condition.parse(text) for text in where]
    profiles: list[RunProfile] = []
    left_out: list[LeftOut] = []
    for source in sources:
        if isinstance(source, References):
            profiles += source.profiles
            left_out += source.left_out
            continue
        try:
            for item in _read(source, options):
                (profiles if isinstance(item, RunProfile) else left_out).append(item)  # type: ignore[arg-type]
        except StabdiagError as error:
            left_out.append(LeftOut(name=_spoken(source), reason=_without_name(error, source)))
    kept = [one for one in profiles if all(condition.is_met(one) for condition in conditions)]
    if profiles and not kept:
        left_out.append(
            LeftOut(name=", ".join(where), reason=f"none of {len(profiles)} runs meets it")
        )
    return References(profiles=tuple(_unique(kept)), left_out=tuple(left_out))


def _unique(profiles: Iterable[RunProfile]) -> list[RunProfile]:
    """Return each run once, the last profile of it."""
    return list({profile.key or id(profile): profile for profile in profiles}.values())


def _read(source: object, options: Options) -> Iterator[RunProfile | LeftOut]:
    if isinstance(source, Report):
        outcome, severity = source.diagnosis.slug, source.diagnosis.severity.value
        yield profile_of(source.history, source.manifest, outcome=outcome, severity=severity)
    elif not isinstance(source, str | os.PathLike):
        yield profile_of(*loaded_run(source, None, options))
    elif is_kept(path := Path(os.fspath(source))):
        yield from read_kept(path)
    elif is_store(path):
        yield from read_store(path)
    else:
        yield from _logs(os.fspath(source), options)


def _logs(path: str, options: Options) -> Iterator[RunProfile | LeftOut]:
    """Yield the profile of each run below a path, and what cannot be read."""
    skipped, number = SkippedEntries(), 0
    for number, job in enumerate(sorted(find([path], skipped), key=lambda job: job.run), start=1):
        if number > _MOST_LOGS:
            yield LeftOut(name=shown(path), reason=f"only the first {_MOST_LOGS} logs are read")
            return
        try:
            yield _profile(job, options)
        except StabdiagError as error:
            if not (isinstance(error, NoUsableRecord) and job.root and not job.is_certain):
                yield LeftOut(name=job.run, reason=_without_name(error, job.run))
    if not number:
        yield LeftOut(name=shown(path), reason="no log of a run in it")


def _profile(job: Job, options: Options) -> RunProfile:
    found = read_job(job, options.of_a_log)
    history, manifest = run_found(found, None, options)
    return profile_of(history, manifest)


def _spoken(source: object) -> str:
    return shown(os.fspath(source)) if isinstance(source, str | os.PathLike) else "a reference"


def _without_name(error: StabdiagError, source: object) -> str:
    """Return an error without the name that it begins with."""
    return str(error).removeprefix(f"{_spoken(source)}: ")
