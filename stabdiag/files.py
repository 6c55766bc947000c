"""Write files as a whole or not at all, and never over an input."""

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
    """Make sure that no output replaces an input or another output.

    Args:
        outputs: the files to write; None is standard output.
        inputs: what is read; only paths of files count, and ``-`` is standard input.

    Raises:
        StabdiagError: if two of them are the same regular file.
    """
    paths = [one for one in inputs if isinstance(one, str | os.PathLike) and one != "-"]
    read = {_identity(one) for one in paths} - {None}
    written = set()
    for output in outputs:
        one = None if output is None else _identity(output)
        if one in read:
            raise StabdiagError(f"{output}: this is also an input; name another file to write to")
        if one in written:
            raise StabdiagError(f"{output}: two outputs go to this file; name another file for one")
        written |= {one} - {None}


def refuse_unwritable(outputs: Iterable[Path | None]) -> None:
    """Make sure that files can be written, as far as one can tell without writing.

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
            return f"there is no folder {place}; create it first"
    except OSError as error:  # a name too long, a folder above that is locked
        return error.strerror
    return None if os.access(place, os.W_OK) else os.strerror(errno.EACCES)


def _identity(path: str | os.PathLike[str]) -> Path | None:
    """Return the identity of a file, or None for what cannot be overwritten."""
    with suppress(OSError, ValueError):  # a URL, a name too long
        real = Path(os.path.realpath(path))
        if not real.exists() or real.is_file():
            return real
    return None


@contextmanager
def temporary_space() -> Iterator[None]:
    """Name the folder for temporary files if one cannot be written.

    Raises:
        StabdiagError: If so.
    """
    import tempfile

    try:
        yield
    except OSError as error:
        place = tempfile.tempdir or "temporary files"  # None where no folder was fit for them
        raise StabdiagError(
            f"{place}: {error.strerror}; make room there, or set TMPDIR to another folder"
        ) from None


@contextmanager
def atomic_write(output: Path) -> Iterator[BinaryIO]:
    """Give a file that takes the place of ``output`` when all went well.

    Raises:
        StabdiagError: If the file cannot be written.
    """
    try:
        if output.is_dir():
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        if _takes_bytes(output):
            whole = BytesIO()
            yield whole
            _hand_on(output, whole.getvalue())
        else:
            with _put_in_place(Path(os.path.realpath(output))) as file:
                yield file
    except OSError as error:
        raise StabdiagError(f"{output}: cannot be written ({error.strerror})") from None


def _takes_bytes(output: Path) -> bool:
    """Return whether this is a device or a pipe: ``/dev/null`` must not become a file."""
    try:
        return not stat.S_ISREG(output.stat().st_mode) or _descriptor(output) is not None
    except FileNotFoundError:
        return False


def _descriptor(output: Path) -> int | None:
    """Return which of our open files a name such as ``/dev/stdout`` stands for, if any.

    It may be a file of the shell's, which is not ours to replace or to truncate.
    """
    opened = os.path.realpath("/dev/fd")
    while os.path.realpath(output.parent) != opened:
        if not output.is_symlink():
            return None
        output = output.parent / output.readlink()
    return int(output.name) if output.name.isdecimal() else None


def _hand_on(output: Path, whole: bytes) -> None:
    descriptor = _descriptor(output)
    # As on standard output, a reader that stops early is no error.
    with (
        suppress(BrokenPipeError),
        open(output if descriptor is None else os.dup(descriptor), "wb") as file,  # noqa: PTH123
    ):
        file.write(whole)


@contextmanager
def _put_in_place(output: Path) -> Iterator[BinaryIO]:
    """Give a file beside ``output`` that takes its place, and its permissions."""
    mode = stat.S_IMODE(output.stat().st_mode) if output.exists() else None
    part = output.with_name(f".stabdiag-{os.urandom(8).hex()}.part")  # as short as names may be
    opener = partial(os.open, mode=0o666 if mode is None else mode)
    try:
        with open(part, "xb", opener=opener) as file:
            yield file
        if mode is not None:
            part.chmod(mode)
        part.replace(output)
    finally:
        part.unlink(missing_ok=True)
