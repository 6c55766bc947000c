"""What columns mean: which of them serves which role."""

from __future__ import annotations

from stabdiag.roles.choice import Assignment, assign, may_serve
from stabdiag.roles.contested import contested
from stabdiag.roles.names import counts_since_the_last, is_evaluation, normal
from stabdiag.roles.standin import StandIn, stand_ins
from stabdiag.roles.table import ROLES, Role

__all__ = [
    "ROLES",
    "Assignment",
    "Role",
    "StandIn",
    "assign",
    "contested",
    "counts_since_the_last",
    "is_evaluation",
    "may_serve",
    "normal",
    "stand_ins",
]
