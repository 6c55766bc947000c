"""Write files atomically, and never over an input."""

from __future__ import annotations

import errno
import os
import stat
from contextlib import contextmanager, suppress
from functools import partial
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING

from stabdiag.errors import StabdiagError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import BinaryIO


def protect_inputs(outputs: Iterable[Path | None], inputs: Iterable[object]) -> None:
    """Refuse outputs that would replace an input or another output.

    Args:
        outputs: the files to write; None is standard output.
        inputs: the inputs; only file paths count, and ``-`` is standard input.

    Raises:
        StabdiagError: if two of them are the same regular file.
    """
    paths = [path for path in inputs if isinstance(path, str | os.PathLike) and path != "-"]
    read = {_identity(path) for path in paths} - {None}
    written = set()
    for output in outputs:
        target = None if output is None else _identity(output)
        if target in read:
            raise StabdiagError(f"{output}: this is also an input; name another file to write to")
        if target in written:
            raise StabdiagError(f"{output}: two outputs go to this file; name another file for one")
        written |= {target} - {None}


def refuse_unwritable(outputs: Iterable[Path | None]) -> None:
    """Refuse outputs that obviously cannot be written.

    Raises:
        StabdiagError: if one cannot.
    """
    for output in outputs:
        obstacle = None if output is None else _obstacle(output)
        if obstacle is not None:
            raise StabdiagError(f"{output}: cannot be written ({obstacle})")


def _obstacle(output: Path) -> str | None:
    try:
        if output.is_dir():
            return os.strerror(errno.EISDIR)
        place = output if _takes_bytes(output) else Path(os.path.realpath(output)).parent
        if not place.exists():
            return f"the folder {place} does not exist; create it first"
    except OSError as error:  # a name too long, a folder above that is locked
        return error.strerror
    return None if os.access(place, os.W_OK) else os.strerror(errno.EACCES)


def _identity(path: str | os.PathLike[str]) -> Path | None:
    """Return the identity of a file, or None if it cannot be overwritten."""
    with suppress(OSError, ValueError):  # a URL, a name too long
        real = Path(os.path.realpath(path))
        if not real.exists() or real.is_file():
            return real
    return None


@contextmanager
def temporary_space() -> Iterator[None]:
    """Report the temporary folder if a temporary file cannot be written.

    Raises:
        StabdiagError: If a file cannot be written.
    """
    import tempfile

    try:
        yield
    except OSError as error:
        place = tempfile.tempdir or "temporary files"  # None without a usable folder
        raise StabdiagError(
            f"{place}: {error.strerror}; make room there, or set TMPDIR to another folder"
        ) from None


@contextmanager
def atomic_write(output: Path) -> Iterator[BinaryIO]:
    """Open a file that replaces ``output`` at the end, except after an error.

    Raises:
        StabdiagError: If the file cannot be written.
    """
    try:
        if output.is_dir():
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        if _takes_bytes(output):
            buffer = BytesIO()
            yield buffer
            _write_through(output, buffer.getvalue())
        else:
            with _replacement(Path(os.path.realpath(output))) as file:
                yield file
    except OSError as error:
        raise StabdiagError(f"{output}: cannot be written ({error.strerror})") from None


def _takes_bytes(output: Path) -> bool:
    """Return True for a device or a pipe: ``/dev/null`` must not become a file."""
    try:
        return not stat.S_ISREG(output.stat().st_mode) or _descriptor(output) is not None
    except FileNotFoundError:
        return False


def _descriptor(output: Path) -> int | None:
    """Return the open file descriptor behind a name such as ``/dev/stdout``, if any.

    It may be a file opened by the shell, which must not be replaced or truncated.
    """
    opened = os.path.realpath("/dev/fd")
    while os.path.realpath(output.parent) != opened:
        if not output.is_symlink():
            return None
        output = output.parent / output.readlink()
    return int(output.name) if output.name.isdecimal() else None


def _write_through(output: Path, data: bytes) -> None:
    descriptor = _descriptor(output)
    # As on standard output, a reader that stops early is not an error.
    with (
        suppress(BrokenPipeError),
        open(output if descriptor is None else os.dup(descriptor), "wb") as file,  # noqa: PTH123
    ):
        file.write(data)


@contextmanager
def _replacement(output: Path) -> Iterator[BinaryIO]:
    """Open a temporary file next to ``output`` that replaces it, with its permissions."""
    mode = stat.S_IMODE(output.stat().st_mode) if output.exists() else None
    part = output.with_name(
        f".stabdiag-{os.urandom(8).hex()}.part"
    )  # short, because names have a maximum length
    opener = partial(os.open, mode=0o666 if mode is None else mode)
    try:
        with open(part, "xb", opener=opener) as file:
            yield file
        if mode is not None:
            part.chmod(mode)
        part.replace(output)
    finally:
        part.unlink(missing_ok=True)
