"""Files that are written as a whole or not at all, and never over what is read."""

from __future__ import annotations

import errno
import os
import stat
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from stabdiag.errors import StabdiagError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator


def keep_inputs(outputs: Iterable[Path | None], inputs: Iterable[object]) -> None:
    """Make sure that nothing is written over what is read, nor one file over another.

    Args:
        outputs: the files to be written; None is standard output.
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
            raise StabdiagError(f"{output}: is read as well; name another file to write to")
        if one in written:
            raise StabdiagError(f"{output}: is to be written twice; name another file for one")
        written |= {one} - {None}


def refuse_unwritable(outputs: Iterable[Path | None]) -> None:
    """Make sure, as far as it can be told without writing, that files can be written.

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
            return f"there is no folder {place}; make it first"
    except OSError as error:  # a name too long, a folder above that is locked
        return error.strerror
    return None if os.access(place, os.W_OK) else os.strerror(errno.EACCES)


def _identity(path: str | os.PathLike[str]) -> Path | None:
    """Return what tells a file from others, or None for what nothing can be written over."""
    with suppress(OSError, ValueError):  # a URL, a name too long
        real = Path(os.path.realpath(path))
        if not real.exists() or real.is_file():
            return real
    return None


@contextmanager
def written_whole(output: Path) -> Iterator[Path]:
    """Give the path of a file beside ``output`` that takes its place when all went well.

    Raises:
        StabdiagError: If the file cannot be written.
    """
    try:
        if output.is_dir():
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        if _takes_bytes(output):
            with _handed_on(output) as part:
                yield part
        else:
            with _put_in_place(Path(os.path.realpath(output))) as part:
                yield part
    except OSError as error:
        raise StabdiagError(f"{output}: cannot be written ({error.strerror})") from None


def _takes_bytes(output: Path) -> bool:
    """Return whether this is a device or a pipe: ``/dev/null`` must not become a file."""
    try:
        mode = output.stat().st_mode
    except FileNotFoundError:
        return False
    return not stat.S_ISREG(mode)


@contextmanager
def _handed_on(output: Path) -> Iterator[Path]:
    import shutil
    import tempfile

    with tempfile.TemporaryDirectory(prefix="stabdiag-") as folder:
        part = Path(folder, output.name)
        yield part
        with part.open("rb") as whole, output.open("wb") as file:
            shutil.copyfileobj(whole, file)


@contextmanager
def _put_in_place(output: Path) -> Iterator[Path]:
    part = output.with_name(f".{output.name}.{os.getpid()}.part")
    try:
        yield part
        part.replace(output)
    finally:
        part.unlink(missing_ok=True)
