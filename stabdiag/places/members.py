"""Members of archives: which are read, and what is said of the others."""

from __future__ import annotations

from pathlib import PurePosixPath, PureWindowsPath

from stabdiag.places.listing import DEEPEST, is_skipped


def inside(name: str) -> PurePosixPath | None:
    """Return the path of a member, or None for one that leads out of the archive."""
    path = PurePosixPath(name.replace("\\", "/"))
    leads_out = path.is_absolute() or ".." in path.parts or PureWindowsPath(name).drive
    return None if leads_out or not path.parts else path


def is_wanted(path: PurePosixPath) -> bool:
    """Tell whether a member lies where logs may lie."""
    return len(path.parts) <= DEEPEST + 1 and not any(map(is_skipped, path.parts[:-1]))


def left_out(count: int) -> str:
    """Say how many members are no files in the archive."""
    members = "1 member" if count == 1 else f"{count} members"
    return f"{members} of the archive left out: links, devices, or paths that lead out of it"
