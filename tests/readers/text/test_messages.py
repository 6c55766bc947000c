"""What a log says in words."""

import pytest

from stabdiag.model.events import EventCode, EventKind


@pytest.fixture
def messages_of(read):
    """Return title, line and step of each message in a log whose steps are 1, 2, …"""

    def events(*lines):
        steps = iter(range(1, 100))
        text = "".join(f"iteration {next(steps)}/ 9 | lm loss: 3.5 |\n{line}\n" for line in lines)
        events = read("megatron", text).events
        events = [event for event in events if event.kind is EventKind.MESSAGE]
        # A last line in other words is kept too.
        events = [event for event in events if event.code is not EventCode.CLOSING_LINE]
        return [(event.message.partition(": ")[0], event.line, event.step) for event in events]

    return events


@pytest.mark.parametrize(
    ("title", "line"),
    [
        ("the program stopped as the loss exploded", "loss is exploding, aborting."),
        ("the program stopped as the loss exploded", "Training diverged! Stopping early."),
        ("the program stopped as the loss exploded", "Aborting: the loss has diverged"),
        ("out of memory", "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB"),
        ("out of memory", "RuntimeError: CUDA out of memory. Tried to allocate 20.00 MiB (GPU 0)"),
        ("out of memory", "[1234.5] Out of memory: Killed process 4711 (python)"),
        ("out of memory", "slurmstepd: error: Detected 1 oom_kill event in StepId=1.0."),
        (
            "collective communication failed",
            "[E ProcessGroupNCCL.cpp:475] [Rank 3] Watchdog caught collective operation timeout: "
            "WorkNCCL(SeqNum=1, OpType=ALLREDUCE, Timeout(ms)=1800000)",
        ),
        (
            "collective communication failed",
            "torch.distributed.DistBackendError: NCCL error in: ProcessGroupNCCL.cpp:1251",
        ),
        ("collective communication failed", "[node1] NCCL timeout in all-reduce"),
        (
            "the loss scale cannot fall any further",
            "Exception: Current loss scale already at minimum - cannot decrease scale anymore.",
        ),
        (
            "the loss scale cannot fall any further",
            "FloatingPointError: Minimum loss scale reached (0.0001). Your loss is probably",
        ),
        ("a value that is not finite", "Loss is nan, stopping training"),
        ("a value that is not finite", "AssertionError: Rank 3: found NaN in local grad norm"),
        ("CUDA error", "RuntimeError: CUDA error: device-side assert triggered"),
        ("killed", "slurmstepd: error: *** JOB 7 ON n1 CANCELLED AT 2026-01-05 DUE TO TIME LIMIT"),
        (
            "killed",
            "torch.distributed.elastic SignalException: Process 1 got signal: 15 by SIGTERM",
        ),
        ("killed", "exitcode  : -9 (pid: 4711) traceback : Signal 9 (SIGKILL) received by PID 1"),
        ("killed", "Killed"),
        ("killed", "Segmentation fault (core dumped)"),
        *(
            ("killed", line)
            for line in (
                "launch.py:321: ['python', 'train.py'] exits with return code = -11",
                "CRITICAL trainer: unrecoverable error, exiting with status 2",
                "MPI_ABORT was invoked on rank 0 in communicator MPI_COMM_WORLD",
                "Watchdog: training hang detected, aborting process group",
                "EC2 Spot interruption notice received",
                "the instance will be terminated in 2 minutes",
                "Your session crashed after using all of its time",
                "The runtime has been disconnected.",
                "Stopping - MaxRuntimeExceeded",
                "Back-off restarting failed container trainer in pod llm-0",
                "[1]+  Killed                  nohup python train.py",
                "[1]    3312 killed     python train.py",
                "[node3:12345] Signal: Segmentation fault (11)",
                "salloc: Job allocation 12345 has been revoked.",
                "qdel: job 4321 deleted by user",
                "Job terminated by the scheduler: wall time was over",
                "wandb: the run was stopped from the web UI",
                "User requested cancellation of run amber-sky-12",
                "pure virtual method called",
                "Stack overflow",
                "Pod llm-0 evicted: The node had condition: [DiskPressure].",
                "Run failed with status FAILED: see the error log",
                "Job 12345 FAILED with exit code 1",
            )
        ),
        *(
            ("out of memory", line)
            for line in (
                "OOM! killing trainer",
                "GPU out of memory. Try reducing 'MiniBatchSize'",
                "RuntimeError: MPS backend out of memory (MPS allocated: 17.22 GB)",
                "The node was low on resource: memory.",
                "错误: 显存不足",
                "エラー: メモリ不足です",
            )
        ),
        ("the disk is full", "OSError: [Errno 28] No space left on device"),
        ("the disk is full", "cp: error writing 'model.pt': Disk quota exceeded"),
        ("the program stopped as the loss exploded", "Divergence detected. Terminating run."),
        ("traceback", "[FATAL] checkpoint could not be written"),
        ("traceback", "Abort on node 3: Fatal error in PMPI_Allreduce: Other MPI error"),
        ("traceback", "F0304 05:06:07.123456  4242 math_functions.cu:79] Check failed: n > 0"),
        ("traceback", "2026-03-04 05:06:07 CRITICAL - trainer - cannot go on"),
    ],
)
def test_a_message_has_a_line_and_a_step(messages_of, title, line):
    assert messages_of("nothing", line, "nothing") == [(title, 4, 2)]


@pytest.mark.parametrize(
    "line",
    [
        "signal.signal(signal.SIGTERM, self.on_exit)",
        "Killed workers are started again by default",
        "memory (MB) | allocated: 15492.8 | max allocated: 20045.0",
        "validation error: 0.034",
        "minimum learning rate: 1e-5",
        "clip the gradients, or the loss may explode and the run abort",
        "found NaN in column 3 of the data",
        "NCCL version 2.21.5+cuda12.4",
        'See the guide for "CUDA out of memory" errors: https://example.org',
        "exit code 0",
        "aborted: 0",
        "Stack Overflow has an answer to this question",
        "Received SIGUSR1: saving a checkpoint and continuing",
        "no fatal errors",
        "the process was not killed",
        "exits with return code = 0",
        "oom_score_adj: 0",
        "killed 3 enemies in episode 12",
        "terminating data loader workers",
        "disk usage: 81 % of the quota",
        "log level: CRITICAL",
        "class 4: FATAL (33 images)",
        "fatal_accidents.csv: 33 rows",
        "Number of failed jobs: 0",
        "job failed, retrying in 5 s",
        "TORCH_NCCL_ASYNC_ERROR_HANDLING=1",
        "early stopping: terminating training loop when the loss stops falling",
    ],
)
def test_ordinary_lines_are_not_messages(messages_of, line):
    assert messages_of(line) == []


def test_a_traceback_is_named_by_its_exception(read):
    events = read(
        "megatron",
        "iteration 1/ 9 | lm loss: 3.5 |\n[rank3]: Traceback (most recent call last):\n"
        '[rank3]:   File "train.py", line 3, in <module>\n[rank1]: what another rank says\n'
        "[rank3]:     main()\n[rank3]: ValueError: no such thing\n",
    ).events
    assert [(e.message, e.line, e.step) for e in events] == [
        ("traceback: ValueError: no such thing", 2, 1)
    ]


def test_a_traceback_is_one_message_of_the_kind_of_its_exception(read):
    (event,) = read(
        "megatron",
        "iteration 1/ 9 | lm loss: 3.5 |\nTraceback (most recent call last):\n"
        '  File "train.py", line 3, in validate\n    out = model(x)\n'
        "torch.OutOfMemoryError: CUDA out of memory.\n",
    ).events
    assert event.code == "out-of-memory"
    assert event.phase == "evaluation"
    assert event.line == 2


def test_a_traceback_that_breaks_off(read):
    (event,) = read(
        "megatron", "iteration 1/ 9 | lm loss: 3.5 |\nTraceback (most recent call last):\n  File"
    ).events
    assert event.message == "traceback: Traceback (most recent call last)"


def test_repeated_messages_are_counted(read):
    lines = "".join(f"RuntimeError: CUDA error: number {n}\n" for n in range(64))
    events = read("megatron", "iteration 1/ 9 | lm loss: 3.5 |\n" + lines).events
    assert len(events) == 5
    assert events[-1].message.endswith("number 4 (and 59 more such lines)")


def test_the_same_message_from_every_rank_is_reported_once(read):
    (event,) = read(
        "megatron", "iteration 1/ 9 | lm loss: 3.5 |\n" + "CUDA error: lost\n" * 64
    ).events
    assert event.message == "CUDA error: CUDA error: lost (and 63 more such lines)"


def test_a_message_is_cut_and_does_nothing(read):
    text = (
        "iteration 1/ 9 | lm loss: 3.5 |\n\x1b]0;title\x07\x1b[2JCUDA error: \x1b[31m\x9b\u202e\0"
        + "x" * 500
        + "\n"
    )
    (event,) = read("megatron", text).events
    assert len(event.message) <= 220
    assert event.message.endswith("…")
    assert event.message.isprintable()


def test_lines_are_counted_over_blocks_and_progress_bars(read):
    bars = "\r".join(f"{n}%" for n in range(50)) + "\n"
    text = "iteration 1/ 9 | lm loss: 3.5 |\r\n" + bars * 9_998 + "Killed\n"
    (event,) = read("megatron", text).events
    assert event.line == 10_000
