"""What a worker does: it reads the logs of a batch from where they lie, and returns rows."""

from __future__ import annotations

import gc
import io
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from functools import cached_property, partial
from hashlib import sha256
from typing import Final, Self, TypeAlias

import numpy as np
import pyarrow as pa

from stabdiag._version import __version__
from stabdiag.api.baselines import with_baseline
from stabdiag.api.diagnosis import report_on
from stabdiag.assemble.inputs import Options, run_found
from stabdiag.baseline.kept import table_of as profiles_table
from stabdiag.baseline.profile import RunProfile, profile_of
from stabdiag.baseline.references import References
from stabdiag.comparison.settings import is_secret
from stabdiag.errors import ColumnError, LogError, NoUsableRecord, StabdiagError
from stabdiag.formats.postmortem import build_incident
from stabdiag.formats.postmortem.cost import read_clock
from stabdiag.model.findings import Ignored, Severity
from stabdiag.model.frozen import frozen
from stabdiag.model.history import Series
from stabdiag.model.manifest import Manifest
from stabdiag.model.manifest.keys import KEYS
from stabdiag.model.report import Report
from stabdiag.model.scan import UNREAD, Row
from stabdiag.model.text import shown
from stabdiag.readers.source import Stream, open_stream
from stabdiag.scan.common import TYPED
from stabdiag.scan.rows import table_of
from stabdiag.scan.worker import TimedOut, call_within, is_worker_process
from stabdiag.sources import LoadedLog
from stabdiag.sources.archives import open_archive
from stabdiag.sources.best import ARCHIVES
from stabdiag.sources.find import jobs_below
from stabdiag.sources.folder import Container, Entry, ReadRequest
from stabdiag.sources.group import File, Job, Lister, SkippedEntries, UnreadReason
from stabdiag.sources.jobs import path_of, read_job, read_job_in
from stabdiag.sources.read import is_archive
from stabdiag.sources.remote import Remote

Show: TypeAlias = Callable[[Report], None]

_HEAD: Final = 1 << 16

# Points of the curve, settings, and characters of one: a row stays small, whatever a log holds.
_POINTS: Final = 32
_SETTINGS: Final = 500
_LONGEST: Final = 200


@frozen
class ScanOptions(Options):
    """How all logs of a scan are to be read and judged.

    ``timeout`` is the seconds after which a log is given up. ``references`` are earlier good runs
    to compare each run with.
    """

    literal: bool = False
    timeout: float = 300.0
    ignored: tuple[Ignored, ...] = ()
    references: References | None = None

    def checked(self) -> Self:
        """Return it if it can be right.

        Raises:
            StabdiagError: if it cannot.
        """
        if not self.timeout > 0:
            raise StabdiagError(f"the time limit of a log must be positive, not {self.timeout:g}")
        return super().checked()

    def report(self, found: LoadedLog, manifest: Manifest | None = None) -> Report:
        """Return the report on a log that was read; the manifest replaces what lies beside it."""
        history, told = run_found(found, manifest, self)
        report = report_on(history, told, self.limits, literal=self.literal)
        if self.references is not None:
            # In a folder with runs of several tasks, those of another one are only not compared.
            report = with_baseline(report, self.references, refuse=False)
        return report.ignoring(self.ignored)

    @cached_property
    def stamp(self) -> str:
        """The hash of all that decides a diagnosis besides the log."""
        decides = (
            {info.name: info.value for info in self.limits.items()},
            sorted(self.settings.items()),
            sorted(self.columns.items()),
            self.format,
            self.literal,
            *([sorted(self.assume.items()), self.ignored] if self.assume or self.ignored else ()),
            *([self.references.stamp] if self.references is not None else ()),
        )
        return sha256(repr(decides).encode()).hexdigest()[:16]


@frozen
class Batch:
    """The result of a batch: rows, what proved to be no log of a run by the reason, profiles."""

    rows: pa.Table
    passed: SkippedEntries
    profiles: pa.Table | None = None


def read_batch(jobs: Sequence[Job], options: ScanOptions) -> Batch:
    """Read the logs of a batch."""
    pa.set_cpu_count(1)  # there are as many workers as cores
    passed, profiles = SkippedEntries(), list[RunProfile]()
    rows = table_of(rows_of_jobs(jobs, options, passed, keep=profiles.append))
    batch = Batch(rows=rows, passed=passed, profiles=profiles_table(profiles))
    if is_worker_process():
        gc.collect()  # automatic collection is off there
    return batch


def rows_of_jobs(
    jobs: Iterable[Job],
    options: ScanOptions,
    passed: SkippedEntries,
    show: Show = lambda _: None,
    keep: Callable[[RunProfile], None] | None = None,
) -> Iterator[Row]:
    """Yield the row of each run, those in archives included.

    ``show`` gets each report, and ``keep`` the profile of each run.
    """
    reader = _JobReader(options=options, passed=passed, show=show, keep=keep)
    for job in jobs:
        if not job.logs[0].path.lower().endswith(ARCHIVES):
            yield from reader.row(job, read_job)
            continue
        try:
            yield from reader.packed(job)
        except StabdiagError as error:
            yield unread(job, options, str(error))


@frozen
class _JobReader:
    """Reads the logs of a batch; ``passed`` counts files that are not logs of a run."""

    options: ScanOptions
    passed: SkippedEntries
    show: Show
    keep: Callable[[RunProfile], None] | None = None

    def row(self, job: Job, read: Callable[[Job, ReadRequest], LoadedLog]) -> Iterator[Row]:
        """Yield the row of a run, unless its log is none, and of each log that it left unread."""
        options, began = self.options, time.monotonic()
        siblings: list[Entry] = []

        def diagnosed() -> Row:
            log = read(job, options.of_a_log)
            siblings.extend(sibling.entry for sibling in log.siblings)
            report = options.report(log)
            self.show(report)
            if self.keep is not None:
                found_out = report.diagnosis
                profile = profile_of(report.history, report.manifest, name=job.run)
                outcome, severity = found_out.slug, found_out.severity.value
                self.keep(replace(profile, outcome=outcome, severity=severity))
            return row_of(report, shown(report.history.source.name), job.run)

        try:
            row = _about(job, options, call_within(options.timeout, diagnosed))
        except TimedOut:
            row = unread(job, options, f"given up after {options.timeout:g} s")
        except StabdiagError as error:
            no_loss = isinstance(error, NoUsableRecord) and not job.sure
            if job.root and (no_loss or isinstance(error, ColumnError)):
                self.passed.over("no training loss in it", job.key)
                return
            row = unread(job, options, str(error))
        except MemoryError:
            row = unread(job, options, "needs more memory than there is")
        except Exception as error:  # noqa: BLE001 - one log must not cost the rows of all others
            row = unread(job, options, f"an error in stabdiag: {type(error).__name__}: {error}")
        yield replace(row, seconds=round(time.monotonic() - began, 4))
        for sibling in siblings:
            for row in self.row(_of_sibling(job, sibling), read):
                # What tells whether it changed is the whole job.
                yield replace(row, size=job.size, modified=job.modified, etag=job.etag)

    def packed(self, job: Job) -> Iterator[Row]:
        """Yield the rows of all runs in an archive, which is gone through once for all of them."""
        path = path_of(job.root, job.logs[0])
        with Remote(path).file() if "://" in path else open_stream(path) as stream:
            if not is_archive(stream):
                raise LogError(f"{stream.name}: named like an archive, but it is none")
            with open_archive(stream) as place:
                yield from self._members(place, job)

    def _members(self, place: Container, job: Job) -> Iterator[Row]:
        entries = {str(one.path): one for one in place.entries()}
        runs = list(jobs_below("", _lister(entries), self.passed))
        rows = 0
        for run, held in _held(place, runs, entries):
            # What tells whether it changed is the archive.
            inside = replace(run, key=job.key, run=f"{job.run}/{run.run}", root=held.name)
            for row in self.row(inside, partial(read_job_in, held)):
                rows += 1
                yield replace(row, size=job.size, modified=job.modified, etag=job.etag)
        if not rows:
            raise NoUsableRecord("; ".join([f"{place.name}: no log of a run in it", *place.notes]))
        if place.hidden:
            self.passed.over(UnreadReason.CUT_ARCHIVE, place.name)


def _of_sibling(job: Job, sibling: Entry) -> Job:
    """Return the job of a log that was left unread in a job of several."""
    path = str(sibling.path)
    run = path if job.run == "." else f"{job.run}/{path}"
    file = File(path, sibling.size, sibling.written)
    return replace(job, run=run, logs=(file,), attempts=False)


def _about(job: Job, options: ScanOptions, row: Row) -> Row:
    """Return a row with what tells in the next scan whether it still holds."""
    return replace(
        row,
        size=job.size,
        modified=job.modified,
        etag=job.etag,
        version=__version__,
        limits=options.stamp,
        key=job.key,
    )


def unread(job: Job, options: ScanOptions, reason: str) -> Row:
    """Return the row of a log that was not read."""
    path = shown(path_of(job.root, job.logs[0]))
    for name in (path, job.key, shown(job.root)):
        reason = reason.removeprefix(f"{name}: ")
    return _about(job, options, Row(path=path, run=job.run, outcome=UNREAD, reason=reason))


def _lister(entries: Mapping[str, Entry]) -> Lister:
    """Return what lists an archive's members as if they lay in folders."""
    files: dict[str, list[File]] = {}
    folders: dict[str, set[str]] = {}
    for path, one in entries.items():
        parts = path.split("/")
        for depth in range(1, len(parts)):
            folders.setdefault("/".join(["", *parts[: depth - 1]]), set()).add(parts[depth - 1])
        where = "/".join(["", *parts[:-1]])
        files.setdefault(where, []).append(File(parts[-1], one.size, one.written))
    return lambda folder, _: (files.get(folder, []), sorted(folders.get(folder, ())))


class _Held(Container):
    """Some members of an archive, held in memory."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.bytes: dict[str, bytes] = {}

    def streams(self, entries: Iterable[Entry]) -> Generator[tuple[Entry, Stream]]:
        return super().streams(one for one in entries if str(one.path) in self.bytes)

    def open(self, entry: Entry) -> Stream:
        return Stream(f"{self.name}/{entry.path}", io.BytesIO(self.bytes[str(entry.path)]))


def _held(
    place: Container, runs: Sequence[Job], entries: Mapping[str, Entry]
) -> Iterator[tuple[Job, _Held]]:
    """Yield each run of an archive with its files, as soon as the last of them was met."""
    wants: dict[str, list[int]] = {}
    missing = []
    held = [_Held(f"{place.name}{run.root}") for run in runs]
    for number, run in enumerate(runs):
        names = {f"{run.root.strip('/')}/{f.path}".lstrip("/") for f in (*run.logs, *run.beside)}
        missing.append(len(names))
        for name in names:
            wants.setdefault(name, []).append(number)
    with closing(place.streams([entries[name] for name in wants])) as streams:
        for entry, stream in streams:
            data = stream.read_all()
            for number in wants.pop(str(entry.path)):
                relative = str(entry.path)[len(runs[number].root.strip("/")) :].lstrip("/")
                held[number].bytes[relative] = data
                missing[number] -= 1
                if not missing[number]:
                    yield runs[number], held[number]
                    held[number].bytes.clear()
    for number, count in enumerate(missing):  # the archive broke off before it was whole
        if count and held[number].bytes:
            yield runs[number], held[number]


def row_of(report: Report, path: str, run: str) -> Row:
    """Return the row of a report."""
    found, history, manifest = report.diagnosis, report.history, report.manifest
    loss, held = history.finite("loss"), history.finite("eval_loss")
    severities = [finding.severity for finding in report.findings]
    clock = read_clock(history)
    dated = clock is not None and clock.calendar
    told = {name: getattr(manifest, name) for name in TYPED if name not in manifest.inferred}
    return Row(
        path=path,
        run=run,
        outcome=found.slug,
        severity=found.severity.value,
        format=history.source.format,
        section=found.section,
        step=found.step,
        headline=found.headline,
        action_kind=found.actions[0].kind.value if found.actions else None,
        action=found.first_action,
        errors=severities.count(Severity.ERROR),
        warnings=severities.count(Severity.WARNING),
        notes=severities.count(Severity.NOTE),
        losses=len(history.series.get("loss", ())),
        first_step=history.first_step,
        last_step=history.last_step,
        lost_steps=_lost(report),
        loss_first=float(loss.values[0]) if len(loss) else None,
        loss_best=float(loss.values.min()) if len(loss) else None,
        loss_last=float(loss.values[-1]) if len(loss) else None,
        eval_loss=float(held.values[-1]) if len(held) else None,
        curve=_curve(loss),
        settings=dict(_settings(report)),
        began=float(clock.seconds[0]) if clock is not None and dated else None,
        ended=float(clock.seconds[-1]) if clock is not None and dated else None,
        **told,
    )


def _lost(report: Report) -> int | None:
    """Return the steps that an error wasted; None for what is none."""
    if report.diagnosis.severity is not Severity.ERROR:
        return None
    cost = build_incident(report).lost.cost
    return None if cost is None else cost.steps


def _curve(loss: Series) -> tuple[float, ...]:
    """Return the course of the loss: the mean of each of so many stretches of equal length."""
    if len(loss) <= _POINTS:
        return tuple(loss.values.tolist())
    begins = np.linspace(0, len(loss), _POINTS, endpoint=False).astype(int)
    with np.errstate(over="ignore"):  # of a run that blew up
        means = np.add.reduceat(loss.values, begins) / np.diff([*begins, len(loss)])
    return tuple(float(f"{mean:.6g}") for mean in means if np.isfinite(mean))


def _settings(report: Report) -> Iterator[tuple[str, str]]:
    """Yield all else that the run was configured with, and nothing that was read off its course."""
    manifest, typed = report.manifest, set(TYPED)
    known = {
        key.name: getattr(manifest, key.name)
        for key in KEYS
        if key.name not in manifest.inferred and key.name not in typed
    }
    told = {**report.history.config, **manifest.unknown, **manifest.also, **known}
    # Rows are passed on: no key of a service is among them, and no password in a URL.
    names = [
        name
        for name, value in told.items()
        if isinstance(value, str | int | float) and not is_secret(name)
    ]
    for name in names[:_SETTINGS]:
        value = str(told[name])
        yield name[:_LONGEST], shown(value)[:_LONGEST]
