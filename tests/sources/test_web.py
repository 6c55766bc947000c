"""Web servers that are slow, pack what they send, lead elsewhere, or never come to an end."""

import gzip
import http.server
import io
import socket
import tarfile
import threading
import time
import zlib
from itertools import chain, count

import pytest

from stabdiag.errors import LogError
from stabdiag.sources import read_source
from stabdiag.sources.remote import depth, page_links


@pytest.fixture
def serve():
    """Return a function that serves an answer at a path, and returns the URL.

    An answer consists of its bytes, or a function that yields them in pieces, headers and a status.
    The function records the requests.
    """
    answers = {}

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            serve.requests.append((self.server.server_address[0], self.path))
            body, headers, status = answers.get(self.path, (b"", {}, 404))
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.end_headers()
            try:
                for piece in [body] if isinstance(body, bytes) else body():
                    self.wfile.write(piece)
            except OSError:  # the client closed the connection
                pass

        def log_message(self, *_what):
            pass

    servers = {}
    threads = []

    def serve(path, body=b"", *, status=200, host="127.0.0.1", **headers):
        if host not in servers:
            servers[host] = http.server.ThreadingHTTPServer((host, 0), Handler)
            server_options = {"poll_interval": 0.05}
            threads.append(
                threading.Thread(target=servers[host].serve_forever, kwargs=server_options)
            )
            threads[-1].start()
        fields = {name.replace("_", "-"): value for name, value in headers.items()}
        answers[path] = (body, fields, status)
        return f"http://{host}:{servers[host].server_port}{path}"

    serve.requests = []
    yield serve
    for server in servers.values():
        server.shutdown()
        server.server_close()
    for thread in threads:
        thread.join()


def test_the_protocol_may_be_written_in_capitals(serve, put, lines):
    url = serve("/run.jsonl", lines(0, 50).encode())
    assert read_source([url.replace("http", "HTTP")]).columns.rows == 50
    assert read_source([f"File://{put('run.jsonl', lines(0, 50))}"]).columns.rows == 50


def tarred(text):
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w") as archive:
        member = tarfile.TarInfo("run.jsonl")
        member.size = len(text)
        archive.addfile(member, io.BytesIO(text.encode()))
    return made.getvalue()


def test_compressed_responses_are_unpacked(serve, lines):
    text = lines(0, 50)
    packed = gzip.compress(text.encode())
    for name, data in (
        ("run.jsonl", packed),
        ("run.jsonl.gz", packed),
        ("twice.jsonl.gz", gzip.compress(packed)),
        ("run.tar", gzip.compress(tarred(text))),
        ("plain.jsonl", text.encode()),  # it only says so
    ):
        url = serve(f"/{name}", data, Content_Encoding="gzip")
        assert read_source([url]).columns.rows == 50
    page = gzip.compress(b'<a href="run.jsonl">')
    assert read_source([serve("/", page, Content_Encoding="gzip")]).columns.rows == 50


def test_server_compression_does_not_bypass_the_size_limit(serve, lines, monkeypatch):
    monkeypatch.setattr("stabdiag.readers.unwrapping.compressed._FROM", 1 << 20)
    pack = zlib.compressobj(wbits=31)
    data = pack.compress(lines(0, 50).encode() + b" " * (1 << 24)) + pack.flush()
    with pytest.raises(LogError, match="unpacks to more than 100 times its size"):
        read_source([serve("/run.jsonl", data, Content_Encoding="gzip")])


def test_unrequested_compression_is_undone(serve):
    with pytest.raises(LogError, match=r"sent the unsupported content encoding br"):
        read_source([serve("/run.jsonl", b"...", Content_Encoding="br")])


def drops():
    """Yield a byte occasionally, forever."""
    for _ in count():
        yield b"1"
        time.sleep(0.02)


def silence():
    """Yield a byte, and then nothing for longer than is waited."""
    yield b"1"
    time.sleep(1.0)


def test_a_server_that_falls_silent_is_not_waited_for_again_and_again(serve, monkeypatch):
    monkeypatch.setattr("stabdiag.sources.remote._READ_TIMEOUT", 0.3)
    names = [f"{number}.jsonl" for number in range(9)]
    for name in names:
        serve(f"/{name}", silence)
    url = serve("/", "".join(f'<a href="{name}">' for name in names).encode())
    with pytest.raises(LogError, match=r"no file in it is a log .*did not respond in time"):
        read_source([url])
    # A busy server may note a request only after its client has left.
    assert len(serve.requests) <= 1 + 3


def test_a_server_whose_headers_are_far_too_slow(serve, monkeypatch):
    monkeypatch.setattr("stabdiag.sources.remote._READ_TIMEOUT", 0.2)
    for part in ("send_response", "end_headers"):
        monkeypatch.setattr(http.server.BaseHTTPRequestHandler, part, lambda *_: None)
    slow = lambda: chain([b"HTTP/1.0 200 OK\r\nX: "], drops())  # noqa: E731
    with pytest.raises(LogError, match="did not respond in time"):
        read_source([serve("/run.jsonl", slow)])


def test_a_server_that_leads_to_another_place_on_this_machine(serve, lines):
    url = serve("/run.jsonl", lines(0, 50).encode(), host="127.0.0.2")
    assert read_source([serve("/link", status=302, Location=url)]).columns.rows == 50
    assert read_source([serve("/moved", status=301, Location="/link")]).columns.rows == 50


@pytest.mark.parametrize("address", ["169.254.169.254", "[fe80::1]", "[::ffff:169.254.169.254]"])
def test_redirects_to_link_local_addresses_are_refused(serve, address):
    url = serve("/link", status=302, Location=f"http://{address}/latest/meta-data")
    with pytest.raises(LogError, match=r"/link: the server redirects to the internal address"):
        read_source([url])


@pytest.mark.parametrize("name", ["127.0.0.2", "inner.test"])
def test_a_server_on_the_internet_leads_to_none_in_a_private_network(serve, monkeypatch, name):
    """A host name does not help, as it may resolve to any address."""
    depths = {"127.0.0.1": 0, "127.0.0.2": 1}
    monkeypatch.setattr("stabdiag.sources.remote.depth", lambda address: depths.get(address) or 0)
    private_url = serve("/secret.jsonl", b"{}", host="127.0.0.2")
    resolve = socket.getaddrinfo
    monkeypatch.setattr(
        socket,
        "getaddrinfo",
        lambda host, *args, **kwargs: resolve("127.0.0.2", *args, **kwargs),
    )
    url = serve("/link", status=302, Location=private_url.replace("127.0.0.2", name))
    with pytest.raises(LogError, match=r"redirects to the internal address 127\.0\.0\.2"):
        read_source([url])
    assert {path for _, path in serve.requests} == {"/link"}


@pytest.mark.parametrize(
    ("address", "expected"),
    [
        ("93.184.216.34", 0),
        ("2606:4700::1111", 0),
        ("10.1.2.3", 1),
        ("192.168.0.1", 1),
        ("100.100.100.200", 1),
        ("fd00:ec2::254", 1),
        ("127.0.0.1", 2),
        ("0.0.0.0", 2),
        ("::1", 2),
        ("::ffff:127.0.0.1", 2),
        ("169.254.169.254", 3),
        ("fe80::1%eth0", 3),
    ],
)
def test_address_depth(address, expected):
    assert depth(address) == expected


def test_an_archive_without_an_end_does_not_fill_the_disk(serve, monkeypatch):
    monkeypatch.setattr("stabdiag.readers.source._LARGEST_COPY", 1 << 20)
    url = serve("/run.zip", lambda: (b"PK\x03\x04" + bytes(1 << 16) for _ in count()))
    with pytest.raises(LogError, match=r"larger than .* free in .*; unpack it and give the log"):
        read_source([url])


def test_the_links_of_a_page():
    page = b"""<A HREF = 'a.jsonl'>x</a> <a class="b" href="/run/b/?x=1&amp;y=2#c">y</a>
    <a href="../">up</a> http://host/run/c.jsonl <a href="http://[::1/">?</a> <a href=none>"""
    assert list(page_links(page, "http://host/run/")) == [
        "http://host/run/a.jsonl",
        "http://host/run/b/?x=1&y=2",
        "http://host/",
        "http://host/run/c.jsonl",
    ]


def test_a_page_without_an_end(serve, lines, monkeypatch):
    monkeypatch.setattr("stabdiag.sources.remote._MAX_PAGE", 1 << 16)
    serve("/run.jsonl", lines(0, 50).encode())
    page = b'<a href="run.jsonl">' + b"<a <a " * 99
    assert read_source([serve("/", lambda: (page for _ in count()))]).columns.rows == 50
