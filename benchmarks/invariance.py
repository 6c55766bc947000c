"""Write the logs of the fixtures in other ways, and see which answers change.

python benchmarks/invariance.py                 write the tables of docs/invariance.md
python benchmarks/invariance.py CHANGE...       print the answers that change

A change writes the same run in another form: another format, other names, other units, fewer
records. An answer changes if the diagnosis has another name. It flips if a run with an error has
none any more, or the other way round. ``REASONS`` explains every flip.
"""

from __future__ import annotations

import argparse
import gzip
import json
import shutil
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import stabdiag
from stabdiag.errors import StabdiagError
from stabdiag.model.findings import Severity

ROOT: Final = Path(__file__).resolve().parent.parent
RUNS: Final = ROOT / "fixtures" / "runs"
PAGE: Final = ROOT / "docs" / "invariance.md"
BEGIN: Final = "<!-- changes: written by benchmarks/invariance.py -->"
END: Final = "<!-- end -->"

Record = dict[str, Any]
Records = list[Record]
Manifest = dict[str, Any] | None


def _json_lines(records: Records) -> str:
    return "".join(json.dumps(record) + "\n" for record in records)


def _one_file(records: Records) -> Mapping[str, Records]:
    return {"log": records}


@dataclass(frozen=True, kw_only=True)
class Change:
    """A way to write a run: its records, its manifest, its files by name, and their text."""

    title: str
    suffix: str = "jsonl"
    records: Callable[[Records], Records] = list
    manifest: Callable[[Manifest], Manifest] = lambda manifest: manifest
    files: Callable[[Records], Mapping[str, Records]] = _one_file
    text: Callable[[Records], str] = _json_lines

    def write(self, records: Records, folder: Path) -> list[Path]:
        """Write the files of a run to a folder."""
        paths = []
        for name, part in self.files(self.records(records)).items():
            path = folder / f"{name}.{self.suffix}"
            data = self.text(part).encode()
            path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)
            paths.append(path)
        return paths


@dataclass(frozen=True, kw_only=True)
class Answer:
    """The diagnosis of a run, and whether it is an error."""

    slug: str
    is_error: bool


@dataclass(frozen=True, kw_only=True)
class Flip:
    """A run whose diagnosis is an error in only one of two forms."""

    change: str
    run: str
    before: Answer
    after: Answer


def _table(records: Records, separator: str) -> str:
    names = list(dict.fromkeys(name for record in records for name in record))
    rows = [[_cell(record.get(name)) for name in names] for record in records]
    return "".join(separator.join(row) + "\n" for row in [names, *rows])


def _cell(value: object) -> str:
    if value is None:
        return ""
    return str(value)


def _fields(record: Record) -> str:
    return " ".join(f"{name}: {value}" for name, value in record.items()) + "\n"


def _logged(records: Records) -> str:
    """Return the lines of a logger of one rank, with Windows line ends."""
    return "".join(
        f"[rank0]: 2026-03-01 10:{row // 60 % 60:02d}:{row % 60:02d},123 INFO train.py:31 "
        + " | ".join(f"{name}: {value}" for name, value in record.items())
        + "\r\n"
        for row, record in enumerate(records)
    )


def _rename(names: Mapping[str, str]) -> Callable[[Records], Records]:
    return lambda records: [
        {names.get(name, name): value for name, value in record.items()} for record in records
    ]


def _named_like(program: str, names: str) -> Change:
    """Return the change to the names of a program, for these columns in order."""
    columns = ("step", "loss", "grad_norm", "lr", "eval_loss")
    return Change(
        title=f"names of {program}",
        records=_rename(dict(zip(columns, names.split(", "), strict=True))),
    )


def _convert(name: str, function: Callable[[float], float]) -> Callable[[Records], Records]:
    def convert(record: Record) -> Record:
        value = record.get(name)
        return {**record, name: function(value)} if isinstance(value, int | float) else record

    return lambda records: [convert(record) for record in records]


def _is_step_count(name: str) -> bool:
    return ("step" in name or "checkpoint" in name) and "accumulation" not in name


def _scale_settings(factor: int) -> Callable[[Manifest], Manifest]:
    """Return a function that multiplies the step counts of a manifest."""

    def scale(value: Any, name: str = "") -> Any:
        if isinstance(value, dict):
            return {key: scale(entry, key) for key, entry in value.items()}
        if isinstance(value, list):
            return [scale(entry, name) for entry in value]
        is_count = isinstance(value, int) and not isinstance(value, bool) and _is_step_count(name)
        return value * factor if is_count else value

    return scale


def _nested(records: Records) -> Records:
    return [
        {"step": record.get("step")}
        | {"metrics": {name: value for name, value in record.items() if name != "step"}}
        for record in records
    ]


def _reversed(records: Records) -> Records:
    return [dict(reversed(record.items())) for record in records]


def _with_epochs(records: Records) -> Records:
    """Return records that count in fractions of epochs of 100 steps."""
    return [
        {
            ("epoch" if name == "step" else name): (value / 100 if name == "step" else value)
            for name, value in record.items()
            if name != "epoch"
        }
        for record in records
    ]


def _halves(records: Records) -> Mapping[str, Records]:
    half = len(records) // 2
    return {"attempt-1": records[:half], "attempt-2": records[half:]}


def _without_evaluations(records: Records) -> Mapping[str, Records]:
    """Return the training records, and the evaluation records with their steps."""
    train = [{key: record[key] for key in record if "eval" not in key} for record in records]
    evaluations = [
        {key: record[key] for key in record if key == "step" or "eval" in key}
        for record in records
        if any("eval" in key for key in record)
    ]
    train = [record for record in train if record.keys() - {"step"}]
    return {"run": train} | ({"eval": evaluations} if evaluations else {})


def _only(*names: str) -> Callable[[Records], Records]:
    return lambda records: [
        {name: value for name, value in record.items() if name in names} for record in records
    ]


def _more_steps(factor: int) -> Change:
    return Change(
        title=f"steps × {factor}, also in the manifest",
        records=_convert("step", lambda step: step * factor),
        manifest=_scale_settings(factor),
    )


CHANGES: Final[Mapping[str, Change]] = {
    "csv": Change(title="CSV", suffix="csv", text=lambda records: _table(records, ",")),
    "tsv": Change(title="TSV", suffix="tsv", text=lambda records: _table(records, "\t")),
    "json": Change(title="a JSON array", suffix="json", text=json.dumps),
    "dicts": Change(
        title="Python dicts",
        suffix="log",
        text=lambda records: "".join(f"{record}\n" for record in records),
    ),
    "fields": Change(
        title="lines of `name: value`",
        suffix="log",
        text=lambda records: "".join(map(_fields, records)),
    ),
    "logger": Change(title="lines of a logger with a rank and a time", suffix="log", text=_logged),
    "nested": Change(title="all values but the step in an object", records=_nested),
    "reversed": Change(title="the columns in reverse", records=_reversed),
    "gzip": Change(title="gzip", suffix="jsonl.gz"),
    "halves": Change(title="two files, each with half of the records", files=_halves),
    "eval": Change(title="a file of its own for evaluations", files=_without_evaluations),
    "twice": Change(
        title="every record twice",
        records=lambda records: [record for record in records for _ in range(2)],
    ),
    "train_loss": Change(
        title="`loss` named `train_loss`", records=_rename({"loss": "train_loss"})
    ),
    "train/ce": Change(title="`loss` named `train/ce`", records=_rename({"loss": "train/ce"})),
    "hf": _named_like("the HF Trainer", "step, loss, grad_norm, learning_rate, eval_loss"),
    "lightning": _named_like(
        "Lightning", "step, train_loss_step, grad_2.0_norm_total, lr-AdamW, val_loss"
    ),
    "megatron": _named_like(
        "Megatron-LM", "iteration, lm loss, grad norm, learning rate, validation lm loss"
    ),
    "fairseq": _named_like("fairseq", "num_updates, train_loss, gnorm, lr, valid_loss"),
    "keras": _named_like("Keras", "iterations, loss, gradient_norm, learning_rate, val_loss"),
    "wandb": _named_like(
        "W&B charts", "_step, train/loss, train/grad_norm, train/learning_rate, val/loss"
    ),
    "epochs": Change(title="fractions of epochs in place of steps", records=_with_epochs),
    "steps-10": _more_steps(10),
    "steps-1000": _more_steps(1000),
    "offset": Change(title="steps + 1e9", records=_convert("step", lambda step: step + 10**9)),
    "second": Change(title="every second record", records=lambda records: records[::2]),
    "fifth": Change(title="every fifth record", records=lambda records: records[::5]),
    "scaled": Change(title="loss × 1e6", records=_convert("loss", lambda loss: loss * 1e6)),
    "raised": Change(title="loss + 10", records=_convert("loss", lambda loss: loss + 10)),
    "bare": Change(title="only `step` and `loss`", records=_only("step", "loss")),
}

_WINDOW: Final = "the last 200 steps hold fewer records"
_SERIES: Final = "it shows in a series that is missing"

# Why a diagnosis is an error in only one of two forms.
REASONS: Final[Mapping[tuple[str, str], str]] = {
    ("train/ce", "symptom-other-loss-rising"): (
        "another column has the word *loss*, so it is taken for the loss"
    ),
    ("steps-10", "divergence-lr-endless-warmup"): f"{_WINDOW}: too few for a trend",
    ("steps-10", "symptom-loss-oscillating"): f"{_WINDOW}: the oscillation looks like a climb",
    ("steps-1000", "divergence-lr-endless-warmup"): f"{_WINDOW}: too few for a trend",
    ("steps-1000", "symptom-loss-oscillating"): f"{_WINDOW}: the oscillation looks like a climb",
    ("steps-1000", "spike-duplicate-stuck-loader"): (
        "a batch is a duplicate if it was seen in the last 100 steps, which hold no record"
    ),
    ("second", "symptom-loss-implausible"): "the only record of the failure is missing",
    ("fifth", "symptom-loss-implausible"): "the only record of the failure is missing",
    ("fifth", "divergence-lr-endless-warmup"): f"{_WINDOW}: too few for a trend",
    ("scaled", "symptom-plateau-at-chance"): "the loss is compared with ln K",
    ("raised", "symptom-plateau-at-chance"): "the loss is compared with ln K",
    ("raised", "nan-filtered-fp16"): (
        "a loss of exactly 0 means NaN in the logs of the Hugging Face Trainer"
    ),
    ("bare", "divergence-lr-endless-warmup"): f"{_SERIES}: the learning rate",
    ("bare", "loss-scale-collapsed-often"): f"{_SERIES}: the loss scale",
    ("bare", "loss-scale-collapsed-targets"): f"{_SERIES}: the loss scale",
    ("bare", "loss-scale-static"): f"{_SERIES}: the loss scale",
    ("bare", "spike-duplicate-stuck-loader"): "without batch numbers, nothing explains the spike",
    ("bare", "symptom-grad-vanishing"): f"{_SERIES}: the gradient norm",
    ("bare", "symptom-lr-range-test"): "without the learning rate, a range test looks like a spike",
}


def fixtures() -> dict[str, tuple[Records, Manifest]]:
    """Return the records and the manifest of each run with a flat log of steps and losses."""
    runs = {}
    for log in sorted(RUNS.glob("*/log.jsonl")):
        try:
            records = [json.loads(line) for line in log.read_text(encoding="utf-8").splitlines()]
        except ValueError:
            continue
        is_flat = all(
            isinstance(record, dict)
            and not any(isinstance(value, dict | list) for value in record.values())
            for record in records
        )
        if is_flat and any({"step", "loss"} <= record.keys() for record in records):
            settings = log.with_name("manifest.json")
            manifest = json.loads(settings.read_text()) if settings.exists() else None
            runs[log.parent.name] = (records, manifest)
    return runs


def answer(records: Records, manifest: Manifest, change: Change, folder: Path) -> Answer:
    """Return the diagnosis of a run in another form, written to a new folder."""
    folder.mkdir()
    manifest = change.manifest(manifest)
    if manifest is not None:
        (folder / "manifest.json").write_text(json.dumps(manifest), encoding="utf-8")
    try:
        diagnosis = stabdiag.diagnose(change.write(records, folder)).diagnosis
    except StabdiagError as error:
        return Answer(slug=type(error).__name__, is_error=False)
    finally:
        shutil.rmtree(folder)
    return Answer(slug=diagnosis.slug, is_error=diagnosis.severity is Severity.ERROR)


def changed_answers(names: Sequence[str], runs: Mapping[str, Any]) -> Iterator[Flip]:
    """Yield the answers that change; their names differ, or only one is an error."""
    unchanged = Change(title="unchanged")
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for run, (records, manifest) in runs.items():
            before = answer(records, manifest, unchanged, Path(folder) / run)
            for name in names:
                after = answer(records, manifest, CHANGES[name], Path(folder) / run)
                if after != before:
                    yield Flip(change=name, run=run, before=before, after=after)


def is_flip(change: Flip) -> bool:
    """Return True if only one of the two answers is an error."""
    return change.before.is_error != change.after.is_error


def tables(runs: int, changes: Sequence[Flip]) -> str:
    """Return the number of changed answers per change, and the reason of each flip."""
    lines = [f"| {runs} runs of `fixtures/runs`, with | other answers | flips |", "|---|---:|---:|"]
    for name, change in CHANGES.items():
        of_name = [entry for entry in changes if entry.change == name]
        flips = sum(map(is_flip, of_name))
        lines.append(f"| {change.title} | {len(of_name)} | {flips} |")
    lines += ["", "| flip | before | after | reason |", "|---|---|---|---|"]
    for flip in filter(is_flip, changes):
        form, reason = CHANGES[flip.change].title, REASONS.get((flip.change, flip.run), "")
        lines.append(
            f"| {form}: `{flip.run}` | `{flip.before.slug}` | `{flip.after.slug}` | {reason} |"
        )
    return "\n".join(lines)


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("changes", nargs="*", help="names of changes; all, for the page, if none")
    changes = parser.parse_args().changes
    if unknown := set(changes) - CHANGES.keys():
        parser.error(f"no change is named {sorted(unknown)}; there are {', '.join(CHANGES)}")
    runs = fixtures()
    results = sorted(
        changed_answers(changes or list(CHANGES), runs),
        key=lambda entry: list(CHANGES).index(entry.change),
    )
    if changes:
        for entry in results:
            mark = "flip" if is_flip(entry) else ""
            print(entry.change, entry.run, entry.before.slug, "→", entry.after.slug, mark)
        return
    head, _, after = PAGE.read_text(encoding="utf-8").partition(BEGIN)
    tail = after.partition(END)[2]
    content = tables(len(runs), results)
    PAGE.write_text(f"{head}{BEGIN}\n\n{content}\n\n{END}{tail}", encoding="utf-8")
    missing = [flip for flip in results if is_flip(flip) and (flip.change, flip.run) not in REASONS]
    for flip in missing:
        print(f"no reason: {flip.change} {flip.run} {flip.before.slug} → {flip.after.slug}")
    sys.exit(1 if missing else 0)


if __name__ == "__main__":
    main()
