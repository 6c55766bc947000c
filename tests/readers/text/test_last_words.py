"""The last words of jobs that died: of devices, schedulers, clouds, shells, and in records."""

import json

import numpy as np
import pytest

import stabdiag as api
from stabdiag.model.findings import Severity
from stabdiag.readers.text.messages.message_kinds import LONE_EXCEPTION, SORTS

DIED = """\
Memory access fault by GPU node-4 (Agent handle: 0x7a10) on address 0x1000. Reason: Unknown.
:0:rocdevice.cpp :2100: Callback: Queue 0x88 aborting with error : HSA_STATUS_ERROR_EXCEPTION
NVRM: Xid (PCI:0000:1a:00): 63, pid=90
an uncorrectable memory error was found on device 2
The TPU chip was terminated
Execution of replica 3 failed: INTERNAL: core halted
rocBLAS error: Tensile solution not found
Error: command buffer exited with error status.
n1:22:23 [1] NCCL WARN Call to ibv_modify_qp failed with error, timed out
[E socket.cpp:90] The client socket has timed out after 300s while trying to connect
[ERROR] gloo: Connection reset by peer
[n2:311] *** Process received signal ***
=   BAD TERMINATION OF ONE OF YOUR APPLICATION PROCESSES
qmaster: job 6 exceeded hard wallclock time, initiate terminate method
Job <612> is terminated by the LSF system
Warning  Evicted    kubelet  The node had condition: [DiskPressure].
Warning  Preempting  default-scheduler  Preempted by a/b
Job has reached the specified backoff limit
Job was active longer than specified deadline
(raylet) Workers killed due to memory pressure: 2
Trial task failed for trial T_1
Spot capacity was reclaimed
INFO: the node is being preempted
The replica workerpool1-0 exited with a non-zero status of 2.
The kernel for fit.ipynb appears to have died.
Backend: session terminated
Faulting application name: python.exe
Unhandled exception at 0x00007FF8 in fit.exe
Debug Assertion Failed!
abort() has been called
  what():  std::bad_alloc
fit: pool.c:90: grow: Assertion `size > 0' failed.
timeout: sending signal TERM to command 'python'
Received 15 death signal, shutting down workers
torch._dynamo.exc.Unsupported: call_function print
requests.exceptions.ConnectTimeout: HTTPSConnectionPool(host='h', port=443)
signal (6): Aborted
Execution halted
Error: cannot allocate vector of size 9.1 Gb
 *** caught segfault ***
The runner has received a shutdown signal.
systemd: fit.service: Main process exited, code=killed, status=9/KILL
Connection to node7 closed by remote host.
client_loop: send disconnect: Broken pipe
status: FAILED
GPU reset begin!
hipErrorLaunchFailure: launch failed
MIOPEN_STATUS_UNKNOWN_ERROR
DATA_LOSS: read of shard 3 ended early
Timed out waiting 900ms for recv operation
sbatch: job 12 state: PREEMPTED
job finished with JOB_STATE_FAILED
slurmstepd: error: poll(): Interrupted system call
Liveness probe failed, container restarts
fit.py: line 3: 44 Убито
Exception Code: 0xC0000005
bash: fork: Resource temporarily unavailable
ERROR: shard 7 not found
[ERROR] connection refused by peer
malloc(): unsorted double linked list corrupted
state: FAILED, exit code 1:0
task 17.node3 killed: memory exceeded
StopIteration
SystemExit: 2
Early termination: divergence found in the objective
[rank1]: To keep data consistent, we are taking the entire process down.
WARNING:torch.distributed.elastic: Sending process 88 closing signal SIGTERM
2026-01-02 03:04:05.678901: F platform/default/env.cc:70] Check failed: ret == 0 (11 vs. 0)
cuda runtime error (59) : device-side assert triggered
Unable to determine the device handle for GPU 0000:1A:00.0: Unknown Error
The notebook tried to allocate more memory than there is.
Error executing job with overrides: ['lr=0.5']
Host memory exhausted, the job is gone
*** glibc detected *** python: double free or corruption (out): 0x00005f1e
ERROR: DomainError with -0.7:
Error in if (cost < best) { : missing value where TRUE/FALSE needed
the loss blew up at step 230
Loss has just exploded after 40 steps
GPU 2 is lost, restart the machine
oom_reaper: reaped process 88 (python), now anon-rss:0kB
""".splitlines()

LIVES = """\
TPU worker started
TPU utilization 71%
uncorrectable errors: 0
Xid count: 0
the command buffer is flushed
replica 2 finished
NCCL WARN NCCL_IB_HCA is set, all devices are used
socket connected after 3s
received signal handler registration
hard limit 100 GB
Job <612> is submitted to queue <gpu>.
Warning  Scheduled  default-scheduler  Assigned
backoff limit: 6
no workers killed
trial 3 of 8 finished
Spot price 0.31
the model is being saved
exit with zero status
OOM protection: on
Number of NaN gradients: 0
Loaded what was saved before the previous crash
Set ASYNC_ERROR_HANDLING=1 to abort on errors
Killing background prefetch threads
Terminating DataLoader workers
session started
the notebook was saved
timeout: 600
signal (SNR): 12.1
the shutdown took 3 s
code=0, status=0
Connection to node7 opened.
status: finished
state: running
event: epoch_end
Error: 0.031
ERROR: none
Error in validation: 0.12
the loss blew up in earlier runs
double free shipping
[ERROR] upload failed, retry in 3 s
the limit was not exceeded
except RuntimeError as error:  # CUDA out of memory
    raise MemoryError("CUDA out of memory: halve the batch")
# Killed processes are restarted
logger.error("Fatal error: %s", error)
""".splitlines()


FAILURE_LINES = """\
HSA exception: allocation of the queue failed
GPU 5 disappeared from the bus
Rank 2 did not respond to heartbeat, aborting
task failed after 4 attempts
Interrupted by user
^C
job exited abnormally
Return code 3
the server hung up unexpectedly
fit.exe has stopped working
the instance was reclaimed by the market
the server is silent, giving up
Broken pipe
rank 3 is presumed dead
node n7 went down
lost connection to the head node
connection closed by peer 10.2.0.4
unable to write to the shared folder
this machine will be terminated
""".splitlines()

CALM = """\
training error: 0.007196937221444135
final test error 7.196937221444135e-05
final error: 7e-05
Press Ctrl+C to abort
failed to find the fused kernel, using the plain one
Error rate: 3.2 %
12 failed examples are in errors.html
0 errors
killing old workers
INFO: the infinite data stream is exhausted, stopping normally
NaN values in the rows were replaced by 0 before training
removed 9 rows with NaN labels
Best model: epoch 97 (loss 1.2210)
cancelled: false
except RuntimeError as error:  # a crash
the crash handler is ready
exceptions are logged to stderr
errors.log rotated
error feedback compression used
loss 0.31, error 0.2
training finished, workers terminated normally
connection to the tracker closed
closing the pipe to the logger
the session may be reset by the user
unable to find the fused kernel
""".splitlines()


@pytest.mark.parametrize("line", FAILURE_LINES)
def test_an_alarm_below_the_last_record_is_its_last_word(tmp_path, line):
    assert write(tmp_path / "run.log", *TEXT, line) == "stall"
    assert write(tmp_path / "run.jsonl", *RECORDS, json.dumps({"message": line})) == "stall"
    assert write(tmp_path / "run.log", *TEXT[:200], line, *TEXT[200:]) == "healthy"


@pytest.mark.parametrize("line", CALM)
def test_other_sentences_are_no_alarm(tmp_path, line):
    assert judge(tmp_path / "run.log", *TEXT, line).severity in (Severity.OK, Severity.NOTE)


# Words of no other rule; the first lines name an end.
UNKNOWN = """\
Queue allowance used up, this job is over
two few inodes left, node 7 drained
[rank2]: ring broke at neighbor 3
2026-01-02 03:04:05,678 - INFO - the lease ran dry
the final weights could not be flushed
the scheduler needs the box for someone else
S3 said 503
""".splitlines()
NAMED_ENDS = UNKNOWN[:5]


@pytest.mark.parametrize("line", UNKNOWN)
@pytest.mark.parametrize("total", ["", "/1000"])
def test_a_last_line_in_unknown_words_is_quoted(tmp_path, line, total):
    text = [f"step {step}{total} loss {loss:.4f}" for step, loss in enumerate(losses())]
    diagnosis = judge(tmp_path / "run.log", *text, line)
    assert diagnosis.slug == "stall"
    severity = Severity.WARNING if line in NAMED_ENDS else Severity.NOTE
    assert diagnosis.severity is severity
    assert line.rpartition(" - ")[2].rpartition("]: ")[2] in diagnosis.summary
    assert write(tmp_path / "run.jsonl", *RECORDS, line) == "stall"
    assert write(tmp_path / "run.log", *text[:200], line, *text[200:]) == "healthy"


@pytest.mark.parametrize("line", UNKNOWN)
def test_a_last_line_below_all_planned_steps_is_no_end(tmp_path, line):
    text = [f"step {step}/249 loss {loss:.4f}" for step, loss in enumerate(losses())]
    assert write(tmp_path / "run.log", *text, line) == "healthy"


def test_a_line_that_repeats_is_no_last_line(tmp_path):
    text = [line for step in TEXT for line in ("gave the buffers back", step)]
    assert write(tmp_path / "run.log", *text, "gave the buffers back") == "healthy"


@pytest.mark.parametrize("cut", ["step 250", "step 250 lo", "step 250 loss"])
def test_a_record_that_breaks_off_is_no_last_line(tmp_path, cut):
    assert write(tmp_path / "run.log", *TEXT, cut) == "healthy"


def test_a_last_line_that_may_be_a_record_is_left_out(tmp_path):
    assert write(tmp_path / "run.jsonl", *RECORDS, "step 250 loss 2") == "partly-read"


USUAL = """\
Closing the writer
Weights saved to out/last.pt
No more epochs to run
Converged
Total time 3 hours 12 minutes
Peak memory 12.3 GB
optimizer: adamw
NCCL timeout set to 900 seconds
See the attached picture
It seems to be stuck here
import matplotlib.pyplot as plt
model.fit(x, y)
""".splitlines()


@pytest.mark.parametrize("line", USUAL)
def test_usual_last_lines_are_quiet(tmp_path, line):
    assert write(tmp_path / "run.log", *TEXT, line) == "healthy"


def is_message(line):
    return any(kind.describes(line.encode()) for kind in (*SORTS, LONE_EXCEPTION))


@pytest.mark.parametrize("line", DIED)
def test_the_last_words_of_a_job_are_recognized(line):
    assert is_message(line)
    kinds = [kind for kind in (*SORTS, LONE_EXCEPTION) if kind.describes(line.encode())]
    assert any(anchor in line.encode() for anchor in kinds[0].anchors)


@pytest.mark.parametrize("line", LIVES)
def test_other_lines_are_no_last_words(line):
    assert not is_message(line)


def losses():
    rng = np.random.default_rng(11)
    return 1.1 + 2 * np.exp(-np.arange(250) / 40) + rng.normal(0, 0.02, 250)


def judge(path, *lines):
    path.write_text("".join(f"{line}\n" for line in lines))
    return api.diagnose(path).diagnosis


def write(path, *lines):
    return judge(path, *lines).slug


TEXT = [f"step {step} loss {loss:.4f}" for step, loss in enumerate(losses())]
RECORDS = [f'{{"step": {step}, "loss": {loss:.4f}}}' for step, loss in enumerate(losses())]

RECORDED = [
    ({"level": "ERROR", "message": "RuntimeError: CUDA error: launch failure"}, "stall"),
    ({"exception": "Traceback (most recent call last):\n  File 'a'\nOSError: gone"}, "stall"),
    ({"event": "crash", "error": {"type": "E", "message": "loss is nan"}}, "nan"),
    ({"step": 250, "msg": "Loss is NaN, stopping"}, "nan"),
    ({"status": "failed"}, "stall"),
    ({"run_status": "CRASHED", "step": 250}, "stall"),
    ({"event": "job_end", "reason": "the lease ran dry"}, "stall"),
    ({"status": "finished"}, "healthy"),
    ({"message": "all weights were saved"}, "healthy"),
    ({"message": "no nan in 250 steps, checkpoint saved"}, "healthy"),
    ({"event": "epoch_end", "text": "if the loss is nan, lower the rate"}, "healthy"),
]


@pytest.mark.parametrize(("record", "slug"), RECORDED, ids=lambda case: str(case)[:40])
def test_the_message_of_a_record_is_read(tmp_path, record, slug):
    assert write(tmp_path / "run.jsonl", *RECORDS, json.dumps(record)).startswith(slug)


def test_a_message_that_repeats_is_no_last_line(tmp_path):
    records = [f'{record[:-1]}, "message": "gave the buffers back"}}' for record in RECORDS]
    assert write(tmp_path / "run.jsonl", *records) == "healthy"


def test_the_message_of_a_row_is_read(tmp_path):
    rows = [f"{step},{loss:.4f}," for step, loss in enumerate(losses())]
    table = ["step,loss,error", *rows]
    assert write(tmp_path / "run.csv", *table) == "healthy"
    assert write(tmp_path / "run.csv", *table, "250,,RuntimeError: CUDA error: lost") == "stall"


@pytest.mark.parametrize(
    "line", ["损失为 nan, 训练终止", "训练损失变为 NaN, 停止", "  the loss is nan now, aborting"]
)
def test_a_failure_below_the_last_record_is_no_part_of_it(tmp_path, line):
    assert write(tmp_path / "run.log", *TEXT, line).startswith("nan")


@pytest.mark.parametrize(
    "line",
    [
        "barrier timed out after 90 s",
        "rendezvous closed by the worker",
        "python: core dumped",
        # It begins and ends with a number, but is no row of values.
        "3 GPUs lost on node 12",
        "The VM will be stopped in 30 seconds",
        "stale file handle: /data",
        "Aborting due to previous failure",
        "WARNING: gradient norm is NaN",
        "Found inf in the gradients of head.bias, stop here",
        "[GradScaler] scale has dropped to 0, terminating",
    ],
)
def test_the_last_line_of_a_failed_job_is_a_failure(tmp_path, line):
    assert write(tmp_path / "run.log", *TEXT, line) != "healthy"


@pytest.mark.parametrize(
    "line",
    [
        "Device 0: out of memory (needed 9.3 GB, free 1.1 GB), exiting",
        "TASK 91 TIMEOUT: wall time of 08:00:00 exceeded",
        "cannot write the state: file system is full",
        "connection to the head of the cluster was lost",
        "2026-01-02 03:04:05: F core/run.cc:31] Check failed: state.ok()",
        "Exception ignored in: <f> Fatal Python error: Aborted",
        "NAN loss!!! exiting",
    ],
)
def test_more_last_words_of_a_job_are_no_end_as_planned(tmp_path, line):
    assert write(tmp_path / "run.log", *TEXT, line) != "healthy"


@pytest.mark.parametrize(
    "line",
    [
        "ignoring NaN labels in the loss",
        "masked 31 nan pixels of the loss",
        "Killing the metrics profiler",
        "Terminated the background uploader",
        "NCCL error handling: async",
        "NCCL timeout is 10 minutes",
        "OOM killer score: 0",
    ],
)
def test_the_ends_of_helpers_and_settings_are_no_last_words(tmp_path, line):
    assert write(tmp_path / "run.log", *TEXT, line) == "healthy"


LABELS = [
    "[rank5]: ",
    "(TrainWorker pid=91, ip=10.0.0.3) ",
    "worker3: ",
    "2026-01-02 03:04:05,678 - train - ERROR - ",
    "2026-01-02 03:04:05.678 | ERROR    | app.train:fit:31 - ",
    "ERROR:train:",
    "[03:04:05] CRITICAL [rank2]: ",
]


@pytest.mark.parametrize("label", LABELS)
@pytest.mark.parametrize(
    "line",
    [
        "MemoryError: Unable to allocate 9.1 GiB for an array",
        "XlaRuntimeError: DEADLINE_EXCEEDED: a worker did not join",
        "execution.EnforceNotMet: (Exhausted) Out of memory error on GPU 3.",
        "the host memory isn't enough for the next batch",
        "Segmentation fault",
    ],
)
def test_labels_in_front_of_the_last_words_do_not_hide_them(tmp_path, label, line):
    assert is_message(label + line)
    assert write(tmp_path / "run.log", *TEXT, label + line) == "stall"


@pytest.mark.parametrize(
    "line",
    [
        "time to wait: inf",
        "Box(-inf, inf, (311,), float32)",
        "filled 312 NaN cells of the table",
        "AP of class 312: nan",
        "correlation of one value: nan",
    ],
)
@pytest.mark.parametrize(
    "label", ["2026-01-02 03:04:05,678 - train - INFO - ", "INFO:train:", "DEBUG | model | "]
)
def test_the_name_of_a_logger_is_not_what_its_line_is_about(tmp_path, label, line):
    assert write(tmp_path / "run.log", *TEXT, label + line) == "healthy"
    reported = f"{label}NaN detected, the loss is not finite"
    assert write(tmp_path / "run.log", *TEXT, reported).startswith("nan")


@pytest.mark.parametrize(
    "line", ["the log-likelihood is -inf, stop", "EarlyStopping: metric loss = nan"]
)
def test_other_names_of_a_loss_are_reports(tmp_path, line):
    assert write(tmp_path / "run.log", *TEXT, line).startswith("nan")


@pytest.mark.parametrize(
    "line", ["best_loss = inf", "min loss: inf", "prev_loss=inf", "best loss initialized to inf"]
)
def test_a_bound_that_is_infinite_is_no_failure(tmp_path, line):
    assert write(tmp_path / "run.log", *TEXT, line) == "healthy"


def test_the_text_of_a_raise_is_no_failure(tmp_path):
    assert write(tmp_path / "run.log", *TEXT, '    raise E("Loss is NaN, stopping")') == "healthy"


SENTENCES = """\
ERROR: the run was ended by the operating system because of memory pressure
Nan detected in the critic loss. Halting.
Model diverged with loss = NaN at step 250
Caught signal 12, exiting
(raylet) 3 Workers (tasks / actors) killed due to memory pressure (OOM), 0 Workers crashed
Process 2 exit with status code 12.
*** Aborted at 1600000000 (unix time) try "date -d @1600000000" if you are using GNU date ***
back-off 20s restarting failed container=fit pod=fit-0
[PG 0 Rank 0] Heartbeat monitor timed out! The process stays. workMetaList_.size()=1
IBV_WC_WR_FLUSH_ERR(5) on a request to peer 10.0.0.9
Node n7 is down, requeueing job
JobState=NODE_FAIL Reason=NodeDown
Job 31 exceeded its memory allocation and has been removed
the task hit its wall-clock limit and was stopped
kernel: python[31]: segfault at 0 ip 00007f99
EDAC MC0: 2 UE memory read error on CPU_SrcID#0
the driver lost contact with device 3
Not enough memory on the device to continue, exiting
power failure in rack 3, job lost
zipfile.BadZipFile: could not write the state: no space left
pyarrow.lib.ArrowInvalid: the footer is gone
Error: Aborted from fit() in /src/fit.cpp:31
worker group FAILED. 0/2 attempts left
the simulation has become unstable
rank 5 stopped responding at step 240
Keyboard interrupt, attempting graceful shutdown ...
child exited with 134
return code: -11
python: free(): invalid size
Illegal instruction
The process was stopped by an administrator
the instance was ended when its lease ended
one of the loader processes died while saving the state
NaN! NaN!
*** NaN ***
zipfile.BadZipFile: the file ends too early
ftplib.parse_error: the reply is cut off
loader.errors.StopEarly: no shard is left
[W socket.cpp:71] [c10d] The socket has failed to connect to [node2]:2200 (errno: 90 - refused).
srun: Force Terminated StepId=62.1
docker: Error response from daemon: no driver "" with abilities: [[gpu]].
The node n5 has been marked dead because it missed too many heartbeats
The VM received a preemption notice
Network error, entering the retry loop, giving up.
Leaving, as the loss has not been a finite number since update 240
Signal 12 received from the batch system
Node n9 rebooted while in use
OOM-killed by the host: fit (pid 41)
pod fit-3 deleted during its work
Reading the state failed, cannot resume: the checksum differs
sigkill received by process 41
Preempting pod fit-0 for a workload of higher priority
Worker lost: fit-2
The instance is shutting down for repairs
GPU hang detected, resetting
deadlock detected between ranks 0 and 3
overflow in the backward pass, stopping
no more disk space for the state
permission denied while writing the state
NaN, NaN, NaN
=== NAN ===
all my losses are nan, good night
the state of the optimizer was corrupted by an inf
the loss of the batch overflowed and the job was ended
Well, this is another NaN. Goodbye.
half-precision overflow, the trainer exits
skipped 40 steps in a row (gradient overflow), exiting
loss scale exhausted
the scaler is at its lower limit, stopping
peer 10.1.2.3 went away in broadcast
walltime nearly over, sending SIGTERM to the ranks
The queue kills this job
signal 10 caught, leaving the loop
rank 6 never arrived at the barrier
lost worker 7, the rest stops
the all-gather hung for 12 minutes
received signal 7
rc=139
the pod was stopped by the cluster
the platform will reclaim this machine soon
the state could not be flushed, the partition is full
device-side assertion triggered
Exception: sizes differ
the loss exceeds 4e5, stop
the job was preempted and not requeued
/mnt/state is full
no memory left on this device
heartbeat of node 7 was missed
""".splitlines()


@pytest.mark.parametrize("line", SENTENCES)
@pytest.mark.parametrize("label", ["", "2026-01-02 03:04:05,678 - ERROR - ", "[rank3]: "])
def test_a_sentence_about_a_failure_is_the_last_word(tmp_path, label, line):
    (tmp_path / "a").mkdir()
    assert write(tmp_path / "run.log", *TEXT, f"{label}{line}") != "healthy"
    assert write(tmp_path / "a" / "run.jsonl", *RECORDS, f"{label}{line}") != "healthy"


HARMLESS = """\
model.fill_value=nan
max_norm: inf
missing=nan, objective=hinge
best_val_loss: inf
NaN check passed for 31 parameters
number of nan iterations: 0
batches in which the loss is no longer finite: 0
val_loss=nan (not run yet)
eval_loss: nan (no evaluation so far)
segmentation_loss=True
oom_kill_disable=false
exceptions: []
crash reports: off
requeue on preemption: yes
Killed 2 idle notebooks
Terminated 3 unused instances to save cost
WARNING: ran out of memory, retrying batch
batch size finder: 48 ran out of memory, 24 fits
trial 3 failed (out of memory), next trial with 12
Out of memory was handled, training goes on
Worker 3 crashed and was replaced
The last run was preempted; this run continues at step 99
The previous run was killed by the user; starting from its checkpoint
Restored after crash from checkpoint 99
if a worker was killed by the system, it is started again
number of times the job was evicted: 0
0 of 8 workers crashed
NCCL timeout set to 900 seconds
ECC: on, 0 uncorrectable errors
classes: killed, injured, unharmed
fatal accidents: 312 rows
Loading the dataset of aborted flights
Predicting engine failure
Training error detector on 12 categories
Interpolated 14 NaN values of the wind
Failed to load the cache, rebuilding it
Peak memory: 30123 MB, out of 61440 MB
Dropped 31 rows with NaN labels before training
The run was stopped at max_steps=99 as requested
wandb: Run finished; 0 errors
Matrix of the classes written; killed/unharmed merged
Looked for NaN and inf in the weights: all clean
Missing values (NaN) of the csv were removed before the training
nothing crashed
exit code: 0x0
max_grad_norm inf
kill -9 1234 if you need to end it
val_dice: nan
stopped by early stopping
time limit: 7200
sync: on
/mnt/state was saved
""".splitlines()


@pytest.mark.parametrize("line", HARMLESS)
@pytest.mark.parametrize("label", ["", "2026-01-02 03:04:05,678 - INFO - ", "[rank3]: "])
def test_settings_plans_and_recoveries_are_no_last_words(tmp_path, label, line):
    (tmp_path / "a").mkdir()
    assert write(tmp_path / "run.log", *TEXT, f"{label}{line}") == "healthy"
    assert write(tmp_path / "a" / "run.jsonl", *RECORDS, f"{label}{line}") == "healthy"


TRAILERS = (
    ("logout",),
    ("exit", "Connection to node7.example.org closed."),
    ("(base) me@node7:~/runs$ ",),
    ("=" * 40, "Sat Jan  3 04:12:57 UTC 2026", "=" * 40),
    ("real\t13m32.4s", "user\t1m3.1s", "sys\t0m3.2s"),
    tuple(f"wandb: lr {'▁' * count}" for count in range(1, 30)),
    ("End of job", "2026-01-03 04:12:57"),
)


@pytest.mark.parametrize("trailer", TRAILERS, ids=lambda lines: lines[0][:10])
@pytest.mark.parametrize(
    "line", ["worker 7: heartbeat lost", "the pump of rack 4 is stuck", "Reason: Evicted"]
)
def test_what_a_shell_prints_below_does_not_hide_the_last_words(tmp_path, line, trailer):
    assert judge(tmp_path / "run.log", *TEXT, line, *trailer).severity is Severity.WARNING


@pytest.mark.parametrize("trailer", TRAILERS, ids=lambda lines: lines[0][:10])
def test_what_a_shell_prints_is_no_last_word(tmp_path, trailer):
    assert write(tmp_path / "run.log", *TEXT, *trailer) == "healthy"
    assert write(tmp_path / "run.log", *TEXT, "Saved 3 plots", *trailer) == "healthy"


def test_an_error_of_a_tracker_stays_a_last_word(tmp_path):
    assert write(tmp_path / "run.log", *TEXT, "wandb: ERROR Run crashed") != "healthy"


@pytest.mark.parametrize(
    "line",
    [
        "STEP 7 TERMINATED ON node-b AT 05:06:07",
        "E0203 05:06:07.123456 31 reader.cc:7] Check failed: count == 0",
        "F0203 05:06:07.123456 31 reader.cc:7] nothing to read",
        "rt: signal (11.2): Segmentation fault",
        "Exceeded the maximum run time of 600 seconds",
        "rendezvous closed: count of nodes too low",
        "[agent] member 4 went silent",
        "the pool was deleted by its owner",
        "Speicherzugriffsfehler",
        "run halted: user request",
        "vendor: two-minute warning received",
        "the disk was detached while it was mounted",
    ],
)
def test_ends_with_times_checks_and_labels_are_last_words(tmp_path, line):
    assert judge(tmp_path / "run.log", *TEXT, line).severity is Severity.WARNING


@pytest.mark.parametrize(
    "line",
    [
        "Prompt: Tell of a queen who died at sea.",
        "Model response 3: The ship sank and its captain was killed.",
        "A: It was terminated by the kernel.",
        "Removed 4 stale folders",
        "Phase of the pod: Succeeded",
        "Copied the weights to the archive",
        "elapsed 00:10:07",
        "Stopped after 9 rounds as planned",
        "Terminating child processes",
        "Profiler stopped",
        "the iterator is exhausted",
        "Flushed the queue of the tracker",
    ],
)
def test_texts_of_models_and_chores_are_no_last_words(tmp_path, line):
    assert write(tmp_path / "run.log", *TEXT, line) == "healthy"
