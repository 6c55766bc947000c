"""The post-mortem of a run on each leaf of the tree, compared with the files in ``golden``.

Set ``STABDIAG_UPDATE_GOLDEN=1`` to write those files anew, and read the difference.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from stabdiag.postmortem import postmortem
from stabdiag.tree.outcomes import BY_SLUG

if TYPE_CHECKING:
    from collections.abc import Callable

    from stabdiag.report import Report

GOLDEN = Path(__file__).parent / "golden"
RUNS = {
    "nan-fp32": "nan-blow-up-fp32",
    "nan-bf16": "nan-empty-mask-bf16",
    "nan-fp16-overflow": "nan-activations-fp16",
    "nan-dtype-unknown": "nan-no-manifest",
    "spike-long-tail-batch": "spike-long-tail-two",
    "spike-lr-jump": "spike-lr-jump",
    "spike-duplicate-batch": "spike-duplicate-reused-buffer",
    "spike-recovered": "spike-recovered-labels",
    "spike-persistent": "spike-persistent-lr-stays",
    "spike-unresolved": "spike-unresolved-sparse",
    "gradient-overflow": "gradient-overflow-bf16",
    "loss-scale-static": "loss-scale-static",
    "loss-scale-collapsed": "loss-scale-collapsed-padding",
    "divergence-lr-rising": "divergence-lr-endless-warmup",
    "divergence-weight-norm-climbing": "divergence-after-spike",
    "divergence-weight-norm-collapsing": "divergence-weight-norm-collapsing",
    "divergence-grad-norm-rising": "divergence-grad-norm-rotting-labels",
    "divergence-unexplained": "divergence-unexplained-data",
    "plateau": "plateau",
    "healthy": "healthy-resumed",
    "insufficient-data": "insufficient-data",
    "plateau-at-chance": "symptom-plateau-at-chance",
}


def compare(text: str, name: str) -> None:
    path = GOLDEN / name
    if os.environ.get("STABDIAG_UPDATE_GOLDEN"):
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")
    assert text == path.read_text(encoding="utf-8")


@pytest.fixture(autouse=True)
def _any_version(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("head", "reading"):
        monkeypatch.setattr(f"stabdiag.postmortem.{module}.__version__", "VERSION")


def test_every_leaf_is_shown() -> None:
    assert set(BY_SLUG) <= set(RUNS)


@pytest.mark.parametrize("slug", RUNS)
def test_markdown(diagnosed: Callable[[str], Report], slug: str) -> None:
    report = diagnosed(RUNS[slug])
    assert slug in (report.diagnosis.slug, report.tree.outcome.slug)
    compare(postmortem(report), f"{slug}.md")


@pytest.mark.parametrize("slug", ["nan-fp32", "divergence-weight-norm-collapsing", "healthy"])
def test_html(diagnosed: Callable[[str], Report], slug: str) -> None:
    compare(postmortem(diagnosed(RUNS[slug]), "html"), f"{slug}.html")
