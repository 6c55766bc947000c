"""The manifest and the training arguments that lie beside a log."""

from __future__ import annotations

import re
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any, Final

from stabdiag.errors import ManifestError
from stabdiag.history import Event, EventKind
from stabdiag.manifest import Manifest, parse_manifest
from stabdiag.manifest.keys import KEYS
from stabdiag.manifest.text import mapping_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

# No configuration is larger.
LARGEST: Final = 1 << 20

# What a person wrote for us goes first …
_OURS: Final = "manifest.json"

# … then what the run was started with, then what its model is.
NAMES: Final = (
    *("training_args.json", "training_args.yaml", "train_args.json", "trainer_config.json"),
    *("args.json", "args.yaml", "opt.yaml", "arguments.json"),
    *("hparams.yaml", "hparams.yml", "hparams.json"),
    *("train_config.json", "train_config.yaml", "run_config.json", "run_config.yaml"),
    *("config.yaml", "config.yml", "config.toml", "config.json"),
    *(".hydra/config.yaml", "files/config.yaml", "params.json", "params.yaml"),
    *("ds_config.json", "deepspeed_config.json"),
)

# Folders that a run keeps its logs in, below its own.
_INNER: Final = re.compile(
    r"logs?|tensorboard|tb|tb_logs|events|csv|metrics|stats|vis_data|runs|train|files"
    r"|(checkpoint|version|epoch|step|run)[-_].*|rank[-_]?\d+|\d{8}_\d{6}",
    re.IGNORECASE,
)


def written_for(log: str) -> list[str]:
    """Return the names that a manifest written for a log may have; the first one counts."""
    name = PurePosixPath(log).name
    stems = (PurePosixPath(name).stem, name.partition(".")[0])
    return [*(f"{stem}.{_OURS}" for stem in dict.fromkeys(stems) if stem), _OURS]


def is_manifest(name: str) -> bool:
    """Tell whether a file of this name is no log but a configuration."""
    return name in (*NAMES, _OURS) or name.endswith(f".{_OURS}")


def _folders(log: PurePosixPath, root: PurePosixPath) -> Iterator[PurePosixPath]:
    """Yield the folders in which a log's configuration may lie, the nearest first.

    These are the log's own, those above it up to the place's root, and one more where the name of
    the last one is that of a folder in which runs keep their logs.
    """
    folder = log.parent
    yield folder
    while folder not in (root, folder.parent):
        folder = folder.parent
        yield folder
    if _INNER.fullmatch(folder.name):
        yield folder.parent


def paths(log: PurePosixPath, root: PurePosixPath) -> Iterator[list[PurePosixPath]]:
    """Yield where a log's configuration may lie, the most telling first; of each list one counts.

    Args:
        log: the log's path.
        root: the folder, archive or URL that the user named.
    """
    for number, folder in enumerate(_folders(log, root)):
        ours = written_for(log.name) if number == 0 else [_OURS]
        yield from ([folder / name for name in names] for names in (ours, *([n] for n in NAMES)))


def manifest_beside(
    paths: Iterable[Iterable[PurePosixPath]],
    read: Callable[[PurePosixPath], bytes | None],
    name: Callable[[PurePosixPath], str] = str,
) -> tuple[Manifest, list[Event]]:
    """Return what the configurations beside a log tell together, and what could not be read.

    Args:
        paths: where one may lie, the most telling first; of each list only the first one counts.
        read: returns what a file holds, or None where there is none or it is too large.
        name: returns what a report calls a file.
    """
    known, events = Manifest(), list[Event]()
    for alternatives in paths:
        there = ((path, read(path)) for path in alternatives)
        path, data = next((one for one in there if one[1] is not None), (None, None))
        if path is None or data is None:
            continue
        try:
            told = parse_manifest(_of_the_training(mapping_of(name(path), data)), name(path))
        except ManifestError as error:
            # Beside a log may lie a file of the same name that is something else.
            events.append(Event(kind=EventKind.PLACE, message=f"not used as manifest: {error}"))
            continue
        if any(getattr(told, key.name) is not None for key in KEYS):
            known = known.beside(told)
    return known, events


def _of_the_training(raw: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a model's configuration without the dtype of its weights: training has its own."""
    if "model_type" in raw or "architectures" in raw:
        return {key: one for key, one in raw.items() if key not in ("torch_dtype", "dtype")}
    return raw
