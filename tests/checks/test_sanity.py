"""Results of stabdiag.torch.sanity in the preflight checklist."""

import json

import pytest

from tests.conftest import program

CHECKS = [
    {"slug": "overfit-one-batch", "title": "T", "state": "passed", "detail": "from 1.4 to 0.01"},
    {"slug": "optimizer-covers", "title": "Covers", "state": "failed", "detail": "2 are missing"},
    {"slug": "lr-range", "title": "Rate", "state": "unknown", "detail": "not Adam's"},
]


def run(tmp_path, content, *options):
    (tmp_path / "m.json").write_text('{"lr": 1e-3, "optimizer": "AdamW"}')
    (tmp_path / "sanity.json").write_text(content)
    return program("preflight", "m.json", "--sanity", "sanity.json", *options, cwd=tmp_path)


def test_checks_that_ran_have_their_state(tmp_path):
    content = json.dumps({"sanity": 1, "checks": CHECKS})
    done = run(tmp_path, content, "--format", "json", "--fail-on", "error")
    lines = {item["slug"]: item for item in json.loads(done.stdout)["findings"]}
    assert lines["overfit-one-batch"]["state"] == "passed"
    assert lines["overfit-one-batch"]["summary"] == "from 1.4 to 0.01."
    assert lines["optimizer-covers"]["state"] == "failed"
    assert lines["lr-range"]["state"] == "unknown"
    assert lines["gradients-flow"]["state"] == "manual"
    assert done.returncode == 1


def test_without_a_failed_check_the_settings_decide_the_exit_code(tmp_path):
    content = json.dumps({"sanity": 1, "checks": CHECKS[:1]})
    assert run(tmp_path, content, "--fail-on", "error").returncode == 0


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{", "not JSON"),
        ("[]", "not a file of stabdiag.torch.sanity"),
        ('{"sanity": 2}', "not a file of stabdiag.torch.sanity"),
        ('{"sanity": 1, "checks": [{"slug": "x"}]}', "a check lacks its 'state'"),
    ],
)
def test_other_files_are_refused_in_one_line(content, message, tmp_path):
    done = run(tmp_path, content)
    assert done.returncode == 2
    assert message in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1
