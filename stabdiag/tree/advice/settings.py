"""Settings far outside their usual ranges, and their replacement."""

from __future__ import annotations

from typing import Final

from stabdiag.model.findings import Action
from stabdiag.model.findings import ActionKind as Do
from stabdiag.model.ranges import DEFAULTS, SETTINGS, SettingRange, settings_with_ranges
from stabdiag.model.text import num, typed
from stabdiag.stats.standards import TENFOLD, TWICE
from stabdiag.tree.advice.rates import is_warming_up, peak_rate
from stabdiag.tree.case import Case
from stabdiag.tree.once import once_per_case
from stabdiag.tree.pretraining import starts_pretrained

# A learning rate this factor outside its range is unusual even if the run learns.
_UNUSUAL_RATE: Final = TWICE

_KINDS: Final = {
    "weight_decay": Do.LOWER_WEIGHT_DECAY,
    "momentum": Do.CHANGE_OPTIMIZER,
    "epsilon": Do.CHANGE_OPTIMIZER,
    "label_smoothing": Do.REGULARIZE_LESS,
    "dropout": Do.REGULARIZE_LESS,
}


@once_per_case
def known_settings(case: Case) -> dict[str, SettingRange]:
    """Return the settings of a run that have a usual range, by name."""
    settings = settings_with_ranges(
        case.manifest,
        case.limits,
        # A jump in the logged rate is a separate finding.
        peak_lr=case.manifest.peak_lr or peak_rate(case),
        pretrained=_is_fine_tuned(case),
    )
    peak = settings.get("peak_lr")
    # The peak is still to come.
    if peak is not None and peak.value < peak.usual.low and is_warming_up(case):
        del settings["peak_lr"]
    return settings


def _is_fine_tuned(case: Case) -> bool | None:
    """Return True if a run is fine-tuned, None if the settings and the loss do not show it.

    A first loss far below log K is not a proof: the log may begin in the middle of the run.
    """
    configured = case.names_pretrained_model
    return False if configured is None and starts_pretrained(case) is False else configured


def far_settings(case: Case) -> list[SettingRange]:
    """Return the settings that are far outside their usual range."""
    return [setting for setting in known_settings(case).values() if is_far(setting)]


def is_far(setting: SettingRange) -> bool:
    """Return True if a setting is far outside its range, not just outside it."""
    if setting.name != "peak_lr":
        return not setting.is_usual
    low, high = setting.usual.low / _UNUSUAL_RATE, setting.usual.high * _UNUSUAL_RATE
    return not low <= setting.value <= high


def replacement(setting: SettingRange) -> Action:
    """Return the action that replaces a setting."""
    name, value, words = setting.name, setting.value, SETTINGS[setting.name]
    if name == "peak_lr":
        new = typed(
            setting.usual.high / TENFOLD if setting.is_high else setting.usual.low * TENFOLD
        )
        kind = Do.LOWER_LR if setting.is_high else Do.CHECK_SETTINGS
    else:
        new, kind = DEFAULTS[name], _KINDS[name]
    verb = "Lower" if new < value else "Raise"
    if kind is Do.CHECK_SETTINGS:
        text = f"Check the {words} of {num(value)} and its unit."
        return Action(kind, text, setting=name, from_=value)
    text = f"{verb} the {words} from {num(value)} to {num(new)} and start again."
    return Action(kind, text, setting=name, from_=value, to=new, checkpoint=0)
