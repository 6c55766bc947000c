"""Lines that report a failure at the end of a good log."""

import numpy as np
import pytest

import stabdiag
from stabdiag.model.events import EventKind

LOGS = {
    "json": "".join(f'{{"step": {n}, "loss": {2.5 - n / 100}}}\n' for n in range(40)),
    "csv": "step,loss\n" + "".join(f"{n},{2.5 - n / 100}\n" for n in range(40)),
    "text": "".join(f"step {n} | loss: {2.5 - n / 100:.3f} | lr: 0.1\n" for n in range(40)),
    "trainer": "".join(
        f"{{'loss': {2.5 - n / 100}, 'learning_rate': 0.1, 'epoch': {n / 10}}}\n" for n in range(40)
    ),
    "megatron": "".join(
        f" iteration {n:8d}/      99 | lm loss: {2.5 - n / 100} | loss scale: 1.0 |\n"
        for n in range(40)
    ),
}

NOT_FINITE = (
    "WARNING: loss is nan, 16 samples skipped",
    "all 16 samples have a nan loss and were skipped",
    "FloatingPointError: Loss is NaN at step 400, stopping",
    "RuntimeError: Function 'LogSoftmaxBackward0' returned nan values in its 0th output.",
    "ValueError: Expected parameter loc of distribution Normal(loc: torch.Size([6])) to satisfy "
    "the constraint Real(), but found invalid values: tensor([[nan, nan]])",
    "RuntimeError: normal expects all elements of std >= 0.0",
    "FloatingPointError: Minimum loss scale reached (0.0001). Your loss is probably exploding.",
    "Exception: Current loss scale already at minimum - cannot decrease scale anymore. Exiting.",
    "WARNING:root:Current loss value is nan",
    "10:00:00: W core/op_kernel.cc:1273] OP_REQUIRES failed at numeric_ops.cc: Invalid argument: "
    "Found Inf or NaN global norm. : Tensor had Inf values",
    "loss is nan",
    "[ERROR] Training diverged: loss became infinite.",
    "CRITICAL - non-finite loss detected, aborting",
    "NaN loss encountered at iteration 121. Exiting.",
    "[rank3]: RuntimeError: Non-finite loss: nan",
    "error: got a NaN loss (step 121)",
    "E1123 10:00:00 train.cc:77] Check failed: !std::isnan(loss) loss is NaN",
    "F0101 10:00:00 solver.cpp:10] loss = nan, aborting.",
    "ERROR: The gradient norm is not finite (inf); exiting",
    "NanLossDuringTrainingError: NaN loss during training.",
    "Detected inf or nan values in gradients. Your model is diverging. Giving up.",
    "OverflowError: cannot convert float infinity to integer",
    "training loss was inf at step 120; stopping now",
    "AssertionError: loss must be finite, got nan",
    "RuntimeError: probability tensor contains either `inf`, `nan` or element < 0",
    "NaNs found in the weights, halting",
    "ABORT: loss is not a number",
    "Terminating on NaN at step 300",
    "Stopped: the training loss is no longer finite.",
    "assertion failed: loss.isfinite()",
    "train: Assertion `!isnan(loss)' failed.",
    "loss value is abnormal (nan), please check the data",
    "梯度爆炸, loss 为 nan, 训练终止",
    "tripped the NaN guard: halting",
    "Non-finite gradient norm 3 times in a row. Bailing out.",
    "loss spiked to Infinity, quitting",
    "overflow detected in the backward pass, stopping",
    "The optimizer hit an infinite gradient and the job is shutting down",
    "Fatal: parameters contain inf after the last update",
    "!! non finite loss, dumping state and exiting",
    "nan detected in loss at iteration 300, reverting to the last checkpoint",
    "Got NaN/Inf loss. Reduce the learning rate.",
    "Optimization failed: non-finite function value",
    "Loss is no longer a number. Exiting with code 3.",
    "trainer: loss became +Inf",
    "!!!!! loss nan !!!!!",
    "train loss is Nan !!!",
    "bad loss value: -inf",
    "grad_norm = inf, giving up",
    "E0101 00:00:00 trainer.cc:99] Check failed: std::isfinite(loss)",
    "check_numerics_op.cc: abnormal_detected_host @0x10 = {1, 0} Found Inf or NaN",
    "Gradient overflow. Scaler cannot recover; exiting",
    "loss scaler underflow: scale reached 0, exiting",
    "Loss scale has reached its minimum value; stopping.",
    "Overflow! loss scale at floor, giving up",
    "Perda NaN detectada, encerrando o treinamento",
)
DIED = (
    "torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB",
    "RuntimeError: NCCL error in: ProcessGroupNCCL.cpp:1269, unhandled system error",
    "srun: error: node1: task 3: Exited with exit code 1",
    "subprocess.CalledProcessError: Command 'python' returned non-zero exit status 1.",
    "Bus error (core dumped)",
    "RuntimeError: DataLoader worker (pid 123) is killed by signal: Killed.",
    "OSError: [Errno 28] No space left on device",
    "KeyboardInterrupt",
    "Process finished with exit code 137",
    "make: *** [train] Error 1",
    "CUBLAS_STATUS_ALLOC_FAILED when calling cublasCreate(handle)",
    "terminate called after throwing an instance of 'c10::Error'",
    "[rank0]: torch.distributed.DistBackendError: NCCL communicator was aborted on rank 0.",
    "SIGTERM received, shutting down",
    "container killed: OOMKilled",
    "double free or corruption (!prev)",
    "Terminated",
    "Connection to node02 lost; heartbeat timeout; job aborted",
    "Command terminated by signal 9",
    "mpirun noticed that process rank 3 with PID 0 on node n1 exited on signal 9 (Killed).",
    "srun: Job step aborted: Waiting up to 32 seconds for job step to finish.",
    "CUDA_ERROR_LAUNCH_FAILED: unspecified launch failure",
    "Failed to allocate memory for requested buffer of size 4294967296",
    "Error: CUDA driver error: out of memory",
    "loss exploded, giving up",
    "Aborted!",
    "panic: runtime error: index out of range",
    "thread 'main' panicked at src/main.rs:42:5:",
    "Error in eval(expr) : object 'x' not found",
    'Exception in thread "main" java.lang.IllegalStateException: empty batch',
    "Caused by: org.example.ShapeException: 32 rows and 31 labels",
    "luajit: train.lua:47: expecting target table",
    '[string "step"]:1: attempt to call a nil value',
    "train.rb:31:in `step': undefined method `+' for nil:NilClass (NoMethodError)",
    "** (ArgumentError) expected shapes to be compatible",
    "Error: unhandled exception: index 10 not in 0 .. 9 [IndexDefect]",
    "error: process didn't exit successfully: `target/release/train`",
    "wandb: run crashed",
    "libc++abi: terminating due to uncaught exception of type std::runtime_error",
    "torch._C._LinAlgError: linalg.cholesky: the input is not positive-definite",
    "cuda runtime error (2) : out of memory at /pytorch/aten/src/THC/generic/THCStorage.cu:58",
    "srun: error: n1: task 3: Out Of Memory",
    "The process was killed because it ran out of memory.",
    "XLA compilation failed: RESOURCE_EXHAUSTED",
    "bash: line 1: 4242 Segmentation fault      python train.py",
    "zsh: killed     python train.py",
    "Killed: 9",
    "Floating point exception",
    "Fatal Python error: Aborted",
    "*** stack smashing detected ***: terminated",
    "munmap_chunk(): invalid pointer",
    "PBS: job killed: walltime 3600 exceeded limit 3600",
    "Job 42 was killed by the scheduler: memory limit",
    "spot instance interrupted, shutting down",
    "DataLoader worker (pid(s) 1234) exited unexpectedly",
    "The operation was canceled.",
    "exited with error code 1",
    "caught signal 15, exiting",
    "srun: error: Node failure on n12",
    "NVRM: Xid (PCI:0000:3b:00): 79, GPU has fallen off the bus.",
    "Exiting: loss > 100 for 10 steps",
)
DIED_IN_JAVA_OR_LUA = [line for line in DIED if ".lua:" in line or "Exception: " in line]
HARMLESS = (
    "[INFO] Model is improving ppl: inf --> 4.87",
    "training loss improved: inf ==> 2.31",
    "model loss inf → 0.42, saved",
    "Training finished. No NaN was found.",
    "Saving checkpoint to model_inf.pt",
    "INFO checking for nan in loss: ok",
    "WARNING: 1/2 samples got nan grad. These were ignored for CTC loss.",
    "3 of 16 utterances have an infinite loss and were skipped",
    "# if loss is nan we stop",
    '    if torch.isnan(loss): raise ValueError("Loss is NaN")',
    "detect_nan=True",
    "UserWarning: val_mAP is nan because there are no boxes",
    "Early stopping: will stop if loss becomes nan or inf",
    "Finished with exit code 0",
    "skip_nan_loss: True",
    "avg_loss_nan  [False]",
    "loss_nan_count 0",
    "Validation metric F1 is nan, skipping",
    "INFO: loss is finite",
    "numpy RuntimeWarning: overflow encountered in exp",
    "Replaced 3 nan values in the input features by 0",
    "ETA: nan",
    "Note: losses may become nan with fp16",
    'logger.error("NaN loss")',
    "[info] infinity norm: 2.5",
    "Early stopping on NaN: enabled",
    "NaN/Inf check of the gradients: passed",
    "SIGUSR1 is the signal 10 of this run",
    "Set the batch size to avoid out of memory errors",
    "Kernel panic is unlikely",
    "Recovered 3 crashed workers",
    "Stopping criterion TerminateOnNaN enabled",
    "gradient overflow is handled by the scaler, which is exiting its warm-up",
    "Terminated the data loader workers",
    "1 job aborted or resumed: 0",
    "best loss: inf -> 2.0",
    "Early stopping: loss too high to improve",
    "Stopped: loss exceeded patience",
    "Exceeded the maximum number of epochs",
    "No process crashed",
    "node failures: 0",
    "free(): 10 GB",
    "tasks cancelled: 0",
    "Registered handler for signal 15",
    "wrote train.lua: 12 lines",
    "train.lua:12: Warning: a module is deprecated",
    "loss scale reached 65536",
    "Overflow count 3, loss scale 1024.",
    "Killed 3 stale workers",
)


@pytest.fixture
def history(tmp_path):
    def read(form, line):
        path = tmp_path / "run.log"
        path.write_text(f"{LOGS[form]}{line}\n")
        return stabdiag.read(path)

    return read


@pytest.mark.parametrize("form", LOGS)
@pytest.mark.parametrize("line", NOT_FINITE)
def test_a_report_of_a_value_that_is_not_finite_makes_the_loss_nan(history, form, line):
    loss = history(form, line).series["loss"]
    assert np.isfinite(loss.values[:-1]).all()
    assert len(loss) == 41
    assert np.isnan(loss.values[-1])
    assert loss.steps[-1] > loss.steps[-2]


@pytest.mark.parametrize("form", LOGS)
@pytest.mark.parametrize("line", DIED)
def test_a_line_about_the_end_of_the_process_is_a_message_at_the_last_step(history, form, line):
    read = history(form, line)
    messages = [event for event in read.events if event.kind is EventKind.MESSAGE]
    assert [event.quote for event in messages] == [" ".join(line.split())]
    assert messages[0].step >= read.series["loss"].steps[-1] - 1
    assert np.isfinite(read.series["loss"].values).all()


@pytest.mark.parametrize("form", LOGS)
@pytest.mark.parametrize("line", DIED_IN_JAVA_OR_LUA)
def test_the_frames_below_the_end_of_the_process_do_not_hide_it(history, form, line):
    frames = "\n".join(f"\tat org.example.Train.step{n}(Train.java:{n})" for n in range(9))
    read = history(form, f"{line}\n{frames}")
    assert [event.quote for event in read.events if event.kind is EventKind.MESSAGE] == [line]


@pytest.mark.parametrize("form", LOGS)
@pytest.mark.parametrize("line", HARMLESS)
def test_source_code_conditions_and_metrics_are_not_reports(history, form, line):
    read = history(form, line)
    assert len(read.series["loss"]) == 40
    assert np.isfinite(read.series["loss"].values).all()
    assert not [event for event in read.events if event.kind is EventKind.MESSAGE]


def test_ranks_that_report_the_same_failure_make_one_record(history):
    lines = "\n".join(f"[rank{n}]: ValueError: Loss is NaN at step 40" for n in range(8))
    assert len(history("text", lines).series["loss"]) == 41


def test_a_logged_fall_of_the_loss_scale_explains_that_it_is_at_its_minimum(tmp_path):
    lines = [f"step {n} | loss: 2.5 | loss_scale: {2.0 ** (20 - n)}" for n in range(20)]
    lines.append("FloatingPointError: Minimum loss scale reached (0.0001).")
    path = tmp_path / "run.log"
    path.write_text("\n".join(lines))
    assert np.isfinite(stabdiag.read(path).series["loss"].values).all()


def test_the_line_that_reports_a_loss_is_an_event(history):
    read = history("text", "WARNING:root:Current loss value is nan")
    messages = [event for event in read.events if event.kind is EventKind.MESSAGE]
    assert [event.quote for event in messages] == ["WARNING:root:Current loss value is nan"]
    assert messages[0].line == 41


def test_a_traceback_before_the_first_record_did_not_end_the_run(tmp_path):
    path = tmp_path / "train.log"
    begin = 'Traceback (most recent call last):\n  File "a.py", line 1\nKeyError: "price"\n'
    path.write_text(begin + "".join(f"INFO train loss: {3 - n / 9}\n" for n in range(6)))
    assert stabdiag.diagnose(path).diagnosis.slug == "insufficient-data"
    path.write_text("".join(f"INFO train loss: {3 - n / 9}\n" for n in range(6)) + begin)
    assert stabdiag.diagnose(path).diagnosis.slug == "stall"


def test_a_traceback_is_one_message(history):
    lines = 'Traceback (most recent call last):\n  File "a.py", line 1\nOSError: No space left'
    events = [event for event in history("text", lines).events if event.kind is EventKind.MESSAGE]
    assert [event.message for event in events] == ["traceback: OSError: No space left"]


def test_the_name_of_an_exception_is_no_loss(tmp_path):
    path = tmp_path / "train.log"
    path.write_text(
        "INFO: Running the first operation.\nERROR: Model diverged with loss = NaN.\n"
        "lib.training.hooks.NanLossWhileTrainingError: NaN loss during training.\n"
    )
    result = stabdiag.diagnose(path)
    assert result.diagnosis.slug.startswith("nan")
    assert result.history.series["loss"].column == "loss"
    assert not np.isfinite(result.history.series["loss"].values).any()
