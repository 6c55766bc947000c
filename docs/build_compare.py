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
# Runs that should be the same

`stabdiag compare RUN RUN…` compares runs: seeds, reruns, a run and its resume, the ranks of one
job. It reports where they diverge, by how much, which series diverges first, and what that points
to. If one run fails and another does not, the settings that tell them apart are the suspects. A run
is anything that `stabdiag diagnose` reads. A folder with the logs of several ranks
(`rank0/log.jsonl`, `run.rank1.jsonl`, `rank_2.log`) is a job. (This page is written by
`docs/build.py`.)

## How the runs are related

The strongest evidence decides, and the report says which. `--as seeds|reruns|ranks|resume|baseline`
overrides it.

1. **Ranks**: each run has its own rank, 0 among them, in its name or manifest.
2. **Seeds**: their seeds differ, in manifests or names.
3. **Resume**: each begins where another was under way or had just ended.
4. **Reruns**: their seeds are equal; or none is recorded, and the first losses are equal until the
   loss has moved. Otherwise they count as seeds.

With `--as baseline` the first run is compared with the band of the others, which are assumed to be
good: is it worse, and since when? The same happens without the option if one of three or more
seeds or reruns ends worse than the others, these agree, and more than the seed may differ. See
[baselines](baselines.md).

A run is named after its file, or after the folder that distinguishes it.

## Where they diverge

Runs are compared at the steps that both logged. For each role the report gives three steps, and
*by* how much in the role's unit:

- *first at*: the first value that is not identical to the last bit;
- *> rounding*: the first that differs by more than `compare.rounding` of the value, the last digit
  that the log keeps, or what bfloat16 holds;
- *> noise*: the first step after which most values differ by more than the noise of a single value.

Learning rate, loss scale and batch ids are set, not measured: any difference counts. A learning
rate that diverges before the loss is the cause, and the report says so. Times and speeds are not
compared.

The report lists the settings that differ, with their values: first those that can explain a
difference (learning rate, batch, data, model, precision, …), then those that may, then those that
cannot (names, folders, time stamps, hosts, logging cadence). Values of keys such as `api_key` are
hidden.

## Findings"""

TAIL = """\
[What each means](comparisons.md) is what `stabdiag explain SLUG` prints. [Exit
codes](ci.md#exit-codes) are the same as for `stabdiag diagnose`.

## What a number of seeds can show

A run's end is the mean of its last losses, as precise as their autocorrelation allows. Cochran's Q
tests whether the ends differ by more than that. With enough points any two seeds do, so a seed
only counts as an outlier if it is also off by `compare.seed_fraction` of the loss's decrease or of
the final level, the smaller of the two. Evaluation losses and scores are compared as well. The
standard deviation between seeds comes with its 95% interval:

| seeds | from | to |
|---|---|---|
{intervals}

times the measured deviation. Two seeds can show that they differ, but hardly how much seeds vary,
and never which of them is typical."""

PYTHON = """\
## From Python

```python
import stabdiag

folder = "fixtures/pairs/config-differs-lr"
found = stabdiag.compare([f"{folder}/base.jsonl", f"{folder}/low.jsonl"])
print(found.kind, found.diagnosis.slug, found.diagnosis.step)
for divergence in found.divergences:
    print(divergence.role, divergence.step, divergence.unrounded, divergence.lasting)
```

Runs may be paths, DataFrames, Arrow tables, mappings of arrays or histories; `manifests` has one
for each, or None. The result is a `stabdiag.Comparison`; `to_json()` gives the JSON below, and rich
prints it.

## As JSON

`--format json` writes one object of schema 2, published as
[comparison.schema.json](../stabdiag/formats/comparison.schema.json) and by
`stabdiag.formats.json.schema("comparison")`."""

EXAMPLES = (
    ("config-differs-lr", "A different learning rate"),
    ("rank-died", "A rank that was killed"),
    ("nondeterminism-grows", "Sums in no fixed order"),
)


def compare_page() -> str:
    """Return the page."""
    rows = [
        f"| [`{outcome.slug}`](comparisons.md) | {outcome.severity.value} | {outcome.title} | "
        f"{', '.join(outcome.kinds)} |"
        for outcome in OUTCOMES
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
    """Return the description, the command and its output."""
    about = json.loads((PAIRS / pair / "about.json").read_text(encoding="utf-8"))
    with chdir(ROOT):  # the report names the logs as given on the command line
        folder = Path("fixtures/pairs") / pair
        logs = sorted(folder.glob("*.jsonl")) if about["kind"] != "ranks" else [folder]
        text = render(stabdiag.compare([str(log) for log in logs]), "terminal", "comparison")
    command = f"stabdiag compare {' '.join(map(str, logs))}"
    return f"{about['what']}\n\n```console\n$ {command}\n```\n\n```text\n{text}```"
