"""Show what each limit of our own calibration does: the diagnoses at half, at once and at twice it.

    python benchmarks/accuracy/calibrate.py               all, into docs/calibration.md
    python benchmarks/accuracy/calibrate.py spike.min_rise 0.01 0.04       one, shown

On the runs to develop on, `dev` and `held`. All of them take some ten minutes.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from pathlib import Path

import corpus
from scoring import score

from stabdiag.model.limits import LimitInfo, Limits

PAGE = Path(__file__).parent.parent.parent / "docs" / "calibration.md"
OWN_LABEL = "own calibration"
TREE = ("nan", "spike", "precision", "divergence")  # symptoms are not what the labels tell
HEAD = (
    "| limit | value | right leaf | with a fault | healthy: error | healthy: warning "
    "| false spikes per 10,000 steps |\n|---|---:|---:|---:|---:|---:|---:|"
)
INTRODUCTION = """# How stabdiag's own limits were set

<!-- Written by `make calibrate`. -->

Some limits of the tree's questions come from the tree or from a paper. The others were set on
[labeled training runs](../benchmarks/accuracy/README.md). The table shows the diagnoses at half of
each of these limits, at the limit itself (in bold), and at twice it: the fraction of the {runs}
development runs that are diagnosed right, and the fraction of healthy runs with a finding. These
runs do not test a limit that makes no difference here.
"""


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description="Show what the limits of our own do.")
    parser.add_argument("limit", nargs="?", help="one limit by its name")
    parser.add_argument("values", nargs="*", type=float, help="values to try for it")
    options = parser.parse_args()
    if options.limit is not None:
        info = next(result for result in Limits().items() if result.name == options.limit)
        print(HEAD)
        for value in options.values or tried(info):
            print(row(info, value))
        return
    runs = sum(1 for _ in corpus.load())
    lines = [INTRODUCTION.format(runs=runs), HEAD, *rows()]
    PAGE.write_text("\n".join(lines) + "\n", encoding="utf-8")


def rows() -> Iterable[str]:
    """The rows of all limits of our own."""
    for info in Limits().items():
        if info.about.source == OWN_LABEL and info.name.partition(".")[0] in TREE:
            for value in tried(info):
                print(info.name, value, flush=True)
                yield row(info, value)


def tried(info: LimitInfo) -> list[float]:
    """Half, once and twice a limit; for a ratio near 1, the excess over 1 is halved or doubled."""
    least, highest = info.about.at_least, info.about.at_most
    base = 1.0 if info.about.unit.startswith("x") and info.default < 2 else 0.0
    values = [base + (info.default - base) * factor for factor in (0.5, 1, 2)]
    kind = type(info.default)
    return sorted({kind(min(max(value, least), highest)) for value in values})


def row(info: LimitInfo, value: float) -> str:
    """One row of the table."""
    scored = score(corpus.DATA, "all", limits={info.name: type(info.default)(value)})
    healthy = [result for result in scored if result.healthy]
    faulty = [result for result in scored if not result.healthy]
    shares = (
        share(result.right for result in scored),
        share(result.right for result in faulty),
        share(result.severity == "error" for result in healthy),
        share(result.severity == "warning" for result in healthy),
    )
    false = 1e4 * sum(result.spikes for result in healthy) / sum(result.steps for result in healthy)
    shown = f"**{value:g}**" if value == info.default else f"{value:g}"
    return f"| `{info.name}` | {shown} | {' | '.join(shares)} | {false:.2f} |"


def share(good: Iterable[bool]) -> str:
    """A share in per cent."""
    flags = list(good)
    return f"{100 * sum(flags) / len(flags):.1f} %"


if __name__ == "__main__":
    main()
