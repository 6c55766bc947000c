"""The page of ``stabdiag compare``: how it is used, what it finds, and examples on the fixtures."""

from __future__ import annotations

import json
from contextlib import chdir
from pathlib import Path

import stabdiag
from stabdiag.comparison.outcomes import OUTCOMES
from stabdiag.formats import render

ROOT = Path(__file__).resolve().parent.parent
PAIRS = ROOT / "fixtures" / "pairs"

HEAD = """\
# Runs that ought to be the same

`stabdiag compare RUN RUN…` holds runs against each other: other seeds, the same run twice, a run
and its resume, the ranks of one job. It says the first step at which they part, by how much, which
series parts first, and what that points at. A run is anything that `stabdiag diagnose` reads; one
folder that holds the logs of several ranks (`rank0/log.jsonl`, `run.rank1.jsonl`, `rank_2.log`) is
a job. (This page is written by `docs/build.py`.)

## What the runs are to each other

It is told by what says most, and the report gives the reason; `--as seeds|reruns|ranks|resume`
goes before it.

1. Each run has a rank of its own, rank 0 among them, in its name or in its manifest: **ranks**.
2. Their seeds differ, in their manifests or names: **seeds**.
3. Each begins where another was under way or had just ended: a **resume**.
4. Their seeds are the same: **reruns**; so are runs that tell no seed and whose first losses are
   the same until the loss has moved. Others are taken for seeds.

## Where they part

Runs are compared at the steps that both logged; logs of unlike strides at those that they share.
For each role the report tells three steps, and *by* how much in the role's unit:

- *first at*: the first value that is not the same to the last bit;
- *> rounding*: the first that differs by more than rounding, which is `compare.rounding` of the
  value, the last digit that the log keeps, or what bfloat16 holds;
- *> noise*: the first from which on most differ by more than the noise of a single value,
  measured around that step.

Learning rate, loss scale and batch ids are chosen and not measured: any difference counts. A
learning rate that parts before the loss does is the cause, and is called so. Times and speeds are
not compared.

The settings that differ are named with their values. Those that can explain a difference (learning
rate, batch, data, model, precision, …) are told from those that cannot (names, output folders,
time stamps, hosts, how often is logged or saved); of others it is said that they may. Values of
keys such as `api_key` are not shown.

## What is found"""

TAIL = """\
[What each means](comparisons.md) is also what `stabdiag explain SLUG` prints, with the limits in
force. Exit codes are those of `stabdiag diagnose`: 1 for a finding at or above `--fail-on`
(`error` by default), 2 for a run that cannot be read.

## What so many seeds can show

The end of a run is the mean of its last losses, known as well as their autocorrelation allows.
Whether the ends differ by more than that is Cochran's Q against chi-squared. With enough points
any two seeds do, so that a seed stands out only if it is also off by `compare.seed_share` of the
way that the loss came down. The standard deviation between seeds is given with the interval in
which that of seeds at large lies (95%):

| seeds | from | to |
|---|---|---|
{intervals}

times the deviation that was measured. Two seeds can tell that they differ. They can hardly tell
how much seeds differ, and never which of them is the usual one."""

PYTHON = """\
## From Python

```python
import stabdiag

folder = "fixtures/pairs/config-differs-lr"
found = stabdiag.compare([f"{folder}/base.jsonl", f"{folder}/low.jsonl"])
print(found.kind, found.diagnosis.slug, found.diagnosis.step)
for parting in found.partings:
    print(parting.role, parting.step, parting.unrounded, parting.lasting)
```

Runs may be paths, DataFrames, Arrow tables, mappings of arrays or histories; `manifests` has one
for each, or None. The result is a `stabdiag.Comparison`; `to_json()` gives the JSON below, and rich
prints it.

## As JSON

`--format json` writes one object of schema 2, published as
[comparison.schema.json](../stabdiag/formats/compared/comparison.schema.json) and by
`stabdiag.formats.compared.structured.schema()`. `--format markdown` is meant for a comment or an
issue."""

EXAMPLES = (
    ("config-differs-lr", "A learning rate that is another one"),
    ("rank-died", "A rank that was killed"),
    ("nondeterminism-grows", "Sums in no fixed order"),
)


def compare_page() -> str:
    """Return the page."""
    rows = [
        f"| [`{one.slug}`](comparisons.md) | {one.severity.value} | {one.title} | "
        f"{', '.join(one.kinds)} |"
        for one in OUTCOMES
    ]
    table = "\n".join(["| finding | at worst | | of |", "|---|---|---|---|", *rows])
    parts = [HEAD, table, TAIL.format(intervals=_intervals())]
    for pair, title in EXAMPLES:
        parts += [f"## {title}", _example(pair)]
    return "\n\n".join([*parts, PYTHON]) + "\n"


def _intervals() -> str:
    from stabdiag.stats.means import chi_squared_above as above

    rows = []
    for seeds in (2, 3, 5, 10, 20):
        low, high = (((seeds - 1) / above(share, seeds - 1)) ** 0.5 for share in (0.025, 0.975))
        rows.append(f"| {seeds} | {low:.2f} | {high:.1f} |")
    return "\n".join(rows)


def _example(pair: str) -> str:
    """Return what was done, a command, and what it prints."""
    about = json.loads((PAIRS / pair / "about.json").read_text(encoding="utf-8"))
    with chdir(ROOT):  # the report names the logs as they were asked for
        folder = Path("fixtures/pairs") / pair
        logs = sorted(folder.glob("*.jsonl")) if about["kind"] != "ranks" else [folder]
        text = render(stabdiag.compare([str(log) for log in logs]), "terminal", "comparison")
    command = f"stabdiag compare {' '.join(map(str, logs))}"
    return f"{about['what']}\n\n```console\n$ {command}\n```\n\n```text\n{text}```"
