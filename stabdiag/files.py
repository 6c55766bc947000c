"""Files that are written as a whole or not at all."""

from __future__ import annotations

import os
from contextlib import contextmanager
from typing import TYPE_CHECKING

from stabdiag.errors import StabdiagError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@contextmanager
def written_whole(output: Path) -> Iterator[Path]:
    """Give the path of a file beside ``output`` that takes its place when all went well.

    Raises:
        StabdiagError: If the file cannot be written.
    """
    part = output.with_name(f".{output.name}.{os.getpid()}.part")
    try:
        yield part
        part.replace(output)
    except OSError as error:
        raise StabdiagError(f"{output}: cannot be written ({error.strerror})") from None
    finally:
        part.unlink(missing_ok=True)
