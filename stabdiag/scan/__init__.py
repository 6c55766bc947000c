"""Many runs: every log of a sweep, a cluster or a bucket as one row, and what the rows say.

The package can be called: ``stabdiag.scan("runs")`` is ``stabdiag.scan.scan.scan("runs")``.
"""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any

from stabdiag.scan.shown import Overview


class _ScanPackage(ModuleType):
    def __call__(self, *args: Any, **kwargs: Any) -> Overview:
        """Scan many runs: see ``stabdiag.scan.scan.scan``."""
        from stabdiag.scan.scan import scan

        return scan(*args, **kwargs)


sys.modules[__name__].__class__ = _ScanPackage
