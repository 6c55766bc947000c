"""A report as JSON: in full, or brief, with the same keys and less in them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, cast

from stabdiag.formats.json import Json, as_json, dumps

if TYPE_CHECKING:
    from stabdiag.model.report import Report

# The size of a report in characters, and of its parts.
_MAX_REPORT_LENGTH: Final = 20_000
_MAX_FINDINGS: Final = 8
_MAX_FULL_FINDINGS: Final = 3
_MAX_ANSWERS: Final = 12
_MAX_LIST_ITEMS: Final = 10
_MAX_SERIES: Final = 10
_MAX_SENTENCE: Final = 400


def render(report: Report, *, indent: int | None = 2, verbose: bool = True) -> str:
    """Return the report as one JSON object, in ASCII, without a final newline.

    Without ``verbose`` it is at most 20 kB long: the long parts are cut.
    """
    content = as_json(report)
    if not verbose:
        content = _shortened(content, {info.name for info in report.limits.changed})
    return dumps(content, indent=indent)


def _shortened(content: dict[str, Json], changed_limits: set[str]) -> dict[str, Json]:
    """Return a report with the long parts cut; ``omitted`` counts the missing items by key.

    Findings keep their actions, and the first ones their evidence. Checks that were not made,
    limits with their default value and unknown settings are left out.
    """
    short = cast("dict[str, Json]", _clipped(content))
    omitted: dict[str, Json] = {}

    def cut(parent: dict[str, Json], key: str, keep: int, name: str = "") -> None:
        items = parent[key]
        if isinstance(items, list | dict) and len(items) > keep:
            omitted[name or key] = len(items) - keep
            kept = items[:keep] if isinstance(items, list) else dict([*items.items()][:keep])
            parent[key] = kept

    cut(short, "findings", _MAX_FINDINGS)
    for finding in cast("list[dict[str, Json]]", short["findings"])[_MAX_FULL_FINDINGS:]:
        cut(finding, "actions", 1)
        finding["evidence"] = {}
    tree = cast("dict[str, Json]", short["tree"])
    cut(tree, "answers", _MAX_ANSWERS)
    outcome = cast("dict[str, Json]", tree["outcome"])  # one of the findings, in full there
    tree["outcome"] = {**outcome, "actions": [], "evidence": {}}
    cut(short, "not_checked", 0)
    cut(short, "not_logged", _MAX_LIST_ITEMS)
    cut(short, "events", _MAX_LIST_ITEMS)
    # Totals come before the series of single layers.
    history = cast("dict[str, Json]", short["history"])
    short["history"] = dict(sorted(history.items(), key=lambda item: "/" in item[0]))
    cut(short, "history", _MAX_SERIES)
    cut(cast("dict[str, Json]", short["manifest"]), "unknown", 0, "unknown_settings")
    limits = cast("dict[str, Json]", short["limits"])
    short["limits"] = {name: value for name, value in limits.items() if name in changed_limits}
    omitted["limits"] = len(limits) - len(changed_limits)
    if "baseline" in short:
        baseline = cast("dict[str, Json]", short["baseline"])
        for key in ("references", "left_out", "settings"):
            cut(baseline, key, _MAX_LIST_ITEMS, f"baseline_{key}")
        cut(baseline, "series", 3, "baseline_series")
    short["omitted"] = omitted
    findings = cast("list[Json]", short["findings"])
    while len(findings) > 1 and len(dumps(short)) >= _MAX_REPORT_LENGTH:
        findings.pop()
        omitted["findings"] = len(cast("list[Json]", content["findings"])) - len(findings)
    return short


def _clipped(value: Json) -> Json:
    """Return a value with long texts cut."""
    if isinstance(value, str):
        return value if len(value) <= _MAX_SENTENCE else f"{value[:_MAX_SENTENCE]}..."
    if isinstance(value, list):
        return [_clipped(item) for item in value]
    if isinstance(value, dict):
        return {key: _clipped(item) for key, item in value.items()}
    return value
