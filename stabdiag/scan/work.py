"""The work of a worker: read the logs of a batch and return their rows."""

from __future__ import annotations

import gc
import io
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from hashlib import sha256
from pathlib import Path
from typing import Self, TypeAlias

import pyarrow as pa

from stabdiag._version import __version__
from stabdiag.api.baselines import with_baseline
from stabdiag.api.diagnosis import make_report
from stabdiag.api.references import References
from stabdiag.assemble.inputs import Options, run_found
from stabdiag.baseline.profile import run_profile
from stabdiag.errors import ColumnError, LogError, NoUsableRecord, StabdiagError
from stabdiag.model.findings import IgnoreRule, Severity
from stabdiag.model.frozen import frozen
from stabdiag.model.manifest import Manifest
from stabdiag.model.profile import RunProfile
from stabdiag.model.report import Report
from stabdiag.model.scan import UNREAD, Row
from stabdiag.model.text import shown
from stabdiag.readers.columns import StoredRun
from stabdiag.readers.source import Stream, open_stream
from stabdiag.scan.report_row import make_row
from stabdiag.scan.rows import row_table
from stabdiag.scan.worker import TimedOut, call_within, is_worker_process
from stabdiag.sources import LoadedLog
from stabdiag.sources.archives import open_archive
from stabdiag.sources.best import ARCHIVES
from stabdiag.sources.find import walk_jobs
from stabdiag.sources.folder import Container, Entry, ReadRequest
from stabdiag.sources.group import File, Job, Lister, SkippedEntries, UnreadReason
from stabdiag.sources.jobs import job_path, read_job, read_job_files
from stabdiag.sources.outputs import has_records, is_output, reports_failure
from stabdiag.sources.profiles import profile_table
from stabdiag.sources.read import is_archive
from stabdiag.sources.remote import Remote

Show: TypeAlias = Callable[[Report], None]


@frozen
class ScanOptions(Options):
    """How to read and diagnose the logs of a scan.

    ``timeout`` is the time limit of a log in seconds. ``references`` are earlier good runs to
    compare each run with. ``keeps_profiles`` says whether the profiles of the runs are stored for
    later comparisons.
    """

    literal: bool = False
    timeout: float = 300.0
    ignored: tuple[IgnoreRule, ...] = ()
    references: References | None = None
    keeps_profiles: bool = True

    def checked(self) -> Self:
        """Return the options after validation.

        Raises:
            StabdiagError: if one is invalid.
        """
        if not self.timeout > 0:
            raise StabdiagError(f"the time limit of a log must be positive, not {self.timeout:g}")
        return super().checked()

    def report(
        self, log: LoadedLog, manifest: Manifest | None = None, *, refuse: bool = False
    ) -> Report:
        """Return the report on a log; ``manifest`` replaces the manifest next to it.

        A folder may contain runs of several tasks: a run of another task is only compared, or
        refused, if ``refuse`` is set.
        """
        history, run_manifest = run_found(log, manifest, self)
        report = make_report(history, run_manifest, self.limits, literal=self.literal)
        if self.references is not None:
            report = with_baseline(report, self.references, refuse=refuse)
        return report.ignoring(self.ignored)

    @cached_property
    def stamp(self) -> str:
        """The hash of everything except the log that affects a diagnosis."""
        inputs = (
            {info.name: info.value for info in self.limits.items()},
            sorted(self.settings.items()),
            sorted(self.columns.items()),
            self.format,
            self.literal,
            *([sorted(self.assume.items()), self.ignored] if self.assume or self.ignored else ()),
            *([self.references.stamp] if self.references is not None else ()),
        )
        return sha256(repr(inputs).encode()).hexdigest()[:16]


@frozen
class Batch:
    """The result of a batch: rows, skipped entries, and profiles of the runs."""

    rows: pa.Table
    skipped: SkippedEntries
    profiles: pa.Table | None = None


def read_batch(jobs: Sequence[Job], options: ScanOptions) -> Batch:
    """Read the logs of a batch."""
    pa.set_cpu_count(1)  # there is one worker per core
    skipped, profiles = SkippedEntries(), list[RunProfile]()
    keep = profiles.append if options.keeps_profiles else None
    rows = row_table(rows_of_jobs(jobs, options, skipped, keep=keep))
    batch = Batch(rows=rows, skipped=skipped, profiles=profile_table(profiles))
    if is_worker_process():
        gc.collect()  # automatic collection is off there
    return batch


def rows_of_jobs(
    jobs: Iterable[Job],
    options: ScanOptions,
    skipped: SkippedEntries,
    show: Show = lambda _: None,
    keep: Callable[[RunProfile], None] | None = None,
) -> Iterator[Row]:
    """Yield the row of each run, including runs in archives.

    ``show`` gets each report, and ``keep`` the profile of each run.
    """
    reader = _JobReader(options=options, skipped=skipped, show=show, keep=keep)
    for job in jobs:
        if not job.logs[0].path.lower().endswith(ARCHIVES):
            yield from reader.row(job, read_job)
            continue
        try:
            yield from reader.archive_rows(job)
        except StabdiagError as error:
            yield unread(job, options, str(error))


@dataclass(kw_only=True, eq=False)
class _JobContent:
    """A run that is read, and what is next to it: other logs, views of logs, other stored runs."""

    job: Job
    siblings: list[Entry] = field(default_factory=list)
    views: list[Entry] = field(default_factory=list)
    others: list[StoredRun] = field(default_factory=list)


@frozen
class _JobReader:
    """Reads the logs of a batch; ``skipped`` counts files that are not logs of a run."""

    options: ScanOptions
    skipped: SkippedEntries
    show: Show
    keep: Callable[[RunProfile], None] | None = None

    def row(
        self,
        job: Job,
        read: Callable[[Job, ReadRequest], LoadedLog],
        stored: StoredRun | None = None,
    ) -> Iterator[Row]:
        """Yield the row of a run, and of each run next to it that was not read with it.

        These are sibling logs, and the other runs of a database; ``stored`` is one of these. A file
        that is not a log of a run is skipped.
        """
        start = time.monotonic()
        content = _JobContent(job=job)
        row = self._read_row(content, read, stored)
        if row is not None:
            yield replace(row, seconds=round(time.monotonic() - start, 4))
        for other in content.others:
            yield from self.row(_stored_job(job, other), read, other)
        job, siblings = content.job, content.siblings
        if row is not None and row.severity != Severity.ERROR:
            failed = (view for view in content.views if self._fails(_sibling_job(job, view), read))
            siblings = [*siblings, *failed]
        for sibling in siblings:
            for sibling_row in self.row(_sibling_job(job, sibling), read):
                # The next scan checks the whole job for changes.
                yield replace(sibling_row, size=job.size, modified=job.modified, etag=job.etag)

    def _read_row(
        self,
        content: _JobContent,
        read: Callable[[Job, ReadRequest], LoadedLog],
        stored: StoredRun | None,
    ) -> Row | None:
        """Return the row of a run, also if it cannot be read, or None if the file is skipped."""
        options, job = self.options, content.job
        request = options.log_columns
        if stored is not None:
            request = replace(request, run_id=stored.id)
        try:
            row = call_within(options.timeout, lambda: self._diagnose(content, read, request))
            return _stamped(job, options, row)
        except TimedOut:
            return unread(content.job, options, f"given up after {options.timeout:g} s")
        except StabdiagError as error:
            no_loss = isinstance(error, NoUsableRecord) and not content.job.is_certain
            if job.root and (no_loss or isinstance(error, ColumnError)):
                self._skip(content.job)
                return None
            return unread(content.job, options, str(error))
        except MemoryError:
            return unread(content.job, options, "not enough memory")
        except Exception as error:  # noqa: BLE001 - one log must not cost the rows of all others
            problem = f"internal error: {type(error).__name__}: {error}"
            return unread(content.job, options, problem)

    def _diagnose(
        self,
        content: _JobContent,
        read: Callable[[Job, ReadRequest], LoadedLog],
        request: ReadRequest,
    ) -> Row:
        """Diagnose a run, and add what is next to it to its content."""
        log = read(content.job, request)
        for sibling in log.siblings:
            (content.views if sibling.is_view else content.siblings).append(sibling.entry)
        if log.columns.stored:
            first, *later = log.columns.stored
            content.others.extend(later)
            content.job = _stored_job(content.job, first)
            log = read(content.job, replace(request, run_id=first.id))
        report = self.options.report(log)
        self.show(report)
        if self.keep is not None:
            finding = report.diagnosis
            profile = run_profile(report.history, report.manifest, name=content.job.run)
            outcome, severity = finding.slug, finding.severity.value
            self.keep(replace(profile, outcome=outcome, severity=severity))
        return make_row(report, shown(report.history.source.name), content.job.run)

    def _fails(self, job: Job, read: Callable[[Job, ReadRequest], LoadedLog]) -> bool:
        """Return True if a log that seems to show another run shows an error."""
        trial = replace(self, skipped=SkippedEntries(), show=lambda _: None, keep=None)
        return any(row.severity == Severity.ERROR for row in trial.row(job, read))

    def _skip(self, job: Job) -> None:
        """Skip a file without a training loss.

        An output that reports a failure, or that has records, is named.
        """
        paths = [(file, job_path(job.root, file)) for file in job.logs]
        outputs = [
            path
            for file, path in paths
            if "://" not in path and is_output(file.path.rpartition("/")[2])
        ]
        for reason, is_of_run in (
            (UnreadReason.FAILED_OUTPUT, reports_failure),
            (UnreadReason.UNKNOWN_RECORDS, has_records),
        ):
            path = next((path for path in outputs if is_of_run(Path(path))), None)
            if path is not None:
                self.skipped.skip(reason, path)
                return
        self.skipped.skip("no training loss in it", job.key)

    def archive_rows(self, job: Job) -> Iterator[Row]:
        """Yield the rows of all runs in an archive, which is read once."""
        path = job_path(job.root, job.logs[0])
        with Remote(path).file() if "://" in path else open_stream(path) as stream:
            if not is_archive(stream):
                raise LogError(f"{stream.name}: not an archive, despite its name")
            with open_archive(stream) as archive:
                yield from self._members(archive, job)

    def _members(self, archive: Container, job: Job) -> Iterator[Row]:
        entries = {str(entry.path): entry for entry in archive.entries()}
        runs = list(walk_jobs("", _lister(entries), self.skipped))
        rows = 0
        for run, members in _loaded_runs(archive, runs, entries):
            # The next scan checks the archive for changes.
            inside = replace(run, key=job.key, run=f"{job.run}/{run.run}", root=members.name)
            for row in self.row(inside, partial(read_job_files, members)):
                rows += 1
                yield replace(row, size=job.size, modified=job.modified, etag=job.etag)
        if not rows:
            raise NoUsableRecord(
                "; ".join([f"{archive.name}: no log of a run in it", *archive.notes])
            )
        if archive.hidden:
            self.skipped.skip(UnreadReason.CUT_ARCHIVE, archive.name)


def _stored_job(job: Job, stored: StoredRun) -> Job:
    """Return the job of a run in a database."""
    return replace(job, run=stored.name if job.run == "." else f"{job.run}/{stored.name}")


def _sibling_job(job: Job, sibling: Entry) -> Job:
    """Return the job of a sibling log."""
    path = str(sibling.path)
    run = path if job.run == "." else f"{job.run}/{path}"
    file = File(path, sibling.size, sibling.written)
    return replace(job, run=run, logs=(file,), attempts=False)


def _stamped(job: Job, options: ScanOptions, row: Row) -> Row:
    """Return a row with the values for deciding in the next scan if it is up to date."""
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
    path = shown(job_path(job.root, job.logs[0]))
    for name in (path, job.key, shown(job.root)):
        reason = reason.removeprefix(f"{name}: ")
    return _stamped(job, options, Row(path=path, run=job.run, outcome=UNREAD, reason=reason))


def _lister(entries: Mapping[str, Entry]) -> Lister:
    """Return a function that lists the members of an archive like folders."""
    files: dict[str, list[File]] = {}
    folders: dict[str, set[str]] = {}
    for path, entry in entries.items():
        parts = path.split("/")
        for depth in range(1, len(parts)):
            folders.setdefault("/".join(["", *parts[: depth - 1]]), set()).add(parts[depth - 1])
        where = "/".join(["", *parts[:-1]])
        files.setdefault(where, []).append(File(parts[-1], entry.size, entry.written))
    return lambda folder, _: (files.get(folder, []), sorted(folders.get(folder, ())))


class _LoadedMembers(Container):
    """Members of an archive, loaded into memory."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.bytes: dict[str, bytes] = {}

    def streams(self, entries: Iterable[Entry]) -> Generator[tuple[Entry, Stream]]:
        return super().streams(entry for entry in entries if str(entry.path) in self.bytes)

    def open(self, entry: Entry) -> Stream:
        return Stream(f"{self.name}/{entry.path}", io.BytesIO(self.bytes[str(entry.path)]))


def _loaded_runs(
    archive: Container, runs: Sequence[Job], entries: Mapping[str, Entry]
) -> Iterator[tuple[Job, _LoadedMembers]]:
    """Yield each run of an archive with its files, as soon as the last file was read."""
    runs_by_path: dict[str, list[int]] = {}
    missing = []
    loaded = [_LoadedMembers(f"{archive.name}{run.root}") for run in runs]
    for number, run in enumerate(runs):
        names = {f"{run.root.strip('/')}/{f.path}".lstrip("/") for f in (*run.logs, *run.sidecars)}
        missing.append(len(names))
        for name in names:
            runs_by_path.setdefault(name, []).append(number)
    with closing(archive.streams([entries[name] for name in runs_by_path])) as streams:
        for entry, stream in streams:
            data = stream.read_all()
            for number in runs_by_path.pop(str(entry.path)):
                relative = str(entry.path)[len(runs[number].root.strip("/")) :].lstrip("/")
                loaded[number].bytes[relative] = data
                missing[number] -= 1
                if not missing[number]:
                    yield runs[number], loaded[number]
                    loaded[number].bytes.clear()
    for number, count in enumerate(missing):  # the archive is truncated
        if count and loaded[number].bytes:
            yield runs[number], loaded[number]
