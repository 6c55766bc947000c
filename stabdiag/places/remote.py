"""Files and folders behind URLs, opened with fsspec."""

from __future__ import annotations

from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any, Final, NoReturn

from stabdiag.errors import LogError, TooSlow
from stabdiag.places.listing import DEEPEST, MOST_FILES, Entry, is_skipped, opened
from stabdiag.places.urls import fail, file_system, shown
from stabdiag.readers.compressed import unpacked
from stabdiag.readers.source import Stream

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Sequence

# Each listing is a request or more.
_MOST_LISTINGS: Final = 100

# After so many files that are waited for in vain, none of the others is asked for.
_PATIENCE: Final = 3


class Remote:
    """A URL: one file, or a folder."""

    def __init__(self, url: str) -> None:
        """Find the URL's file system, whose package may not be installed."""
        self.url = url
        self.name = shown(url).rstrip("/")
        self.notes: list[str] = []
        self._slow: list[TooSlow] = []
        self.files, self.path = file_system(url)

    def is_folder(self) -> bool:
        """Tell whether the URL is that of a folder; a web server's are those that end in ``/``."""
        if self._is_web():
            return self.url.endswith("/")
        try:
            return bool(self.files.info(self.path)["type"] == "directory")
        except Exception as error:  # noqa: BLE001 - each file system has errors of its own
            fail(self.name, error)

    def open(self) -> Stream:
        """Open the URL's file."""
        return self._open(self.path, self.name)

    def read_beside(self, name: str, most: int) -> bytes | None:
        """Return a small file that lies beside the URL's, or None."""
        path = f"{self.path.rpartition('/')[0]}/{name}"
        try:
            with self._open(path, name) as stream:
                data = stream.peek(most + 1)
        except LogError:
            return None
        return data if len(data) <= most else None

    def entries(self) -> Sequence[Entry]:
        """Return the files in the URL's folder, those of the upper levels first."""
        found: list[Entry] = []
        level = [self.path.rstrip("/") + "/" * self._is_web()]
        listings = 0
        for _ in range(DEEPEST):
            below: list[str] = []
            for folder in level[: _MOST_LISTINGS - listings]:
                listings += 1
                self._list(folder, found, below)
            level = below
        if listings == _MOST_LISTINGS or len(found) > MOST_FILES:
            self.notes.append("the folder was not looked at as a whole: it is too large")
        return found[:MOST_FILES]

    def _list(self, folder: str, found: list[Entry], below: list[str]) -> None:
        try:
            there = self.listed(folder)
        except Exception as error:  # noqa: BLE001 - each file system has errors of its own
            if found or below:
                self.notes.append("a folder in it could not be listed")
                return
            fail(self.name, error)
        root = self.path.rstrip("/") + "/"
        for one in sorted(there, key=lambda one: str(one["name"])):
            path = str(one["name"])
            name = path.rstrip("/").rpartition("/")[2]
            if not path.startswith(root) or path.partition("?")[0].rstrip("/") == folder.rstrip(
                "/"
            ):
                continue
            if one["type"] == "directory":
                if not is_skipped(name):
                    below.append(path)
            else:
                inside = PurePosixPath(path.removeprefix(root))
                found.append(
                    Entry(path=inside, size=one.get("size"), written=written(one), key=path)
                )

    def listed(self, folder: str) -> list[dict[str, Any]]:
        """Return what lies in a folder, as fsspec tells it, in whatever way its errors are.

        Of a web server it is what the folder's page links to; fsspec reads that whole, however long
        it is.
        """
        if not self._is_web():
            found: list[dict[str, Any]] = self.files.ls(folder, detail=True)
            return found
        from stabdiag.places.web import LONGEST_PAGE, links_in

        with self._open(folder, self.name) as page:
            links = dict.fromkeys(links_in(page.peek(LONGEST_PAGE), folder))
        return [
            {"name": link, "type": "directory" if link.endswith("/") else "file"} for link in links
        ]

    def streams(self, entries: Sequence[Entry]) -> Generator[tuple[Entry, Stream]]:
        """Open one file after the other."""
        return opened(
            entries, lambda one: self._open(one.key, f"{self.name}/{one.path}"), self.notes
        )

    def _open(self, path: str, name: str) -> Stream:
        if len(self._slow) >= _PATIENCE:
            raise self._slow[-1]
        try:
            if not self._is_web():
                return Stream(name, _Raw(name, self.files.open(path, "rb"), self._fail))
            from stabdiag.places.web import Paced

            # In one request from begin to end, without one for the size, which nobody needs.
            file = Paced(name, self.files.open(path, "rb", block_size=0, size=1))
        except Exception as error:  # noqa: BLE001 - each file system has errors of its own
            self._fail(name, error)
        stream = Stream(name, _Raw(name, file, self._fail))
        return unpacked(stream) if file.is_packed else stream

    def _fail(self, name: str, error: Exception) -> NoReturn:
        try:
            fail(name, error)
        except TooSlow as slow:
            self._slow.append(slow)
            raise

    def _is_web(self) -> bool:
        return self.url.startswith(("http://", "https://"))


class _Raw:
    """The bytes of a remote file; whatever goes wrong is told in one line."""

    def __init__(self, name: str, file: Any, fail: Callable[[str, Exception], NoReturn]) -> None:
        self._name = name
        self._file = file
        self._fail = fail
        self._ended = False

    def read(self, size: int, /) -> bytes:
        if self._ended:  # aiohttp complains on standard error if it is asked again
            return b""
        try:
            found = bytes(self._file.read(size))
        except Exception as error:  # noqa: BLE001 - each file system has errors of its own
            self._fail(self._name, error)
        self._ended = not found
        return found

    def close(self) -> None:
        self._file.close()


def written(one: dict[str, Any]) -> float | None:
    """Return when a file was written, under whichever key its file system has that."""
    for key in ("mtime", "LastModified", "last_modified", "updated", "created"):
        when: Any = one.get(key)
        if isinstance(when, int | float):
            return float(when)
        if hasattr(when, "timestamp"):
            return float(when.timestamp())
    return None
