"""What a web server may do to those who read from it, and what not.

It has to answer, and to go on at some pace. It may send no packing that is unpacked unseen. And it
may lead elsewhere, but no further inside than where the user sent us: nobody on the internet leads
us into a private network, and nobody at all to a link-local address, where clouds keep credentials.
"""

from __future__ import annotations

import asyncio
import re
from contextlib import suppress
from html import unescape
from ipaddress import IPv6Address, ip_address
from time import monotonic
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urljoin

from aiohttp import ClientRequest, ClientResponse, ClientTimeout

from stabdiag.errors import LogError, TooSlow

if TYPE_CHECKING:
    from collections.abc import Iterator

    from aiohttp.connector import Connection
    from yarl import URL

# Seconds after which a silent server is given up; the whole of a long log may take longer.
_CONNECT: Final = 20.0
_SILENCE: Final = 60.0

# How many bytes a second have to come, over so many seconds of waiting for them.
_LEAST: Final = 1000
_SPAN: Final = 60.0

# The packing that is asked for, and known by its first bytes like any other.
GZIP: Final = ("gzip", "x-gzip")

# The links of a page that lists a folder, and how much of such a page is looked at.
_LINK: Final = re.compile(
    r"""href\s{0,9}=\s{0,9}["']([^"'<>\n]+)|https?://[-\w@:%.+~#?&/=]+""", re.IGNORECASE
)
LONGEST_PAGE: Final = 1 << 22


def client(name: str) -> dict[str, Any]:
    """Return the arguments of aiohttp's client that reads the URL of this name, and no other."""
    named: int | None = None

    def check(address: str) -> None:
        nonlocal named
        there = depth(address)
        named = there if named is None else named
        if there > named:
            raise LogError(
                f"{name}: the server leads to {address}, further inside than itself;"
                " if that is meant, give that URL"
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
            if self.ok and packing not in ("", "identity", *GZIP):
                raise LogError(
                    f"{name}: the server sends it packed ({packing}), which nobody asked it to;"
                    " fetch the file"
                )
            return self

    return {
        "auto_decompress": False,
        "headers": {"Accept-Encoding": GZIP[0]},
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


class Paced:
    """A file of a web server, which has to come at some pace."""

    def __init__(self, name: str, file: Any) -> None:
        """Take the file that the client opened for the URL of this name."""
        self._name = name
        self._file = file
        self._waited = 0.0
        self._came = 0

    @property
    def is_packed(self) -> bool:
        """Whether the server packed it on the way."""
        return self._file.r.headers.get("Content-Encoding", "").lower() in GZIP

    def read(self, size: int, /) -> bytes:
        """Return what comes next, up to so many bytes."""
        began = monotonic()
        data = bytes(self._file.read(size))
        self._waited += monotonic() - began
        self._came += len(data)
        if data and self._waited >= _SPAN:
            if self._came < _LEAST * self._waited:
                raise TooSlow(
                    f"{self._name}: it comes at less than {_LEAST} bytes a second; fetch the file"
                    " and give that"
                )
            self._waited, self._came = 0.0, 0
        return data

    def close(self) -> None:
        """Let the server go."""
        self._file.close()


def links_in(page: bytes, folder: str) -> Iterator[str]:
    """Yield the URLs that a page names, which lists the folder behind its own URL."""
    text = page.decode("utf-8", "replace")
    for found in _LINK.finditer(text):
        with suppress(ValueError):
            yield urljoin(folder, unescape(found[1] or found[0])).partition("#")[0]
