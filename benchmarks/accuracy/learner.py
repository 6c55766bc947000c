"""How much more is in the logs? A learner that sees what the rules may have missed.

python benchmarks/accuracy/learner.py [--test tenth]    (needs scikit-learn; eight minutes)

Gradient-boosted trees learn to tell healthy runs, spikes and divergences apart, from some 200
numbers of each log and, a second time, from the findings of stabdiag as well. They learn from the
parts whose failures were read, and are tested on them, family by family (grouped cross-validation),
and on the part that was not. NaN and overflows are left out: there is nothing to be learned.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from typing import Any

import corpus
import numpy as np
import numpy.typing as npt
import pandas as pd
from corpus import Run
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.model_selection import GroupKFold

import stabdiag

READ = (".", "test", "fresh", "fifth", "sixth")
SECTIONS = ("", "§2", "§4")

WINDOWS = (20, 60)  # losses that a level is taken over
WIDTHS = (1, 3, 8, 20)  # losses whose median is compared with it
AFTER = ((1, 6), (6, 20), (20, 60), (60, 150))  # losses after the highest
TENTHS = 10

Floats = npt.NDArray[np.float64]


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description="What a learner makes of the same logs.")
    parser.add_argument("--test", default="tenth", help="the part that was not used for learning")
    options = parser.parse_args()
    read = pd.DataFrame([row for part in READ for row in rows(part)])
    unread = pd.DataFrame(rows(options.test))
    print(f"{'section right':28} {'parts read':>16} {options.test:>16}")
    print(f"{'stabdiag':28} {share(read, read['said'])} {share(unread, unread['said'])}")
    for name, columns in (
        ("learner", read.columns.difference(["section", "family", "said"])),
        ("learner with stabdiag", read.columns.difference(["section", "family"])),
    ):
        known_inputs = inputs(read[columns])
        new = inputs(unread.reindex(columns=columns)).reindex(columns=known_inputs.columns)
        cross_validated = pd.Series("", index=read.index)
        for learn, test in GroupKFold(10).split(known_inputs, groups=read["family"]):
            model = fitted(known_inputs.iloc[learn], read["section"].iloc[learn])
            cross_validated.iloc[test] = model.predict(known_inputs.iloc[test])
        predicted = pd.Series(
            fitted(known_inputs, read["section"]).predict(new), index=unread.index
        )
        print(f"{name:28} {share(read, cross_validated)} {share(unread, predicted)}")


def share(frame: pd.DataFrame, predicted: pd.Series[str]) -> str:
    """Format the number and fraction of right sections."""
    right = int((frame["section"] == predicted).sum())
    return f"{right:5} = {100 * right / len(frame):.1f} %".rjust(16)


def inputs(frame: pd.DataFrame) -> pd.DataFrame:
    """The numbers, and what was said as one column for each section."""
    return pd.get_dummies(frame) if "said" in frame else frame


def fitted(numbers: pd.DataFrame, sections: pd.Series[str]) -> HistGradientBoostingClassifier:
    """A model that has learned; the same for the same numbers."""
    model = HistGradientBoostingClassifier(
        max_iter=250, learning_rate=0.05, max_leaf_nodes=12, min_samples_leaf=8, random_state=0
    )
    return model.fit(numbers, sections)


def rows(part: str) -> list[dict[str, Any]]:
    """The features of each run that is healthy, has a spike or diverges."""
    runs = corpus.load(corpus.DATA / part)
    return [
        dict(numbers(log))
        | {
            "family": f"{part}/{run.run_id[:-1]}",
            "section": run.section,
            "said": reported_section(run, log),
        }
        for run, log in runs
        if run.section in SECTIONS
    ]


def reported_section(run: Run, log: Any) -> str:
    """The section that stabdiag names, if it raises an alarm."""
    outcome = stabdiag.diagnose(log, manifest=run.manifest).tree.outcome
    return outcome.section if outcome.severity in ("error", "warning") else ""


def numbers(log: Any) -> Iterator[tuple[str, float]]:
    """Statistics of the losses, the logarithms of the losses, and the gradient norms of a log."""
    loss = pd.Series(log["loss"].to_numpy().astype(float)).dropna()
    yield "losses", len(loss)
    yield from of_series("loss", loss)
    if loss.min() > 0:
        yield from of_series("log loss", pd.Series(np.log(loss.to_numpy())))
    if "grad_norm" in log.column_names:
        norm = pd.Series(log["grad_norm"].to_numpy().astype(float)).dropna()
        if len(norm) and norm.min() > 0 and np.isfinite(norm).all():
            yield from of_series("log norm", pd.Series(np.log(norm.to_numpy())))


def of_series(name: str, x: pd.Series[float]) -> Iterator[tuple[str, float]]:
    """The height of the loss above its past, the course after it, and the end."""
    for window in WINDOWS:
        level = x.shift(1).rolling(window, min_periods=5).median()
        apart = (x - level).abs().shift(1).rolling(2 * window, min_periods=5).median()
        sigma = 1.4826 * apart.clip(lower=0.1 * apart.median() + 1e-12)
        for width in WIDTHS:
            ahead = x[::-1].rolling(width).median()[::-1]
            scores = ((ahead - level) / sigma).iloc[min(20, len(x) // 5) :]
            if not scores.notna().any():
                continue
            top = int(np.nanargmax(scores)) + min(20, len(x) // 5)
            others = scores.drop(index=scores.index[max(top - 50, 0) : top + 10])
            of = f"{name} {window} {width}"
            yield f"{of} highest", scores.max()
            yield f"{of} next", others.max()
            yield f"{of} lowest", scores.min()
            yield f"{of} place", top / len(x)
            yield f"{of} share", (ahead.iloc[top] - level.iloc[top]) / (np.ptp(level.dropna()) or 1)
            for begin, end in AFTER:
                after = x.iloc[top + begin : top + end].mean()
                yield f"{of} after {begin}", (after - level.iloc[top]) / sigma.iloc[top]
    size = max(len(x) // TENTHS, 1)
    tenths = [float(part.mean()) for part in np.array_split(x.to_numpy(), TENTHS) if len(part)]
    best, noise = min(tenths), float(x.diff().abs().median()) / np.sqrt(size) + 1e-12
    yield f"{name} rise", (tenths[-1] - best) / (tenths[0] - best + 1e-12)
    yield f"{name} rise in noise", (tenths[-1] - best) / noise
    yield f"{name} last step", (tenths[-1] - tenths[-2]) / noise


if __name__ == "__main__":
    main()
