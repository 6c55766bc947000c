"""Files that are written as a whole or not at all."""

from __future__ import annotations

import os
import stat
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from stabdiag.errors import StabdiagError

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextmanager
def written_whole(output: Path) -> Iterator[Path]:
    """Give the path of a file beside ``output`` that takes its place when all went well.

    Raises:
        StabdiagError: If the file cannot be written.
    """
    try:
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
    return not (stat.S_ISREG(mode) or stat.S_ISDIR(mode))


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
