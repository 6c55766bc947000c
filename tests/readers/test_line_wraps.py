"""Logs whose lines a terminal or a mail program broke at a fixed width."""

import io
import math

import pytest

import stabdiag
from stabdiag.readers.source import Stream
from stabdiag.readers.unwrapping.line_wraps import joined_lines


def record(step, loss):
    return (
        f"train stats after {step} steps: {{'rewards/margins': '{loss / 7:.5f}', 'loss/train': "
        f"'{loss:.6f}', 'grad_norm': '1.25', 'counters/updates': {step}, 'counters/lr': '1e-06'}}"
    )


RECORDS = [record(step, 0.9 + 2 * math.exp(-step / 9)) for step in range(8, 34)]


def broken(line, width):
    return [line[at : at + width] for at in range(0, len(line), width)]


def broken_at_blanks(line, width):
    lines = [""]
    for word in line.split(" "):
        if len(lines[-1]) + len(word) >= width:
            lines.append("")
        lines[-1] += f"{word} "
    return [*lines[:-1], lines[-1].rstrip()]


def joined(text):
    return joined_lines(Stream("run.log", io.BytesIO(text.encode()))).read_all().decode()


def pasted(lines):
    return "".join(f"{line}\n" for line in lines)


@pytest.mark.parametrize("width", [72, 80, 88, 100])
def test_a_terminal_breaks_words(width):
    text = pasted(part for line in RECORDS for part in broken(line, width))
    assert joined("Some words above.\n```\n" + text).splitlines()[2:] == RECORDS


@pytest.mark.parametrize("width", [72, 80, 100])
def test_a_mail_breaks_lines_at_blanks(width):
    text = pasted(part for line in RECORDS for part in broken_at_blanks(line, width))
    assert joined(text).splitlines() == RECORDS


def test_blanks_fill_the_last_line_of_a_terminal():
    text = pasted(part.ljust(88) for line in RECORDS for part in broken(line, 88))
    assert [" ".join(line.split()) for line in joined(text).splitlines()] == RECORDS


def test_a_broken_log_is_read(tmp_path):
    log = tmp_path / "run.log"
    log.write_text(pasted(part for line in RECORDS for part in broken(line, 80)))
    history = stabdiag.diagnose(log).history
    assert history.series["loss"].steps.tolist() == list(range(8, 34))
    assert "lr" in history.series


TWO_LINES = "".join(
    f"Epoch {n:03d}/100 - 178/178 [==============================] - 2s 12ms/step\n"
    f"loss: {4 / n:.4f} - acc: 0.5{n:02d} - val_loss: {5 / n:.4f}\n"
    for n in range(1, 40)
)
INDENTED = "".join(
    f"[session 1][epoch  1][iter {100 * n:5d}/10021] loss: {4 / n:.4f}, lr: 1.00e-03, time: 3.1\n"
    f"\t\t\tfg/bg=(66/190), time cost: 34.5\n"
    for n in range(1, 40)
)
TABLE = "".join(
    f"|{n // 4:24} |{50 * n:24} |{4 / n:24.4f} |{'' if n % 4 else 0.5:24} |\n" for n in range(1, 40)
)
UNBROKEN = pasted(RECORDS)


@pytest.mark.parametrize(
    "text", [TWO_LINES, INDENTED, TABLE, UNBROKEN, "step,loss\n1,2.5\n2,2.4\n"]
)
def test_lines_of_their_own_are_not_joined(text):
    assert joined(text) == text


def test_rows_that_count_the_lines_are_no_broken_records():
    rows = [
        f"{n:3}" + "".join(f"{cell:>16}" for cell in cells)
        for n, cells in enumerate(
            [("2.3100", "1.2", "100", "NaN"), ("NaN", "NaN", "100", "2.2")] * 4
        )
    ]
    text = "\n".join([" " * 3 + "".join(f"{name:>16}" for name in "abcd"), *rows, ""]).encode()
    stream = Stream("table.txt", io.BytesIO(text))
    assert joined_lines(stream).read(len(text)) == text
