"""Trials that are meant to break, settings outside their ranges, and first losses."""

import numpy as np
import pytest

import stabdiag

N = 300
AT = np.arange(N)
RNG = np.random.default_rng(0)
NOISE = 0.02 * RNG.standard_normal(N)


def log(loss, **columns):
    return {"step": np.arange(len(loss)), "loss": loss, **columns}


def findings_by_slug(run, manifest=None):
    report = stabdiag.diagnose(run, manifest=manifest or {})
    return {finding.slug: finding for finding in report.findings}


SWEEP = 1e-7 * 1e7 ** (AT / N)
BREAKS = (
    2.3
    - 1.5 / (1 + np.exp(-3 * (np.log10(SWEEP) + 4)))
    + np.maximum(5 * (SWEEP / 0.05) ** 1.5 - 5, 0)
    + NOISE
)


@pytest.mark.parametrize("ends_in_nan", [False, True])
def test_a_range_test_is_not_a_failure(ends_in_nan):
    loss = BREAKS.copy()
    if ends_in_nan:
        loss[-5:] = np.nan
    findings = findings_by_slug(log(loss, lr=SWEEP))
    assert list(findings) == ["lr-range-test"]
    assert findings["lr-range-test"].severity == "note"
    # The loss begins to rise at 0.05.
    assert 1e-4 < findings["lr-range-test"].actions[0].to < 5e-3


@pytest.mark.parametrize(
    "lr",
    [AT / N * 1e-3 + 1e-6, np.full(N, 1e-3), SWEEP[::-1], 1e-4 * 20 ** (AT / N)],
    ids=["warm-up", "constant", "decay", "small growth"],
)
def test_a_loss_that_breaks_under_another_rate_is_an_error(lr):
    findings = findings_by_slug(log(BREAKS, lr=lr))
    assert "lr-range-test" not in findings
    assert next(iter(findings.values())).severity == "error"


def test_a_schedule_named_after_a_range_test_may_be_linear():
    run = log(BREAKS, lr=AT / N + 1e-3)
    assert list(findings_by_slug(run, {"lr_scheduler_type": "LRRangeTest"})) == ["lr-range-test"]


MEMORIZED = 2.3 * np.exp(-AT / 30) + 1e-4 * np.abs(NOISE)


@pytest.mark.parametrize(
    ("run", "manifest", "is_reported"),
    [
        (log(MEMORIZED, batch_id=0 * AT), {}, True),
        (log(MEMORIZED), {"overfit_batches": 1}, True),
        # All batches, as Lightning counts.
        (log(MEMORIZED), {"overfit_batches": 1.0}, False),
        (log(MEMORIZED), {}, False),
        (log(MEMORIZED, batch_id=AT), {}, False),
        (log(MEMORIZED + 1.0, batch_id=0 * AT), {}, False),
    ],
)
def test_a_passed_test_on_one_batch_is_a_note(run, manifest, is_reported):
    findings = findings_by_slug(run, manifest)
    assert ("one-batch-test" in findings) == is_reported
    if is_reported:
        assert [finding.severity for finding in findings.values()] == ["note"]


LEARNS = 0.5 + 1.8 * np.exp(-AT / 60) + NOISE
BARELY_LEARNS = 2.25 - 0.1 * AT / N + NOISE


@pytest.mark.parametrize(
    ("loss", "manifest", "severity"),
    [
        (BARELY_LEARNS, {"optimizer": "adamw", "lr": 0.09}, "warning"),
        (LEARNS, {"optimizer": "adamw", "lr": 0.09}, "note"),
        (BARELY_LEARNS, {"optimizer": "adamw", "lr": 1e-3}, None),
        (BARELY_LEARNS, {"optimizer": "sgd", "lr": 0.09}, None),
        # The optimizer is unknown.
        (BARELY_LEARNS, {"lr": 0.09}, None),
        (BARELY_LEARNS, {"optimizer": "mystery", "lr": 0.09}, None),
        (BARELY_LEARNS, {"label_smoothing": 0.6}, "warning"),
        (LEARNS, {"label_smoothing": 0.6}, "note"),
        (BARELY_LEARNS, {"label_smoothing": 0.1}, None),
        (BARELY_LEARNS, {"dropout": 0.9}, "warning"),
        (BARELY_LEARNS, {"dropout": 0.5}, None),
        # A pretrained model takes a tenth.
        (LEARNS, {"optimizer": "adamw", "lr": 5e-3, "init_from": "gpt2"}, "note"),
        (LEARNS, {"optimizer": "adamw", "lr": 5e-3}, None),
        (LEARNS, {"optimizer": "adamw", "lr": 5e-7, "init_from": "gpt2"}, None),
    ],
)
def test_a_setting_outside_its_range_counts(loss, manifest, severity):
    finding = findings_by_slug(log(loss), manifest).get("setting-unusual")
    assert (None if finding is None else finding.severity) == severity


def test_the_ranges_are_those_of_preflight():
    limits = {"preflight.dropout_high": 0.95}
    report = stabdiag.diagnose(log(BARELY_LEARNS), manifest={"dropout": 0.9}, limits=limits)
    assert "setting-unusual" not in {finding.slug for finding in report.findings}


HIGH = np.maximum(587 * np.exp(-AT / 8), 2.3) * (1 + NOISE)


@pytest.mark.parametrize(
    ("run", "manifest", "title"),
    [
        (log(HIGH), {"num_classes": 10}, "The first loss is a sum over the batch"),
        (
            log(HIGH),
            {"num_classes": 10, "batch_size": 256},
            "The first loss is a sum over the batch",
        ),
        (log(HIGH), {"num_classes": 10, "batch_size": 8}, "The first loss is far above chance"),
        (
            log(10.8 * 8192 * np.exp(-AT / 8) + 10),
            {"vocab_size": 50257, "batch_size": 8, "seq_length": 1024},
            "The first loss is a sum over the batch",
        ),
        (log(HIGH, accuracy=np.linspace(0.1, 0.3, N)), {}, "The first loss is far above chance"),
        (log(LEARNS, accuracy=np.linspace(0.1, 0.3, N)), {}, None),
        (log(LEARNS), {"num_classes": 10}, None),
        # Possibly a squared error.
        (log(HIGH), {}, None),
        ({"step": AT, "perplexity": HIGH}, {"vocab_size": 50257}, None),
        ({"step": AT, "mse": HIGH, "accuracy": AT / N}, {}, None),
    ],
)
def test_an_implausible_first_loss_of_a_classifier_is_reported(run, manifest, title):
    finding = findings_by_slug(run, manifest).get("initial-loss-off")
    assert (None if finding is None else finding.title) == title


FLOOR = np.log(np.e + 9) - 1
TWICE = FLOOR + 0.8 * np.exp(-AT / 30) + np.abs(NOISE) / 2


@pytest.mark.parametrize(
    ("loss", "manifest", "is_found"),
    [
        (TWICE, {"num_classes": 10}, True),
        (TWICE - 0.03, {"num_classes": 10}, False),
        (TWICE + 0.2, {"num_classes": 10}, False),
        (TWICE, {"num_classes": 100}, False),
        (TWICE, {}, False),
    ],
)
def test_a_softmax_of_a_softmax_has_a_floor(loss, manifest, is_found):
    assert ("softmax-twice" in findings_by_slug(log(loss), manifest)) == is_found


FINETUNED = 1.8 + 0.25 * np.exp(-AT / 4) + 0.1 * np.exp(-AT / 150) + 0.3 * NOISE
RATE = 4e-5 * 0.5 * (1 + np.cos(np.pi * AT / N))


def test_a_fall_within_the_first_records_counts_as_learning():
    run = {"step": 5 * AT, "loss": FINETUNED, "lr": RATE}
    assert "learning-slow" not in findings_by_slug(run, {"optimizer": "adamw"})


@pytest.mark.parametrize("settings", [{}, {"init_from": "gpt2"}])
def test_no_advice_raises_the_rate_of_a_pretrained_model(settings):
    spent = np.cumsum(RATE) / RATE.sum()
    run = {"step": 5 * AT, "loss": 2.0 - 0.1 * spent + 0.1 * NOISE, "lr": RATE / 10}
    findings = findings_by_slug(run, {"optimizer": "adamw", **settings})
    kinds = {action.kind for finding in findings.values() for action in finding.actions}
    assert "learning-slow" in findings
    assert ("raise-lr" in kinds) == (not settings)


EPOCH = np.arange(20)


@pytest.mark.parametrize(
    ("first", "fall", "accuracy", "is_little"),
    [(2.3, 0.5, 0.36, True), (2.3, 0.5, 0.8, False), (6.9, 3.5, 0.36, False)],
    ids=["easy task", "good accuracy", "many classes"],
)
def test_a_low_accuracy_after_many_epochs_is_a_warning(first, fall, accuracy, is_little):
    loss = first - fall * (1 - np.exp(-EPOCH / 6)) + 0.005 * NOISE[:20]
    run = {"epoch": EPOCH, "loss": loss, "val_acc": accuracy * (1 - np.exp(-EPOCH / 4) * 0.7)}
    finding = findings_by_slug(run).get("no-progress")
    assert (None if finding is None else finding.severity) == ("warning" if is_little else None)


@pytest.mark.parametrize(
    ("manifest", "is_named"),
    [
        ({"optimizer": "adamw", "warmup_steps": 0}, True),
        ({"optimizer": "sgd", "warmup_steps": 0}, False),
        ({"optimizer": "adamw", "warmup_steps": 30}, False),
        ({"optimizer": "adamw"}, False),
    ],
)
def test_a_missing_warm_up_is_named_if_nothing_improves(manifest, is_named):
    # 30 losses are too few for the findings that would replace this one.
    loss = 3.3 + 0.1 * np.random.default_rng(4).standard_normal(30)
    finding = findings_by_slug(log(loss), manifest)["no-progress"]
    assert ("The schedule has no warm-up." in finding.summary) == is_named
