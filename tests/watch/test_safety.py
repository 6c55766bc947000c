"""A watch never ends a healthy job: for the past, for a placeholder, for another run."""

import json
import signal

import numpy as np
import pytest

import stabdiag
from stabdiag.model.findings import Severity
from stabdiag.sources import ReadRequest
from stabdiag.watch import open_source
from stabdiag.watch.certain import InitialLosses, certain

RNG = np.random.default_rng(5)


def falling(count, *, nan_from=None):
    steps = np.arange(count)
    losses = 2 + 4 * np.exp(-steps / 60) + RNG.normal(0, 0.02, count)
    if nan_from is not None:
        losses[nan_from:] = np.nan
    return losses.tolist()


def records(losses, **columns):
    return [
        {"loss": loss, **{name: column[at] for name, column in columns.items()}}
        for at, loss in enumerate(losses)
    ]


def steps(losses, begin=0):
    return records(losses, step=[*range(begin, begin + len(losses))])


def ended_at(before, later, *, block=1):
    """Return the number of later records that make a watch certain, or None."""
    initial = InitialLosses.of(stabdiag.diagnose(before)) if before else None
    for count in range(block, len(later) + 1, block):
        report = stabdiag.diagnose([*before, *later[:count]])
        if certain(report, Severity.ERROR, initial) is not None:
            return count
    return None


def test_a_nan_of_the_attempt_before_ends_no_job():
    """Without steps in the log, only the loss separates the attempts."""
    before, later = records(falling(200, nan_from=195)), records(falling(60))
    assert ended_at(before, later, block=5) is None


def test_a_nan_that_goes_on_ends_a_job():
    before, later = records(falling(200, nan_from=195)), records([float("nan")] * 5)
    assert ended_at(before, later) == 1


def test_a_resumed_job_that_recovers_is_not_ended():
    losses = falling(400)
    before = steps([*losses[:300], *[9.0] * 100])
    assert ended_at(before, steps(losses[250:400], 250), block=10) is None


def test_a_spike_that_goes_on_ends_a_job():
    losses = falling(400)
    before, later = steps([*losses[:300], *[9.0] * 100]), steps([9.0] * 40, 400)
    assert ended_at(before, later, block=10) is not None


def test_two_healthy_runs_of_fractional_epochs_are_not_spikes():
    epochs = (np.arange(300) / 100).round(2).tolist()
    both = [*records(falling(300), epoch=epochs), *records(falling(300), epoch=epochs)]
    report = stabdiag.diagnose(both)
    assert report.history.source.attempts == 2
    assert report.diagnosis.slug == "healthy"


@pytest.mark.parametrize("placeholders", [1, 3])
def test_placeholders_at_the_start_of_a_log_or_an_epoch_are_not_evidence(placeholders):
    losses = falling(300)
    for begin in (0, 100, 200):
        losses[begin : begin + placeholders] = [float("nan")] * placeholders
    epoch = np.repeat([0, 1, 2], 100).tolist()
    rows = records(losses, step=[*range(300)], epoch=epoch)
    assert ended_at([], rows, block=3) is None


def test_two_nans_are_evidence_and_one_is_not():
    losses = falling(200)
    losses[150] = float("nan")
    assert ended_at([], steps(losses), block=10) is None
    assert ended_at([], steps(falling(160, nan_from=150)), block=1) == 152


def test_an_evaluation_block_is_not_training():
    rows = [*steps(falling(400)), *({"step": 400, "split": "val", "loss": 4.9} for _ in range(60))]
    assert ended_at([], rows, block=20) is None


def test_two_jobs_in_one_log_end_neither():
    healthy, failed = falling(300), falling(300, nan_from=150)
    rows = [
        {"step": 70 * job + step, "loss": loss, "lr": lr}
        for step, pair in enumerate(zip(healthy, failed, strict=True))
        for job, (loss, lr) in enumerate(zip(pair, (1e-3, 3e-4), strict=True))
    ]
    assert ended_at([], rows, block=50) is None


def test_a_part_that_was_not_read_is_never_certain(tmp_path):
    log = tmp_path / "run.jsonl"
    good = [json.dumps(row) for row in steps(falling(300))]
    log.write_text("\n".join([*good, '{"step": 300, "loss": ?}\n']))
    report = stabdiag.diagnose(log)
    assert report.diagnosis.slug == "partly-read"
    assert certain(report, Severity.WARNING) is None


def test_a_link_that_is_swapped_leads_to_another_run(tmp_path):
    for name, fails in (("a", None), ("b", 100)):
        rows = steps(falling(200, nan_from=fails))
        (tmp_path / f"{name}.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    link = tmp_path / "latest.jsonl"
    link.symlink_to(tmp_path / "a.jsonl")
    source = open_source([str(link)], ReadRequest())
    assert source.look()
    assert source.runs == 1
    link.unlink()
    link.symlink_to(tmp_path / "b.jsonl")
    assert source.look()
    assert source.runs == 2
    assert source.read(is_complete=False).columns.rows == 200
    source.close()


STUBBORN = """
import signal, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
print("ready", flush=True)
time.sleep(120)
"""


def failing(tmp_path):
    log = tmp_path / "run.jsonl"
    log.write_text("".join(f"{json.dumps(row)}\n" for row in steps(falling(300))))
    return log


def go_nan(log):
    with log.open("a") as file:
        file.writelines(f'{{"step": {step}, "loss": NaN}}\n' for step in range(300, 310))


@pytest.fixture
def stubborn(start):
    job = start("-c", STUBBORN)
    assert job.stdout.readline() == "ready\n"
    return job


def test_a_job_that_ignores_sigterm_is_killed_after_the_grace(start, stubborn, tmp_path):
    log = failing(tmp_path)
    watch = start(
        *("-m", "stabdiag", "watch", log, "--pid", stubborn.pid, "--kill", "--grace", 0.5)
    )
    assert "healthy" in watch.stderr.readline()
    go_nan(log)
    _, err = watch.communicate(timeout=60)
    assert stubborn.wait(timeout=30) == -signal.SIGKILL
    assert watch.returncode == 1
    assert "was sent SIGTERM" in err
    assert "was sent SIGKILL" in err


def test_without_a_grace_the_watch_continues_with_a_message(start, stubborn, tmp_path):
    log = failing(tmp_path)
    code = (
        "import stabdiag.cli.watch as w; w._TERM_WAIT = 0.5\n"
        "from stabdiag.cli import main; raise SystemExit(main())"
    )
    watch = start("-c", code, "watch", log, "--pid", stubborn.pid, "--kill")
    assert "healthy" in watch.stderr.readline()
    go_nan(log)
    lines = [watch.stderr.readline() for _ in range(4)]
    assert any("still runs 0.5 s after SIGTERM" in line for line in lines), lines
    assert watch.poll() is None
    stubborn.kill()
    watch.communicate(timeout=60)
    assert watch.returncode == 1


def test_a_grace_wants_a_kill(start, tmp_path):
    watch = start("-m", "stabdiag", "watch", failing(tmp_path), "--grace", 1)
    _, err = watch.communicate(timeout=60)
    assert (watch.returncode, "--grace" in err) == (2, True)
