"""Messages have the steps of the run, also where its counter restarts."""

import json

import pytest

import stabdiag
from stabdiag.model.events import EventKind

CRASH = (
    "Traceback (most recent call last):\n"
    '  File "train.py", line 30, in <module>\n'
    "    loss = criterion(output, target)\n"
)
ERROR = "ValueError: Expected input batch_size (16) to match target batch_size (12).\n"


def loss_at(count):
    """Return a falling loss that is never twice the same."""
    return 1 + 3 * 0.97**count + 0.01 * (count * 7 % 5)


def epochs(first, last, *, batches=20, base=0):
    """Return the lines of epochs whose batches are counted from 0."""
    return "".join(
        f"Epoch: [{epoch}][{10 * batch}/{10 * batches}]  Loss "
        f"{loss_at(batches * epoch + batch - base):.4f}\n"
        for epoch in range(first, last)
        for batch in range(batches)
    )


def json_epochs(first, last, batches=20):
    """Return the JSON records of epochs whose steps are counted from 0."""
    return "".join(
        json.dumps({"epoch": epoch, "step": batch, "loss": loss_at(batches * epoch + batch)}) + "\n"
        for epoch in range(first, last)
        for batch in range(batches)
    )


@pytest.fixture
def diagnosed(tmp_path):
    def diagnose(text):
        path = tmp_path / "run.log"
        path.write_text(text)
        return stabdiag.diagnose(path)

    return diagnose


@pytest.mark.parametrize("lines", [epochs(0, 5), json_epochs(0, 5)], ids=["text", "json"])
def test_a_crash_in_a_later_epoch_ends_the_run(diagnosed, lines):
    report = diagnosed(lines + CRASH + ERROR)
    (message,) = report.history.messages
    assert message.step == report.history.last_step
    assert report.diagnosis.slug == "stall"
    assert report.diagnosis.severity == "warning"


def test_a_crash_that_a_later_epoch_follows_does_not_end_the_run(diagnosed):
    report = diagnosed(epochs(0, 2) + CRASH + ERROR + epochs(2, 5))
    (message,) = report.history.messages
    assert message.step == 390
    assert report.diagnosis.slug == "healthy"


def test_a_crash_of_an_earlier_run_does_not_end_the_last(diagnosed):
    lines = [f"step {step} loss {loss_at(step):.4f}\n" for step in range(60)]
    report = diagnosed("".join(lines) + CRASH + ERROR + "".join(lines))
    assert report.history.source.attempts == 2
    assert [event.step for event in report.history.messages] == [None]
    assert report.diagnosis.slug != "stall"


def test_an_interrupt_is_a_note(diagnosed):
    report = diagnosed(epochs(0, 5) + CRASH + "KeyboardInterrupt\n")
    assert report.diagnosis.title == "The run was interrupted"
    assert report.diagnosis.severity == "note"


def test_an_error_that_an_interrupt_caused_is_a_note(diagnosed):
    handled = "\nDuring handling of the above exception, another exception occurred:\n\n"
    text = epochs(0, 5) + CRASH + "KeyboardInterrupt\n" + handled + CRASH + "BrokenPipeError\n"
    assert diagnosed(text).diagnosis.severity == "note"


def test_an_error_before_an_interrupt_is_a_warning(diagnosed):
    report = diagnosed(epochs(0, 5) + CRASH + ERROR + CRASH + "KeyboardInterrupt\n")
    assert report.diagnosis.title == "The run stopped early"
    assert report.diagnosis.severity == "warning"


def test_messages_keep_no_position(diagnosed):
    report = diagnosed(epochs(0, 3) + CRASH + ERROR)
    assert [event.above for event in report.history.events if event.kind is EventKind.MESSAGE] == [
        None
    ]


@pytest.mark.parametrize("prefix", ["^C", "  45%|████▌     | 45/100 [00:10<00:12,  4.10it/s]"])
def test_a_prefix_of_the_first_line_only_belongs_to_the_terminal(diagnosed, prefix):
    report = diagnosed(epochs(0, 5) + prefix + CRASH + "KeyboardInterrupt\n")
    assert report.diagnosis.title == "The run was interrupted"
    report = diagnosed(epochs(0, 5) + prefix + CRASH + ERROR)
    assert "Expected input batch_size" in report.diagnosis.summary
