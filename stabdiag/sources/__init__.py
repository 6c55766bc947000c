"""Find the log in what the user names, and read its columns and the manifest beside it.

A place is a file, standard input, a folder, an archive, a URL, or several of these for one run.
"""

from __future__ import annotations

from stabdiag.sources.beside import Beside, beside_file, checkpoints_beside
from stabdiag.sources.folder import Asked, Found
from stabdiag.sources.read import read_place

__all__ = ["Asked", "Beside", "Found", "beside_file", "checkpoints_beside", "read_place"]
