"""Score stabdiag on the corpus.

python benchmarks/accuracy/score.py [--split dev|held|…|all] [--literal] [--failures]
"""

from __future__ import annotations

import argparse
import signal
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import corpus
from scoring import Scored, Share, done, leaf_shares, score, setting, shares


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description="Score stabdiag on the labeled corpus.")
    parser.add_argument("--split", default="dev", help="a split of the labels, or all")
    parser.add_argument("--literal", action="store_true", help="the decision tree to the letter")
    parser.add_argument("--failures", action="store_true", help="list what went wrong")
    parser.add_argument("--data", type=Path, help="folder of the corpus, if another than its own")
    options = parser.parse_args()
    data = options.data or corpus.folder_of(options.split)
    corpus.check_split(data, options.split)
    scored = score(data, options.split, literal=options.literal)
    print_table(scored)
    if options.failures:
        print_failures(scored)


def print_table(scored: Sequence[Scored]) -> None:
    """The shares."""
    for share in shares(scored):
        print_share(share)
    steps = sum(result.steps for result in scored if result.healthy)
    false = sum(result.spikes for result in scored if result.healthy)
    rate = f"{1e4 * false / max(1, steps):.2f}"
    print(f"{'false spike findings per 10,000 healthy steps':44} {rate:>7}  {false} in {steps:,}")
    print()
    for share in leaf_shares(scored):
        print_share(share)


def print_share(share: Share) -> None:
    """One line."""
    percent = f"{100 * share.hits / share.runs:5.1f} %" if share.runs else "    - "
    print(f"{share.name:44} {percent}  {share.hits:4} of {share.runs}")


def print_failures(scored: Sequence[Scored]) -> None:
    """The confusions, and each failure."""
    wrong = [result for result in scored if not result.right]
    print("\nconfusions")
    for (expect, outcome), count in Counter((o.run.expect, o.slug) for o in wrong).most_common():
        print(f"{count:4}  {expect} → {outcome}")
    print("\nfailures")
    for result in sorted(wrong, key=lambda o: (o.run.expect, o.slug)):
        print(line(result))


def line(result: Scored) -> str:
    """A failure in one line."""
    run, outcome = result.run, result.report.tree.outcome
    return (
        f"{run.run_id:5} {run.expect} → {outcome.slug}  onset {run.onset} → {outcome.step}  "
        f"size {run.size:g}  [{done(run)}; {setting(run)}]"
    )


if __name__ == "__main__":
    if hasattr(signal, "SIGPIPE"):  # `| head` is to end this quietly
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    main()
