"""What a worker does: it reads the logs of a batch from where they lie, and returns rows."""

from __future__ import annotations

import ctypes
import io
import signal
import threading
import time
from contextlib import closing
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Final

from stabdiag._version import __version__
from stabdiag.api import report_on
from stabdiag.assemble.given import run_found, wanted_columns
from stabdiag.errors import ColumnError, LogError, NoUsableRecord, StabdiagError
from stabdiag.model.limits import Limits
from stabdiag.model.scan import UNREAD, Row
from stabdiag.places import Asked, read_place
from stabdiag.places.archives import open_archive
from stabdiag.places.best import ARCHIVES, best_of, only_log
from stabdiag.places.folder import Entry, Folder
from stabdiag.places.read import is_archive
from stabdiag.places.remote import Remote, shown
from stabdiag.readers.source import Stream, open_stream
from stabdiag.scan.find import jobs_below
from stabdiag.scan.group import File, Job, Lister, Passed, storable_text
from stabdiag.scan.rows import table_of
from stabdiag.scan.told import row_of

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
    from typing import TypeVar

    import pyarrow as pa

    from stabdiag.places import Found
    from stabdiag.places.folder import Place

    Result = TypeVar("Result")

# The largest whole number in a table.
_LARGEST: Final = (1 << 63) - 1

# Set in a process of our own: it ends the process after some seconds, even if a log holds it in C.
impatient: Callable[[float | None], None] | None = None


@dataclass(frozen=True, kw_only=True)
class Ask:
    """How all logs of a scan are to be read and judged.

    ``stamp`` is the hash of that, ``timeout`` the seconds after which a log is given up.
    """

    settings: Mapping[str, object] = field(default_factory=dict)
    limits: Limits = field(default_factory=Limits)
    columns: Mapping[str, str] = field(default_factory=dict)
    format: str | None = None
    literal: bool = False
    timeout: float = 300.0
    stamp: str = ""


@dataclass(frozen=True, kw_only=True)
class Batch:
    """What came of a batch: its rows, and what proved to be no log of a run, by the reason."""

    rows: pa.Table
    passed: Passed


class TimedOut(BaseException):
    """A log takes too long; no ``except Exception`` on the way is to swallow it."""


def read_batch(jobs: Sequence[Job], ask: Ask) -> Batch:
    """Read the logs of a batch."""
    import pyarrow as pa

    pa.set_cpu_count(1)  # there are as many workers as cores
    passed = Passed()
    rows = (row for job in jobs for row in rows_of_job(job, ask, passed))
    return Batch(rows=table_of(rows), passed=passed)


def rows_of_job(job: Job, ask: Ask, passed: Passed) -> Iterator[Row]:
    """Yield the row of a run, or the rows of the runs in an archive."""
    if job.is_archive or job.logs[0].path.lower().endswith(ARCHIVES):
        try:
            yield from _packed(job, ask, passed)
        except StabdiagError as error:
            yield _storable(_unread(job, ask, str(error)))
        return
    yield from _row(job, ask, passed, lambda: _found(job, ask))


def unread(job: Job, ask: Ask, reason: str) -> pa.Table:
    """Return the row of a log of which no worker came back."""
    return table_of([_storable(_unread(job, ask, reason))])


def _row(job: Job, ask: Ask, passed: Passed, found: Callable[[], Found]) -> Iterator[Row]:
    began = time.monotonic()

    def diagnosed() -> Row:
        history, told = run_found(
            found(), None, ask.settings, limits=ask.limits, columns=ask.columns, attempt=None
        )
        report = report_on(history, told, ask.limits, literal=ask.literal)
        return row_of(report, shown_path(history.source.name), job.run)

    try:
        row = _about(job, ask, limited(diagnosed, ask.timeout))
    except TimedOut:
        row = _unread(job, ask, f"given up after {ask.timeout:g} s")
    except (ColumnError, NoUsableRecord) as error:
        if job.root and (not job.sure or isinstance(error, ColumnError)):
            passed.over("no training loss in it", job.key)
            return
        row = _unread(job, ask, str(error))
    except StabdiagError as error:
        row = _unread(job, ask, str(error))
    except MemoryError:
        row = _unread(job, ask, "needs more memory than there is")
    except Exception as error:  # noqa: BLE001 - one log must not cost the rows of all others
        row = _unread(job, ask, f"an error in stabdiag: {type(error).__name__}: {error}")
    yield _storable(replace(row, seconds=round(time.monotonic() - began, 4)))


def _storable(row: Row) -> Row:
    """Return a row that can be written: not every file name is text, nor every number small."""

    def storable(value: object) -> object:
        if isinstance(value, str):
            return storable_text(value)
        if isinstance(value, dict):
            return {storable_text(name): storable_text(one) for name, one in value.items()}
        return None if isinstance(value, int) and not -_LARGEST <= value <= _LARGEST else value

    return Row(**{name: storable(value) for name, value in vars(row).items()})  # type: ignore[arg-type]


def _about(job: Job, ask: Ask, row: Row) -> Row:
    """Return a row with what tells in the next scan whether it still holds."""
    return replace(
        row,
        size=job.size,
        modified=job.modified,
        etag=job.etag,
        version=__version__,
        limits=ask.stamp,
        key=job.key,
    )


def _unread(job: Job, ask: Ask, reason: str) -> Row:
    path = shown_path(f"{job.root}/{job.logs[0].path}" if job.root else job.logs[0].path)
    for name in (path, job.key, shown_path(job.root)):
        reason = reason.removeprefix(f"{name}: ")
    return _about(job, ask, Row(path=path, run=job.run, outcome=UNREAD, reason=reason))


def shown_path(path: str) -> str:
    """Return a path as a row may keep it: a URL without its secrets."""
    return shown(path) if "://" in path else path


def _found(job: Job, ask: Ask) -> Found:
    """Read the log of a run that lies on a disk, in a bucket or behind a URL."""
    asked = Asked(format=ask.format, wanted=wanted_columns(ask.columns))
    paths = [f"{job.root}/{one.path}" if job.root else one.path for one in job.logs]
    is_url = "://" in (job.root or paths[0])
    if (len(paths) == 1 and not (job.root and is_url)) or job.attempts:
        return read_place(paths, format=asked.format, wanted=asked.wanted)
    place = Remote(job.root) if is_url else Folder(Path(job.root))
    return _of_place(place, job, asked)


def _of_place(place: Place, job: Job, asked: Asked) -> Found:
    keyed = [_entry(place, one) for one in (*job.logs, *job.beside)]
    if len(job.logs) == 1:
        return only_log(place, keyed[0], keyed, asked)
    return best_of(place, keyed, asked)


def _entry(place: Place, one: File) -> Entry:
    root = place.path if isinstance(place, Folder | Remote) else ""
    key = f"{str(root).rstrip('/')}/{one.path}" if root else one.path
    return Entry(path=PurePosixPath(one.path), size=one.size, written=one.written, key=key)


def _packed(job: Job, ask: Ask, passed: Passed) -> Iterator[Row]:
    """Yield the rows of all runs in an archive, which is gone through once for all of them."""
    path = f"{job.root}/{job.logs[0].path}" if job.root else job.logs[0].path
    with Remote(path).open() if "://" in path else open_stream(path) as stream:
        if not is_archive(stream):
            raise LogError(f"{stream.name}: named like an archive, but it is none")
        with open_archive(stream) as place:
            yield from _members(place, job, ask, passed)


def _members(place: Place, job: Job, ask: Ask, passed: Passed) -> Iterator[Row]:
    entries = {str(one.path): one for one in place.entries()}
    runs = list(jobs_below("", _lister(entries), passed))
    asked = Asked(format=ask.format, wanted=wanted_columns(ask.columns))
    rows = 0
    for run, held in _held(place, runs, entries):
        inside = replace(
            job,
            logs=run.logs,
            beside=run.beside,
            run=f"{job.run}/{run.run}",
            sure=run.sure,
            root=held.name,
        )
        for row in _row(inside, ask, passed, partial(_of_place, held, inside, asked)):
            rows += 1
            # What tells whether it changed is the archive.
            yield replace(row, size=job.size, modified=job.modified, etag=job.etag)
    if not rows:
        raise NoUsableRecord("; ".join([f"{place.name}: no log of a run in it", *place.notes]))


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


class _Held:
    """Some members of an archive, held in memory."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.notes: list[str] = []
        self.bytes: dict[str, bytes] = {}

    def entries(self) -> Sequence[Entry]:
        return ()

    def streams(self, entries: Sequence[Entry]) -> Generator[tuple[Entry, Stream]]:
        for one in entries:
            data = self.bytes.get(str(one.path))
            if data is not None:
                yield one, Stream(f"{self.name}/{one.path}", io.BytesIO(data))


def _held(
    place: Place, runs: Sequence[Job], entries: Mapping[str, Entry]
) -> Iterator[tuple[Job, _Held]]:
    """Yield each run of an archive with its files, as soon as the last of them was met."""
    wants: dict[str, list[int]] = {}
    missing = []
    held = [_Held(f"{place.name}{run.root}") for run in runs]
    for number, run in enumerate(runs):
        names = {_inside(run.root, one.path) for one in (*run.logs, *run.beside)}
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


def _inside(root: str, path: str) -> str:
    return f"{root.strip('/')}/{path}".lstrip("/")


def limited(call: Callable[[], Result], seconds: float) -> Result:
    """Return what a call returns, or give it up after so many seconds.

    Raises:
        TimedOut: if it takes longer.
    """
    if impatient is not None:
        impatient(1.5 * seconds + 5)
    try:
        return _timed(call, seconds)
    finally:
        if impatient is not None:
            impatient(None)


def _timed(call: Callable[[], Result], seconds: float) -> Result:
    if threading.current_thread() is threading.main_thread() and hasattr(signal, "setitimer"):
        return _by_alarm(call, seconds)
    return _in_a_thread(call, seconds)


def _by_alarm(call: Callable[[], Result], seconds: float) -> Result:
    armed = True

    def ring(*_: object) -> None:
        if armed:
            raise TimedOut

    before = signal.signal(signal.SIGALRM, ring)
    try:
        signal.setitimer(signal.ITIMER_REAL, seconds, 1.0)  # and again, should it be swallowed
        return call()
    finally:
        armed = False
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def _in_a_thread(call: Callable[[], Result], seconds: float) -> Result:
    """Call it in a thread, which is told to end when it is late: a thread cannot be killed."""
    done: list[Result] = []
    errors: list[BaseException] = []

    def run() -> None:
        try:
            done.append(call())
        except BaseException as error:  # noqa: BLE001 - raised below, where it belongs
            errors.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(seconds)
    if thread.is_alive():
        late = ctypes.c_ulong(thread.ident or 0)
        ctypes.pythonapi.PyThreadState_SetAsyncExc(late, ctypes.py_object(TimedOut))
        raise TimedOut
    if errors:
        raise errors[0]
    return done[0]
