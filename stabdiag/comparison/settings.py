"""The settings that differ between runs, and whether each can explain a different result."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from typing import Final

from stabdiag.comparison.outcomes import CONFIG_DIFFERS
from stabdiag.comparison.points import (
    describe_first,
    divergence_evidence,
    first_unrounded,
    format_values,
)
from stabdiag.model.comparison import (
    ComparedRun,
    Comparison,
    ComparisonKind,
    Difference,
    Divergence,
    Relevance,
    same,
)
from stabdiag.model.findings import Action, ActionKind, Finding, Scalar, Severity
from stabdiag.model.manifest.parsing import number, plain
from stabdiag.model.text import listed

# Settings without influence on the result: paths, names, times, machines, intervals of logging and
# saving. The last words of the key count: "hostname" matches, "learning_rate" does not.
_IDLE: Final = re.compile(
    r"(^|_)(run_?name|exp(eriment)?_?name|uuid|tags?|notes?|group|project|entity|user"
    r"|(out|output|save|log|logging|logger|work|run|result|results|tb|tensorboard|wandb|ckpt"
    r"|checkpoint|checkpoints|cache|tmp)_?(dir|folder|path|file|root)?|log_level|report_to"
    r"|time|date|timestamp|created|started|created_at|started_at|host|hostname|node|port"
    r"|master_addr|master_port|pid|job_?id|run_?id|slurm\w*|cuda_visible_devices|verbose"
    r"|disable_tqdm|progress|(log|logging|save|checkpoint)_(every|interval|steps|strategy|limit)"
    r"|checkpoint_every|checkpoints_kept|save_total_limit|wandb\w*|version_dir|push_to_hub)$"
)

# A name or an identifier explains nothing unless it names a model or data.
_LABEL: Final = re.compile(r"(^|_)(name|id)$")

# Settings that name the checkpoint that a run starts from.
_BEGINS: Final = re.compile(
    r"(^|_)(load|resume\w*|ckpt_path|restore\w*|init_from\w*|pretrained\w*|checkpoint_to_load)$"
)

# Settings that each process of a job has for itself.
_RANK_KEYS: Final = re.compile(
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
_MAX_NAMED_SETTINGS: Final = 5


def settings(run: ComparedRun) -> dict[str, object]:
    """Return the configuration of a run by field name or key."""
    others = {**run.manifest.also, **run.manifest.unknown}
    return run.manifest.known | {str(key): value for key, value in others.items()}


def differences(runs: Sequence[ComparedRun], kind: ComparisonKind) -> tuple[Difference, ...]:
    """Return the settings that differ, explanatory ones first.

    Runs without a known configuration are ignored.
    """
    configurations = {run.label: values for run in runs if (values := settings(run))}
    if len(configurations) < 2:
        return ()
    result = []
    for key in dict.fromkeys(key for values in configurations.values() for key in values):
        values = {label: configuration.get(key) for label, configuration in configurations.items()}
        if len({same(value) for value in values.values()}) > 1:
            shown = {label: _shown(key, value) for label, value in values.items()}
            result.append(Difference(key=key, values=shown, relevance=find_relevance(key, kind)))
    order = list(Relevance)
    return tuple(
        sorted(
            result,
            key=lambda difference: (order.index(difference.relevance), -_magnitude(difference)),
        )
    )


def _magnitude(difference: Difference) -> float:
    """Return the difference of a setting in orders of magnitude; words count as 1."""
    if plain(difference.key).endswith("seed"):
        return 0.0
    sizes = [abs(parsed) for value in difference.values.values() if (parsed := number(value))]
    return math.log10(max(sizes) / min(sizes)) if len(sizes) == len(difference.values) else 1.0


def explaining(differences: Sequence[Difference]) -> tuple[Difference, ...]:
    """Return the differences that explain, or may explain, different results."""
    return tuple(
        difference
        for difference in differences
        if difference.relevance in (Relevance.EXPLAINS, Relevance.MAY)
    )


def is_secret(key: str) -> bool:
    """Return True if the name of a setting marks its value as secret."""
    return _SECRET.search(plain(key)) is not None


def join_words(words: Sequence[str]) -> str:
    """Join words as in ``A, B and C``; long lists are cut."""
    if len(words) > _MAX_NAMED_SETTINGS + 1:
        return (
            f"{', '.join(words[:_MAX_NAMED_SETTINGS])} and {len(words) - _MAX_NAMED_SETTINGS} more"
        )
    return listed(words)


def config_differs(comparison: Comparison) -> Iterator[Finding]:
    """Find settings, or logged learning rates, that differ although they should not."""
    causes = explaining(comparison.differences)
    # After a resume the learning rate has a finding of its own.
    rates = [] if comparison.kind is ComparisonKind.RESUME else comparison.unrounded("lr")
    if not causes and not rates:
        return
    losses = comparison.find_divergences("loss")
    parts = (_manifests(causes), _rates(rates), _effect(comparison, rates))
    evaluations = first_evaluation_difference(comparison)
    is_harmless = not losses and evaluations is None and comparison.kind is ComparisonKind.RERUNS
    step = first_unrounded(rates)
    if step is None:
        step = min((divergence.step or 0 for divergence in losses), default=None)
    yield CONFIG_DIFFERS.finding(
        " ".join(filter(None, parts)),
        _first_action(causes, rates),
        step=step,
        measured={**first_values(causes), **(divergence_evidence(losses[0]) if losses else {})},
        severity=Severity.NOTE if is_harmless else None,
    )


def first_evaluation_difference(comparison: Comparison) -> Divergence | None:
    """Return the first evaluation series that differs by more than rounding, if any."""
    different = [part for role in EVALUATIONS for part in comparison.unrounded(role)]
    return min(different, key=lambda part: part.unrounded or 0, default=None)


def find_relevance(key: str, kind: ComparisonKind) -> Relevance:
    """Return the relevance of a setting for different results, by its name."""
    key_words, name = plain(key), plain(key.rpartition(".")[2])
    if name.endswith("seed"):
        return Relevance.EXPECTED if kind is ComparisonKind.SEEDS else Relevance.EXPLAINS
    if _BEGINS.search(name):
        return Relevance.EXPECTED if kind is ComparisonKind.RESUME else Relevance.EXPLAINS
    if kind is ComparisonKind.RANKS and _RANK_KEYS.search(name):
        return Relevance.EXPECTED
    causes = _CAUSES.search(key_words) is not None
    if _IDLE.search(key_words) or _IDLE.search(name) or (_LABEL.search(key_words) and not causes):
        return Relevance.CANNOT
    return Relevance.EXPLAINS if causes and not _EVALUATION.search(key_words) else Relevance.MAY


def _shown(key: str, value: object) -> Scalar:
    if value is None:
        return None
    if is_secret(key):
        return "(not shown)"
    return value if isinstance(value, bool | int | float | str) else str(value)


def _manifests(causes: tuple[Difference, ...]) -> str:
    if not causes:
        return ""
    shown = "; ".join(map(_in_words, causes[:_MAX_NAMED_SETTINGS]))
    ending = (
        f"; and {len(causes) - _MAX_NAMED_SETTINGS} more"
        if len(causes) > _MAX_NAMED_SETTINGS
        else ""
    )
    unsure = all(cause.relevance is Relevance.MAY for cause in causes)
    tail = ". Their names do not show whether they matter" if unsure else ""
    return f"The manifests differ: {shown}{ending}{tail}."


def _in_words(difference: Difference) -> str:
    """Describe a setting with its values: ``peak_lr is 0.003 in base, 0.001 in low``."""
    parts = [f"{value} in {join_words(labels)}" for value, labels in difference.by_value]
    return f"{difference.key} is {', '.join(parts)}"


def _rates(rates: list[Divergence]) -> str:
    if not rates:
        return ""
    first = min(rates, key=lambda rate: rate.unrounded or 0)
    text = f"The logged learning rates of {first.runs[0]} and {first.runs[1]} diverge at step"
    return f"{text} {first.unrounded}: {format_values(first.unrounded_values)}."


def _effect(comparison: Comparison, rates: list[Divergence]) -> str:
    losses = comparison.find_divergences("loss")
    if not losses:
        evaluation = first_evaluation_difference(comparison)
        if evaluation is not None:
            return (
                f"The training losses are identical, but {evaluation.role} differs from step "
                f"{evaluation.unrounded} on: {format_values(evaluation.unrounded_values)}."
            )
        return "The losses are identical: the difference had no effect."
    if comparison.kind is not ComparisonKind.RERUNS:
        return ""
    first = min(losses, key=lambda divergence: divergence.step or 0)
    parts = [describe_first(first)]
    rate = first_unrounded(rates)
    if rate is not None and rate < (first.unrounded or 0):
        parts.append("The learning rate diverges before the loss does: it is the cause.")
    batches = min(
        (divergence.step or 0 for divergence in comparison.find_divergences("batch_id")),
        default=None,
    )
    if batches is not None:
        parts.append(f"The batches differ from step {batches} on.")
    return " ".join(parts)


def _first_action(causes: tuple[Difference, ...], rates: list[Divergence]) -> Action:
    if causes:
        keys = ", ".join(cause.key for cause in causes[:_MAX_NAMED_SETTINGS])
        return Action(ActionKind.RERUN, f"Give the runs the same {keys}, and compare again.")
    step = first_unrounded(rates)
    return Action(
        ActionKind.FIX_SCHEDULE,
        "Find the code that changes the schedule, since the configuration does not: print the "
        f"learning rate at step {step} in both runs.",
        step=step,
    )


def first_values(differences: Sequence[Difference]) -> dict[str, Scalar]:
    """Return the values of the first settings in the first runs, for the evidence."""
    return {
        f"{difference.key} ({label})": value
        for difference in differences[:_MAX_NAMED_SETTINGS]
        for label, value in list(difference.values.items())[:_MAX_NAMED_SETTINGS]
    }
