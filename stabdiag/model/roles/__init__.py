"""What columns mean: which column serves which role."""

from __future__ import annotations

from stabdiag.model.roles.choice import (
    Assignment,
    StandIn,
    assign,
    judge_without_a_loss,
    may_serve,
    stand_ins,
)
from stabdiag.model.roles.names import (
    Split,
    counts_since_the_last,
    flagged_split,
    is_auxiliary,
    is_evaluation,
    names_measurements,
    names_results,
    normal,
    split_of,
    tells_split,
    words_of,
)
from stabdiag.model.roles.opponents import OF_OPPONENTS, contested
from stabdiag.model.roles.settings import (
    hardens,
    is_measured_on,
    is_part,
    is_weight,
    setting_of,
    settings_of,
)
from stabdiag.model.roles.table import ROLES, Role

__all__ = [
    "OF_OPPONENTS",
    "ROLES",
    "Assignment",
    "Role",
    "Split",
    "StandIn",
    "assign",
    "contested",
    "counts_since_the_last",
    "flagged_split",
    "hardens",
    "is_auxiliary",
    "is_evaluation",
    "is_measured_on",
    "is_part",
    "is_weight",
    "judge_without_a_loss",
    "may_serve",
    "names_measurements",
    "names_results",
    "normal",
    "setting_of",
    "settings_of",
    "split_of",
    "stand_ins",
    "tells_split",
    "words_of",
]
