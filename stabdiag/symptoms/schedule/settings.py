"""Settings outside their usual ranges."""

from __future__ import annotations

from typing import Final

from stabdiag.model.findings import Action, Scalar, Severity
from stabdiag.model.findings import ActionKind as Do
from stabdiag.model.limits.checks import optimizer_family
from stabdiag.model.ranges import DEFAULTS, SETTINGS, SettingRange, settings_with_ranges
from stabdiag.model.text import num, typed
from stabdiag.stats.standards import MIN_TREND_POINTS, NEGLIGIBLE, TENFOLD, TWICE
from stabdiag.symptoms.symptom import Evidence, Symptom
from stabdiag.tree.advice.rates import peak_rate
from stabdiag.tree.case import Case
from stabdiag.tree.pretraining import chance_loss
from stabdiag.tree.progress import find_progress, learns_clearly

# Optimizer families that need a warm-up.
_WARMED_UP: Final = ("adam", "lion")

# A learning rate this factor outside its range is unusual even if the run learns.
_UNUSUAL_RATE: Final = TWICE

_KINDS: Final = {
    "weight_decay": Do.LOWER_WEIGHT_DECAY,
    "label_smoothing": Do.REGULARIZE_LESS,
    "dropout": Do.REGULARIZE_LESS,
}


def _unknown_settings(case: Case) -> str:
    """Return the reason that no setting with a usual range is known, or ""."""
    return "" if _settings(case) else f"needs one of {', '.join(SETTINGS)}"


@Symptom(
    slug="setting-unusual",
    severity=Severity.NOTE,
    title="A setting is outside its usual range",
    preconditions=(_unknown_settings,),
    yields_to=("lr-too-high", "not-learning", "learning-slow", "plateau-at-chance"),
)
def setting_unusual(case: Case) -> Evidence | None:
    """Is a setting above its usual range, or a learning rate below?

    It is a warning if the run does not clearly learn.
    """
    unusual = [setting for setting in _settings(case).values() if not setting.is_usual]
    if not unusual:
        return None
    progress = find_progress(case)
    learns = learns_clearly(case, progress) or _misses_beginning(case)
    if learns:
        unusual = [setting for setting in unusual if _is_far(setting)]
    if not unusual:
        return None
    words = [setting.text for setting in unusual]
    if not learns and lacks_warmup(case):
        words.append("The schedule has no warm-up.")
    if progress.better:
        words.append("The run improves anyway." if learns else "The run learns little.")
    else:
        words.append("The log does not show that the run learns.")
    measured: dict[str, Scalar] = {setting.name: setting.value for setting in unusual}
    first, *others = [replacement(setting) for setting in unusual]
    if learns:
        first, others = _check(unusual[0]), [first, *others]
    return Evidence(
        because=" ".join(words),
        measured=measured,
        first=first,
        next_actions=tuple(others),
        severity=Severity.WARNING if not learns and any(map(_is_far, unusual)) else None,
    )


def _misses_beginning(case: Case) -> bool:
    """Return True if the log starts after the first steps, where most is learned.

    A first loss at chance level shows that nothing was learned before.
    """
    if not len(case.loss) or int(case.loss.steps[0]) <= MIN_TREND_POINTS:
        return False
    chance = chance_loss(case)
    return chance is None or float(case.loss.values[0]) < (1 - NEGLIGIBLE) * chance


def _settings(case: Case) -> dict[str, SettingRange]:
    return settings_with_ranges(
        case.manifest,
        case.limits,
        # A jump in the logged rate is a separate finding.
        peak_lr=case.manifest.peak_lr or peak_rate(case),
        pretrained=case.names_pretrained_model,
    )


def lacks_warmup(case: Case) -> bool:
    """Return True if the optimizer needs a warm-up and the settings have none."""
    return (
        case.manifest.warmup_steps == 0 and optimizer_family(case.manifest.optimizer) in _WARMED_UP
    )


def far_settings(case: Case) -> list[SettingRange]:
    """Return the settings that are far outside their usual range."""
    return [setting for setting in _settings(case).values() if _is_far(setting)]


def _is_far(setting: SettingRange) -> bool:
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


def _check(setting: SettingRange) -> Action:
    text = f"Check that a {SETTINGS[setting.name]} of {num(setting.value)} is intended."
    return Action(Do.CHECK_SETTINGS, text, setting=setting.name, from_=setting.value)
