"""stabdiag: what went wrong with a training run, and what to do about it first.

>>> import stabdiag
>>> report = stabdiag.diagnose({"loss": [2.0] * 39 + [float("nan")]}, settings={"dtype": "bf16"})
>>> report.ok, report.diagnosis.slug
(False, 'nan-bf16')
>>> stabdiag.diagnose({"loss": [3.0, 2.0, 1.5]}, limits={"spike.sigma": 4}).limits.spike.sigma
4.0
"""

from stabdiag._version import __version__

TYPE_CHECKING = False  # type checkers know the name; to import it could fail, and nothing is here
if TYPE_CHECKING:
    from stabdiag.api import baseline, compare, convert, diagnose, postmortem, read
    from stabdiag.api.baselines import Baseline
    from stabdiag.api.shown import Comparison, Report
    from stabdiag.errors import StabdiagError
    from stabdiag.model.history import History
    from stabdiag.model.limits import Limits
    from stabdiag.model.manifest import Manifest
    from stabdiag.model.scan import Row
    from stabdiag.scan.scan import scan
    from stabdiag.scan.shown import Overview
    from stabdiag.testing import UnhealthyRun, assert_healthy

__all__ = [
    "Baseline",
    "Comparison",
    "History",
    "Limits",
    "Manifest",
    "Overview",
    "Report",
    "Row",
    "StabdiagError",
    "UnhealthyRun",
    "__version__",
    "assert_healthy",
    "baseline",
    "compare",
    "convert",
    "diagnose",
    "postmortem",
    "read",
    "scan",
]

_HOMES = {
    "Baseline": "stabdiag.api.baselines",
    "Comparison": "stabdiag.api.shown",
    "History": "stabdiag.model.history",
    "Limits": "stabdiag.model.limits",
    "Manifest": "stabdiag.model.manifest",
    "Overview": "stabdiag.scan.shown",
    "Report": "stabdiag.api.shown",
    "Row": "stabdiag.model.scan",
    "StabdiagError": "stabdiag.errors",
    "UnhealthyRun": "stabdiag.testing",
    "assert_healthy": "stabdiag.testing",
    "baseline": "stabdiag.api",
    "compare": "stabdiag.api",
    "convert": "stabdiag.api",
    "diagnose": "stabdiag.api",
    "postmortem": "stabdiag.api",
    "read": "stabdiag.api",
    "scan": "stabdiag.scan.scan",
}

if not TYPE_CHECKING:  # a type checker would take any name for one of ours

    def __getattr__(name: str) -> object:
        """Import names on first use, so that ``stabdiag --help`` does not load NumPy."""
        if name not in _HOMES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from importlib import import_module

        value = getattr(import_module(_HOMES[name]), name)
        return globals().setdefault(name, value)  # scan is a package, which can be called

    def __dir__() -> list[str]:
        return sorted(__all__)
