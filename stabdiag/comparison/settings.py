"""The settings that differ between runs, and whether each can explain a different result."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from typing import Final

from stabdiag.comparison.outcomes import CONFIG_DIFFERS
from stabdiag.comparison.points import close, first_unrounded, measured, where
from stabdiag.model.comparison import Bearing, Comparison, Difference, Kind, Parting, Run, same
from stabdiag.model.findings import Action, ActionKind, Finding, Scalar, Severity
from stabdiag.model.manifest.keys import number, plain
from stabdiag.model.text import listed

# Where a run is kept, what it is called, when and where it ran, how often it logs and saves: by
# the last words of the key: "hostname" is one, and "learning_rate" is not.
_IDLE: Final = re.compile(
    r"(^|_)(run_?name|exp(eriment)?_?name|uuid|tags?|notes?|group|project|entity|user"
    r"|(out|output|save|log|logging|logger|work|run|result|results|tb|tensorboard|wandb|ckpt"
    r"|checkpoint|checkpoints|cache|tmp)_?(dir|folder|path|file|root)?|log_level|report_to"
    r"|time|date|timestamp|created|started|created_at|started_at|host|hostname|node|port"
    r"|master_addr|master_port|pid|job_?id|run_?id|slurm\w*|cuda_visible_devices|verbose"
    r"|disable_tqdm|progress|(log|logging|save|checkpoint)_(every|interval|steps|strategy|limit)"
    r"|checkpoint_every|checkpoints_kept|save_total_limit|wandb\w*|version_dir|push_to_hub)$"
)

# A name or a number explains nothing unless it is that of a model or of data.
_LABEL: Final = re.compile(r"(^|_)(name|id)$")

# What a run starts from: nothing, or another run's checkpoint.
_BEGINS: Final = re.compile(
    r"(^|_)(load|resume\w*|ckpt_path|restore\w*|init_from\w*|pretrained\w*|checkpoint_to_load)$"
)

# What each process of a job has of its own.
_OF_A_RANK: Final = re.compile(
    r"(^|_)(rank|local_rank|global_rank|node_rank|process_index|process_rank|dist_rank)$"
)

# How often a run evaluates matters only if evaluation draws random numbers.
_EVALUATION: Final = re.compile(r"(^|_)eval(uation)?(_|$)")

_CAUSES: Final = re.compile(
    r"(^|_)(lr|rate|batch\w*|accumul\w*|decay|momentum|betas?\d?|eps|epsilon|clip\w*|dropout|dtype"
    r"|precision|fp16|bf16|amp|optim\w*|sched\w*|warm\w*|steps|epochs?|iters|data\w*|corpus"
    r"|tokeni[sz]er\w*|shuffle|vocab\w*|seq\w*|context|length|model\w*|width|layers?|heads?|hidden"
    r"|dim|init\w*|loss\w*|smoothing|augment\w*|world_size|gpus|nodes|compile|deterministic"
    r"|commit|git\w*|revision|version|workers|scal\w*|growth_interval)(_|$)"
)

_SECRET: Final = re.compile(
    r"(^|_)((api|access|private|secret|wandb)_?key|secret|password|passwd|credentials?"
    r"|((hf|hub|auth|access|api|bearer)_)?token|auth)$"
)

# The series that an evaluation logs.
EVALUATIONS: Final = ("eval_loss", "eval_accuracy")

# A sentence names at most this many settings.
_SHOWN: Final = 5


def settings(run: Run) -> dict[str, object]:
    """Return a run's configuration by field name or key."""
    others = {**run.manifest.also, **run.manifest.unknown}
    return run.manifest.known | {str(key): value for key, value in others.items()}


def differences(runs: Sequence[Run], kind: Kind) -> tuple[Difference, ...]:
    """Return the settings that differ, those that can explain something first.

    Runs without a known configuration are ignored.
    """
    known = {run.label: values for run in runs if (values := settings(run))}
    if len(known) < 2:
        return ()
    found = []
    for key in dict.fromkeys(key for values in known.values() for key in values):
        values = {label: of.get(key) for label, of in known.items()}
        if len({same(value) for value in values.values()}) > 1:
            shown = {label: _shown(key, value) for label, value in values.items()}
            found.append(Difference(key=key, values=shown, bearing=bearing_of(key, kind)))
    order = list(Bearing)
    return tuple(sorted(found, key=lambda one: (order.index(one.bearing), -_apart(one))))


def _apart(difference: Difference) -> float:
    """Return the orders of magnitude by which a setting differs; words count as 1."""
    if plain(difference.key).endswith("seed"):
        return 0.0
    sizes = [abs(read) for one in difference.values.values() if (read := number(one))]
    return math.log10(max(sizes) / min(sizes)) if len(sizes) == len(difference.values) else 1.0


def explaining(found: Sequence[Difference]) -> tuple[Difference, ...]:
    """Return the differences that explain something, or may."""
    return tuple(one for one in found if one.bearing in (Bearing.EXPLAINS, Bearing.MAY))


def is_secret(key: str) -> bool:
    """Return True if the name of a setting says that its value must stay secret."""
    return _SECRET.search(plain(key)) is not None


def joined(words: Sequence[str]) -> str:
    """Return words as an enumeration: ``A, B and C``, cut after the first if there are many."""
    if len(words) > _SHOWN + 1:
        return f"{', '.join(words[:_SHOWN])} and {len(words) - _SHOWN} more"
    return listed(words)


def config_differs(comparison: Comparison) -> Iterator[Finding]:
    """Find settings, or a learning rate in the log, that differ where they should not."""
    causes = explaining(comparison.differences)
    # After a resume the learning rate has a finding of its own.
    rates = [] if comparison.kind is Kind.RESUME else comparison.unrounded("lr")
    if not causes and not rates:
        return
    losses = comparison.parted("loss")
    parts = (_manifests(causes), _rates(rates), _effect(comparison, rates))
    evaluations = first_evaluation_difference(comparison)
    harmless = not losses and evaluations is None and comparison.kind is Kind.RERUNS
    step = first_unrounded(rates)
    if step is None:
        step = min((one.step or 0 for one in losses), default=None)
    yield CONFIG_DIFFERS.found(
        " ".join(filter(None, parts)),
        _first(causes, rates),
        step=step,
        measured={**_values(causes), **(measured(losses[0]) if losses else {})},
        severity=Severity.NOTE if harmless else None,
    )


def first_evaluation_difference(comparison: Comparison) -> Parting | None:
    """Return the first evaluation series that differs by more than rounding, if there is one."""
    different = [part for role in EVALUATIONS for part in comparison.unrounded(role)]
    return min(different, key=lambda part: part.unrounded or 0, default=None)


def bearing_of(key: str, kind: Kind) -> Bearing:
    """Return whether a setting can explain that runs of a kind differ, by its name."""
    word, last = plain(key), plain(key.rpartition(".")[2])
    if last.endswith("seed"):
        return Bearing.EXPECTED if kind is Kind.SEEDS else Bearing.EXPLAINS
    if _BEGINS.search(last):
        return Bearing.EXPECTED if kind is Kind.RESUME else Bearing.EXPLAINS
    if kind is Kind.RANKS and _OF_A_RANK.search(last):
        return Bearing.EXPECTED
    causes = _CAUSES.search(word) is not None
    if _IDLE.search(word) or _IDLE.search(last) or (_LABEL.search(word) and not causes):
        return Bearing.CANNOT
    return Bearing.EXPLAINS if causes and not _EVALUATION.search(word) else Bearing.MAY


def _shown(key: str, value: object) -> Scalar:
    if value is None:
        return None
    if is_secret(key):
        return "(not shown)"
    return value if isinstance(value, bool | int | float | str) else str(value)


def _manifests(causes: tuple[Difference, ...]) -> str:
    if not causes:
        return ""
    shown = "; ".join(map(_in_words, causes[:_SHOWN]))
    more = f"; and {len(causes) - _SHOWN} more" if len(causes) > _SHOWN else ""
    unsure = all(one.bearing is Bearing.MAY for one in causes)
    tail = ". Their names do not show whether they matter" if unsure else ""
    return f"The manifests differ: {shown}{more}{tail}."


def _in_words(difference: Difference) -> str:
    """Return a setting with its values: ``peak_lr is 0.003 in base, 0.001 in low``."""
    parts = [f"{value} in {joined(labels)}" for value, labels in difference.by_value]
    return f"{difference.key} is {', '.join(parts)}"


def _rates(rates: list[Parting]) -> str:
    if not rates:
        return ""
    one = min(rates, key=lambda rate: rate.unrounded or 0)
    text = f"The logged learning rates of {one.runs[0]} and {one.runs[1]} diverge at step"
    return f"{text} {one.unrounded}: {close(one.unrounded_values)}."


def _effect(comparison: Comparison, rates: list[Parting]) -> str:
    losses = comparison.parted("loss")
    if not losses:
        evaluation = first_evaluation_difference(comparison)
        if evaluation is not None:
            return (
                f"The training losses are identical, but {evaluation.role} differs from step "
                f"{evaluation.unrounded} on: {close(evaluation.unrounded_values)}."
            )
        return "The losses are identical: the difference had no effect."
    if comparison.kind is not Kind.RERUNS:
        return ""
    first = min(losses, key=lambda one: one.step or 0)
    parts = [where(first)]
    rate = first_unrounded(rates)
    if rate is not None and rate < (first.unrounded or 0):
        parts.append("The learning rate diverges before the loss does: it is the cause.")
    batches = min((one.step or 0 for one in comparison.parted("batch_id")), default=None)
    if batches is not None:
        parts.append(f"The batches differ from step {batches} on.")
    return " ".join(parts)


def _first(causes: tuple[Difference, ...], rates: list[Parting]) -> Action:
    if causes:
        keys = ", ".join(one.key for one in causes[:_SHOWN])
        return Action(ActionKind.RERUN, f"Give the runs the same {keys}, and compare again.")
    step = first_unrounded(rates)
    return Action(
        ActionKind.FIX_SCHEDULE,
        "Find the code that changes the schedule, since the configuration does not: print the "
        f"learning rate at step {step} in both runs.",
        step=step,
    )


def _values(causes: tuple[Difference, ...]) -> dict[str, Scalar]:
    return {
        f"{one.key} ({label})": value
        for one in causes[:_SHOWN]
        for label, value in list(one.values.items())[:_SHOWN]
    }
