"""The symptoms of throughput."""

import re

import numpy as np
import pytest

from stabdiag.model.findings import Finding

N = 500
STEPS = np.arange(N)
RNG = np.random.default_rng(10)
LOSS = 2 + 2 * np.exp(-STEPS / 100) + RNG.normal(0, 0.02, N)
EVEN = 1 + 0.02 * RNG.normal(0, 1, N)
CLOCK = 1.7e9 + np.cumsum(EVEN)
PART = STEPS / N


def log(**series):
    return {"step": STEPS, "loss": LOSS, **series}


def waits(*places, seconds=3600.0):
    late = np.zeros(N)
    late[list(places)] = seconds
    return CLOCK + np.cumsum(late)


DROPPED = np.where(STEPS < 300, 1000.0, 400.0) * EVEN
SAW = np.where(STEPS % 20 == 19, 20.0, 1000.0) * EVEN

SHARED = np.where(RNG.random(N) < 0.1, 400.0, 1000.0)


def ranks(late, *, name="rank_{}/step_time", count=4, scale=1.0):
    """Return a log of step times, scaled by ``late`` (shape: ranks, N)."""
    times = np.random.default_rng(11).gamma(400, 1 / 400, (count, N)) * late
    return log(**{name.format(n): scale * time for n, time in enumerate(times)})


def late(rank, since=300, until=N, by=1.5, count=4):
    return np.where((np.arange(count)[:, None] == rank) & (since <= STEPS) & (until > STEPS), by, 1)


IN_TURN = np.where(np.arange(4)[:, None] == STEPS % 4, 1.5, 1.0)

CASES = [
    ("straggler", ranks(late(2)), "machine of rank 2 from step 300 on"),
    (
        "straggler",
        ranks(late(0), name="step_time/gpu{}", scale=1000.0),
        "machine of rank 0 from step 300 on",
    ),
    (
        "straggler",
        ranks(late(3), name="perf.worker_{}.compute_time"),
        "machine of rank 3 from step 300 on",
    ),
    (
        "straggler",
        ranks(1 / late(1), name="throughput/rank{}"),
        "machine of rank 1 from step 300 on",
    ),
    ("straggler", ranks(late(1, count=2), count=2), "machine of rank 1 from step 300 on"),
    # Scores of NVIDIA's detector: 1 is as fast as the best rank.
    (
        "straggler",
        log(
            **{
                "gpu_relative_perf/min": 0.97 / late(0, count=1)[0],
                "gpu_relative_perf/median": 0.98 * EVEN,
                "gpu_relative_perf/max": np.ones(N),
            }
        ),
        "machine of the slowest rank from step 300 on",
    ),
    ("throughput-drop", log(tokens_per_second=DROPPED), "step 300"),
    ("throughput-drop", log(step_time=1 / DROPPED), "step 300"),
    ("throughput-sawtooth", log(tokens_per_second=SAW), "every 20 steps"),
    # A shared machine has a slow step at any time.
    (
        "throughput-sawtooth",
        log(tokens_per_second=np.where(STEPS % 25 == 24, 50.0, SHARED) * EVEN),
        "every 25 steps",
    ),
    # The throughput of the whole run, logged once at its end.
    (
        "throughput-sawtooth",
        log(
            step_time=1000 / SAW,
            train_samples_per_second=np.where(STEPS[-1] == STEPS, 500.0, np.nan),
        ),
        "every 20 steps",
    ),
    ("mfu-low", log(mfu=0.08 * EVEN), "Profile"),
    ("mfu-low", log(mfu=8 * EVEN), "Profile"),
    ("mfu-low", log(mfu_percent=0.01 * EVEN), "Profile"),
    ("stall", log(timestamp=waits(250)), "step 249"),
    ("stall", log(timestamp=1000 * waits(250)), "step 249"),
    ("memory-growth", log(memory=10 + 10 * PART), ".item()"),
]

NEAR_MISSES = [
    # Equal ranks; ranks slow in turn, slow for a while, and slightly slow.
    ("straggler", ranks(np.ones((4, N)))),
    ("straggler", ranks(IN_TURN)),
    ("straggler", ranks(late(2, until=450))),
    ("straggler", ranks(late(2, by=1.2))),
    # A rank that waits for the others is not a straggler.
    (
        "straggler",
        log(
            **{f"rank_{n}/step_time": EVEN for n in range(2)},
            **{f"rank_{n}/wait_time": EVEN * (1 + n) for n in range(2)},
        ),
    ),
    # Compilation, and a slow phase that recovered.
    ("throughput-drop", log(tokens_per_second=np.where(STEPS < 40, 3000.0, 1000.0) * EVEN)),
    (
        "throughput-drop",
        log(tokens_per_second=np.where(abs(STEPS - 250) < 40, 300.0, 1000.0) * EVEN),
    ),
    # The elapsed time of the run next to another clock.
    ("throughput-drop", log(timestamp=CLOCK, time=np.cumsum(EVEN))),
    # Checkpoints that cost little, and slow steps without a rhythm.
    (
        "throughput-sawtooth",
        log(tokens_per_second=np.where(STEPS % 100 == 99, 200.0, 1000.0) * EVEN),
    ),
    (
        "throughput-sawtooth",
        log(tokens_per_second=np.where(RNG.random(N) < 0.05, 20.0, 1000.0) * EVEN),
    ),
    # Few slow steps at similar distances by chance.
    (
        "throughput-sawtooth",
        log(step_time=np.where(np.isin(STEPS, [1, 4, 9, 12, 15, 445, 448]), 100.0, 1.0) * EVEN),
    ),
    # Each record covers one of twenty steps.
    ("throughput-sawtooth", {**log(tokens_per_second=SAW), "step": 20 * STEPS}),
    ("mfu-low", log(mfu=np.where(STEPS < 20, 0.01, 0.4) * EVEN)),
    # One step time was too short; the values are fractions, not percentages.
    ("mfu-low", log(mfu=np.where(STEPS == 300, 1.1, 0.7) * EVEN)),
    ("stall", log(timestamp=waits(250, seconds=300.0))),
    ("stall", log(timestamp=waits(1))),  # start-up: the first step compiles
    ("stall", log(timestamp=np.where(STEPS < 250, CLOCK, CLOCK - CLOCK[250]))),
    # A run that was resumed the next day, from a checkpoint or with a counter that restarts.
    ("stall", {**log(timestamp=waits(300)), "step": np.where(STEPS < 300, STEPS, STEPS - 50)}),
    ("stall", {**log(timestamp=waits(300)), "step": np.where(STEPS < 300, STEPS, STEPS - 300)}),
    # The peak so far, and memory that is freed again.
    ("memory-growth", log(memory=np.maximum.accumulate(10 + 3 * EVEN))),
    ("memory-growth", log(memory=20 - 10 * np.exp(-8 * PART))),
    ("memory-growth", log(memory=10 + 10 * (STEPS % 100) / 100)),
]


@pytest.mark.parametrize(("slug", "run", "says"), CASES)
def test_symptom_is_reported(symptom, slug, run, says):
    assert says in symptom(slug, run).first_action


@pytest.mark.parametrize(("slug", "run"), NEAR_MISSES)
def test_near_miss_is_not_reported(symptom, slug, run):
    assert symptom(slug, run) is None


@pytest.mark.parametrize("name", ["time", "step_time"])
def test_a_monotonic_time_is_not_a_step_time(symptom, name):
    finding = symptom("throughput-drop", log(**{name: np.cumsum(EVEN)}))
    assert finding == ("tokens_per_second or step_time",)


OOM = b"torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB\n"


def traceback(frame, last_line):
    return (
        b'Traceback (most recent call last):\n  File "train.py", line 80, '
        + frame
        + b"\n    out = model(batch)\n"
        + last_line
    )


@pytest.fixture
def ended(tmp_path):
    """Return a function that writes a log of a hundred steps and of what ended it."""

    def ended_(end):
        lines = b"".join(b"step %d loss %.4f\n" % (step, LOSS[step]) for step in range(100))
        path = tmp_path / "run.log"
        path.write_bytes(lines + end)
        return path

    return ended_


@pytest.mark.parametrize(
    ("end", "total", "is_reported"),
    [
        (OOM, 10000, True),
        (OOM, None, True),
        (b"Received SIGTERM\n", None, True),
        (b"found NaN in forward\n", 10000, True),
        (b"found NaN in forward\n", None, False),
        (OOM, 100, True),
        (b"found NaN in forward\n", 100, False),
        (b"", 10000, False),
    ],
)
def test_an_end_with_a_reason_before_the_last_step(symptom, ended, end, total, is_reported):
    stopped = symptom("stall", ended(end), {} if total is None else {"total_steps": total})
    assert isinstance(stopped, Finding) is is_reported
    assert not is_reported or f"step 99{f' of {total}' if total else ''}, with: " in stopped.summary


@pytest.mark.parametrize(
    ("end", "do"),
    [
        (OOM, "Use less memory: halve the batch"),
        (b"Out of memory: Killed process 4242 (python)\n", "Use less memory on the host"),
        (b"Received SIGTERM\n", "Find out who killed the process"),
        (b"RuntimeError: CUDA error: an illegal memory access\n", "CUDA_LAUNCH_BLOCKING=1"),
        (b"found NaN in forward\n", "Find out why the run ended"),
        (traceback(b"in train_step", OOM), "Use less memory: halve the batch"),
        (traceback(b"in evaluate", OOM), "Evaluate under torch.no_grad()"),
        (traceback(b"in _init_group", OOM), "Make room for the optimizer's states"),
        (b"Watchdog caught collective operation timeout: ALLREDUCE\n", "Find the first error"),
        (b"torch.distributed.DistStoreError: 7/8 clients joined.\n", "Check MASTER_ADDR"),
        (b"Loss.cu:242: f: block: Assertion `t >= 0 && t < n_classes` failed.\n", "the labels"),
        (b"IndexError: Target 12 is out of bounds.\n", "Check the labels"),
        (b"IndexError: index out of range in self\n", "Check the token ids"),
        (b"IndexError: list index out of range\n", "Fix the error in the traceback"),
    ],
)
def test_the_cause_of_an_early_end_comes_before_the_resume(symptom, ended, end, do):
    stopped = symptom("stall", ended(end), {"total_steps": 10_000, "checkpoint_every": 30})
    assert stopped.title == "The run stopped early"
    assert do in stopped.first_action
    assert stopped.first_action.endswith("; then resume from the checkpoint of step 90.")


@pytest.mark.parametrize("last_step", [97, 99])
def test_an_error_after_the_last_planned_steps_is_not_an_early_end(symptom, ended, last_step):
    text = b"OSError: [Errno 28] No space left on device\n"
    stopped = symptom("stall", ended(text), {"total_steps": last_step + 1})
    assert stopped.title == "The run ended with an error"
    assert stopped.first_action.startswith("Free space on the disk or raise the quota")
    assert stopped.first_action.endswith("check whether the last checkpoint was written.")


def test_an_error_before_more_records_did_not_end_a_complete_run(symptom, ended):
    later = b"".join(b"step %d loss 2.1\n" % step for step in range(100, 120))
    assert symptom("stall", ended(OOM + later), {"total_steps": 120}) is None


def test_a_failed_collective_names_the_ways_to_find_its_cause(symptom, ended):
    stopped = symptom("stall", ended(b"DistBackendError: NCCL error\n"), {"total_steps": 10_000})
    texts = " ".join(action.text for action in stopped.actions)
    for part in ("same collectives", "drop_last", "NCCL_DEBUG=INFO"):
        assert part in texts


def test_a_straggler_is_dated_where_it_began(symptom):
    finding = symptom("straggler", ranks(late(2)))
    assert finding.step == 300
    assert finding.evidence["group"] == "rank_2"
    assert finding.evidence["ratio"] == pytest.approx(1.5, rel=0.03)
    assert symptom("straggler", ranks(late(2, since=0))).step == 0


def test_megatron_names_the_fastest_and_the_slowest_rank(symptom, tmp_path):
    path = tmp_path / "run.log"
    slowest = [n % 7 if n < 50 else 13 for n in range(100)]
    path.write_text(
        "".join(
            f" iteration {n + 1:8d}/     100 | lm loss: {LOSS[n]:.6E} | grad norm: 0.7 |\n"
            f" 0: INFO:megatron.core.utils:[2024-03-14 23:07:56] | MnRtt/Rnk: 3453.08ms/{8 + n % 3}"
            f" | MxRtt/Rnk: {3500 + 1900 * (rank == 13):.2f}ms/{rank} | MnPwr/Rnk: 601796W/8\n"
            for n, rank in enumerate(slowest)
        )
    )
    finding = symptom("straggler", path)
    assert finding.step == 51
    assert "rank 13 takes 1.564 times as long" in finding.summary


def test_a_drop_names_unit_and_direction(symptom):
    times = np.where(STEPS < 300, 83.0, 124.0) * EVEN
    slower = symptom("throughput-drop", log(step_time_ms=times)).summary
    assert re.match(r"Steps became \d\d% slower \(\S+ -> \S+ ms\) by step 300 and stayed", slower)
    speeds = symptom("throughput-drop", log(tokens_per_second=DROPPED)).summary
    assert re.match(r"The throughput fell by 6\d% \(\S+ -> \S+ tokens/s\) by step 300", speeds)


def test_a_drop_in_an_unknown_unit_has_none(symptom):
    summary = symptom("throughput-drop", log(step_time=1 / DROPPED)).summary
    assert re.search(r"\(\S+ -> \S+\) by step 300", summary)


def test_noisy_step_times_are_not_a_drop(symptom):
    runs = np.random.default_rng(3).lognormal(0, 1, (200, 60))
    logs = ({"step": np.arange(60), "loss": LOSS[:60], "step_time": times} for times in runs)
    assert sum(symptom("throughput-drop", log) is not None for log in logs) <= 4


def test_a_steady_slowdown_is_a_drop(symptom):
    assert symptom("throughput-drop", log(step_time=EVEN * (1 + 2 * PART))) is not None
