"""Apply an action of a report to a configuration file, if the action changes a setting.

Only values are replaced or added; the rest of the file stays as it is, with its comments. Code is
never changed.
"""

from __future__ import annotations

from stabdiag.apply.actions import Result, apply_action, first_actions

__all__ = ["Result", "apply_action", "first_actions"]
