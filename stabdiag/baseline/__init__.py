"""Baselines: whether a run is worse than earlier good runs of the same task, and since when.

``profile`` reduces a run to its level on a grid of steps, ``judge`` compares it with the profiles
of the references, ``findings`` writes the result, ``kept`` stores profiles.

The package can be called: ``stabdiag.baseline("good_runs")`` is ``stabdiag.api.baseline(…)``.
"""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any


class _BaselinePackage(ModuleType):
    def __call__(self, *args: Any, **kwargs: Any) -> object:
        """Read references: see ``stabdiag.api.baseline``."""
        from importlib import import_module

        return import_module("stabdiag.api").baseline(*args, **kwargs)


sys.modules[__name__].__class__ = _BaselinePackage
