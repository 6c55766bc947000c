"""Settings that differ: which of them can explain different results."""

import numpy as np
import pytest

import stabdiag
from stabdiag.model.comparison import Relevance

STEPS = np.arange(80)
LOSS = {"step": STEPS, "loss": 1 + 3 * np.exp(-STEPS / 40)}
OTHER = {"step": STEPS, "loss": 1 + 3 * np.exp(-STEPS / 30)}


def compare_settings(settings, other_settings, *, same=False, **options):
    manifests = [{"seed": 1, **settings}, {"seed": 1, **other_settings}]
    return stabdiag.compare([LOSS, LOSS if same else OTHER], manifests=manifests, **options)


IDLE = [
    *("output_dir", "run_name", "name", "logging_dir", "save_steps", "wandb_project"),
    *("trainer.log_every", "checkpoint_every", "hostname", "timestamp", "git.tags"),
    *("experiment_name", "report_to", "logger.save_dir", "job_id", "started_at"),
]
CAUSES = [
    *("learning_rate", "optimizer.betas", "model.dropout", "data.path", "dataset"),
    *("num_workers", "warmup_steps", "weight_decay", "git_commit", "n_layers", "batch_size"),
    *("model_name", "model.name", "dataset_id", "load", "resume_from_checkpoint"),
    *("tokenizer", "adam_beta2", "gradient_accumulation_steps", "max_grad_norm"),
]


@pytest.mark.parametrize(
    ("key", "relevance", "slug"),
    [
        *((key, Relevance.CANNOT, "nondeterminism") for key in IDLE),
        *((key, Relevance.EXPLAINS, "config-differs") for key in CAUSES),
        *((key, Relevance.MAY, "config-differs") for key in ("frobnicate", "device", "eval_steps")),
    ],
)
def test_the_name_of_a_setting_decides_what_it_explains(key, relevance, slug):
    comparison = compare_settings({key: "1"}, {key: "2"})
    assert [part.relevance for part in comparison.differences] == [relevance]
    assert [part.slug for part in comparison.findings] == [slug]


@pytest.mark.parametrize(
    ("key", "kind", "relevance"),
    [
        ("load", "resume", Relevance.EXPECTED),
        ("seed", "seeds", Relevance.EXPECTED),
        ("seed", "reruns", Relevance.EXPLAINS),
        ("rank", "ranks", Relevance.EXPECTED),
    ],
)
def test_the_kind_of_comparison_decides_which_settings_may_differ(key, kind, relevance):
    assert compare_settings({key: 1}, {key: 2}, kind=kind).differences[0].relevance is relevance


@pytest.mark.parametrize("swap", [False, True])
def test_the_setting_that_differs_most_comes_first(swap):
    runs = [
        {"weight_decay": 0.1, "peak_lr": 2e-4, "optimizer": "adam", "seed": 1},
        {"weight_decay": 0.05, "peak_lr": 0.3, "optimizer": "sgd", "seed": 90210},
    ]
    differences = compare_settings(*(reversed(runs) if swap else runs)).differences
    assert [difference.key for difference in differences] == [
        "peak_lr",
        "optimizer",
        "weight_decay",
        "seed",
    ]


def test_another_spelling_is_not_a_difference():
    assert compare_settings({"learning_rate": 1e-3}, {"lr": "0.001"}).differences == ()


def test_a_setting_without_an_effect_is_a_note():
    diagnosis = compare_settings({"peak_lr": 1e-3}, {"peak_lr": 2e-3}, same=True).diagnosis
    assert (diagnosis.slug, diagnosis.severity) == ("config-differs", "note")


@pytest.mark.parametrize("key", ["wandb.api_key", "hf_token", "db.password", "SECRET"])
def test_secrets_are_not_shown(key):
    comparison = compare_settings({key: "abc"}, {key: "def"})
    assert set(comparison.differences[0].values.values()) == {"(not shown)"}
    assert "abc" not in comparison.to_json()


def test_runs_without_a_configuration_have_no_differences():
    comparison = stabdiag.compare([LOSS, OTHER], kind="reruns")
    assert comparison.differences == ()
    assert comparison.notes == ("no configuration is known for run 1, run 2",)


def test_runs_are_grouped_by_value_and_may_lack_a_setting():
    manifests = [{"seed": i, "peak_lr": 1e-3 * (i % 2), "note": "x" * 99} for i in range(9)]
    comparison = stabdiag.compare([LOSS] * 9, manifests=manifests)
    assert (
        "0 in run 1, run 3, run 5, run 7 and run 9, 0.001 in run 2, "
        in comparison.diagnosis.summary
    )
    comparison = compare_settings({"dropout": 0.1}, {})
    assert comparison.differences[0].values == {"run 1": 0.1, "run 2": None}
    assert "0.1 in run 1, not recorded in run 2" in comparison.diagnosis.summary
