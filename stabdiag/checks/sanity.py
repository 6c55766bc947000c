"""The result of ``stabdiag.torch.sanity`` as checks."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from stabdiag.errors import StabdiagError, unreadable
from stabdiag.model.checks import Check, State, failed, passed, unknown
from stabdiag.model.findings import Severity

_VERSION: Final = 1
_STATES: Final = {
    "passed": State.PASSED,
    "failed": State.FAILED,
    "unknown": State.UNKNOWN,
}


def read_sanity(path: Path) -> tuple[Check, ...]:
    """Read the checks in a file.

    Raises:
        StabdiagError: if the file cannot be read, or is not a result of the sanity checks.
    """
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise StabdiagError(unreadable(path, error)) from error
    except ValueError as error:
        raise StabdiagError(
            f"{path}: not JSON ({error}); stabdiag.torch.sanity writes it"
        ) from error
    if not isinstance(content, Mapping) or content.get("sanity") != _VERSION:
        raise StabdiagError(f"{path}: not a file of stabdiag.torch.sanity")
    return tuple(_items(content, path))


def _items(content: Mapping[str, Any], path: Path) -> Iterator[Check]:
    for check in content.get("checks", []):
        try:
            state = _STATES[check["state"]]
            slug, title, detail = (str(check[name]) for name in ("slug", "title", "detail"))
        except (KeyError, TypeError) as error:
            raise StabdiagError(f"{path}: a check lacks its {error}") from error
        because = f"{detail}."
        result = passed(because)
        if state is State.UNKNOWN:
            result = unknown(because)
        elif state is State.FAILED:
            rerun = "Run stabdiag.torch.sanity again once it is fixed."
            result = failed(because, rerun, severity=Severity.ERROR)
        yield replace(result, slug=slug, title=title)
