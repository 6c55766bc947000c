"""Recognise archives, and tell which of their members are read."""

from __future__ import annotations

import io
from pathlib import PurePosixPath, PureWindowsPath
from typing import Final

from stabdiag.model.text import plural
from stabdiag.places.listing import DEEPEST, is_skipped
from stabdiag.readers.compressed import unpacked
from stabdiag.readers.source import Stream

# The size of a tar header, and where in it the format is named.
_BLOCK: Final = 512
_USTAR: Final = slice(257, 262)


def is_tar(head: bytes) -> bool:
    """Tell whether the head of a file is that of a tar archive, packed or not."""
    plain = unpacked(Stream("", io.BytesIO(head)))
    return plain.peek(_BLOCK)[_USTAR] == b"ustar"


def is_zip(head: bytes) -> bool:
    """Tell whether the head of a file is that of a ZIP archive."""
    return head.startswith((b"PK\x03\x04", b"PK\x05\x06"))


def inside(name: str) -> PurePosixPath | None:
    """Return the path of a member, or None for one that leads out of the archive."""
    path = PurePosixPath(name.replace("\\", "/"))
    leads_out = path.is_absolute() or ".." in path.parts or PureWindowsPath(name).drive
    return None if leads_out or not path.parts else path


def is_wanted(path: PurePosixPath) -> bool:
    """Tell whether a member lies where logs may lie."""
    return len(path.parts) <= DEEPEST + 1 and not any(map(is_skipped, path.parts[:-1]))


def left_out(count: int) -> str:
    """Say how many members were left out."""
    members = plural(count, "member")
    return f"{members} of the archive left out: links, devices, or paths that lead out of it"
