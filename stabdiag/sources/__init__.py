"""Find a log in a file, folder, archive or URL, and read its columns and its manifest.

A source is a file, standard input, a folder, an archive, a URL, or several of these for one run.
"""

from __future__ import annotations

from stabdiag.sources.folder import LoadedLog, ReadRequest
from stabdiag.sources.read import read_source
from stabdiag.sources.sidecars import Sidecars, file_sidecars, sidecar_checkpoints

__all__ = [
    "LoadedLog",
    "ReadRequest",
    "Sidecars",
    "file_sidecars",
    "read_source",
    "sidecar_checkpoints",
]
