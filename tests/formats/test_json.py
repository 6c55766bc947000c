"""The JSON is strict, stable and valid in its schema."""

import json
from dataclasses import fields, replace

import jsonschema
import numpy as np

from stabdiag.formats import render
from stabdiag.formats.json import schema
from stabdiag.model.events import EventCode, EventKind
from stabdiag.model.findings import ActionKind
from stabdiag.model.manifest import Manifest
from stabdiag.model.manifest.keys import KEYS


def strict(text):
    """Parse JSON strictly: no NaN, no duplicate keys."""

    def refuse(name):
        raise AssertionError(name)

    def once(pairs):
        assert len(dict(pairs)) == len(pairs)
        return dict(pairs)

    return json.loads(text, parse_constant=refuse, object_pairs_hook=once)


def with_evidence(report, values):
    return replace(report, findings=(replace(report.diagnosis, evidence=values),))


def test_the_report_has_the_keys_of_the_schema_in_order(report):
    published, written = json.loads(schema()), strict(render(report, "json"))
    jsonschema.Draft202012Validator.check_schema(published)
    jsonschema.Draft202012Validator(published).validate(written)
    assert list(written) == [
        key for key in published["properties"] if key not in ("baseline", "omitted")
    ]
    parts = {
        "finding": written["diagnosis"],
        "answer": written["tree"]["answers"][0],
        "source": written["source"],
        "manifest": written["manifest"],
    }
    for name, part in parts.items():
        keys = [key for key in published["$defs"][name]["properties"] if key != "ignored"]
        assert list(part) == keys


def test_brief_json_has_the_findings_and_counts_the_rest(report):
    full, short = (strict(render(report, "json", verbose=v)) for v in (True, False))
    jsonschema.Draft202012Validator(json.loads(schema())).validate(short)
    assert len(json.dumps(short, indent=2)) < 20_000
    assert short["diagnosis"] == full["diagnosis"]
    assert short["tree"]["outcome"]["slug"] == full["tree"]["outcome"]["slug"]
    assert [f["slug"] for f in short["findings"]] == [f["slug"] for f in full["findings"]]
    assert len(full["not_checked"]) == short["omitted"].get("not_checked", 0)
    assert len(full["limits"]) == len(short["limits"]) + short["omitted"]["limits"]


def test_brief_json_is_small_for_wide_and_troubled_runs(persistent):
    action = replace(persistent.diagnosis.actions[0], text="x" * 700)
    finding = replace(persistent.diagnosis, actions=(action,) * 6, summary="y" * 700)
    loss = persistent.history.series["loss"]
    layers = {f"grad_norm/layer{i}.{'z' * 60}": loss for i in range(1000)}
    history = replace(persistent.history, series={**layers, "loss": loss})
    crowded = replace(persistent, findings=(finding,) * 20, history=history)
    text = render(crowded, "json", verbose=False)
    assert len(text) < 20_000 < len(render(crowded, "json"))
    short = strict(text)
    assert "loss" in short["history"]
    assert short["omitted"]["history"] == 1001 - len(short["history"])
    assert len(short["findings"]) + short["omitted"]["findings"] == 20
    assert len(short["findings"]) >= 1


def test_the_schema_is_closed():
    def objects(node):
        if isinstance(node, dict):
            if "properties" in node:
                yield node
            for child in node.values():
                yield from objects(child)

    for node in objects(json.loads(schema())):
        assert node["additionalProperties"] is False
        # An action leaves out the fields that do not apply.
        is_action = "checkpoint" in node["properties"]
        always = ["kind", "text", "also"] if is_action else list(node["properties"])
        # Optional: only for ignored findings, with references, and in brief JSON.
        always = [key for key in always if key not in ("ignored", "baseline", "omitted")]
        assert sorted(node["required"]) == sorted(always)


def test_the_schema_knows_every_kind_of_event_and_action():
    published = json.loads(schema())
    event = published["properties"]["events"]["items"]["properties"]
    assert event["kind"]["enum"] == [kind.value for kind in EventKind]
    assert event["code"]["enum"] == [*(code.value for code in EventCode), None]
    kinds = published["$defs"]["action"]["properties"]["kind"]["enum"]
    assert kinds == [kind.value for kind in ActionKind]


def test_the_manifest_has_every_field_and_no_unknown_value(persistent):
    metadata = {"path", "inferred", "overridden", "logged", "also", "unknown"}
    names = [field.name for field in fields(Manifest) if field.name not in metadata]
    assert names == [key.name for key in KEYS]
    text = render(persistent, "json")
    assert strict(text)["manifest"]["unknown"] == ["team"]
    assert "secret" not in text
    assert persistent.to_dict() == strict(text)


def test_numbers_of_all_types_are_written(nan):
    values = {
        "a": float("nan"),
        "b": float("inf"),
        "c": float("-inf"),
        "d": 1.5,
        "e": np.float32(0.5),
        "f": np.int64(3),
        "g": np.bool_(True),
        "h": np.float64("nan"),
        "i": 1j,
    }
    written = strict(render(with_evidence(nan, values), "json"))
    expected = ["NaN", "Infinity", "-Infinity", 1.5, 0.5, 3, True, "NaN", "1j"]
    assert list(written["diagnosis"]["evidence"].values()) == expected
    assert written["history"]["loss"]["last_value"] == "NaN"
