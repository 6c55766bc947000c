"""Settings outside their usual ranges."""

from __future__ import annotations

from typing import Final

from stabdiag.model.findings import Action, Scalar, Severity
from stabdiag.model.findings import ActionKind as Do
from stabdiag.model.limits.checks import optimizer_family
from stabdiag.model.ranges import SETTINGS, SettingRange
from stabdiag.model.text import num
from stabdiag.stats.standards import MIN_TREND_POINTS, NEGLIGIBLE
from stabdiag.symptoms.losses import from_the_start
from stabdiag.symptoms.symptom import Evidence, Symptom
from stabdiag.tree.advice.settings import is_far, known_settings, replacement
from stabdiag.tree.case import Case
from stabdiag.tree.pretraining import chance_loss
from stabdiag.tree.progress import find_progress, learns_clearly

# Optimizer families that need a warm-up.
_WARMED_UP: Final = ("adam", "lion")


def _unknown_settings(case: Case) -> str:
    """Return the reason that no setting with a usual range is known, or ""."""
    return "" if known_settings(case) else f"needs one of {', '.join(SETTINGS)}"


@Symptom(
    slug="setting-unusual",
    severity=Severity.NOTE,
    title="A setting is outside its usual range",
    preconditions=(_unknown_settings,),
    explained_by=("divergence-unexplained",),
    yields_to=("lr-too-high", "not-learning", "learning-slow", "plateau-at-chance"),
)
def setting_unusual(case: Case) -> Evidence | None:
    """Is a setting above its usual range, or a learning rate below?

    It is a warning if the run does not clearly learn.
    """
    unusual = [
        setting
        for setting in known_settings(case).values()
        if not (setting.is_usual or _is_decayed_rate(case, setting))
    ]
    if not unusual:
        return None
    progress = find_progress(case)
    learns = learns_clearly(case, progress) or _misses_beginning(case)
    if learns:
        unusual = [setting for setting in unusual if is_far(setting)]
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
        severity=Severity.WARNING if not learns and any(map(is_far, unusual)) else None,
    )


def _is_decayed_rate(case: Case, setting: SettingRange) -> bool:
    """Return True for the highest rate of a part of a run, if it fell from a higher one."""
    rates = case.history.finite("lr").values
    is_logged = setting.name == "peak_lr" and case.manifest.peak_lr is None
    if not is_logged or setting.is_high or from_the_start(case):
        return False
    return len(rates) > 1 and rates[-1] < rates[0] == rates.max()


def _misses_beginning(case: Case) -> bool:
    """Return True if the log starts after the first steps, where most is learned.

    A first loss at chance level shows that nothing was learned before.
    """
    if not len(case.loss) or int(case.loss.steps[0]) <= MIN_TREND_POINTS:
        return False
    chance = chance_loss(case)
    return chance is None or float(case.loss.values[0]) < (1 - NEGLIGIBLE) * chance


def lacks_warmup(case: Case) -> bool:
    """Return True if the optimizer needs a warm-up and the settings have none."""
    return (
        case.manifest.warmup_steps == 0 and optimizer_family(case.manifest.optimizer) in _WARMED_UP
    )


def _check(setting: SettingRange) -> Action:
    text = f"Check that a {SETTINGS[setting.name]} of {num(setting.value)} is intended."
    return Action(Do.CHECK_SETTINGS, text, setting=setting.name, from_=setting.value)
