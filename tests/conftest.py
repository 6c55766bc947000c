"""Fixtures that several tests share."""

from __future__ import annotations

from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent


@pytest.fixture
def runs() -> Path:
    """The folder of the real training runs."""
    return ROOT / "fixtures" / "runs"
