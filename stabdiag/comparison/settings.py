"""How the configurations of runs differ, and which of the differences can explain anything."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from stabdiag.model.comparison import Bearing, Difference, Kind, Run
from stabdiag.model.manifest.keys import KEYS, number, plain
from stabdiag.model.text import clipped, listed

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from stabdiag.model.findings import Scalar

# Where a run is kept, what it is called, when and where it ran, how often it logs and saves: by
# the last words of the key, so that "hostname" is one and "learning_rate" is not.
_IDLE: Final = re.compile(
    r"(^|_)(run_?name|exp(eriment)?_?name|uuid|tags?|notes?|group|project|entity|user"
    r"|(out|output|save|log|logging|logger|work|run|result|results|tb|tensorboard|wandb|ckpt"
    r"|checkpoint|checkpoints|cache|tmp)_?(dir|folder|path|file|root)?|log_level|report_to"
    r"|time|date|timestamp|created|started|created_at|started_at|host|hostname|node|port"
    r"|master_addr|master_port|pid|job_?id|run_?id|slurm\w*|cuda_visible_devices|verbose"
    r"|disable_tqdm|progress|(log|logging|save|checkpoint)_(every|interval|steps|strategy|limit)"
    r"|checkpoint_every|checkpoints_kept|save_total_limit|wandb\w*|version_dir|push_to_hub)$"
)

# A name or a number in some list tells nothing, unless it is that of a model or of data.
_LABEL: Final = re.compile(r"(^|_)(name|id)$")

# Where a run began: from nothing, or from what another one left.
_BEGINS: Final = re.compile(
    r"(^|_)(load|resume\w*|ckpt_path|restore\w*|init_from\w*|pretrained\w*|checkpoint_to_load)$"
)

# What every process of a job has of its own.
_OF_A_RANK: Final = re.compile(
    r"(^|_)(rank|local_rank|global_rank|node_rank|process_index|process_rank|dist_rank)$"
)

# How often is evaluated matters to a run only if it draws random numbers.
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
HIDDEN: Final = "(not shown)"


def differences(runs: Sequence[Run], kind: Kind) -> tuple[Difference, ...]:
    """Return the settings that differ, those that can explain something first.

    Runs of whose configuration nothing is known tell of no difference.
    """
    told = {run.label: settings(run) for run in runs}
    known = {label: values for label, values in told.items() if values}
    if len(known) < 2:
        return ()
    found = []
    for key in dict.fromkeys(key for values in known.values() for key in values):
        values = {label: of.get(key) for label, of in known.items()}
        if len({_same(value) for value in values.values()}) > 1:
            shown = {label: _shown(key, value) for label, value in values.items()}
            found.append(Difference(key=key, values=shown, bearing=_bearing(key, kind)))
    order = list(Bearing)
    return tuple(sorted(found, key=lambda one: order.index(one.bearing)))


def settings(run: Run) -> dict[str, object]:
    """Return what is known of a run's configuration, by the names of fields and of other keys."""
    fields = {key.name: getattr(run.manifest, key.name) for key in KEYS}
    known = {name: value for name, value in fields.items() if value is not None}
    others = {**run.manifest.also, **run.manifest.unknown}
    return known | {str(key): value for key, value in others.items()}


def explaining(found: Sequence[Difference]) -> tuple[Difference, ...]:
    """Return the differences that explain something, or of which it cannot be ruled out."""
    return tuple(one for one in found if one.bearing in (Bearing.EXPLAINS, Bearing.MAY))


def _bearing(key: str, kind: Kind) -> Bearing:
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


def _same(value: object) -> object:
    """Return a key under which equal settings fall together: 1e-3 and "0.001" are one."""
    read = None if isinstance(value, bool) else number(value)
    return str(value) if read is None else read


def _shown(key: str, value: object) -> Scalar:
    if value is None:
        return None
    if is_secret(key):
        return HIDDEN
    return value if isinstance(value, bool | int | float | str) else str(value)


def is_secret(key: str) -> bool:
    """Tell whether the value of a setting is nothing to be passed on, by its name."""
    return _SECRET.search(plain(key)) is not None


def in_words(difference: Difference) -> str:
    """Return a setting with its values: ``peak_lr is 0.003 in A and B, 0.001 in C``."""
    by_value: dict[object, list[str]] = {}
    for label, value in difference.values.items():
        by_value.setdefault(_same(value), []).append(label)
    values: Mapping[object, Scalar] = {_same(value): value for value in difference.values.values()}
    parts = [f"{_value(values[key])} in {joined(labels)}" for key, labels in by_value.items()]
    return f"{difference.key} is {', '.join(parts)}"


def _value(value: Scalar) -> str:
    if value is None:
        return "not told"
    if isinstance(value, float):
        return f"{value:.6g}"
    return clipped(str(value), 60)


def joined(words: Sequence[str]) -> str:
    """Return words as an enumeration: ``A, B and C``; of many the first ones and their number."""
    if len(words) > 6:
        return f"{', '.join(words[:5])} and {len(words) - 5} more"
    return listed(words)
