"""URLs: how they are shown, which file system reads them, and what can go wrong on the way."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any, Final, NoReturn, TypeAlias
from urllib.parse import urlsplit

from stabdiag.errors import LogError, TooSlow, did_you_mean

# fsspec has no types.
FileSystem: TypeAlias = Any

_INSTALL: Final = "pip install 'stabdiag[remote]'"
_PACKAGES: Final = {"http": "aiohttp", "https": "aiohttp", "sftp": "paramiko", "ssh": "paramiko"}


def shown(url: str) -> str:
    """Return a URL without what may be secret, such as a password or a signature."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return f"{url.partition('://')[0]}://..."
    host = parts.netloc.rpartition("@")[2]
    query = "?..." if parts.query else ""
    return f"{parts.scheme}://{host}{parts.path}{query}"


def file_system(url: str) -> tuple[FileSystem, str]:
    """Return the file system of a URL and the path in it.

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
        files, path = url_to_fs(url, skip_instance_cache=True, **_options(protocol, name))
    except ImportError:
        package = _PACKAGES.get(protocol) or known_implementations[protocol]["class"].split(".")[0]
        raise LogError(
            f"{name}: to read {protocol}:// URLs, install {package}: {_INSTALL} {package}"
        ) from None
    except Exception as error:  # noqa: BLE001 - each file system has errors of its own
        fail(name, error)
    return files, path


def _options(protocol: str, name: str) -> dict[str, Any]:
    if protocol not in ("http", "https"):
        return {}
    from stabdiag.places.web import client

    return {"client_kwargs": client(name)}


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
        raise LogError(f"{name}: may not be read by you; check your credentials") from None
    if isinstance(error, TimeoutError) or "Timeout" in type(error).__name__:
        raise TooSlow(f"{name}: no answer in time; try again, or fetch the file") from None
    if status is not None:
        raise LogError(f"{name}: the server answers with {status}; check the URL") from None
    lines = str(error).splitlines() or [""]
    words = ("…" if "://" in word else word for word in lines[0].split())
    reason = " ".join(words)[:200] or type(error).__name__
    raise LogError(
        f"{name}: cannot be read ({reason}); check the URL and your credentials"
    ) from None
