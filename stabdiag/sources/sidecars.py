"""What lies beside a log: what the run was configured to do, and its checkpoints.

Configurations are the manifest, which a person wrote for this program, and the arguments,
hyper-parameters and configurations that training programs write. Of a checkpoint the name tells how
far it had come; none is opened.
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
from stabdiag.model.frozen import frozen
from stabdiag.model.history import Event
from stabdiag.model.manifest import Manifest, parse_manifest
from stabdiag.model.manifest.text import mapping_of
from stabdiag.model.text import names_in
from stabdiag.readers.columns import Columns
from stabdiag.readers.source import Stream
from stabdiag.sources.folder import Container, Entry, LoadedLog, Sibling, note

# No configuration is larger.
_LARGEST: Final = 1 << 20

# What a person wrote for this program comes first …
_OURS: Final = "manifest.json"

# … then the arguments that the run was started with, then the configuration of its model.
_NAMES: Final = names_in(
    "training_args.json training_args.bin training_args.yaml train_args.json "
    "trainer_config.json args.json args.yaml opt.yaml arguments.json hparams.yaml hparams.yml "
    "hparams.json train_config.json train_config.yaml run_config.json run_config.yaml "
    "config.yaml config.yml config.toml config.json .hydra/config.yaml files/config.yaml "
    "params.json params.yaml ds_config.json deepspeed_config.json"
)

# What the HF Trainer saves is a pickle, which may hold a program: it is not loaded.
_PICKLED: Final = "training_args.bin"
_SAVED: Final = "training_args.json"
_SAVE: Final = (
    "is a pickle, and is not loaded; if you trust it, save it in its folder as JSON, which is read:"
    f" python -c \"import torch; args = torch.load('{_PICKLED}', weights_only=False);"
    f" open('{_SAVED}', 'w').write(args.to_json_string())\""
)

# What the configuration of a model says of the loss that a run begins with.
_OF_A_MODEL: Final = frozenset(
    {"vocab_size", "architectures", "problem_type", "id2label", "label2id", "num_labels"}
)

# Names of folders in which a run keeps its logs, below its own folder.
_INNER: Final = re.compile(
    r"logs?|tensorboard|tb|tb_logs|events|csv|metrics|stats|vis_data|runs|train|files"
    r"|(checkpoint|version|epoch|step|run)[-_].*|rank[-_]?\d+|\d{8}_\d{6}",
    re.IGNORECASE,
)


_Path = TypeVar("_Path", bound=PurePath)

# The name of a file, and what it holds.
_Text = tuple[str, bytes]

# The checkpoints that are there, by their unit.
Checkpoints = Mapping[str, tuple[int, ...]]


@frozen
class Sidecars:
    """The manifest from files beside a log, events about these, and the files that were read.

    The checkpoints there are only counted: see ``checkpoints_in``.
    """

    manifest: Manifest = field(default_factory=Manifest)
    events: Sequence[Event] = ()
    files: Sequence[str] = ()
    checkpoints: Checkpoints = field(default_factory=dict)

    def of(self, columns: Columns, siblings: tuple[Sibling, ...] = ()) -> LoadedLog:
        """Return a log with all this; the events of its place come first."""
        events, files = (*self.events, *columns.events), (*columns.files, *self.files)
        columns = replace(columns, events=events, files=files)
        return LoadedLog(
            columns=columns,
            manifest=self.manifest,
            checkpoints=self.checkpoints,
            siblings=siblings,
        )


def is_manifest(name: str) -> bool:
    """Tell whether a file of this name is no log but a configuration."""
    return name in (*_NAMES, _OURS) or name.endswith(f".{_OURS}")


def file_sidecars(log: Path, root: Path, read: Iterable[str]) -> Sidecars:
    """Look beside a file, and in the folders above it up to ``root``.

    Of the log itself these files are ``read``.
    """
    files = [*read]
    listed = cache(listing)
    folders = _folders(log, root)

    def lies(folder: PurePath, name: str) -> bool:
        known = listed(folder)
        return not known or name.partition("/")[0] in known

    def texts(files_there: Iterable[Path]) -> Iterator[_Text]:
        for file in files_there:
            if not file.is_file() or file.stat().st_size > _LARGEST or file == log:
                continue
            try:
                data = file.read_bytes()
            except OSError as error:
                raise ManifestError(f"{file}: cannot be read ({error.strerror})") from error
            files.append(str(file))
            yield str(file), data

    manifest, events = _manifest(map(texts, _named(log.name, folders, lies)))
    saved = checkpoints_in(folders, listed)
    return Sidecars(manifest=manifest, events=events, files=files, checkpoints=saved)


def sidecar_checkpoints(log: Path, root: Path) -> Checkpoints:
    """Look for checkpoints beside a file, and in the folders above it up to ``root``."""
    return checkpoints_in(_folders(log, root), listing)


def member_sidecars(place: Container, log: PurePosixPath, entries: Iterable[Entry]) -> Sidecars:
    """Look beside a log among the files of its place."""
    lying = {one.path: one for one in entries}
    folders = _folders(log, PurePosixPath())
    named = list(_named(log.name, folders, lambda folder, name: folder / name in lying))
    wanted = [lying[path] for paths in named for path in paths]
    texts = {entry.path: _text(stream) for entry, stream in place.streams(wanted)}
    manifest, events = _manifest(
        [text for path in paths for text in texts.get(path, ())] for paths in named
    )
    return Sidecars(manifest=manifest, events=events)


def url_sidecars(url: str, opened: Callable[[str], Stream]) -> Sidecars:
    """Look beside a file behind a URL, only for a manifest, since each name costs a request."""

    def texts() -> Iterator[_Text]:
        for name in _written_for(url):
            with suppress(LogError), opened(name) as stream:
                yield from _text(stream)

    manifest, _ = _manifest([texts()])
    # No events: a server may answer with a page of its own, whatever is asked for.
    return Sidecars(manifest=manifest)


def _named(
    log: str, folders: Iterable[_Path], lies: Callable[[_Path, str], bool]
) -> Iterator[list[_Path]]:
    """Yield where a log's configuration lies, the best first; of each list the first file counts.

    ``lies`` tells whether a file of a name may lie in a folder.
    """
    # What was saved of the pickle is read in its place.
    others = [[name] for name in _NAMES if name not in (_SAVED, _PICKLED)]
    ours = _written_for(log)
    for folder in folders:
        for names in (ours, [_SAVED, _PICKLED], *others):
            yield [folder / name for name in names if lies(folder, name)]
        ours = [_OURS]


def _written_for(log: str) -> list[str]:
    """Return the names that the manifest of a log may have; the first file found counts."""
    name = PurePosixPath(log).name
    stems = (PurePosixPath(name).stem, name.partition(".")[0])
    return [*(f"{stem}.{_OURS}" for stem in dict.fromkeys(stems) if stem), _OURS]


def _folders(log: _Path, root: _Path) -> list[_Path]:
    """Return the folders in which a log's configuration may lie, the nearest first.

    ``root`` is the folder, archive or URL that the user named. The folders are the log's own, those
    above it up to ``root``, and one more where the name of the last one is that of a folder in
    which runs keep their logs.
    """
    above = [log.parent, *log.parent.parents]
    folders = above[: above.index(root) + 1] if root in above else above
    return [*folders, folders[-1].parent] if _INNER.fullmatch(folders[-1].name) else folders


def _text(stream: Stream) -> list[_Text]:
    """Return what a file holds; nothing if it is too large."""
    data = stream.peek(_LARGEST + 1)
    return [(stream.name, data)] if len(data) <= _LARGEST else []


def _manifest(texts: Iterable[Iterable[_Text]]) -> tuple[Manifest, list[Event]]:
    """Return the manifest that all configurations make, and what could not be read.

    The best come first; of each list of ``texts`` only the first counts. To read one that is there
    and cannot be read raises ManifestError.
    """
    known = Manifest()
    events: list[Event] = []
    pickled: list[Event] = []
    for there in texts:
        try:
            name, data = next(iter(there), ("", b""))
            if name.endswith(_PICKLED):
                pickled.append(note(f"{name} {_SAVE}"))
            elif name:
                told = parse_manifest(_of_the_training(mapping_of(name, data)), name)
                known = known.beside(told) if told.known else known
        except ManifestError as error:
            # A file of this name beside a log may be something else.
            events.append(note(f"not used as manifest: {error}"))
    return known, [*events, *pickled[:1]]  # each checkpoint has a copy of the run's


def _of_the_training(raw: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return what a configuration says of the run: of a model's own, its vocabulary and labels.

    The rest of it, such as the dtype of the weights, is what the model was when it was saved.
    """
    if "transformers_version" in raw or "architectures" in raw:
        return {name: one for name, one in raw.items() if name in _OF_A_MODEL}
    if "model_type" in raw:
        return {key: one for key, one in raw.items() if key not in ("torch_dtype", "dtype")}
    return raw


# What lies in a folder, and whether it is a file; nothing where that cannot be told.
Listing = dict[str, bool]

# A folder with more names is not one run's: thousands of logs may share it, and each lists it.
_MOST: Final = 1000

# Where a run keeps them, in its own folder.
_BELOW: Final = r"(?i)(checkpoint|ckpt|weight|model)s?"

# A file has to be one of weights: there are pictures of step 100, too.
_WEIGHTS: Final = re.compile(
    r"\.(pt|pth|pth\.tar|ckpt|safetensors|bin|pkl|npz|h5|hdf5|keras|msgpack|tar)$", re.IGNORECASE
)

# ``step=120``, ``global_step120``, ``iter_0000120``, ``ba120``; and ``epoch=3``, ``ep3``.
_COUNTED: Final = (
    r"(?i)(?<![a-z])(?:(?:(?:global_?)?steps?|iter(?:ation)?s?|updates?|ba)[-_=]?(?P<step>\d{1,12})"
    r"|ep(?:och)?s?[-_=]?(?P<epoch>\d{1,12}))(?![\d.]*\d)"
)

# ``checkpoint-120``, which counts either, and fairseq's ``checkpoint_3_120``, which counts both.
_BARE: Final = (
    r"(?i)(?:checkpoint|ckpt|model|weights)[-_=]?"
    r"(?:(?P<either>\d{1,12})|(?P<epoch>\d{1,12})_(?P<step>\d{1,12}))"
)

# What else the name of a folder that is one may hold.
_WORDS: Final = r"(?i)checkpoint|ckpt|model|unsharded|[-_]"


def checkpoints_in(
    folders: Iterable[PurePath], listed: Callable[[PurePath], Listing]
) -> Checkpoints:
    """Return the checkpoints in the first of some folders that has any, or in folders below it.

    They are told by ``step`` and by ``epoch``, as their names tell, and rise. ``listed`` lists a
    folder as ``listing`` does.
    """
    for folder in folders:
        names = [*listed(folder).items()]
        below = [name for name, is_file in names if not is_file and re.fullmatch(_BELOW, name)]
        for name in below:
            names += listed(folder / name).items()
        found = _counts(_stems(names))
        if found:
            return found
    return {}


def listing(folder: PurePath) -> Listing:
    """Return the names in a folder, and whether each is a file's; none if there are too many."""
    try:
        with os.scandir(folder) as listed:
            names = {one.name: one.is_file() for one in islice(listed, _MOST + 1)}
    except OSError:  # it is not there, or locked
        return {}
    return names if len(names) <= _MOST else {}


def _stems(names: Iterable[tuple[str, bool]]) -> Iterator[str]:
    """Yield the names that may be those of checkpoints, without the suffixes of files."""
    for name, is_file in names:
        if not is_file:
            if re.fullmatch(_BARE, name) or not re.sub(_WORDS, "", re.sub(_COUNTED, "", name)):
                yield name
        elif (suffix := _WEIGHTS.search(name)) is not None:
            yield name[: suffix.start()]


def _counts(stems: Iterable[str]) -> Checkpoints:
    counts: dict[str, set[int]] = {"step": set(), "epoch": set(), "either": set()}
    for stem in stems:
        bare = re.fullmatch(_BARE, stem)
        for one in re.finditer(_COUNTED, stem) if bare is None else [bare]:
            for unit, count in one.groupdict().items():
                counts[unit] |= {int(count)} if count else set()
    either = counts.pop("either")
    # Nobody saves at one step after the other: such numbers count epochs.
    are_epochs = any(right - left == 1 for left, right in pairwise(sorted(either)))
    for unit in ["epoch"] if are_epochs else counts:
        counts[unit] |= either
    return {unit: tuple(sorted(some)) for unit, some in counts.items() if some}
