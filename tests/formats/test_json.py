"""The JSON: strict, stable, and as its schema says."""

from __future__ import annotations

import json
from dataclasses import fields, replace
from typing import TYPE_CHECKING, Any

import jsonschema
import numpy as np
import pytest

from stabdiag.formats import render
from stabdiag.formats.json import MANIFEST_FIELDS, schema
from stabdiag.model.findings import ActionKind
from stabdiag.model.history import EventCode, EventKind
from stabdiag.model.manifest import Manifest

if TYPE_CHECKING:
    from collections.abc import Callable

    from stabdiag.model.report import Report

REPORTS = ("persistent", "healthy", "nan")


def strict(text: str) -> Any:
    """Parse JSON as the standard has it: no NaN, no key twice."""

    def refuse(name: str) -> None:
        raise AssertionError(name)

    def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        assert len(dict(pairs)) == len(pairs)
        return dict(pairs)

    return json.loads(text, parse_constant=refuse, object_pairs_hook=once)


@pytest.fixture(params=REPORTS)
def report(request: pytest.FixtureRequest) -> Report:
    return request.getfixturevalue(request.param)


def test_satisfies_the_schema(report: Report):
    published = json.loads(schema())
    jsonschema.Draft202012Validator.check_schema(published)
    jsonschema.Draft202012Validator(published).validate(strict(render(report, "json")))


def test_the_schema_is_closed():
    def objects(node: Any) -> Any:
        if isinstance(node, dict):
            if "properties" in node:
                yield node
            for child in node.values():
                yield from objects(child)

    for node in objects(json.loads(schema())):
        assert node["additionalProperties"] is False
        # Of an action what does not apply is left out.
        is_action = "checkpoint" in node["properties"]
        always = ["kind", "text", "also"] if is_action else list(node["properties"])
        assert sorted(node["required"]) == sorted(always)


def test_keys_come_in_the_order_of_the_schema(report: Report):
    written = strict(render(report, "json"))
    published = json.loads(schema())
    assert list(written) == list(published["properties"])
    for name in ("finding", "answer", "source", "manifest"):
        part = {
            "finding": written["diagnosis"],
            "answer": written["tree"]["answers"][0],
            "source": written["source"],
            "manifest": written["manifest"],
        }[name]
        assert list(part) == list(published["$defs"][name]["properties"])


def test_the_schema_knows_every_kind_of_event():
    event = json.loads(schema())["properties"]["events"]["items"]["properties"]
    assert event["kind"]["enum"] == [kind.value for kind in EventKind]
    assert event["code"]["enum"] == [*(code.value for code in EventCode), None]


def test_the_schema_knows_every_kind_of_action():
    kinds = json.loads(schema())["$defs"]["action"]["properties"]["kind"]["enum"]
    assert kinds == [kind.value for kind in ActionKind]


def test_an_action_holds_what_applies(persistent: Report):
    first, second, *_ = strict(render(persistent, "json"))["diagnosis"]["actions"]
    assert {name: first[name] for name in first if name != "text"} == {
        "kind": "clip-gradients",
        "also": [],
        "setting": "grad_clip",
        "from": 1.0,
        "to": 0.5,
        "checkpoint": 4800,
    }
    assert {"kind", "text", "also", "step"} == set(second)


def test_the_dictionary_is_the_json(persistent: Report):
    assert persistent.to_dict() == strict(persistent.to_json())


def test_every_field_of_the_manifest_is_written():
    book_keeping = {"path", "inferred", "overridden", "logged", "also", "unknown"}
    assert tuple(f.name for f in fields(Manifest) if f.name not in book_keeping) == MANIFEST_FIELDS


def test_what_is_not_finite_is_written_as_a_string(nan: Report):
    values = {"a": float("nan"), "b": float("inf"), "c": float("-inf"), "d": 1.5}
    found = replace(nan.diagnosis, evidence=values)
    written = strict(render(replace(nan, findings=(found,)), "json"))
    assert written["diagnosis"]["evidence"] == {
        "a": "NaN",
        "b": "Infinity",
        "c": "-Infinity",
        "d": 1.5,
    }
    assert written["history"]["loss"]["last_value"] == "NaN"


def test_numpy_scalars_are_numbers_and_the_rest_is_text(healthy: Report):
    values = {
        "a": np.float32(0.5),
        "b": np.int64(3),
        "c": np.bool_(True),
        "d": np.float64("nan"),
        "e": 1j,
    }
    found = replace(healthy.diagnosis, evidence=values)
    written = strict(render(replace(healthy, findings=(found,)), "json"))
    assert written["diagnosis"]["evidence"] == {"a": 0.5, "b": 3, "c": True, "d": "NaN", "e": "1j"}


def test_an_empty_series_has_no_steps(healthy: Report):
    loss = healthy.history.series["loss"]
    empty = replace(loss, steps=loss.steps[:0], values=loss.values[:0])
    history = replace(healthy.history, series={"loss": empty})
    written = strict(render(replace(healthy, history=history), "json"))
    assert written["history"]["loss"] == {
        "column": "loss",
        "points": 0,
        "first_step": None,
        "last_step": None,
        "last_value": None,
    }


def test_values_of_unknown_keys_stay_out(persistent: Report):
    text = render(persistent, "json")
    assert strict(text)["manifest"]["unknown"] == ["team"]
    assert "secret" not in text


@pytest.mark.parametrize(
    "name", ["\x1b[31mred", "two\nlines", "a\u202eb", 'q"uote', "\udcff", "[bold]x"]
)
def test_log_text_is_inert(persistent: Report, renamed: Callable[..., Report], name: str):
    text = render(renamed(persistent, name), "json")
    written = strict(text)
    assert text.isascii()
    assert "\x1b" not in text
    jsonschema.Draft202012Validator(json.loads(schema())).validate(written)
    assert written["source"]["name"] == name.replace("\udcff", "?")
