"""From the action of a report to the edits of a configuration file."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from stabdiag.apply.documents import Document, Edit, KeyPath, edited
from stabdiag.apply.frameworks import Framework, find_framework, is_training_configuration
from stabdiag.apply.values import (
    KINDS,
    ByHand,
    dtype_edits,
    factor,
    is_close,
    loss_scale_edits,
    new_value,
)
from stabdiag.errors import ConfigError
from stabdiag.model.findings import ActionKind
from stabdiag.model.frozen import frozen
from stabdiag.model.manifest.keys import KEYS, NUMBERS, Key, spellings
from stabdiag.model.manifest.parsing import number, plain

_LR: Final = "peak_lr"

# The kinds of action that a change of a setting carries out.
_CARRIED_OUT: Final[Mapping[str, frozenset[ActionKind]]] = {
    _LR: frozenset({ActionKind.LOWER_LR, ActionKind.RAISE_LR}),
    "lr": frozenset({ActionKind.LOWER_LR, ActionKind.RAISE_LR}),
    "min_lr": frozenset({ActionKind.FIX_SCHEDULE}),
    "warmup_steps": frozenset({ActionKind.ADD_WARMUP, ActionKind.FIX_SCHEDULE}),
    "total_steps": frozenset({ActionKind.FIX_SCHEDULE}),
    "grad_clip": frozenset({ActionKind.CLIP_GRADIENTS, ActionKind.RAISE_CLIP}),
    "weight_decay": frozenset(
        {
            ActionKind.RAISE_WEIGHT_DECAY,
            ActionKind.LOWER_WEIGHT_DECAY,
            ActionKind.FIX_WEIGHT_DECAY,
        }
    ),
    "epsilon": frozenset({ActionKind.CHANGE_OPTIMIZER}),
    "batch_size": frozenset({ActionKind.CHANGE_BATCH}),
    "dtype": frozenset({ActionKind.CHANGE_DTYPE}),
    "loss_scale": frozenset({ActionKind.DYNAMIC_LOSS_SCALE}),
}

# DeepSpeed's scheduler sets the learning rate of its optimizer.
_OTHER_LR_NAMES: Final = ("scheduler_params_warmup_max_lr", "warmup_max_lr")

_MIN_LR: Final = Key(name="min_lr", wants="a number", parse=number, names=("min_lr", "eta_min"))
_KEY_BY_SETTING: Final[Mapping[str, Key]] = {
    **{key.name: key for key in KEYS if key.name in _CARRIED_OUT},
    "min_lr": _MIN_LR,
}

_FRACTION: Final = "{} sets the warm-up as a fraction of the run here"

_NOTHING_TO_DO: Final = frozenset({ActionKind.KEEP_GOING, ActionKind.DO_NOTHING})


@frozen
class Result:
    """The effect of an action on a configuration file.

    ``text`` is the new text of the file. ``by_hand`` says what is left to do, a clause each;
    ``reason`` says why nothing was changed, if it is not the kind of the action. ``note`` says how
    a value follows from the report, if it is not the same.
    """

    action: Mapping[str, Any]
    framework: str
    text: str
    edits: tuple[Edit, ...] = ()
    by_hand: tuple[str, ...] = ()
    reason: str = ""
    note: str = ""


def first_actions(report: object, name: str) -> Sequence[Mapping[str, Any]]:
    """Return the actions of the diagnosis in a report written as JSON.

    Raises:
        ConfigError: if it is not a report.
    """
    diagnosis = report.get("diagnosis") if isinstance(report, Mapping) else None
    actions = diagnosis.get("actions") if isinstance(diagnosis, Mapping) else None
    if not isinstance(actions, list) or not all(map(_is_action, actions)):
        raise ConfigError(f"{name}: not a report; write one with stabdiag diagnose LOG --json")
    return actions


def _is_action(action: object) -> bool:
    return (
        isinstance(action, Mapping)
        and isinstance(action.get("text"), str)
        and action.get("kind") in KINDS
    )


def apply_action(action: Mapping[str, Any], document: Document) -> Result:
    """Return the text of a configuration file after an action.

    Raises:
        ConfigError: if the file is not the configuration of a training.
    """
    values = {_without_value(path): value for path, value in document.values().items()}
    if not is_training_configuration(values):
        raise ConfigError(
            f"{document.name}: no setting of a training is in this file; name the configuration"
            " that the run was started with"
        )
    framework = find_framework(values)
    edits: tuple[Edit, ...] = ()
    reason = ""
    try:
        edits = tuple(_edits(action, document, framework))
    except ByHand as error:
        reason = str(error)
    return Result(
        action=action,
        framework=framework.name,
        text=edited(document, edits) if edits else document.text,
        edits=edits,
        by_hand=tuple(_left_by_hand(action, has_edits=bool(edits))),
        reason=reason,
        note=_note(action, edits),
    )


def _edits(action: Mapping[str, Any], document: Document, framework: Framework) -> Iterator[Edit]:
    """Yield the edits of an action.

    Raises:
        ByHand: if a person has to do it.
    """
    setting, to = action.get("setting"), action.get("to")
    if setting is None or setting not in _CARRIED_OUT:
        raise ByHand("")
    if to is None:
        raise ByHand(f"the report gives no value for {setting}")
    if setting == "dtype":
        yield from dtype_edits(action, document, framework)
        return
    if setting == "loss_scale":
        yield from loss_scale_edits(document, framework)
        return
    key = _KEY_BY_SETTING[_LR if setting == "lr" else setting]
    path = _find_path(key, document)
    if path is None:
        _refuse_fraction(key, document)
        yield _new_key(key, action, document, framework)
        return
    old = document.entries[path].value
    if key.name == "warmup_steps" and 0 < (number(old) or 0) < 1:
        raise ByHand(_FRACTION.format(".".join(path)))
    value = new_value(action, path, old, key)
    yield Edit(path=path, value=value, before=old)
    if key.name == _LR:
        for twin in dict.fromkeys(_paths(document, (*key.names, *_OTHER_LR_NAMES))):
            same = number(document.entries[twin].value)
            if twin != path and same is not None and is_close(same, number(old)):
                yield Edit(path=twin, value=value, before=same)


def _refuse_fraction(key: Key, document: Document) -> None:
    """Check that the file does not set the warm-up as a fraction: some programs refuse both.

    Raises:
        ByHand: if it does.
    """
    if key.name != "warmup_steps":
        return
    for path in _paths(document, NUMBERS["warmup_share"]):
        if number(document.entries[path].value):
            raise ByHand(_FRACTION.format(".".join(path)))


def _find_path(key: Key, document: Document) -> KeyPath | None:
    """Return the entry that sets a field, or the first one that mentions it, or None."""
    paths = list(_paths(document, key.names))
    values = {path: document.entries[path].value for path in paths}
    ordered = sorted(
        paths, key=lambda path: (values[path] is None, key.parse(values[path]) is None)
    )
    return next(iter(ordered), None)


def _paths(document: Document, names: Sequence[str]) -> Iterator[KeyPath]:
    """Yield the entries with some plain names, in the order of the names."""
    by_name = {".".join(_without_value(path)): path for path in document.values()}
    spelled = spellings(by_name)
    for name in names:
        if name in spelled:
            yield by_name[spelled[name]]


def _without_value(path: KeyPath) -> KeyPath:
    """Return a path without the ``value`` of a W&B entry, as in ``lr: {value: 0.1}``."""
    return path[:-1] if len(path) == 2 and path[-1] == "value" else path


def _new_key(key: Key, action: Mapping[str, Any], document: Document, framework: Framework) -> Edit:
    """Return the edit that adds a setting under its name in a framework."""
    name = framework.names.get(key.name)
    if name is None:
        raise ByHand(f"{document.name} has no {key.name} under a name that is known")
    section = framework.section(document.values())
    siblings = [
        path
        for path, entry in document.entries.items()
        if path[:-1] == section
        and not isinstance(entry.value, dict | list)
        and "\n" not in document.text[entry.start : entry.end]
    ]
    # Next to the learning rate if it is there.
    siblings.sort(key=lambda path: plain(path[-1]) not in _KEY_BY_SETTING[_LR].names)
    if not siblings:
        raise ByHand(f"{document.name} has no {key.name} under a name that is known")
    value = new_value(action, (*section, name), None, key)
    return Edit(path=(*section, name), value=value, after=siblings[0])


def _note(action: Mapping[str, Any], edits: Sequence[Edit]) -> str:
    """Describe how a learning rate follows from another one in the report."""
    before, to = number(action.get("from")), number(action.get("to"))
    now = number(edits[0].before) if edits else None
    if not before or to is None or now is None or is_close(now, before):
        return ""
    return (
        f"{'.'.join(edits[0].path)} is {now:g} here and was {before:g} in the log:"
        f" it changes by the same factor, {factor(before, to):.3g}"
    )


def _left_by_hand(action: Mapping[str, Any], *, has_edits: bool) -> Iterator[str]:
    """Yield the parts of an action that the edits do not carry out."""
    kinds = [KINDS[kind] for kind in (action["kind"], *action.get("also", ()))]
    if not has_edits:
        if kinds[0] not in _NOTHING_TO_DO:
            yield action["text"]
        return
    checkpoint = action.get("checkpoint")
    if checkpoint is not None:
        yield f"reload the checkpoint of step {checkpoint}" if checkpoint else "start again"
    for kind in kinds:
        if kind not in _CARRIED_OUT[action["setting"]]:
            yield kind.about
