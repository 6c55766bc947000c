"""stabdiag: what went wrong with a training run, and what to do about it first."""

from stabdiag.api import diagnose, read
from stabdiag.errors import StabdiagError
from stabdiag.history import History
from stabdiag.limits import Limits
from stabdiag.manifest import Manifest
from stabdiag.report import Report

__version__ = "0.1.0"

__all__ = [
    "History",
    "Limits",
    "Manifest",
    "Report",
    "StabdiagError",
    "__version__",
    "diagnose",
    "read",
]
