"""The manifest in the spellings of many frameworks."""

import json
from dataclasses import replace

import numpy as np
import pytest
import yaml

from stabdiag.assemble.inputs import infer
from stabdiag.errors import ManifestError
from stabdiag.model.history import History, Series, Source
from stabdiag.model.manifest import KEYS, Manifest, parse_manifest, read_manifest

# What each framework writes, and what it means.
FRAMEWORKS = yaml.safe_load("""
HF Trainer:
  - {learning_rate: 5.0e-5, warmup_steps: 100, max_steps: 5000, lr_scheduler_type: cosine,
     max_grad_norm: 1.0, weight_decay: 0.01, save_steps: 500, optim: adamw_torch, seed: 42,
     per_device_train_batch_size: 8, fp16: false, bf16: true}
  - {dtype: bf16, optimizer: adamw_torch, peak_lr: 5.0e-5, warmup_steps: 100, total_steps: 5000,
     schedule: cosine, grad_clip: 1.0, weight_decay: 0.01, checkpoint_every: 500, batch_size: 8,
     seed: 42}
Megatron:
  - {lr: 1.5e-4, lr_warmup_iters: 2000, train_iters: 500000, lr_decay_style: cosine, clip_grad: 1.0,
     weight_decay: 0.1, save_interval: 1000, optimizer: adam, global_batch_size: 512, fp16: true,
     bf16: false, padded_vocab_size: 50304, loss_scale: null, loss_scale_window: 1000,
     min_loss_scale: 1.0, seed: 1234}
  - {dtype: fp16, optimizer: adam, peak_lr: 1.5e-4, warmup_steps: 2000, total_steps: 500000,
     schedule: cosine, grad_clip: 1.0, weight_decay: 0.1, checkpoint_every: 1000, batch_size: 512,
     vocab_size: 50304, seed: 1234, loss_scale_window: 1000, loss_scale_min: 1.0}
DeepSpeed:
  - train_batch_size: 256
    gradient_clipping: 1.0
    fp16: {enabled: true, loss_scale: 0, loss_scale_window: 500, min_loss_scale: 1}
    optimizer: {type: AdamW, params: {lr: 3.0e-4, weight_decay: 0.1}}
    scheduler: {type: WarmupDecayLR, params: {warmup_num_steps: 100, total_num_steps: 9000}}
  - {dtype: fp16, optimizer: AdamW, peak_lr: 3.0e-4, warmup_steps: 100, total_steps: 9000,
     schedule: WarmupDecayLR, grad_clip: 1.0, weight_decay: 0.1, batch_size: 256,
     loss_scale_window: 500, loss_scale_min: 1.0, static_loss_scale: false}
Lightning:
  - trainer: {precision: 16-mixed, gradient_clip_val: 0.5, max_steps: 1000}
    model: {optimizer: sgd, lr: 0.1}
    checkpoint: {every_n_train_steps: 200}
  - {dtype: fp16, optimizer: sgd, peak_lr: 0.1, total_steps: 1000, grad_clip: 0.5,
     checkpoint_every: 200}
torchtitan:
  - optimizer: {name: AdamW, lr: 3.0e-4}
    lr_scheduler: {warmup_steps: 200}
    training: {steps: 1000, max_norm: 1.0, mixed_precision_param: bfloat16, dtype: float32}
    checkpoint: {interval: 500}
  - {dtype: bf16, optimizer: AdamW, peak_lr: 3.0e-4, warmup_steps: 200, total_steps: 1000,
     grad_clip: 1.0, checkpoint_every: 500}
fairseq:
  - common: {fp16: true, fp16_scale_window: 128, seed: 7}
    optimization: {lr: [0.0005], max_update: 9000, clip_norm: 0.1}
    lr_scheduler: {_name: inverse_sqrt, warmup_updates: 400}
    checkpoint: {save_interval_updates: 250}
  - {dtype: fp16, schedule: inverse_sqrt, peak_lr: 0.0005, warmup_steps: 400, total_steps: 9000,
     grad_clip: 0.1, checkpoint_every: 250, loss_scale_window: 128, seed: 7}
Composer:
  - max_duration: 4800ba
    save_interval: 1000ba
    eval_interval: 1ep
    precision: amp_bf16
    optimizer: {name: decoupled_adamw, lr: 6.0e-4}
    scheduler: {name: cosine_with_warmup, t_warmup: 100ba}
    algorithms: {gradient_clipping: {clipping_threshold: 1.0, clipping_type: norm}}
  - {dtype: bf16, optimizer: decoupled_adamw, peak_lr: 6.0e-4, warmup_steps: 100,
     total_steps: 4800, schedule: cosine_with_warmup, grad_clip: 1.0, checkpoint_every: 1000}
""")
DEEPSPEED = FRAMEWORKS["DeepSpeed"][0]


def known(manifest):
    values = {key.name: getattr(manifest, key.name) for key in KEYS}
    return {name: value for name, value in values.items() if value is not None}


@pytest.mark.parametrize(("raw", "expected"), FRAMEWORKS.values(), ids=FRAMEWORKS)
def test_names_of_frameworks_are_understood(raw, expected):
    assert known(parse_manifest(raw)) == expected


def classifier(kind, labels, problem=None):
    """Return the label settings that the HF library writes."""
    names = {str(label): f"LABEL_{label}" for label in range(labels)}
    model = {"vocab_size": 30522, "architectures": [f"Bert{kind}"], "problem_type": problem}
    return {**model, "id2label": names}


# What a configuration says, by the field that is read from it; None where it says nothing.
HF_CONFIGS = {
    "dtype": [
        ("fp16", {"torch_dtype": "torch.float16"}),
        ("fp16", {"trainer": {"precision": "16-true"}}),
        ("fp16", {"precision": "mixed_float16"}),
        ("fp16", {"opt_level": "O1", "dtype": "float32"}),
        ("fp32", {"opt_level": "O0"}),
        ("fp16", {"fp16.enabled": True}),
        ("fp16", {"train": {"fp16": "true"}}),
        ("bf16", {"dtype": "jnp.bfloat16"}),
        ("bf16", {"bf16": {"enabled": True}, "fp16": {"enabled": False}}),
        ("bf16", {"model": {"config": {"torch_dtype": "bfloat16"}}}),
        ("fp32", {"precision": "32-true"}),
        ("fp32", {"mixed_precision": "no"}),
        ("fp32", {"fp16": False, "bf16": False}),
        ("fp64", {"precision": 64}),
        (None, {"fp16": False}),
        (None, {"dtype": "int8"}),
        # The dtype of the weights next to a flag, and an unknown dtype.
        ("bf16", {"bf16": True, "torch_dtype": "float32"}),
        ("fp32", {"bf16": False, "torch_dtype": "float32"}),
        ("bf16", {"fp16": True, "dtype": "bf16"}),
        ("fp16", {"dtype": "auto", "fp16": True}),
        # A section that is switched off tells nothing.
        ("fp32", {"amp": {"enabled": False, "dtype": "float16"}, "model": {"dtype": "fp32"}}),
        ("fp16", {"amp": {"enabled": True, "dtype": "float16"}, "model": {"dtype": "fp32"}}),
        ("bf16", {"fp16": {"enabled": False, "loss_scale": 128}, "bf16": {"enabled": True}}),
    ],
    # The outer of two values goes first.
    "peak_lr": [(2.0, {"model": {"lr": 1.0}, "lr": 2.0}), (3e-4, {"learning_rate": "3e-4"})],
    "static_loss_scale": [
        (True, {"loss_scale": 1024.0}),
        (False, {"loss_scale": "dynamic"}),
        (True, {"loss_scale": "static"}),
        (None, {"loss_scale": None}),
        (True, {"static_loss_scale": "true", "loss_scale": 0}),
        (None, {"fp16": {"enabled": False, "loss_scale": 128}}),
    ],
    # A null says that gradients are not clipped.
    "grad_clip": [
        (0.0, {"grad_clip": None}),
        (1.0, {"grad_clip": None, "max_grad_norm": 1.0}),
        (None, {"grad_clip": "auto"}),
    ],
    "total_steps": [
        *((100_000, {"max_steps": steps}) for steps in ("100k", "1e5", "0.1M")),
        (5000, {"eval": {"steps": 10}, "train": {"steps": 5000}}),
    ],
    # Hydra, torchtune, Lightning.
    "optimizer": [
        ("torch.optim.AdamW", {"optimizer": {name: "torch.optim.AdamW"}})
        for name in ("_target_", "_component_", "class_path")
    ],
    "schedule": [("OneCycle", {"scheduler": {"_target_": "OneCycle"}})],
    "batch_size": [
        (8, {"eval": {"batch_size": 64}, "train": {"batch_size": 8}}),
        (None, {"validation_ds": {"global_batch_size": 64}}),
    ],
    # Not the epsilon of a norm layer or, in TRL, of a policy update.
    "epsilon": [
        (1e-8, {"model": {"layer_norm": {"eps": 1e-5}}, "optimizer": {"eps": 1e-8}}),
        (None, {"rms_norm": {"eps": 1e-5}}),
        (1e-8, {"epsilon": 0.2, "adam_epsilon": 1e-8}),
    ],
    # A classifier's loss is over its labels, not over the vocabulary of its texts. Megatron writes
    # its default number of classes for a language model as well.
    "vocab_size": [
        (3, classifier("ForSequenceClassification", 3)),
        (9, classifier("ForTokenClassification", 9)),
        (None, classifier("ForSequenceClassification", 1)),
        (3, classifier("Model", 3, "single_label_classification")),
        (None, classifier("Model", 3, "multi_label_classification")),
        (30522, classifier("ForMaskedLM", 3)),
        (30522, {"vocab_size": "30522", "problem_type": "None"}),
        (
            50304,
            {"num_classes": 1000, "padded_vocab_size": 50304, "make_vocab_size_divisible_by": 128},
        ),
    ],
    "checkpoint_every": [
        (7, {"save_steps": 5, "checkpoint_every": 7}),
        (None, {"checkpoint": {"enable_checkpoint": False, "interval": 500}}),
        (500, {"checkpoint": {"enable": True, "interval": 500}}),
        (None, {"trainer": {"enable_checkpointing": False}, "every_n_train_steps": 500}),
        (500, {"save_steps": 500, "save_strategy": "IntervalStrategy.STEPS"}),
        (None, {"save_steps": 500, "save_strategy": "epoch"}),
        (None, {"save_steps": 500, "save_strategy": None}),
    ],
    # Zero warm-up steps give way to a warm-up ratio.
    "warmup_steps": [
        (None, {"warmup_steps": 0, "warmup_ratio": 0.03}),
        (None, {"lr_warmup_iters": 0, "lr_warmup_fraction": 0.01}),
        (0, {"warmup_steps": 0, "warmup_ratio": 0.0}),
        (50, {"warmup_steps": 50, "warmup_ratio": 0.03}),
    ],
}


@pytest.mark.parametrize(
    ("field", "value", "raw"),
    [(field, value, raw) for field, rows in HF_CONFIGS.items() for value, raw in rows],
    ids=str,
)
def test_configurations_give_manifest_fields(field, value, raw):
    assert getattr(parse_manifest(raw), field) == value


def test_unknown_keys_are_kept():
    manifest = parse_manifest({"dtype": "fp16", "model": {"layers": 12, "names": ["a"]}, "x": None})
    assert manifest.unknown == {"model.layers": 12, "model.names": ["a"], "x": None}


def make_run(unit="step", **config):
    source = Source(name="run", format="memory", records=3)
    return History(series={}, source=source, unit=unit, config=config)


@pytest.mark.parametrize(
    ("fields", "run", "every"),
    [
        ({"num_train_epochs": 3, "max_steps": 3000}, make_run(), 1000),
        # The settings that the HF Trainer writes to the log; its cadence does not count.
        ({}, make_run(num_train_epochs=3, max_steps=3000, save_steps=500), 1000),
        ({}, make_run("epoch"), 1),
        # A fractional number of epochs or steps gives no epoch length.
        ({"num_train_epochs": 2.5, "max_steps": 3000}, make_run(), None),
        ({"num_train_epochs": 3, "max_steps": 1000}, make_run(), None),
        ({"num_train_epochs": 3}, make_run(), None),
        ({"max_steps": 3000}, make_run(), None),
    ],
    ids=["set", "logged", "log of epochs", "half", "uneven", "no steps", "no epochs"],
)
def test_epoch_checkpoints_use_the_epoch_length_as_cadence(fields, run, every):
    given = parse_manifest({"save_strategy": "epoch", "save_steps": 500, **fields})
    manifest = infer(given.completed(run.config), run)
    assert manifest.checkpoint_every == every
    assert ("checkpoint_every" in manifest.inferred) is (every is not None)
    by_hand = given.override({"checkpoint_every": 7}).completed(run.config)
    assert infer(by_hand, run).checkpoint_every == 7


@pytest.mark.parametrize(
    "raw",
    [
        {"loss_scaling": "static"},
        {"fp16": {"loss_scale": 128}},
        {"fp16": {"loss_scale": None}},
        {"bf16": True, "fp16": False},
        {"grad_clip": None},
        {"vocab_size": None},
        {"save_strategy": "epoch", "save_steps": 500},
        {"learning_rate": 0.1, "lr": 0.1},
        {"model": {"seq_len": 1024}},
        {"eval_steps": 100, "eval_strategy": "steps"},
        {"warmup_ratio": 0.1, "num_train_epochs": 3, "lr_decay_iters": 1000},
        {"num_classes": 1000, "make_vocab_size_divisible_by": 128},
        {"global_rank": 3},
    ],
    ids=str,
)
def test_other_known_keys_are_kept_and_not_reported(raw):
    manifest = parse_manifest(raw)
    assert manifest.unknown == {}
    assert Manifest().fill_gaps(manifest).also == manifest.also
    assert known(manifest) or manifest.also


@pytest.mark.parametrize(
    "raw",
    [
        {"checkpoint_every": 0},
        {"checkpoint_every": -5},
        {"checkpoint_every": 2.5},
        {"checkpoint_every": True},
        {"checkpoint_every": "often"},
        {"checkpoint_every": float("nan")},
        {"checkpoint_every": float("inf")},
        {"checkpoint_every": [100, 200]},
        {"optimizer": 3},
        {"optimizer": ""},
        {"lr": "auto"},
        {"gradient_clipping": "auto"},
        {"lr": 10**400},
        {"seq_len": "auto", "loss_scale": "auto"},
        *({"max_steps": steps} for steps in ("k", "1.0005k", "1e3k", "10 k", "2km", "-1k")),
    ],
    ids=lambda raw: str(raw)[:40],
)
def test_values_that_cannot_be_are_unknown_and_never_fatal(raw):
    manifest = parse_manifest(raw)
    assert known(manifest) == {}
    assert manifest.unknown == raw


# Given by hand.


def test_overrides_replace_the_manifest():
    manifest = parse_manifest({"dtype": "fp32", "lr": 1.0})
    changed = manifest.override({"dtype": "bf16"}).override({"checkpoint_every": "50"})
    assert (changed.dtype, changed.peak_lr, changed.checkpoint_every) == ("bf16", 1.0, 50)
    assert changed.overridden == ("dtype", "checkpoint_every")
    assert manifest.dtype == "fp32"


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("dtyp", "fp16", "unknown manifest field 'dtyp'; did you mean dtype?"),
        ("unknown", "fp16", "unknown manifest field 'unknown'"),
        ("dtype", "int8", "dtype must be fp16, bf16, fp8 or fp32, not 'int8'"),
        ("checkpoint_every", 0, "checkpoint_every must be a number of steps, not 0"),
        ("static_loss_scale", "maybe", "static_loss_scale must be true or false, not 'maybe'"),
    ],
)
def test_overrides_that_cannot_be(name, value, message):
    with pytest.raises(ManifestError) as caught:
        Manifest().override({name: value})
    assert str(caught.value).startswith(message)


# Files.


def test_json_and_toml_give_the_same_manifest(tmp_path):
    (tmp_path / "m.json").write_text("\ufeff" + json.dumps(DEEPSPEED), encoding="utf-8")
    (tmp_path / "m.toml").write_text("lr = 0.1\n[fp16]\nenabled = true\n", encoding="utf-8")
    first, second = read_manifest(tmp_path / "m.json"), read_manifest(str(tmp_path / "m.toml"))
    assert (first.dtype, second.dtype, second.peak_lr) == ("fp16", "fp16", 0.1)
    assert second.path == str(tmp_path / "m.toml")


def laughs():
    """Return a few lines of YAML that refer to one another a thousand million times."""
    lines = ["a0: &a0 {x: 1}"]
    lines += [
        f"a{n}: &a{n} {{{', '.join(f'k{k}: *a{n - 1}' for k in range(9))}}}" for n in range(1, 10)
    ]
    return "\n".join(lines)


def merged(levels):
    """Return a few lines of YAML that take what they refer to twice."""
    lines = ["a0: &a0 {x: 1}"]
    lines += [f"a{n}: &a{n} {{<<: [*a{n - 1}, *a{n - 1}], k{n}: 1}}" for n in range(1, levels)]
    return "\n".join(lines)


NO_YAML = [
    ("a: [1", "not valid YAML (while parsing a flow sequence"),
    ("- 1\n", "a manifest is one JSON object"),
    ("", "empty; a manifest is one JSON object"),
    ("a: &a {b: *a}", "not valid YAML (more values than a configuration has)"),
    (laughs(), "not valid YAML (more values than a configuration has)"),
    ("[" * 5000, "not valid YAML ("),
    ("a: !!python/object/apply:os.system {[1]: 2}", "not valid YAML ("),
    ("a: 2026-99-99 99:99:99", "not valid YAML ('2026-99-99 99:99:99' is not of type timestamp in"),
    (merged(40), "not valid YAML (more values than a configuration has)"),
    ("a: &a {<<: *a}", "not valid YAML (more values than a configuration has)"),
    ('lr: 1\na: !!bool "abc"', "not valid YAML ('abc' is not of type bool in"),
    ('a: !!timestamp "abc"', "'abc' is not of type timestamp in"),
    ('a: [{b: !!float ""}]', "'' is not of type float in"),
    ("a: 0x" + "f" * 5000, "a number of more than 1000 digits)"),
    ("a: " + "1:" * 5000 + "1", "a number of more than 1000 digits)"),
    ("{" * 200 + "}" * 200, "not valid YAML ("),
]


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        (
            "m.json",
            b"[1, 2]",
            'a manifest is one JSON object such as {"dtype": "fp16"}, not a list',
        ),
        ("m.json", b"null", "not null"),
        ("m.json", b'{"dtype": "fp16"', "not valid JSON (Expecting ',' delimiter"),
        ("m.json", b"\n", "empty; a manifest is one JSON object such as"),
        ("m.json", b"[" * 100_000, "not valid JSON ("),
        ("m.json", b'{"seed": ' + b"9" * 5000 + b"}", "not valid JSON ("),
        ("m.json", b"\x00\xff\xfe\x80", "not a text file; a manifest is one JSON object"),
        ("m.toml", b"lr = ", "not valid TOML ("),
        ("m.toml", b"a = " + b"[" * 2000, "not valid TOML ("),
        ("m.toml", b"a." * 3000 + b"a = 1", "nested more than 100 levels deep)"),
        ("m.toml", b"a = 0x" + b"f" * 5000, "a number of more than 1000 digits)"),
        *(("m.yaml", text.encode(), message) for text, message in NO_YAML),
    ],
    ids=lambda value: value[-24:] if isinstance(value, bytes) else None,
)
def test_files_that_are_not_manifests(tmp_path, name, content, message):
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(ManifestError) as caught:
        read_manifest(path)
    assert str(caught.value).startswith(f"{path}: ")
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("name", "expected"),
    [("none.json", "; check the path"), (".", "a folder; name the manifest in it")],
)
def test_files_that_cannot_be_read(tmp_path, name, expected):
    with pytest.raises(ManifestError, match=expected):
        read_manifest(tmp_path / name)


YAML = """
learning_rate: 1e-4  # YAML 1.1 takes this for a word
trainer: &trainer
  precision: 16-mixed
  max_steps: 1000
again: *trainer
optimizer: !!python/object:torch.optim.AdamW {eps: 1}
shape: !!python/tuple [1, 2]
path: !!python/object/apply:pathlib.Path [run]
device: !!python/name:torch.device cuda
"""


def test_yaml_is_read(tmp_path):
    (tmp_path / "hparams.yaml").write_text(YAML, encoding="utf-8")
    manifest = read_manifest(tmp_path / "hparams.yaml")
    assert (manifest.peak_lr, manifest.dtype, manifest.total_steps) == (1e-4, "fp16", 1000)
    assert manifest.unknown["shape"] == [1, 2]
    assert manifest.unknown["device"] == "cuda"


def test_yaml_of_wandb_is_read(tmp_path):
    text = "wandb_version: 1\nlr:\n  desc: null\n  value: 0.1\nopt:\n  value: {fp16: true}\n"
    (tmp_path / "config.yaml").write_text(text, encoding="utf-8")
    manifest = read_manifest(tmp_path / "config.yaml")
    assert (manifest.peak_lr, manifest.dtype) == (0.1, "fp16")


def test_yaml_that_takes_one_mapping_into_another(tmp_path):
    path = tmp_path / "m.yaml"
    path.write_text(f"{merged(10)}\nrun: {{<<: *a9, lr: 0.1}}\n", encoding="utf-8")
    manifest = read_manifest(path)
    assert manifest.peak_lr == 0.1
    assert [manifest.unknown[name] for name in ("run.x", "run.k1", "run.k9")] == [1, 1, 1]


def test_endless_nesting_stays_one_value():
    deep = {"lr": 1.0}
    for _ in range(500):
        deep = {"a": deep}
    assert parse_manifest(deep).peak_lr is None
    assert len(parse_manifest(deep).unknown) == 1


def test_sidecar_files_fill_gaps_in_a_manifest():
    first = parse_manifest({"dtype": "fp16", "x": 1}, "a.json")
    both = first.fill_gaps(parse_manifest({"dtype": "bf16", "lr": 0.1, "x": 2, "y": 3}, "b.json"))
    assert (both.dtype, both.peak_lr, both.path) == ("fp16", 0.1, "a.json, b.json")
    assert both.unknown == {"x": 1, "y": 3}
    assert Manifest().fill_gaps(Manifest()) == Manifest()


# Read off the log.


@pytest.mark.parametrize(
    ("scales", "dtype"),
    [
        ([65536.0, 65536.0, 32768.0], "fp16"),
        ([65536.0] * 3, "fp16"),
        ([1.0] * 3, None),
        ([65536.0], None),
        ([float("nan"), 1.0, float("inf")], None),
        ([], None),
        ([0.0, 1e308, -1e308], "fp16"),
    ],
)
def test_a_loss_scale_other_than_1_means_fp16(scales, dtype):
    steps, values = np.arange(len(scales)), np.array(scales, np.float64)
    scale = Series(role="loss_scale", column="scale", steps=steps, values=values)
    run = replace(make_run(), series={"loss_scale": scale})
    manifest = infer(Manifest(), run)
    assert manifest.dtype == dtype
    assert ("dtype" in manifest.inferred) is (dtype is not None)
    assert infer(Manifest(dtype="bf16"), run) == Manifest(dtype="bf16")


@pytest.mark.parametrize("value", ["fp8", "float8", "FP8-hybrid", "torch.float8_e4m3fn"])
def test_fp8_is_a_dtype(value):
    assert parse_manifest({"dtype": value}).dtype == "fp8"
