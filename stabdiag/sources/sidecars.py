"""Files next to a log: the configuration of the run, and its checkpoints.

Configurations are the manifest, which a person wrote for stabdiag, and the arguments and
hyperparameters that training programs write. Checkpoints are never opened: their names give the
step or epoch.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import field, replace
from functools import cache
from itertools import islice, pairwise
from pathlib import Path, PurePath, PurePosixPath
from typing import Any, Final, TypeVar

from stabdiag.errors import LogError, ManifestError
from stabdiag.model.events import Event
from stabdiag.model.frozen import frozen
from stabdiag.model.manifest import Manifest, parse_manifest
from stabdiag.model.manifest.text import parse_mapping
from stabdiag.model.patterns import lazy_pattern
from stabdiag.model.text import word_list
from stabdiag.readers.columns import Columns
from stabdiag.readers.source import Stream
from stabdiag.sources.folder import Container, Entry, LoadedLog, Sibling, note

# Larger files are not configurations.
_MAX_CONFIG_SIZE: Final = 1 << 20

# The file that a person wrote for stabdiag comes first …
_MANIFEST_FILE: Final = "manifest.json"

# … then the arguments of the run, then the configuration of its model.
_CONFIG_NAMES: Final = word_list(
    "training_args.json training_args.bin training_args.yaml train_args.json "
    "trainer_config.json args.json args.yaml opt.yaml arguments.json hparams.yaml hparams.yml "
    "hparams.json train_config.json train_config.yaml run_config.json run_config.yaml "
    "config.yaml config.yml config.toml config.json .hydra/config.yaml files/config.yaml "
    "params.json params.yaml ds_config.json deepspeed_config.json"
)

# The HF Trainer saves a pickle, which may run code when loaded: it is not loaded.
_PICKLED: Final = "training_args.bin"
_SAVED: Final = "training_args.json"
_SAVE: Final = (
    "is a pickle and was not loaded; if you trust it, save it as JSON in the same folder:"
    f" python -c \"import torch; args = torch.load('{_PICKLED}', weights_only=False);"
    f" open('{_SAVED}', 'w').write(args.to_json_string())\""
)

# Fields in the configuration of a model that determine the first loss.
_MODEL_FIELDS: Final = frozenset(
    {"vocab_size", "architectures", "problem_type", "id2label", "label2id", "num_labels"}
)

# Names of subfolders for the logs of a run.
_LOG_SUBFOLDER: Final = lazy_pattern(
    r"logs?|tensorboard|tb|tb_logs|events|csv|metrics|stats|vis_data|runs|train|files"
    r"|(checkpoint|version|epoch|step|run)[-_].*|rank[-_]?\d+|\d{8}_\d{6}",
    re.IGNORECASE,
)


_Path = TypeVar("_Path", bound=PurePath)

# The name and the content of a file.
_Text = tuple[str, bytes]

# The counts in the names of checkpoints, by unit.
Checkpoints = Mapping[str, tuple[int, ...]]


@frozen
class Sidecars:
    """The manifest from the files next to a log, events about them, and the files that were read.

    Checkpoints are only counted: see ``find_checkpoints``.
    """

    manifest: Manifest = field(default_factory=Manifest)
    events: Sequence[Event] = ()
    files: Sequence[str] = ()
    checkpoints: Checkpoints = field(default_factory=dict)

    def attach(self, columns: Columns, siblings: tuple[Sibling, ...] = ()) -> LoadedLog:
        """Return the log with these sidecars; the events of the source come first."""
        events, files = (*self.events, *columns.events), (*columns.files, *self.files)
        columns = replace(columns, events=events, files=files)
        return LoadedLog(
            columns=columns,
            manifest=self.manifest,
            checkpoints=self.checkpoints,
            siblings=siblings,
        )


def is_manifest(name: str) -> bool:
    """Return True if a file of this name is a configuration."""
    return name in (*_CONFIG_NAMES, _MANIFEST_FILE) or name.endswith(f".{_MANIFEST_FILE}")


def file_sidecars(log: Path, root: Path, read: Iterable[str]) -> Sidecars:
    """Return the sidecars of a log, from its folder and those above it up to ``root``.

    ``read`` are the files of the log itself.
    """
    files = [*read]
    list_folder = cache(list_names)
    folders = _folders(log, root)

    def may_exist(folder: PurePath, name: str) -> bool:
        names = list_folder(folder)
        return not names or name.partition("/")[0] in names

    def texts(paths: Iterable[Path]) -> Iterator[_Text]:
        for file in paths:
            if not file.is_file() or file.stat().st_size > _MAX_CONFIG_SIZE or file == log:
                continue
            try:
                data = file.read_bytes()
            except OSError as error:
                raise ManifestError(f"{file}: cannot be read ({error.strerror})") from error
            files.append(str(file))
            yield str(file), data

    manifest, events = _manifest(map(texts, _candidates(log.name, folders, may_exist)))
    checkpoints = find_checkpoints(folders, list_folder)
    return Sidecars(manifest=manifest, events=events, files=files, checkpoints=checkpoints)


def sidecar_checkpoints(log: Path, root: Path) -> Checkpoints:
    """Return the checkpoints next to a log, or in the folders above it up to ``root``."""
    return find_checkpoints(_folders(log, root), list_names)


def member_sidecars(container: Container, log: PurePosixPath, entries: Iterable[Entry]) -> Sidecars:
    """Return the sidecars of a log among the files of its container."""
    by_path = {entry.path: entry for entry in entries}
    folders = _folders(log, PurePosixPath())
    candidates = list(_candidates(log.name, folders, lambda folder, name: folder / name in by_path))
    selected = [by_path[path] for paths in candidates for path in paths]
    texts = {entry.path: _text(stream) for entry, stream in container.streams(selected)}
    manifest, events = _manifest(
        [text for path in paths for text in texts.get(path, ())] for paths in candidates
    )
    return Sidecars(manifest=manifest, events=events)


def url_sidecars(url: str, open_file: Callable[[str], Stream]) -> Sidecars:
    """Return the manifest next to a URL. Other files are not tried: each costs a request."""

    def texts() -> Iterator[_Text]:
        for name in _manifest_names(url):
            with suppress(LogError), open_file(name) as stream:
                yield from _text(stream)

    manifest, _ = _manifest([texts()])
    # No events: a server may answer any request with a page of its own.
    return Sidecars(manifest=manifest)


def _candidates(
    log: str, folders: Iterable[_Path], may_exist: Callable[[_Path, str], bool]
) -> Iterator[list[_Path]]:
    """Yield the paths of configurations of a log, best first; the first file of each list counts.

    ``may_exist`` is True if a folder may contain a file of a name.
    """
    # The JSON file replaces the pickle that it was saved from.
    others = [[name] for name in _CONFIG_NAMES if name not in (_SAVED, _PICKLED)]
    manifests = _manifest_names(log)
    for folder in folders:
        for names in (manifests, [_SAVED, _PICKLED], *others):
            yield [folder / name for name in names if may_exist(folder, name)]
        manifests = [_MANIFEST_FILE]


def _manifest_names(log: str) -> list[str]:
    """Return the possible names of the manifest of a log; the first file that exists counts."""
    name = PurePosixPath(log).name
    stems = (PurePosixPath(name).stem, name.partition(".")[0])
    return [*(f"{stem}.{_MANIFEST_FILE}" for stem in dict.fromkeys(stems) if stem), _MANIFEST_FILE]


def _folders(log: _Path, root: _Path) -> list[_Path]:
    """Return the folders that may contain the configuration of a log, nearest first.

    ``root`` is the folder, archive or URL that the user named. The result is the log's own folder,
    its parents up to ``root``, and one more parent if the last folder is named like one for logs.
    """
    above = [log.parent, *log.parent.parents]
    folders = above[: above.index(root) + 1] if root in above else above
    return [*folders, folders[-1].parent] if _LOG_SUBFOLDER.fullmatch(folders[-1].name) else folders


def _text(stream: Stream) -> list[_Text]:
    """Return the name and content of a file; empty if it is too large."""
    data = stream.peek(_MAX_CONFIG_SIZE + 1)
    return [(stream.name, data)] if len(data) <= _MAX_CONFIG_SIZE else []


def _manifest(texts: Iterable[Iterable[_Text]]) -> tuple[Manifest, list[Event]]:
    """Merge configurations into a manifest; return it with events about unusable files.

    The best come first; only the first of each list of ``texts`` counts. Reading an unreadable file
    raises ManifestError.
    """
    manifest = Manifest()
    events: list[Event] = []
    pickled: list[Event] = []
    for files in texts:
        try:
            name, data = next(iter(files), ("", b""))
            if name.endswith(_PICKLED):
                pickled.append(note(f"{name} {_SAVE}"))
            elif name:
                parsed = parse_manifest(_run_settings(parse_mapping(name, data)), name)
                # A file called like the log was written for it, even if it has no known field.
                is_used = parsed.known or parsed.also or name.endswith(f".{_MANIFEST_FILE}")
                manifest = manifest.fill_gaps(parsed) if is_used else manifest
        except ManifestError as error:
            # A file of this name may be something else.
            events.append(note(f"not used as manifest: {error}"))
    return manifest, [*events, *pickled[:1]]  # checkpoints contain copies of the same pickle


def _run_settings(raw: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the settings of the run in a configuration.

    From the configuration of a model these are its vocabulary and labels. The other fields, such as
    the dtype of the weights, describe the model when it was saved.
    """
    if "transformers_version" in raw or "architectures" in raw:
        return {name: value for name, value in raw.items() if name in _MODEL_FIELDS}
    if "model_type" in raw:
        return {key: value for key, value in raw.items() if key not in ("torch_dtype", "dtype")}
    return raw


# The names in a folder, and whether each is a file; empty if the folder cannot be listed.
Listing = dict[str, bool]

# A folder with more names is shared by many logs; listing it for each would be slow.
_MAX_FOLDER_NAMES: Final = 1000

# Names of subfolders for checkpoints.
_SUBFOLDER: Final = r"(?i)(checkpoint|ckpt|weight|model)s?"

# Suffixes of weight files: images may have a step in their name, too.
_WEIGHT_SUFFIX: Final = lazy_pattern(
    r"\.(pt|pth|pth\.tar|ckpt|safetensors|bin|pkl|npz|h5|hdf5|keras|msgpack|tar)$", re.IGNORECASE
)

# ``step=120``, ``global_step120``, ``iter_0000120``, ``ba120``; and ``epoch=3``, ``ep3``.
_CHECKPOINT_COUNTER: Final = (
    r"(?i)(?<![a-z])(?:(?:(?:global_?)?steps?|iter(?:ation)?s?|updates?|ba)[-_=]?(?P<step>\d{1,12})"
    r"|ep(?:och)?s?[-_=]?(?P<epoch>\d{1,12}))(?![\d.]*\d)"
)

# ``checkpoint-120`` (a step or an epoch), and fairseq's ``checkpoint_3_120`` (epoch and step).
_UNLABELED: Final = (
    r"(?i)(?:checkpoint|ckpt|model|weights)[-_=]?"
    r"(?:(?P<either>\d{1,12})|(?P<epoch>\d{1,12})_(?P<step>\d{1,12}))"
)

# Other words in the name of a folder that is a checkpoint.
_CHECKPOINT_WORDS: Final = r"(?i)checkpoint|ckpt|model|unsharded|[-_]"


def find_checkpoints(
    folders: Iterable[PurePath], list_folder: Callable[[PurePath], Listing]
) -> Checkpoints:
    """Return the checkpoints in the first folder that has any, including its subfolders.

    The result has the sorted counts by unit, ``step`` and ``epoch``. ``list_folder`` lists a folder
    as ``list_names`` does.
    """
    for folder in folders:
        names = [*list_folder(folder).items()]
        below = [name for name, is_file in names if not is_file and re.fullmatch(_SUBFOLDER, name)]
        for name in below:
            names += list_folder(folder / name).items()
        counts = _counts(_stems(names))
        if counts:
            return counts
    return {}


def list_names(folder: PurePath) -> Listing:
    """Return the names in a folder, and whether each is a file; empty if there are too many."""
    try:
        with os.scandir(folder) as listed:
            names = {item.name: item.is_file() for item in islice(listed, _MAX_FOLDER_NAMES + 1)}
    except OSError:  # missing or not readable
        return {}
    return names if len(names) <= _MAX_FOLDER_NAMES else {}


def _stems(names: Iterable[tuple[str, bool]]) -> Iterator[str]:
    """Yield the names of possible checkpoints, without file suffixes."""
    for name, is_file in names:
        if not is_file:
            if re.fullmatch(_UNLABELED, name) or not re.sub(
                _CHECKPOINT_WORDS, "", re.sub(_CHECKPOINT_COUNTER, "", name)
            ):
                yield name
        elif (suffix := _WEIGHT_SUFFIX.search(name)) is not None:
            yield name[: suffix.start()]


def _counts(stems: Iterable[str]) -> Checkpoints:
    counts: dict[str, set[int]] = {"step": set(), "epoch": set(), "either": set()}
    for stem in stems:
        match = re.fullmatch(_UNLABELED, stem)
        for part in re.finditer(_CHECKPOINT_COUNTER, stem) if match is None else [match]:
            for unit, count in part.groupdict().items():
                counts[unit] |= {int(count)} if count else set()
    either = counts.pop("either")
    # No run saves at consecutive steps: consecutive numbers are epochs.
    are_epochs = any(right - left == 1 for left, right in pairwise(sorted(either)))
    for unit in ["epoch"] if are_epochs else counts:
        counts[unit] |= either
    return {unit: tuple(sorted(values)) for unit, values in counts.items() if values}
