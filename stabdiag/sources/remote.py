"""Files and folders behind URLs, opened with fsspec.

A web server must not fall silent. It may send no packing that is unpacked unseen. And it may
redirect, but no further inside than where the user sent us: nobody on the internet leads us into a
private network, and nobody at all to a link-local address, where clouds keep credentials.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from html import unescape
from importlib.util import find_spec
from ipaddress import IPv6Address, ip_address
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any, Final, NoReturn
from urllib.parse import urljoin

from stabdiag.errors import LogError, TooSlow, did_you_mean
from stabdiag.model.text import shown
from stabdiag.readers.compressed import unpacked
from stabdiag.readers.source import Pieces, Stream
from stabdiag.sources.folder import MOST_FILES, Container, Entry, by_levels, is_skipped

if TYPE_CHECKING:
    from aiohttp import ClientResponse
    from aiohttp.connector import Connection
    from yarl import URL


# Each listing is a request or more.
_MOST_LISTINGS: Final = 100

# After waiting in vain for so many files, none of the others is asked for.
_PATIENCE: Final = 3

# How many bytes are read at a time.
_PIECE: Final = 1 << 18

# The status of an answer that is a part of what was asked for.
_PARTIAL: Final = 206

# Seconds after which a silent server is given up; the whole of a long log may take longer.
_CONNECT: Final = 20.0
_SILENCE: Final = 60.0

# The packing that is asked for, and known by its first bytes like any other.
_GZIP: Final = ("gzip", "x-gzip")

# The links of a page that lists a folder, and how much of such a page is looked at.
_LINK: Final = re.compile(
    r"""href\s{0,9}=\s{0,9}["']([^"'<>\n]+)|https?://[-\w@:%.+~#?&/=]+""", re.IGNORECASE
)
_LONGEST_PAGE: Final = 1 << 22

_INSTALL: Final = "pip install 'stabdiag[remote]'"
_PACKAGES: Final = {"http": "aiohttp", "https": "aiohttp", "sftp": "paramiko", "ssh": "paramiko"}

# The keys under which file systems tell when a file was written.
_WRITTEN: Final = ("mtime", "LastModified", "last_modified", "updated", "created")


class Remote(Container):
    """A URL: one file, or a folder."""

    def __init__(self, url: str) -> None:
        """Find the URL's file system, whose package may not be installed."""
        super().__init__(shown(url).rstrip("/"))
        self.url = url
        self._slow: list[TooSlow] = []
        self._listings = 0
        self._is_web = url.startswith(("http://", "https://"))
        self.files, self.path = _file_system(url, self._is_web)

    def is_folder(self) -> bool:
        """Tell whether the URL is that of a folder; a web server's are those that end in ``/``."""
        if self._is_web:
            return self.url.endswith("/")
        try:
            return bool(self.files.info(self.path)["type"] == "directory")
        except Exception as error:  # noqa: BLE001 - each file system has errors of its own
            fail(self.name, error)

    def file(self) -> Stream:
        """Open the URL's file."""
        return self._open(self.path, self.name)

    def open(self, entry: Entry) -> Stream:
        """Open a file in the URL's folder."""
        return self._open(entry.key, f"{self.name}/{entry.path}")

    def beside(self, name: str) -> Stream:
        """Open the file of this name that lies beside the URL's."""
        path, called = (f"{one.rpartition('/')[0]}/{name}" for one in (self.path, self.name))
        return self._open(path, called)

    def entries(self) -> Sequence[Entry]:
        """Return the files in the URL's folder."""
        root = self.path.rstrip("/") + "/" * self._is_web
        found = by_levels(root, self._files)
        if self._listings == _MOST_LISTINGS or len(found) > MOST_FILES:
            self.notes.append("the folder is too large to be looked at as a whole")
        return found[:MOST_FILES]

    def _files(self, folder: str, below: list[str]) -> Iterator[Entry]:
        if self._listings == _MOST_LISTINGS:
            return
        self._listings += 1
        try:
            there = self.listed(folder)
        except Exception as error:  # noqa: BLE001 - each file system has errors of its own
            if self._listings == 1:
                fail(self.name, error)
            self.notes.append("a folder in it could not be listed")
            return
        root = self.path.rstrip("/") + "/"
        for path, one in there:
            if one["type"] != "directory":
                inside, when = PurePosixPath(path.removeprefix(root)), written(one) or 0.0
                yield Entry(path=inside, size=one.get("size"), written=when, key=path)
            elif not is_skipped(path.rstrip("/").rpartition("/")[2]):
                below.append(path)

    def listed(self, folder: str) -> list[tuple[str, dict[str, Any]]]:
        """Return the paths in a folder, and what fsspec tells of each; its errors are of any kind.

        For a web server this is what the folder's page links to; fsspec reads a page whole, however
        long it is.
        """
        if self._is_web:
            with self._open(folder, self.name) as page:
                links = {*links_in(page.peek(_LONGEST_PAGE), folder)}
            there = {one: {"type": "directory" if one.endswith("/") else "file"} for one in links}
        else:
            there = {str(one["name"]): one for one in self.files.ls(folder, detail=True)}
        root = f"{folder.rstrip('/')}/"
        inside = (path for path in there if path.partition("?")[0].rstrip("/").startswith(root))
        return [(path, there[path]) for path in sorted(inside)]

    def _open(self, path: str, name: str) -> Stream:
        if len(self._slow) >= _PATIENCE:
            raise self._slow[-1]
        try:
            # In one request from begin to end, without one for the size, which nobody needs.
            how = {"block_size": 0, "size": 1} if self._is_web else {}
            file = self.files.open(path, "rb", **how)
            packing = file.r.headers.get("Content-Encoding", "").lower() if self._is_web else ""
        except Exception as error:  # noqa: BLE001 - each file system has errors of its own
            self._fail(name, error)
        stream = Stream(name, Pieces(self._read(name, file), file.close))
        if self._is_web:
            stream = _whole(stream, file.r)
        return unpacked(stream) if packing in _GZIP else stream

    def _read(self, name: str, file: Any) -> Iterator[bytes]:
        """Yield the bytes of a file; whatever goes wrong is told in one line."""
        try:
            while found := bytes(file.read(_PIECE)):
                yield found
        except Exception as error:  # noqa: BLE001 - each file system has errors of its own
            self._fail(name, error)

    def _fail(self, name: str, error: Exception) -> NoReturn:
        try:
            fail(name, error)
        except TooSlow as slow:
            self._slow.append(slow)
            raise


# How many of the last bytes show whether they are text, and the ends of text that is whole.
_TAIL: Final = 64
_WHOLE_ENDS: Final = (b"\n", b"\r", b"}", b"]")


def _whole(stream: Stream, answer: Any) -> Stream:
    """Return the stream of a server's answer; it notes where the answer is a part of the file.

    A server that does not say how long the file is cannot be seen to stop early, except by half a
    line at the end. A shorter answer than was announced fails by itself.
    """
    if answer.status == _PARTIAL:
        stream.break_off(
            "the server sent a part of the file (206)", rest="that part was read; download it"
        )
        return stream
    headers = answer.headers
    if "Content-Length" in headers or "chunked" in headers.get("Transfer-Encoding", "").lower():
        return stream

    def pieces() -> Iterator[bytes]:
        tail = b""
        for piece in stream.pieces():
            tail = piece[-_TAIL:]
            yield piece
        is_text = tail.isascii() and not any(byte < 9 for byte in tail)
        if tail and is_text and not tail.endswith(_WHOLE_ENDS):
            stream.break_off(
                "the server's answer has no length and ends in mid-line",
                rest="everything before was read",
            )

    return stream.rewritten(pieces())


def written(one: dict[str, Any]) -> float | None:
    """Return when a file was written, under whichever key its file system has that."""
    for key in _WRITTEN:
        when: Any = one.get(key)
        if isinstance(when, int | float):
            return float(when)
        if hasattr(when, "timestamp"):
            return float(when.timestamp())
    return None


def fail(name: str, error: Exception) -> NoReturn:
    """Raise an error without the URL, which the messages of libraries may hold as a whole."""
    if isinstance(error.__cause__, Exception):  # what the web says, fsspec turns into "not found"
        error = error.__cause__
    if isinstance(error, LogError):
        raise error from None
    status = getattr(error, "status", None)
    if isinstance(error, FileNotFoundError) or status in (404, 410):
        raise LogError(f"{name}: no such file; check the URL") from None
    if isinstance(error, PermissionError) or status in (401, 403):
        raise LogError(f"{name}: permission denied; check your credentials") from None
    if isinstance(error, TimeoutError) or "Timeout" in type(error).__name__:
        raise TooSlow(f"{name}: no answer in time; try again, or download the file") from None
    if status is not None:
        raise LogError(f"{name}: the server answers with {status}; check the URL") from None
    lines = str(error).splitlines() or [""]
    words = ("…" if "://" in word else word for word in lines[0].split())
    reason = " ".join(words)[:200] or type(error).__name__
    raise LogError(
        f"{name}: cannot be read ({reason}); check the URL and your credentials"
    ) from None


def _file_system(url: str, is_web: bool) -> tuple[Any, str]:
    """Return the file system of a URL, for which fsspec has no type, and the path in it.

    Raises:
        LogError: for a protocol that is not known, or whose package is not installed.
    """
    name, protocol = shown(url), url.partition("://")[0].lower()
    if find_spec("fsspec") is None:
        raise LogError(f"{name}: to read URLs, install fsspec: {_INSTALL}")
    from fsspec.core import url_to_fs
    from fsspec.registry import known_implementations

    if protocol not in known_implementations:
        hint = did_you_mean(protocol, known_implementations)
        raise LogError(f"{name}: unknown protocol {protocol!r}{hint}")
    try:
        options = {"client_kwargs": _client(name)} if is_web else {}
        files, path = url_to_fs(url, skip_instance_cache=True, **options)
    except ImportError:
        package = _PACKAGES.get(protocol) or known_implementations[protocol]["class"].split(".")[0]
        raise LogError(
            f"{name}: to read {protocol}:// URLs, install {package}: {_INSTALL} {package}"
        ) from None
    except Exception as error:  # noqa: BLE001 - each file system has errors of its own
        fail(name, error)
    return files, path


def _client(name: str) -> dict[str, Any]:
    """Return the arguments of aiohttp's client that reads the URL of this name, and no other."""
    import asyncio

    from aiohttp import ClientRequest, ClientResponse, ClientTimeout

    named: int | None = None

    def check(address: str) -> None:
        nonlocal named
        there = depth(address)
        named = there if named is None else named
        if there > named:
            raise LogError(
                f"{name}: the server redirects to {address}, further inside than itself;"
                " if you trust it, give that URL"
            )

    class Request(ClientRequest):
        """Looks whom it is about to ask; a name may stand for any address."""

        def __init__(self, method: str, url: URL, **how: Any) -> None:
            with suppress(ValueError):
                check(url.raw_host or "")
            super().__init__(method, url, **how)

        async def send(self, conn: Connection) -> ClientResponse:
            check(conn.transport.get_extra_info("peername")[0])  # type: ignore[union-attr]
            return await super().send(conn)

    class Response(ClientResponse):
        async def start(self, connection: Connection) -> ClientResponse:
            async with asyncio.timeout(_SILENCE):
                await super().start(connection)
            packing = self.headers.get("Content-Encoding", "identity").lower()
            if self.ok and packing not in ("", "identity", *_GZIP):
                raise LogError(
                    f"{name}: the server sends it packed ({packing}), which nobody asked for;"
                    " download the file"
                )
            return self

    return {
        "auto_decompress": False,
        "headers": {"Accept-Encoding": _GZIP[0]},
        "request_class": Request,
        "response_class": Response,
        "timeout": ClientTimeout(total=None, sock_connect=_CONNECT, sock_read=_SILENCE),
    }


def depth(address: str) -> int:
    """Return how far inside an address lies: on the internet 0, in a private network 1, here 2.

    It is 3 for a link-local one, which is that of a service beside this very machine.
    """
    ip = ip_address(address.partition("%")[0])
    if isinstance(ip, IPv6Address) and ip.ipv4_mapped is not None:
        ip = ip.ipv4_mapped
    if ip.is_link_local:
        return 3
    if ip.is_loopback or ip.is_unspecified:
        return 2
    return 0 if ip.is_global else 1


def links_in(page: bytes, folder: str) -> Iterator[str]:
    """Yield the URLs that a page names, which lists the folder behind its own URL."""
    text = page.decode("utf-8", "replace")
    for found in _LINK.finditer(text):
        with suppress(ValueError):
            yield urljoin(folder, unescape(found[1] or found[0])).partition("#")[0]
