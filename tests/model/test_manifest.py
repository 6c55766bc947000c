"""The manifest in the spellings of many frameworks."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from stabdiag.assemble.inputs import infer
from stabdiag.errors import ManifestError
from stabdiag.model.history import History, Series, Source
from stabdiag.model.manifest import KEYS, Manifest, parse_manifest, read_manifest

if TYPE_CHECKING:
    from pathlib import Path

HF = {
    "learning_rate": 5e-5,
    "warmup_steps": 100,
    "max_steps": 5000,
    "lr_scheduler_type": "cosine",
    "max_grad_norm": 1.0,
    "weight_decay": 0.01,
    "save_steps": 500,
    "optim": "adamw_torch",
    "per_device_train_batch_size": 8,
    "seed": 42,
    "fp16": False,
    "bf16": True,
}
MEGATRON = {
    "lr": 1.5e-4,
    "lr_warmup_iters": 2000,
    "train_iters": 500000,
    "lr_decay_style": "cosine",
    "clip_grad": 1.0,
    "weight_decay": 0.1,
    "save_interval": 1000,
    "optimizer": "adam",
    "global_batch_size": 512,
    "padded_vocab_size": 50304,
    "fp16": True,
    "bf16": False,
    "loss_scale": None,
    "loss_scale_window": 1000,
    "min_loss_scale": 1.0,
    "seed": 1234,
}
DEEPSPEED = {
    "train_batch_size": 256,
    "gradient_clipping": 1.0,
    "fp16": {"enabled": True, "loss_scale": 0, "loss_scale_window": 500, "min_loss_scale": 1},
    "optimizer": {"type": "AdamW", "params": {"lr": 3e-4, "weight_decay": 0.1}},
    "scheduler": {
        "type": "WarmupDecayLR",
        "params": {"warmup_num_steps": 100, "total_num_steps": 9000},
    },
}
LIGHTNING = {
    "trainer": {"precision": "16-mixed", "gradient_clip_val": 0.5, "max_steps": 1000},
    "model": {"optimizer": "sgd", "lr": 0.1},
    "checkpoint": {"every_n_train_steps": 200},
}
TORCHTITAN = {
    "optimizer": {"name": "AdamW", "lr": 3e-4},
    "lr_scheduler": {"warmup_steps": 200},
    "training": {"steps": 1000, "max_norm": 1.0, "mixed_precision_param": "bfloat16"},
    "checkpoint": {"interval": 500},
}
FAIRSEQ = {
    "common": {"fp16": True, "fp16_scale_window": 128, "seed": 7},
    "optimization": {"lr": [0.0005], "max_update": 9000, "clip_norm": 0.1},
    "lr_scheduler": {"_name": "inverse_sqrt", "warmup_updates": 400},
    "checkpoint": {"save_interval_updates": 250},
}
COMPOSER = {
    "max_duration": "4800ba",
    "save_interval": "1000ba",
    "precision": "amp_bf16",
    "optimizer": {"name": "decoupled_adamw", "lr": 6e-4},
    "scheduler": {"name": "cosine_with_warmup", "t_warmup": "100ba"},
    "algorithms": {"gradient_clipping": {"clipping_threshold": 1.0, "clipping_type": "norm"}},
    "eval_interval": "1ep",
}


def known(manifest: Manifest) -> dict[str, Any]:
    values = {key.name: getattr(manifest, key.name) for key in KEYS}
    return {name: value for name, value in values.items() if value is not None}


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        pytest.param(
            HF,
            {
                "dtype": "bf16",
                "optimizer": "adamw_torch",
                "peak_lr": 5e-5,
                "warmup_steps": 100,
                "total_steps": 5000,
                "schedule": "cosine",
                "grad_clip": 1.0,
                "weight_decay": 0.01,
                "checkpoint_every": 500,
                "batch_size": 8,
                "seed": 42,
            },
            id="HF Trainer",
        ),
        pytest.param(
            MEGATRON,
            {
                "dtype": "fp16",
                "optimizer": "adam",
                "peak_lr": 1.5e-4,
                "warmup_steps": 2000,
                "total_steps": 500000,
                "schedule": "cosine",
                "grad_clip": 1.0,
                "weight_decay": 0.1,
                "checkpoint_every": 1000,
                "vocab_size": 50304,
                "batch_size": 512,
                "seed": 1234,
                "loss_scale_window": 1000,
                "loss_scale_min": 1.0,
            },
            id="Megatron",
        ),
        pytest.param(
            DEEPSPEED,
            {
                "dtype": "fp16",
                "optimizer": "AdamW",
                "peak_lr": 3e-4,
                "warmup_steps": 100,
                "total_steps": 9000,
                "schedule": "WarmupDecayLR",
                "grad_clip": 1.0,
                "weight_decay": 0.1,
                "batch_size": 256,
                "loss_scale_window": 500,
                "loss_scale_min": 1.0,
                "static_loss_scale": False,
            },
            id="DeepSpeed",
        ),
        pytest.param(
            LIGHTNING,
            {
                "dtype": "fp16",
                "optimizer": "sgd",
                "peak_lr": 0.1,
                "total_steps": 1000,
                "grad_clip": 0.5,
                "checkpoint_every": 200,
            },
            id="Lightning",
        ),
        pytest.param(
            TORCHTITAN,
            {
                "dtype": "bf16",
                "optimizer": "AdamW",
                "peak_lr": 3e-4,
                "warmup_steps": 200,
                "total_steps": 1000,
                "grad_clip": 1.0,
                "checkpoint_every": 500,
            },
            id="torchtitan",
        ),
        pytest.param(
            FAIRSEQ,
            {
                "dtype": "fp16",
                "schedule": "inverse_sqrt",
                "peak_lr": 0.0005,
                "warmup_steps": 400,
                "total_steps": 9000,
                "grad_clip": 0.1,
                "checkpoint_every": 250,
                "loss_scale_window": 128,
                "seed": 7,
            },
            id="fairseq",
        ),
        pytest.param(
            COMPOSER,
            {
                "dtype": "bf16",
                "optimizer": "decoupled_adamw",
                "peak_lr": 6e-4,
                "warmup_steps": 100,
                "total_steps": 4800,
                "schedule": "cosine_with_warmup",
                "grad_clip": 1.0,
                "checkpoint_every": 1000,
            },
            id="Composer",
        ),
    ],
)
def test_frameworks(raw: dict[str, Any], expected: dict[str, Any]) -> None:
    assert known(parse_manifest(raw)) == expected


@pytest.mark.parametrize(
    ("dtype", "raw"),
    [
        ("fp16", {"dtype": "fp16"}),
        ("fp16", {"torch_dtype": "torch.float16"}),
        ("fp16", {"mixed_precision": "fp16"}),
        ("fp16", {"precision": 16}),
        ("fp16", {"precision": "16"}),
        ("fp16", {"trainer": {"precision": "16-true"}}),
        ("fp16", {"precision": "half"}),
        ("fp16", {"precision": "mixed_float16"}),
        ("fp16", {"opt_level": "O1", "dtype": "float32"}),
        ("fp32", {"opt_level": "O0"}),
        ("bf16", {"dtype": "mixed_bfloat16"}),
        ("fp16", {"fp16": True}),
        ("fp16", {"fp16": {"enabled": True}}),
        ("fp16", {"fp16.enabled": True}),
        ("fp16", {"train": {"fp16": "true"}}),
        ("bf16", {"dtype": "bfloat16"}),
        ("bf16", {"dtype": "jnp.bfloat16"}),
        ("bf16", {"precision": "bf16-mixed"}),
        ("bf16", {"precision": "amp_bf16"}),
        ("bf16", {"bf16": True, "fp16": False}),
        ("bf16", {"bf16": {"enabled": True}, "fp16": {"enabled": False}}),
        ("bf16", {"model": {"config": {"torch_dtype": "bfloat16"}}}),
        ("fp32", {"dtype": "float32"}),
        ("fp32", {"precision": "32-true"}),
        ("fp32", {"mixed_precision": "no"}),
        ("fp32", {"fp16": False, "bf16": False}),
        ("fp64", {"precision": 64}),
        (None, {"fp16": False}),
        (None, {"dtype": "int8"}),
        (None, {"dtype": None}),
        (None, {}),
    ],
    ids=str,
)
def test_spellings_of_the_dtype(dtype: str | None, raw: dict[str, Any]) -> None:
    assert parse_manifest(raw).dtype == dtype


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        # The dtype of the weights beside a flag, and an unknown one.
        ({"bf16": True, "torch_dtype": "float32"}, {"dtype": "bf16"}),
        ({"bf16": False, "torch_dtype": "float32"}, {"dtype": "fp32"}),
        ({"fp16": True, "dtype": "bf16"}, {"dtype": "bf16"}),
        ({"dtype": "auto", "fp16": True}, {"dtype": "fp16"}),
        # The outer of two values, and our own name, go first.
        ({"model": {"lr": 1.0}, "lr": 2.0}, {"peak_lr": 2.0}),
        ({"save_steps": 5, "checkpoint_every": 7}, {"checkpoint_every": 7}),
        # A static loss scale.
        ({"loss_scale": 1024.0}, {"static_loss_scale": True}),
        ({"loss_scale": "dynamic"}, {"static_loss_scale": False}),
        ({"loss_scale": "static"}, {"static_loss_scale": True}),
        ({"loss_scale": None}, {}),
        ({"static_loss_scale": "true", "loss_scale": 0}, {"static_loss_scale": True}),
        ({"fp16": {"loss_scale": 128}}, {"static_loss_scale": True}),
        ({"fp16": {"loss_scale": 0}}, {"static_loss_scale": False}),
        # A null says that gradients are not clipped.
        ({"grad_clip": None}, {"grad_clip": 0.0}),
        ({"grad_clip": None, "max_grad_norm": 1.0}, {"grad_clip": 1.0}),
        ({"grad_clip": "auto"}, {}),
        # Counts in thousands, and numbers as words.
        ({"max_steps": "100k"}, {"total_steps": 100_000}),
        ({"max_steps": "1.5M"}, {"total_steps": 1_500_000}),
        ({"max_steps": "0.3K"}, {"total_steps": 300}),
        ({"max_steps": "1e5"}, {"total_steps": 100_000}),
        ({"learning_rate": "3e-4", "warmup": 0}, {"peak_lr": 3e-4, "warmup_steps": 0}),
        # Hydra.
        (
            {"optimizer": {"_target_": "torch.optim.AdamW"}, "scheduler": {"_target_": "OneCycle"}},
            {"optimizer": "torch.optim.AdamW", "schedule": "OneCycle"},
        ),
        # Labels of a classifier.
        (
            {"architectures": ["ViTForImageClassification"], "id2label": {"0": "a", "1": "b"}},
            {"vocab_size": 2},
        ),
    ],
    ids=str,
)
def test_values_by_field(raw: dict[str, Any], expected: dict[str, Any]) -> None:
    assert known(parse_manifest(raw)) == expected


def test_unknown_keys_are_kept() -> None:
    manifest = parse_manifest({"dtype": "fp16", "model": {"layers": 12, "names": ["a"]}, "x": None})
    assert manifest.unknown == {"model.layers": 12, "model.names": ["a"], "x": None}


def _of_epochs() -> History:
    source = Source(name="run", format="memory", records=3)
    return History(series={}, source=source, unit="epoch")


def _telling(**config: object) -> History:
    source = Source(name="run", format="memory", records=3)
    return History(series={}, source=source, config=config)


@pytest.mark.parametrize(
    ("told", "run", "every"),
    [
        ({"num_train_epochs": 3, "max_steps": 3000}, _telling(), 1000),
        # What the HF Trainer writes of a run, with a cadence that does not count, lies in the log.
        ({}, _telling(num_train_epochs=3, max_steps=3000, save_steps=500), 1000),
        ({}, _of_epochs(), 1),
        # What is no whole number of epochs, or of steps, tells nothing of their length.
        ({"num_train_epochs": 2.5, "max_steps": 3000}, _telling(), None),
        ({"num_train_epochs": 3, "max_steps": 1000}, _telling(), None),
        ({"num_train_epochs": 3}, _telling(), None),
        ({"max_steps": 3000}, _telling(), None),
    ],
    ids=["told", "logged", "log of epochs", "half", "uneven", "no steps", "no epochs"],
)
def test_where_each_epoch_ends_in_a_checkpoint_its_length_is_the_cadence(
    told: dict[str, object], run: History, every: int | None
) -> None:
    beside = parse_manifest({"save_strategy": "epoch", "save_steps": 500, **told})
    manifest = infer(beside.completed(run.config), run)
    assert manifest.checkpoint_every == every
    assert ("checkpoint_every" in manifest.inferred) is (every is not None)
    by_hand = beside.override({"checkpoint_every": 7}).completed(run.config)
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
def test_what_is_read_is_not_called_unknown_and_is_kept(raw: dict[str, Any]) -> None:
    manifest = parse_manifest(raw)
    assert manifest.unknown == {}
    assert Manifest().beside(manifest).also == manifest.also
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
def test_values_that_cannot_be_are_unknown_and_never_fatal(raw: dict[str, Any]) -> None:
    manifest = parse_manifest(raw)
    assert known(manifest) == {}
    assert manifest.unknown == raw


@pytest.mark.parametrize(
    ("strategy", "every"),
    [("steps", 500), ("IntervalStrategy.STEPS", 500), ("epoch", None), ("no", None), (None, None)],
)
def test_the_steps_between_checkpoints_count_where_they_are_saved_by_steps(
    strategy: str | None, every: int | None
) -> None:
    raw = {"save_steps": 500, "save_strategy": strategy}
    assert parse_manifest(raw).checkpoint_every == every


def _classifier(kind: str, labels: int, problem: str | None = None) -> dict[str, Any]:
    """Return what the HF library writes of the labels that a model has."""
    names = {str(label): f"LABEL_{label}" for label in range(labels)}
    return {"architectures": [f"Bert{kind}"], "id2label": names, "problem_type": problem}


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        # Megatron writes its default number of classes for a language model as well.
        (
            {"num_classes": 1000, "padded_vocab_size": 50304, "make_vocab_size_divisible_by": 128},
            {"vocab_size": 50304},
        ),
        # The weights are in fp32 and cast: torchtitan.
        (
            {"training": {"dtype": "float32", "mixed_precision_param": "bfloat16"}},
            {"dtype": "bf16"},
        ),
        ({"dtype": "fp32", "mixed_precision": "no"}, {"dtype": "fp32"}),
        (
            {"eval": {"batch_size": 64, "steps": 10}, "train": {"batch_size": 8, "steps": 5000}},
            {"batch_size": 8, "total_steps": 5000},
        ),
        ({"validation_ds": {"global_batch_size": 64}}, {}),
        ({"model": {"layer_norm": {"eps": 1e-5}}, "optimizer": {"eps": 1e-8}}, {"epsilon": 1e-8}),
        ({"rms_norm": {"eps": 1e-5}}, {}),
        # A classifier's loss is over its labels, not over the vocabulary of its texts.
        ({"vocab_size": 30522, **_classifier("ForSequenceClassification", 3)}, {"vocab_size": 3}),
        ({"vocab_size": 30522, **_classifier("ForTokenClassification", 9)}, {"vocab_size": 9}),
        ({"vocab_size": 30522, **_classifier("ForSequenceClassification", 1)}, {}),
        (
            {"vocab_size": 30522, **_classifier("Model", 3, "single_label_classification")},
            {"vocab_size": 3},
        ),
        ({"vocab_size": 30522, **_classifier("Model", 3, "multi_label_classification")}, {}),
        ({"vocab_size": 30522, **_classifier("ForMaskedLM", 3)}, {"vocab_size": 30522}),
        ({"vocab_size": "30522", "problem_type": "None"}, {"vocab_size": 30522}),
        # The epsilon of a policy's update is not Adam's: TRL.
        ({"epsilon": 0.2, "adam_epsilon": 1e-8}, {"epsilon": 1e-8}),
        (
            {"optimizer": {"_component_": "torch.optim.AdamW", "lr": 2e-5}, "clip_grad_norm": 0.7},
            {"optimizer": "torch.optim.AdamW", "peak_lr": 2e-5, "grad_clip": 0.7},
        ),
        (
            {"seed_everything": 42, "optimizer": {"class_path": "torch.optim.SGD"}},
            {"seed": 42, "optimizer": "torch.optim.SGD"},
        ),
    ],
    ids=str,
)
def test_of_two_that_are_told_the_one_that_is_meant(
    raw: dict[str, Any], expected: dict[str, Any]
) -> None:
    assert known(parse_manifest(raw)) == expected


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        ({"checkpoint": {"enable_checkpoint": False, "interval": 500}}, {}),
        ({"checkpoint": {"enable": True, "interval": 500}}, {"checkpoint_every": 500}),
        ({"trainer": {"enable_checkpointing": False}, "every_n_train_steps": 500}, {}),
        ({"amp": {"enabled": False, "dtype": "float16"}, "model": {"dtype": "fp32"}}, "fp32"),
        ({"amp": {"enabled": True, "dtype": "float16"}, "model": {"dtype": "fp32"}}, "fp16"),
        ({"fp16": {"enabled": False, "loss_scale": 128}, "bf16": {"enabled": True}}, "bf16"),
    ],
    ids=str,
)
def test_what_is_switched_off_tells_nothing(
    raw: dict[str, Any], expected: dict[str, Any] | str
) -> None:
    wanted = {"dtype": expected} if isinstance(expected, str) else expected
    assert known(parse_manifest(raw)) == wanted


@pytest.mark.parametrize(
    ("raw", "steps"),
    [
        ({"warmup_steps": 0, "warmup_ratio": 0.03}, None),
        ({"lr_warmup_iters": 0, "lr_warmup_fraction": 0.01}, None),
        ({"warmup_steps": 0, "warmup_ratio": 0.0}, 0),
        ({"warmup_steps": 50, "warmup_ratio": 0.03}, 50),
    ],
    ids=str,
)
def test_no_steps_of_warm_up_are_none_beside_a_share(
    raw: dict[str, Any], steps: int | None
) -> None:
    assert parse_manifest(raw).warmup_steps == steps


# Given by hand.


def test_override_by_hand() -> None:
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
        ("dtype", "fp8", "dtype wants fp16, bf16 or fp32, not 'fp8'"),
        ("checkpoint_every", 0, "checkpoint_every wants a number of steps, not 0"),
        ("static_loss_scale", "maybe", "static_loss_scale wants true or false, not 'maybe'"),
    ],
)
def test_overrides_that_cannot_be(name: str, value: object, message: str) -> None:
    with pytest.raises(ManifestError) as caught:
        Manifest().override({name: value})
    assert str(caught.value).startswith(message)


# Files.


def test_json_and_toml(tmp_path: Path) -> None:
    (tmp_path / "m.json").write_text("\ufeff" + json.dumps(DEEPSPEED), encoding="utf-8")
    (tmp_path / "m.toml").write_text("lr = 0.1\n[fp16]\nenabled = true\n", encoding="utf-8")
    first, second = read_manifest(tmp_path / "m.json"), read_manifest(str(tmp_path / "m.toml"))
    assert (first.dtype, second.dtype, second.peak_lr) == ("fp16", "fp16", 0.1)
    assert second.path == str(tmp_path / "m.toml")


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        (
            "m.json",
            b"[1, 2]",
            'a manifest is one JSON object such as {"dtype": "fp16"}, not a list',
        ),
        ("m.json", b"3", "not a number"),
        ("m.json", b"true", "not true or false"),
        ("m.json", b'"fp16"', "not a string"),
        ("m.json", b"null", "not null"),
        ("m.json", b'{"dtype": "fp16"', "not valid JSON (Expecting ',' delimiter"),
        ("m.json", b"\n", "empty; a manifest is one JSON object such as"),
        ("m.yaml", b"", "empty; a manifest is one JSON object such as"),
        ("m.json", b"[" * 100_000, "not valid JSON ("),
        ("m.json", b'{"seed": ' + b"9" * 5000 + b"}", "not valid JSON ("),
        ("m.json", b"\x00\xff\xfe\x80", "not a text file; a manifest is one JSON object"),
        ("m.toml", b"lr = ", "not valid TOML ("),
        ("m.toml", b"\xff", "not a text file"),
        ("m.toml", b"a = " + b"[" * 2000, "not valid TOML ("),
        ("m.toml", b"a." * 3000 + b"a = 1", "nested more than 100 levels deep)"),
        ("m.toml", b"a = 0x" + b"f" * 5000, "a number of more than 1000 digits)"),
    ],
    ids=lambda value: value[:20] if isinstance(value, bytes) else None,
)
def test_files_that_are_no_manifest(
    tmp_path: Path, name: str, content: bytes, message: str
) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(ManifestError) as caught:
        read_manifest(path)
    assert str(caught.value).startswith(f"{path}: ")
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("name", "told"),
    [("none.json", "; check the path"), (".", "a folder; name the manifest in it")],
)
def test_files_that_cannot_be_read(tmp_path: Path, name: str, told: str) -> None:
    with pytest.raises(ManifestError, match=told):
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


def test_yaml(tmp_path: Path) -> None:
    (tmp_path / "hparams.yaml").write_text(YAML, encoding="utf-8")
    manifest = read_manifest(tmp_path / "hparams.yaml")
    assert (manifest.peak_lr, manifest.dtype, manifest.total_steps) == (1e-4, "fp16", 1000)
    assert manifest.unknown["shape"] == [1, 2]
    assert manifest.unknown["device"] == "cuda"


def test_yaml_of_wandb(tmp_path: Path) -> None:
    text = "wandb_version: 1\nlr:\n  desc: null\n  value: 0.1\nopt:\n  value: {fp16: true}\n"
    (tmp_path / "config.yaml").write_text(text, encoding="utf-8")
    manifest = read_manifest(tmp_path / "config.yaml")
    assert (manifest.peak_lr, manifest.dtype) == (0.1, "fp16")


def laughs() -> str:
    """Return a few lines of YAML that refer to one another a thousand million times."""
    lines = ["a0: &a0 {x: 1}"]
    lines += [
        f"a{n}: &a{n} {{{', '.join(f'k{k}: *a{n - 1}' for k in range(9))}}}" for n in range(1, 10)
    ]
    return "\n".join(lines)


def merged(levels: int) -> str:
    """Return a few lines of YAML that take what they refer to twice."""
    lines = ["a0: &a0 {x: 1}"]
    lines += [f"a{n}: &a{n} {{<<: [*a{n - 1}, *a{n - 1}], k{n}: 1}}" for n in range(1, levels)]
    return "\n".join(lines)


def test_yaml_that_takes_one_mapping_into_another(tmp_path: Path) -> None:
    path = tmp_path / "m.yaml"
    path.write_text(f"{merged(10)}\nrun: {{<<: *a9, lr: 0.1}}\n", encoding="utf-8")
    manifest = read_manifest(path)
    assert manifest.peak_lr == 0.1
    assert [manifest.unknown[name] for name in ("run.x", "run.k1", "run.k9")] == [1, 1, 1]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: [1", "not valid YAML (while parsing a flow sequence"),
        ("- 1\n", "a manifest is one JSON object"),
        ("", "empty; a manifest is one JSON object"),
        ("a: &a {b: *a}", "not valid YAML (more values than a configuration has)"),
        (laughs(), "not valid YAML (more values than a configuration has)"),
        ("[" * 5000, "not valid YAML ("),
        ("a: !!python/object/apply:os.system {[1]: 2}", "not valid YAML ("),
        ("a: 2026-99-99 99:99:99", "not valid YAML ('2026-99-99 99:99:99' is no timestamp in"),
        (merged(40), "not valid YAML (more values than a configuration has)"),
        (
            f"a: &a {{{', '.join(f'k{n}: 1' for n in range(1000))}}}\nb: {{<<: [{'*a,' * 1000}]}}",
            "not valid YAML (more values than a configuration has)",
        ),
        ("a: &a {<<: *a}", "not valid YAML (more values than a configuration has)"),
        ('lr: 1\na: !!bool "abc"', "not valid YAML ('abc' is no bool in"),
        ('a: !!timestamp "abc"', "'abc' is no timestamp in"),
        ('a: !!int ""', "'' is no int in"),
        ('a: [{b: !!float ""}]', "'' is no float in"),
        ("a: 0x" + "f" * 5000, "a number of more than 1000 digits)"),
        ("a: " + "1:" * 5000 + "1", "a number of more than 1000 digits)"),
        ("{" * 200 + "}" * 200, "not valid YAML ("),
    ],
)
def test_yaml_that_is_no_manifest(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "m.yaml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(ManifestError) as caught:
        read_manifest(path)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_what_is_nested_without_end_stays_one_value() -> None:
    deep: dict[str, Any] = {"lr": 1.0}
    for _ in range(500):
        deep = {"a": deep}
    assert parse_manifest(deep).peak_lr is None
    assert len(parse_manifest(deep).unknown) == 1


def test_what_lies_beside_one_manifest_fills_its_gaps() -> None:
    first = parse_manifest({"dtype": "fp16", "x": 1}, "a.json")
    both = first.beside(parse_manifest({"dtype": "bf16", "lr": 0.1, "x": 2, "y": 3}, "b.json"))
    assert (both.dtype, both.peak_lr, both.path) == ("fp16", 0.1, "a.json, b.json")
    assert both.unknown == {"x": 1, "y": 3}
    assert Manifest().beside(Manifest()) == Manifest()


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
def test_a_loss_scale_other_than_1_means_fp16(scales: list[float], dtype: str | None) -> None:
    scale = Series(
        role="loss_scale",
        column="scale",
        steps=np.arange(len(scales)),
        values=np.array(scales, np.float64),
    )
    run = History(
        series={"loss_scale": scale}, source=Source(name="run", format="memory", records=3)
    )
    manifest = infer(Manifest(), run)
    assert manifest.dtype == dtype
    assert ("dtype" in manifest.inferred) is (dtype is not None)
    assert infer(Manifest(dtype="bf16"), run) == Manifest(dtype="bf16")
