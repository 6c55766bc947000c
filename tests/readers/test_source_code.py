"""Source code with logs in its literals is not a log."""

import pytest

import stabdiag
from stabdiag.errors import NoUsableRecord

RECORDS = [f"step {n} loss {3 - n / 50:.2f} lr 0.001" for n in range(1, 41)]
QUOTED = "".join(f'    "{record}\\n"\n' for record in RECORDS)

SOURCES = {
    "a test in Python": f"import pytest\n\nLOG = (\n{QUOTED})\n\n\ndef test_it():\n"
    "    assert parse(LOG).loss == 2.2\n",
    "a docstring first": '"""How logs look."""\n\nLOG = """\n' + "\n".join(RECORDS) + '\n"""\n',
    "JavaScript": f"const log = [\n{QUOTED.replace(chr(10), ',' + chr(10))}];\n\n"
    "describe('x', () => {\n  it('reads', () => expect(read(log)).toBe(1));\n});\n",
    "C": "#include <stdio.h>\nconst char *log =\n" + QUOTED + "    ;\nint main() { return 0; }\n",
    "Rust": f"use std::fs;\n\nconst LOG: &str = concat!(\n{QUOTED});\n\nfn main() {{\n}}\n",
}


@pytest.fixture
def put(tmp_path):
    def put(text):
        log = tmp_path / "train.log"
        log.write_text(text)
        return log

    return put


@pytest.mark.parametrize("text", SOURCES.values(), ids=SOURCES)
def test_source_code_is_refused(put, text):
    with pytest.raises(NoUsableRecord, match="source code, not a log"):
        stabdiag.read(put(text))


HEADS = {
    "the program prints its own code": "import os\nimport torch\n\n\ndef main():\n    train(1)\n"
    "====================\n",
    "code above the output": "import torch\nfor x in data:\n    print(loss(x))\n\n",
    "a comment above a table": "# import the run\n",
}


@pytest.mark.parametrize("head", HEADS.values(), ids=HEADS)
def test_a_log_below_code_is_read(put, head):
    series = stabdiag.read(put(head + "\n".join(RECORDS) + "\n")).series
    assert len(series["loss"]) == 40


def test_a_fenced_log_between_code_is_read(put):
    """A post in Markdown."""
    text = "import torch\ntrain()\n```\n" + "\n".join(RECORDS) + "\n```\nprint(x)\n"
    assert len(stabdiag.read(put(text)).series["loss"]) == 40


def test_a_log_whose_last_line_ends_with_a_bracket_is_read(put):
    text = "import os\n" + "\n".join(RECORDS) + "\nfinal val_loss:2.90 (stride=16)\n"
    assert len(stabdiag.read(put(text)).series["loss"]) == 40


def test_a_log_in_quotes_is_read(put):
    lines = "".join(f"epoch {n} loss: {2 / n:.4f}\n" for n in range(1, 31))
    assert len(stabdiag.read(put(f'"""\n{lines}"""\n')).series["loss"].values) == 30
