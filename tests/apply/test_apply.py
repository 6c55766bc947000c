"""Applying an action of a report changes one setting of a configuration file."""

import difflib
import io
import json
import subprocess
import sys

import pytest
import yaml

import stabdiag
from stabdiag.apply import apply_action, first_actions
from stabdiag.apply.documents import Edit, edited, read_document
from stabdiag.apply.values import factor
from stabdiag.cli import main
from stabdiag.errors import ConfigError
from tests.conftest import ROOT

CLIP = {"kind": "clip-gradients", "setting": "grad_clip", "from": 1.0, "to": 0.5}
CLIP_FIRST = {"kind": "clip-gradients", "setting": "grad_clip", "to": 1.0}
BF16 = {"kind": "change-dtype", "setting": "dtype", "from": "fp16", "to": "bf16"}
HALVE = {"kind": "lower-lr", "setting": "lr", "from": 0.002, "to": 0.001}
LOWER = {"kind": "lower-lr", "setting": "peak_lr", "from": 0.001, "to": 0.0001}
RAISE = {"kind": "raise-lr", "setting": "peak_lr", "from": 0.001, "to": 0.01}
WARM_UP = {"kind": "add-warmup", "setting": "warmup_steps", "to": 500}
DECAY = {"kind": "raise-weight-decay", "setting": "weight_decay", "to": 0.1}
EPSILON = {"kind": "change-optimizer", "setting": "epsilon", "from": 1e-8, "to": 1e-4}
LENGTH = {"kind": "fix-schedule", "setting": "total_steps", "to": 1000}
FLOOR = {"kind": "fix-schedule", "setting": "min_lr", "to": 0.00030000000000000003}
DYNAMIC = {"kind": "dynamic-loss-scale", "setting": "loss_scale", "to": "dynamic"}
LOOK = {"kind": "inspect-data"}

# Configurations in the form of each framework.
HF = """{
    "output_dir": "out",
    "learning_rate": 5e-05,
    "num_train_epochs": 3,
    "fp16": true,
    "seed": 7
}
"""
DEEPSPEED = """{
  "train_batch_size": 64,
  "optimizer": {
    "type": "AdamW",
    "params": {"lr": 1e-3, "betas": [0.9, 0.95], "eps": 1e-8}
  },
  "scheduler": {"type": "WarmupLR", "params": {"warmup_max_lr": 0.001, "warmup_num_steps": 100}},
  "fp16": {
    "enabled": true,
    "loss_scale": 0
  },
  "zero_optimization": {"stage": 2}
}
"""
DEEPSPEED_AUTO = """{
  "train_micro_batch_size_per_gpu": "auto",
  "gradient_clipping": "auto",
  "fp16": {"enabled": "auto"},
  "zero_optimization": {"stage": 3}
}
"""
LIGHTNING = """seed_everything: 1
trainer:
  max_epochs: 10
  precision: 16-mixed  # halves the memory
  callbacks:
  - class_path: lightning.pytorch.callbacks.LearningRateMonitor
model:
  class_path: demo.Model
  init_args:
    lr: 2.0e-3
    weight_decay: 1.0e-4
"""
TORCHTUNE = """# A recipe
optimizer:
  _component_: torch.optim.AdamW
  lr: 2e-5
max_steps_per_epoch: null
gradient_accumulation_steps: 1  # a larger batch
dtype: fp16

profiler:
  _component_: demo.profiler
  enabled: False
  warmup_steps: 3
"""
AXOLOTL = """base_model: demo/model
wandb_project:
micro_batch_size: 2
learning_rate: 0.0002

bf16: auto
fp16:
warmup_ratio: 0.1
weight_decay: 0.0
"""
LLAMA_FACTORY = """### train
per_device_train_batch_size: 1
learning_rate: 1.0e-4
num_train_epochs: 3.0
fp16: true

### eval
per_device_eval_batch_size: 1
"""
TIMM = """amp_dtype: float16
clip_grad: null
epochs: 300
lr: 0.001
opt: adamw
opt_eps: 1.0e-08
sched: cosine
warmup_epochs: 5
"""
NANOGPT = (
    '{"n_layer": 12, "n_embd": 768, "learning_rate": 0.002, "decay_lr": true, "grad_clip": 1.0, '
    '"warmup_iters": 100, "max_iters": 5000, "min_lr": 6e-05, "dtype": "float16"}'
)
TOML = """[training]
lr = 2e-3 # the peak
max_norm = 1.0

[optimizer]
name = "AdamW"
eps = 1e-8
"""
WANDB = """wandb_version: 1

learning_rate:
  desc: null
  value: 0.002
max_grad_norm:
  desc: null
  value: 1.0
"""

# What each action does to each file: the changed lines.
CHANGES = [
    ("hf.json", HF, CLIP_FIRST, ['+    "max_grad_norm": 1.0,']),
    ("hf.json", HF, WARM_UP, ['+    "warmup_steps": 500,']),
    ("hf.json", HF, DECAY, ['+    "weight_decay": 0.1,']),
    ("hf.json", HF, EPSILON, ['+    "adam_epsilon": 0.0001,']),
    ("hf.json", HF, HALVE, ['-    "learning_rate": 5e-05,', '+    "learning_rate": 2.5e-05,']),
    ("hf.json", HF, BF16, ['-    "fp16": true,', '+    "fp16": false,', '+    "bf16": true,']),
    ("ds.json", DEEPSPEED, CLIP_FIRST, ['+  "gradient_clipping": 1.0,']),
    (
        "ds.json",
        DEEPSPEED,
        BF16,
        ['-    "enabled": true,', '+    "enabled": false,', '+  "bf16": {"enabled": true},'],
    ),
    (
        "ds.json",
        DEEPSPEED,
        LOWER,
        [
            '-    "params": {"lr": 1e-3, "betas": [0.9, 0.95], "eps": 1e-8}',
            '+    "params": {"lr": 1e-4, "betas": [0.9, 0.95], "eps": 1e-8}',
            '-  "scheduler": {"type": "WarmupLR", "params": {"warmup_max_lr": 0.001, '
            '"warmup_num_steps": 100}},',
            '+  "scheduler": {"type": "WarmupLR", "params": {"warmup_max_lr": 0.0001, '
            '"warmup_num_steps": 100}},',
        ],
    ),
    (
        "ds.json",
        DEEPSPEED.replace('"loss_scale": 0', '"loss_scale": 1024'),
        DYNAMIC,
        ['-    "loss_scale": 1024', '+    "loss_scale": 0'],
    ),
    (
        "a.yaml",
        "lr: 0.1\nloss_scaling: static  # of 1024\n",
        DYNAMIC,
        ["-loss_scaling: static  # of 1024", "+loss_scaling: dynamic  # of 1024"],
    ),
    (
        "a.toml",
        "lr = 0.1\nstatic_scale = true\n",
        DYNAMIC,
        ["-static_scale = true", "+static_scale = false"],
    ),
    ("cli.yaml", LIGHTNING, CLIP_FIRST, ["+  gradient_clip_val: 1.0"]),
    ("cli.yaml", LIGHTNING, HALVE, ["-    lr: 2.0e-3", "+    lr: 1.0e-3"]),
    (
        "cli.yaml",
        LIGHTNING,
        BF16,
        [
            "-  precision: 16-mixed  # halves the memory",
            "+  precision: bf16-mixed  # halves the memory",
        ],
    ),
    ("cli.yaml", LIGHTNING, DECAY, ["-    weight_decay: 1.0e-4", "+    weight_decay: 0.1"]),
    ("tune.yaml", TORCHTUNE, CLIP_FIRST, ["+clip_grad_norm: 1.0"]),
    ("tune.yaml", TORCHTUNE, HALVE, ["-  lr: 2e-5", "+  lr: 1e-5"]),
    ("tune.yaml", TORCHTUNE, BF16, ["-dtype: fp16", "+dtype: bf16"]),
    ("axolotl.yml", AXOLOTL, CLIP_FIRST, ["+max_grad_norm: 1.0"]),
    ("axolotl.yml", AXOLOTL, DECAY, ["-weight_decay: 0.0", "+weight_decay: 0.1"]),
    ("sft.yaml", LLAMA_FACTORY, BF16, ["-fp16: true", "+fp16: false", "+bf16: true"]),
    ("sft.yaml", LLAMA_FACTORY, HALVE, ["-learning_rate: 1.0e-4", "+learning_rate: 5.0e-5"]),
    ("args.yaml", TIMM, CLIP_FIRST, ["-clip_grad: null", "+clip_grad: 1.0"]),
    ("args.yaml", TIMM, BF16, ["-amp_dtype: float16", "+amp_dtype: bfloat16"]),
    ("args.yaml", TIMM, RAISE, ["-lr: 0.001", "+lr: 0.01"]),
    ("args.yaml", TIMM, EPSILON, ["-opt_eps: 1.0e-08", "+opt_eps: 1.0e-04"]),
    ("gpt.json", NANOGPT, CLIP, [f"-{NANOGPT}", "+" + NANOGPT.replace('clip": 1.0', 'clip": 0.5')]),
    (
        "gpt.json",
        NANOGPT,
        LENGTH,
        [f"-{NANOGPT}", "+" + NANOGPT.replace('iters": 5000', 'iters": 1000')],
    ),
    ("gpt.json", NANOGPT, FLOOR, [f"-{NANOGPT}", "+" + NANOGPT.replace("6e-05", "3e-04")]),
    ("gpt.json", NANOGPT, WARM_UP, [f"-{NANOGPT}", "+" + NANOGPT.replace("100,", "500,")]),
    ("run.toml", TOML, CLIP, ["-max_norm = 1.0", "+max_norm = 0.5"]),
    ("run.toml", TOML, HALVE, ["-lr = 2e-3 # the peak", "+lr = 1e-3 # the peak"]),
    ("run.toml", TOML, EPSILON, ["-eps = 1e-8", "+eps = 1e-4"]),
    ("config.yaml", WANDB, CLIP, ["-  value: 1.0", "+  value: 0.5"]),
    ("config.yaml", WANDB, HALVE, ["-  value: 0.002", "+  value: 0.001"]),
    (
        "one.yaml",
        "{lr: 2.0e-3, fp16: True}",
        HALVE,
        ["-{lr: 2.0e-3, fp16: True}", "+{lr: 1.0e-3, fp16: True}"],
    ),
    (
        "one.yaml",
        "{lr: 2.0e-3, fp16: True}",
        BF16,
        ["-{lr: 2.0e-3, fp16: True}", "+{lr: 2.0e-3, fp16: False, bf16: true}"],
    ),
    ("quoted.yaml", "lr: '2e-3'\n", HALVE, ["-lr: '2e-3'", "+lr: '1e-3'"]),
    ("quoted.json", '{"lr": "2e-3"}', HALVE, ['-{"lr": "2e-3"}', '+{"lr": "1e-3"}']),
    ("empty.yaml", "lr: 0.1\nclip:\nseed: 1\n", CLIP_FIRST, ["-clip:", "+clip: 1.0"]),
]

# What is left to a person, with the reason.
LEFT = [
    ("ds.json", DEEPSPEED_AUTO, CLIP, "gradient_clipping is 'auto' here"),
    ("ds.json", DEEPSPEED_AUTO, BF16, "does not set fp16"),
    ("hf.json", HF, LENGTH, "has no total_steps"),
    ("axolotl.yml", AXOLOTL, WARM_UP, "warmup_ratio sets the warm-up as a fraction"),
    ("axolotl.yml", AXOLOTL, BF16, "does not set fp16"),
    ("a.yaml", "lr: 0.1\nwarmup_steps: 0.1\n", WARM_UP, "sets the warm-up as a fraction"),
    ("cli.yaml", LIGHTNING, WARM_UP, "has no warmup_steps"),
    ("tune.yaml", TORCHTUNE, WARM_UP, "has no warmup_steps"),
    ("args.yaml", TIMM, WARM_UP, "has no warmup_steps"),
    ("a.yaml", "lr: ${base_lr}\nwd: 0.1\n", HALVE, "lr is '${base_lr}' here"),
    (
        "a.yaml",
        "lr: 0.1\nclip: 2.0\n",
        CLIP,
        "clip is 2 here and was 1 in the report: check which one ran",
    ),
    ("a.yaml", "lr: 0.1\nclip: 0.5\n", CLIP_FIRST | {"kind": "clip-gradients"}, "beyond the 1"),
    ("a.yaml", "lr: 0.1\nclip: 1\n", CLIP_FIRST, "clip is 1 already"),
    ("a.yaml", "lr: 0.1\nwarmup_steps: 900\n", WARM_UP, "warmup_steps is 900 here, beyond the 500"),
    ("a.yaml", "lr: 0.1\nopt_level: O1\n", BF16, "no counterpart"),
    ("a.yaml", "lr: 0.1\nfp16: true\n", BF16 | {"to": "fp32"}, "only a switch to bf16"),
    ("a.yaml", "lr: 0.1\n", HALVE | {"to": None}, "gives no value for lr"),
    ("ds.json", DEEPSPEED, DYNAMIC, "does not set a static loss scale"),
    ("a.yaml", "lr: 0.1\nloss_scale: 512.0\n", DYNAMIC, "in a form that is known"),
    ("a.yaml", "lr: 0.1\n", {"kind": "fix-schedule", "setting": "lr", "to": 0.1}, "at one step"),
    ("a.yaml", "lr: 0.1\n", LOOK, ""),
    ("a.yaml", "lr: 0.1\n", LOOK | {"setting": "stage", "to": 2}, ""),
]


def action(**fields):
    return {"text": "Do it.", "also": [], **fields}


def applied(name, text, fields):
    return apply_action(action(**fields), read_document(name, text.encode()))


def changed_lines(before, after):
    diff = difflib.ndiff(before.splitlines(), after.splitlines())
    return sorted(line[0] + line[2:] for line in diff if line[0] in "+-")


@pytest.mark.parametrize(("name", "text", "fields", "lines"), CHANGES)
def test_the_lines_that_change(name, text, fields, lines):
    result = applied(name, text, fields)
    assert changed_lines(text, result.text) == sorted(lines)
    assert result.reason == ""


@pytest.mark.parametrize(("name", "text", "fields", "lines"), CHANGES)
def test_lines_end_as_before(name, text, fields, lines):
    windows = text.replace("\n", "\r\n")
    if "\n" in text:
        assert applied(name, windows, fields).text.count("\r\n") == applied(
            name, windows, fields
        ).text.count("\n")
    stripped = applied(name, text.rstrip("\n"), fields).text
    assert stripped == applied(name, text, fields).text.rstrip("\n")
    assert lines


@pytest.mark.parametrize(("name", "text", "fields", "reason"), LEFT)
def test_actions_left_to_a_person(name, text, fields, reason):
    result = applied(name, text, fields)
    assert result.text == text
    assert result.edits == ()
    assert reason in result.reason
    assert result.by_hand == ("Do it.",)


@pytest.mark.parametrize("kind", ["keep-going", "do-nothing"])
def test_nothing_is_left_of_a_healthy_run(kind):
    assert applied("a.yaml", "lr: 0.1\n", {"kind": kind}).by_hand == ()


def test_the_rest_of_an_action_is_named():
    fields = {**CLIP, "also": ["inspect-data"], "checkpoint": 300}
    result = applied("a.yaml", "clip: 1.0\n", fields)
    assert result.by_hand[0] == "reload the checkpoint of step 300"
    assert "batches" in result.by_hand[1]
    assert applied("a.yaml", "clip: 1.0\n", {**CLIP, "checkpoint": 0}).by_hand == ("start again",)


def test_a_clip_in_an_action_of_another_kind():
    fields = {"kind": "inspect-data", "also": ["clip-gradients"], "setting": "grad_clip", "to": 0.5}
    result = applied("a.yaml", "clip: 1.0\n", fields)
    assert result.text == "clip: 0.5\n"
    assert len(result.by_hand) == 1


def test_a_rate_that_a_program_scales_changes_by_the_same_factor():
    result = applied("a.yaml", "lr: 0.0001\n", {**LOWER, "from": 0.0008, "to": 0.0004})
    assert result.text == "lr: 0.00005\n" or yaml.safe_load(result.text) == {"lr": 5e-5}
    assert "was 0.0008 in the log" in result.note
    assert "0.5" in result.note
    assert applied("a.yaml", "lr: 0.001\n", LOWER).note == ""


@pytest.mark.parametrize(
    ("before", "to", "expected"),
    [(0.3725, 0.037, 0.1), (0.53, 0.27, 0.5), (0.3, 0.01, 0.033), (2e-4, 0.0, 0.0)],
)
def test_a_factor_has_the_precision_of_the_report(before, to, expected):
    assert factor(before, to) == expected


def test_a_tenth_of_another_rate_is_a_tenth():
    result = applied("a.yaml", "lr: 2.0e-4\n", {**LOWER, "from": 0.3725, "to": 0.037})
    assert yaml.safe_load(result.text) == {"lr": 2e-5}


@pytest.mark.parametrize("value", [5e-5, 3e-4, 0.001, 0.25, 1.0, 32.0, 1e-8, 12345678.0])
@pytest.mark.parametrize("old", ["0.1", "1e-4", "1.0e-4", "1E-04", "1.5e+2", "3"])
def test_a_number_stays_a_number_in_yaml(value, old):
    document = read_document("a.yaml", f"lr: {old}\n".encode())
    text = edited(document, [Edit(path=("lr",), value=value)])
    read = yaml.safe_load(text)["lr"]
    is_number = isinstance(yaml.safe_load(f"lr: {old}")["lr"], float | int)
    assert float(read) == pytest.approx(value)
    assert isinstance(read, float) or not is_number


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("base: &rate 0.1\nlr: *rate\n", ("lr",)),
        ("base: &rate 0.1\nlr: *rate\n", ("base",)),
    ],
)
def test_a_value_that_cannot_change_alone_is_refused(text, path):
    document = read_document("a.yaml", text.encode())
    with pytest.raises(ConfigError, match="cannot be changed alone"):
        edited(document, [Edit(path=path, value=0.5)])


@pytest.mark.parametrize(
    ("name", "data", "message"),
    [
        ("train.py", b"lr = 0.1\n", "this is code"),
        ("model.ipynb", b"{}", "this is code"),
        ("train.log", b"lr: 0.1", "changes JSON, YAML and TOML"),
        ("config", b"lr: 0.1", "changes JSON, YAML and TOML"),
        ("a.yaml", b"- lr\n", "not a configuration"),
        ("a.yaml", b"lr: [\n", "not valid YAML"),
        ("a.yaml", b"lr: 1\n---\nlr: 2\n", "not valid YAML"),
        ("a.json", b"{", "not valid JSON"),
        ("a.json", b"[" * 100_000, "not valid JSON"),
        ("a.toml", b"lr", "not valid TOML"),
        ("a.yaml", b"\xff\xfe", "not a text file"),
    ],
)
def test_files_that_are_not_configurations(name, data, message):
    with pytest.raises(ConfigError, match=message):
        read_document(name, data)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("package.json", '{"name": "demo", "version": "1.0"}'),
        ("compose.yaml", "services:\n  web:\n    image: demo\n"),
        ("config.json", '{"hidden_size": 768, "torch_dtype": "float16"}'),
        ("pyproject.toml", '[project]\nname = "demo"\n'),
    ],
)
def test_files_without_a_setting_of_a_training_are_refused(name, text):
    with pytest.raises(ConfigError, match="no setting of a training"):
        applied(name, text, CLIP)


@pytest.mark.parametrize(
    "report",
    [
        None,
        [],
        {},
        {"diagnosis": None},
        {"diagnosis": {"actions": [{}]}},
        {"diagnosis": {"actions": [{"kind": "x", "text": "y"}]}},
    ],
)
def test_other_json_is_not_a_report(report):
    with pytest.raises(ConfigError, match="not a report"):
        first_actions(report, "a.json")


# The command.


def run(capsys, monkeypatch, *words):
    monkeypatch.setattr(sys, "argv", ["stabdiag", "apply", *map(str, words)])
    code = main()
    return code, *capsys.readouterr()


@pytest.fixture
def report(tmp_path):
    """The report of a real run, as the command line writes it."""
    path = tmp_path / "report.json"
    diagnosed = stabdiag.diagnose(ROOT / "fixtures" / "runs" / "spike-persistent-fp16")
    path.write_text(diagnosed.to_json(), encoding="utf-8")
    return path


def test_the_command_writes_the_change(report, tmp_path, capsys, monkeypatch):
    config = tmp_path / "config.yaml"
    config.write_text("lr: 0.003\ngrad_clip: 1.0  # by norm\n", encoding="utf-8")
    code, out, err = run(capsys, monkeypatch, report, config, "--dry-run")
    assert code == 0
    assert "+grad_clip: 0.5  # by norm" in out
    assert "reload the checkpoint of step 300" in out
    assert "is unchanged" in err
    assert "1.0" in config.read_text(encoding="utf-8")
    code, out, _ = run(capsys, monkeypatch, report, config, "--json")
    assert json.loads(out) == {
        "framework": "",
        "written": True,
        "edits": [{"setting": "grad_clip", "from": 1.0, "to": 0.5}],
        "note": "",
        "by_hand": json.loads(out)["by_hand"],
        "reason": "",
    }
    assert config.read_text(encoding="utf-8") == "lr: 0.003\ngrad_clip: 0.5  # by norm\n"
    # Once is enough.
    code, out, _ = run(capsys, monkeypatch, report, config)
    assert code == 0
    assert "Left to you: grad_clip is 0.5 here and was 1 in the report: check which one ran." in out


def test_another_action_and_standard_input(report, tmp_path, capsys, monkeypatch):
    config = tmp_path / "config.yaml"
    config.write_text("grad_clip: 1.0\n", encoding="utf-8")
    monkeypatch.setattr(sys, "stdin", io.StringIO(report.read_text(encoding="utf-8")))
    code, out, _ = run(capsys, monkeypatch, "-", config, "--action", 2)
    assert code == 0
    assert "the action does not change a setting" in out
    assert config.read_text(encoding="utf-8") == "grad_clip: 1.0\n"
    assert run(capsys, monkeypatch, report, config, "--quiet")[:2] == (0, "")
    assert run(capsys, monkeypatch, report, config, "--action", 9)[0] == 2


def test_patterns_name_the_report_and_the_configuration(report, tmp_path, capsys, monkeypatch):
    (tmp_path / "config.yaml").write_text("grad_clip: 1.0\n", encoding="utf-8")
    pattern = tmp_path / "conf*.yaml"
    code, out, _ = run(capsys, monkeypatch, report.with_name("rep*.json"), pattern, "--dry-run")
    assert code == 0
    assert "+grad_clip: 0.5" in out
    (tmp_path / "config2.yaml").touch()
    code, _, err = run(capsys, monkeypatch, report, pattern)
    assert code == 2
    assert "2 files match this pattern" in err


@pytest.mark.parametrize("name", ["nothing.yaml", ".", "train.py", "other.yaml"])
def test_the_command_refuses_unknown_files(name, report, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.py").write_text("lr = 0.1\n", encoding="utf-8")
    (tmp_path / "other.yaml").write_text("a: 1\n", encoding="utf-8")
    code, out, err = run(capsys, monkeypatch, report, name)
    assert (code, out) == (2, "")
    assert err.count("\n") == 1
    assert name in err


def test_the_command_refuses_other_reports(tmp_path, capsys, monkeypatch):
    config = tmp_path / "config.yaml"
    config.write_text("lr: 0.1\n", encoding="utf-8")
    code, _, err = run(capsys, monkeypatch, config, config)
    assert code == 2
    assert "not a report" in err


def test_applying_needs_neither_arrow_nor_pandas(report, tmp_path):
    config = tmp_path / "config.yaml"
    config.write_text("grad_clip: 1.0\n", encoding="utf-8")
    code = (
        "import sys; sys.modules['pandas'] = sys.modules['pyarrow'] = None\n"
        "from stabdiag.__main__ import run; run()"
    )
    words = [sys.executable, "-c", code, "apply", str(report), str(config)]
    done = subprocess.run(words, capture_output=True, check=False, cwd=ROOT)
    assert done.returncode == 0, done.stderr
