"""Files and folders behind URLs, opened with fsspec.

Web servers are not trusted. A server that stops sending times out. Only gzip is accepted as content
encoding, and it is decompressed here. A redirect must not lead further inside the network than the
URL of the user: not from the internet to a private network, and never to a link-local address,
since clouds serve credentials there.
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
from stabdiag.model.patterns import lazy_pattern
from stabdiag.model.text import shown
from stabdiag.readers.source import Pieces, Stream
from stabdiag.readers.unwrapping.compressed import unpacked
from stabdiag.sources.folder import MAX_FILES, Container, Entry, is_skipped, list_by_level

if TYPE_CHECKING:
    from aiohttp import ClientResponse
    from aiohttp.connector import Connection
    from yarl import URL


# Maximum number of folders listed; each costs at least one request.
_MAX_LISTINGS: Final = 100

# After this many timeouts, no further files are requested.
_MAX_TIMEOUTS: Final = 3

# Bytes read at a time.
_DOWNLOAD_CHUNK: Final = 1 << 18

# The HTTP status of a partial response.
_PARTIAL: Final = 206

# Timeouts in seconds, for connecting and between bytes; a long log may take longer in total.
_CONNECT_TIMEOUT: Final = 20.0
_READ_TIMEOUT: Final = 60.0

# The only content encoding that is requested and accepted.
_GZIP: Final = ("gzip", "x-gzip")

# The links on a page that lists a folder, and the maximum size of that page.
_LINK: Final = lazy_pattern(
    r"""href\s{0,9}=\s{0,9}["']([^"'<>\n]+)|https?://[-\w@:%.+~#?&/=]+""", re.IGNORECASE
)
_MAX_PAGE: Final = 1 << 22

_INSTALL: Final = "pip install 'stabdiag[remote]'"
_PACKAGES: Final = {"http": "aiohttp", "https": "aiohttp", "sftp": "paramiko", "ssh": "paramiko"}

# The keys under which file systems report the time of the last change.
_WRITTEN: Final = ("mtime", "LastModified", "last_modified", "updated", "created")


class Remote(Container):
    """A URL: one file, or a folder."""

    def __init__(self, url: str) -> None:
        """Open the file system of the URL, whose package may not be installed."""
        super().__init__(shown(url).rstrip("/"))
        self.url = url
        self._timeouts: list[TooSlow] = []
        self._listings = 0
        self._is_web = url.startswith(("http://", "https://"))
        self.files, self.path = _file_system(url, self._is_web)

    def is_folder(self) -> bool:
        """Return True if the URL is a folder; on a web server, if it ends with ``/``."""
        if self._is_web:
            return self.url.endswith("/")
        try:
            return bool(self.files.info(self.path)["type"] == "directory")
        except Exception as error:  # noqa: BLE001 - file systems raise any exception
            fail(self.name, error)

    def file(self) -> Stream:
        """Open the URL's file."""
        return self._open(self.path, self.name)

    def open(self, entry: Entry) -> Stream:
        """Open a file in the URL's folder."""
        return self._open(entry.key, f"{self.name}/{entry.path}")

    def open_sibling(self, name: str) -> Stream:
        """Open a file of this name in the folder of the URL."""
        path, url = (f"{x.rpartition('/')[0]}/{name}" for x in (self.path, self.name))
        return self._open(path, url)

    def entries(self) -> Sequence[Entry]:
        """Return the files in the URL's folder."""
        root = self.path.rstrip("/") + "/" * self._is_web
        entries = list_by_level(root, self._files)
        if self._listings == _MAX_LISTINGS or len(entries) > MAX_FILES:
            self.notes.append("the folder is too large to be listed in full")
        return entries[:MAX_FILES]

    def _files(self, folder: str, below: list[str]) -> Iterator[Entry]:
        if self._listings == _MAX_LISTINGS:
            return
        self._listings += 1
        try:
            items = self.listed(folder)
        except Exception as error:  # noqa: BLE001 - file systems raise any exception
            if self._listings == 1:
                fail(self.name, error)
            self.notes.append("a subfolder could not be listed")
            return
        root = self.path.rstrip("/") + "/"
        for path, info in items:
            if info["type"] != "directory":
                inside, when = PurePosixPath(path.removeprefix(root)), written(info) or 0.0
                yield Entry(path=inside, size=info.get("size"), written=when, key=path)
            elif not is_skipped(path.rstrip("/").rpartition("/")[2]):
                below.append(path)

    def listed(self, folder: str) -> list[tuple[str, dict[str, Any]]]:
        """Return the paths in a folder, each with its information from fsspec.

        On a web server these are the links on the page of the folder, read up to a maximum size.
        Errors may be of any type.
        """
        if self._is_web:
            with self._open(folder, self.name) as page:
                links = {*page_links(page.peek(_MAX_PAGE), folder)}
            items = {x: {"type": "directory" if x.endswith("/") else "file"} for x in links}
        else:
            items = {str(x["name"]): x for x in self.files.ls(folder, detail=True)}
        root = f"{folder.rstrip('/')}/"
        inside = (path for path in items if path.partition("?")[0].rstrip("/").startswith(root))
        return [(path, items[path]) for path in sorted(inside)]

    def _open(self, path: str, name: str) -> Stream:
        if len(self._timeouts) >= _MAX_TIMEOUTS:
            raise self._timeouts[-1]
        try:
            # One request for the whole file, without another one for its size.
            options = {"block_size": 0, "size": 1} if self._is_web else {}
            file = self.files.open(path, "rb", **options)
            encoding = file.r.headers.get("Content-Encoding", "").lower() if self._is_web else ""
        except Exception as error:  # noqa: BLE001 - file systems raise any exception
            self._fail(name, error)
        stream = Stream(name, Pieces(self._read(name, file), file.close))
        if self._is_web:
            stream = _checked_for_end(stream, file.r)
        return unpacked(stream) if encoding in _GZIP else stream

    def _read(self, name: str, file: Any) -> Iterator[bytes]:
        """Yield the bytes of a file; any exception becomes an error of one line."""
        try:
            while data := bytes(file.read(_DOWNLOAD_CHUNK)):
                yield data
        except Exception as error:  # noqa: BLE001 - file systems raise any exception
            self._fail(name, error)

    def _fail(self, name: str, error: Exception) -> NoReturn:
        try:
            fail(name, error)
        except TooSlow as timeout:
            self._timeouts.append(timeout)
            raise


# The number of last bytes checked for text, and the endings of complete text.
_TEXT_TAIL: Final = 64
_COMPLETE_ENDINGS: Final = (b"\n", b"\r", b"}", b"]")


def _checked_for_end(stream: Stream, response: Any) -> Stream:
    """Return the stream of a response; it notes a truncation.

    If the server gives no length, only an incomplete last line shows that the response is
    truncated. A response shorter than its length raises an error by itself.
    """
    if response.status == _PARTIAL:
        stream.break_off(
            "the server sent only a part of the file (206)",
            read_part="that part was read; download it",
        )
        return stream
    headers = response.headers
    if "Content-Length" in headers or "chunked" in headers.get("Transfer-Encoding", "").lower():
        return stream

    def pieces() -> Iterator[bytes]:
        tail = b""
        for piece in stream.pieces():
            tail = piece[-_TEXT_TAIL:]
            yield piece
        is_text = tail.isascii() and not any(byte < 9 for byte in tail)
        if tail and is_text and not tail.endswith(_COMPLETE_ENDINGS):
            stream.break_off(
                "the server gave no length, and the file ends within a line",
                read_part="everything before was read",
            )

    return stream.rewritten(pieces())


def written(info: dict[str, Any]) -> float | None:
    """Return the time of the last change of a file, None if its file system does not report it."""
    for key in _WRITTEN:
        time: Any = info.get(key)
        if isinstance(time, int | float):
            return float(time)
        if hasattr(time, "timestamp"):
            return float(time.timestamp())
    return None


def fail(name: str, error: Exception) -> NoReturn:
    """Raise a LogError without the full URL, which messages of libraries may contain."""
    if isinstance(error.__cause__, Exception):  # fsspec turns HTTP errors into FileNotFoundError
        error = error.__cause__
    if isinstance(error, LogError):
        raise error from None
    status = getattr(error, "status", None)
    if isinstance(error, FileNotFoundError) or status in (404, 410):
        raise LogError(f"{name}: no such file; check the URL") from None
    if isinstance(error, PermissionError) or status in (401, 403):
        raise LogError(f"{name}: permission denied; check your credentials") from None
    if isinstance(error, TimeoutError) or "Timeout" in type(error).__name__:
        raise TooSlow(
            f"{name}: the server did not respond in time; try again, or download the file"
        ) from None
    if status is not None:
        raise LogError(f"{name}: the server returned status {status}; check the URL") from None
    lines = str(error).splitlines() or [""]
    words = ("…" if "://" in word else word for word in lines[0].split())
    reason = " ".join(words)[:200] or type(error).__name__
    raise LogError(
        f"{name}: cannot be read ({reason}); check the URL and your credentials"
    ) from None


def _file_system(url: str, is_web: bool) -> tuple[Any, str]:
    """Return the file system of a URL, (untyped in fsspec) and the path in it.

    Raises:
        LogError: if the protocol is unknown, or its package is not installed.
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
    except Exception as error:  # noqa: BLE001 - file systems raise any exception
        fail(name, error)
    return files, path


def _client(name: str) -> dict[str, Any]:
    """Return the arguments for an aiohttp client that reads only the URL of this name."""
    import asyncio

    from aiohttp import ClientRequest, ClientResponse, ClientTimeout

    start_depth: int | None = None

    def check(address: str) -> None:
        nonlocal start_depth
        target_depth = depth(address)
        start_depth = target_depth if start_depth is None else start_depth
        if target_depth > start_depth:
            raise LogError(
                f"{name}: the server redirects to the internal address {address};"
                " if you trust it, give that URL"
            )

    class Request(ClientRequest):
        """Check the address before sending: a name may resolve to any address."""

        def __init__(self, method: str, url: URL, **options: Any) -> None:
            with suppress(ValueError):
                check(url.raw_host or "")
            super().__init__(method, url, **options)

        async def send(self, conn: Connection) -> ClientResponse:
            check(conn.transport.get_extra_info("peername")[0])  # type: ignore[union-attr]
            return await super().send(conn)

    class Response(ClientResponse):
        async def start(self, connection: Connection) -> ClientResponse:
            async with asyncio.timeout(_READ_TIMEOUT):
                await super().start(connection)
            encoding = self.headers.get("Content-Encoding", "identity").lower()
            if self.ok and encoding not in ("", "identity", *_GZIP):
                raise LogError(
                    f"{name}: the server sent the unsupported content encoding {encoding};"
                    " download the file"
                )
            return self

    return {
        "auto_decompress": False,
        "headers": {"Accept-Encoding": _GZIP[0]},
        "request_class": Request,
        "response_class": Response,
        "timeout": ClientTimeout(
            total=None, sock_connect=_CONNECT_TIMEOUT, sock_read=_READ_TIMEOUT
        ),
    }


def depth(address: str) -> int:
    """Return the privacy of an address: 0 internet, 1 private network, 2 this machine.

    It is 3 for a link-local address, which belongs to a service of the host.
    """
    ip = ip_address(address.partition("%")[0])
    if isinstance(ip, IPv6Address) and ip.ipv4_mapped is not None:
        ip = ip.ipv4_mapped
    if ip.is_link_local:
        return 3
    if ip.is_loopback or ip.is_unspecified:
        return 2
    return 0 if ip.is_global else 1


def page_links(page: bytes, folder: str) -> Iterator[str]:
    """Yield the URLs of the links on the page of a folder."""
    text = page.decode("utf-8", "replace")
    for match in _LINK.finditer(text):
        with suppress(ValueError):
            yield urljoin(folder, unescape(match[1] or match[0])).partition("#")[0]
