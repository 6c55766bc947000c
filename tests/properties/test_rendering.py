"""Every document can be written about every run."""

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import stabdiag
from stabdiag.checks.preflight import preflight
from stabdiag.model.manifest.keys import KEYS
from tests.properties.made import (
    COLUMNS,
    FIELDS,
    LOSSES,
    ODD_KEYS,
    log_of,
    write_all,
    write_comparisons,
    write_every_document,
)

MANIFESTS = st.fixed_dictionaries(
    {}, optional={name: st.sampled_from(values) for name, values in FIELDS.items()}
)
OTHER_KEYS = st.dictionaries(
    st.sampled_from(sorted(ODD_KEYS)), st.just(None), max_size=len(ODD_KEYS)
).map(lambda keys: {key: ODD_KEYS[key] for key in keys})
ROLES = st.lists(st.sampled_from(sorted(COLUMNS)), unique=True)


def test_every_field_has_candidate_values():
    assert FIELDS.keys() == {key.name for key in KEYS}
    assert all(FIELDS.values())


@pytest.mark.parametrize("shape", LOSSES)
def test_every_role_and_every_field_at_once(shape):
    log = log_of(LOSSES[shape](), COLUMNS)
    every_field = {name: values[-1] for name, values in FIELDS.items()}
    write_every_document(stabdiag.diagnose(log, settings=every_field))
    write_every_document(stabdiag.diagnose(log, manifest={**every_field, **ODD_KEYS}))
    write_every_document(stabdiag.diagnose(log, literal=True))


@pytest.mark.parametrize("field", FIELDS)
def test_each_field_renders_with_any_value(field):
    log = log_of(LOSSES["spike"]()[:160])
    for value in FIELDS[field]:
        for options in ({"settings": {field: value}}, {"manifest": {field: value}}):
            report = stabdiag.diagnose(log, **options)
            write_all(report)
            write_all(preflight(report.manifest, report.limits), "checks")


@pytest.mark.parametrize("left_out", range(0, len(COLUMNS), 9))
def test_roles_absent_by_turns(left_out):
    names = list(COLUMNS)
    kept = [*names[:left_out], *names[left_out + 9 :]]
    for chosen in (kept, names[left_out : left_out + 9]):
        write_every_document(stabdiag.diagnose(log_of(LOSSES["climb"](), chosen)))


@settings(max_examples=15)
@given(st.sampled_from(sorted(LOSSES)), ROLES, MANIFESTS, MANIFESTS, OTHER_KEYS)
def test_any_run_with_any_manifest(shape, roles, manifest, overrides, other_keys):
    report = stabdiag.diagnose(
        log_of(LOSSES[shape](), roles), manifest={**manifest, **other_keys}, settings=overrides
    )
    write_every_document(report)


@settings(max_examples=20)
@given(
    st.tuples(*[st.sampled_from(sorted(LOSSES))] * 3),
    ROLES,
    st.tuples(*[st.builds(lambda a, b: {**a, **b}, MANIFESTS, OTHER_KEYS)] * 3),
    st.integers(2, 3),
)
def test_any_comparison_renders(shapes, roles, manifests, count):
    logs = [log_of(LOSSES[shape](), roles) for shape in shapes[:count]]
    write_comparisons(logs, manifests[:count])


def test_json_of_any_history_is_strict():
    steps = np.arange(60)
    special = np.array([np.nan, np.inf, -np.inf, 5e-324, 1.7e308, -0.0] * 10)
    for values in (special, np.full(60, np.nan), np.full(60, -np.inf)):
        log = {"step": steps, "loss": values, "grad_norm": values, "weight_norm/x": values}
        report = stabdiag.diagnose(log, manifest={"target_loss": 1e308, "x": float("nan")})
        write_every_document(report)
        assert json.loads(report.to_json())["schema"] == 2
