"""The choice among several losses, and losses logged only as parts."""

import math

import numpy as np
import pytest

import stabdiag
from stabdiag.errors import ColumnError


def gan(n=120):
    level = np.linspace(2.0, 1.4, n)
    return {"step": np.arange(n), "loss_D": level.copy(), "loss_G": level[::-1].copy()}


def test_a_generator_that_became_nan_is_reported():
    log = gan()
    log["loss_G"][85:] = np.nan
    report = stabdiag.diagnose(log)
    assert (report.diagnosis.slug, report.diagnosis.step) == ("nan-dtype-unknown", 85)
    assert report.history.series["loss"].column == "loss_G"


def test_the_loss_named_by_the_user_is_used():
    log = gan()
    log["loss_G"][85:] = np.nan
    report = stabdiag.diagnose(log, columns={"loss": "loss_D"})
    assert report.history.series["loss"].column == "loss_D"


LEVEL = np.linspace(3.0, 2.0, 60)


def lost(values, where):
    """Return values, some of them NaN."""
    values = values.copy()
    values[where] = np.nan
    return values


@pytest.mark.parametrize(
    ("log", "taken"),
    [
        # An occasionally undefined loss is not lost.
        *(
            (gan() | {"loss_G": lost(gan()["loss_G"], where)}, "loss_D")
            for where in (slice(0, 1), slice(50, 51), slice(0, 120), slice(118, 120))
        ),
        # A loss with values is preferred to one without.
        ({"loss": [None] * 60, "lm_loss_x": LEVEL, "grad_norm": np.ones(60)}, "lm_loss_x"),
        # The loss belongs to another run of the table.
        ({"a - train/loss": LEVEL, "b - train/loss": lost(LEVEL, slice(40, 60))}, "a - train/loss"),
        # The mean of a loss is never finite, so the loss is not, either.
        ({"loss": LEVEL, "mean_loss": [math.nan] * 60}, "mean_loss"),
        ({"loss": LEVEL, "aux_loss": [math.nan] * 60}, "loss"),
        # An average stays NaN for longer.
        ({"loss": lost(LEVEL, 30), "loss_ema": lost(LEVEL, slice(30, 60))}, "loss"),
        # Another loss is preferred to zeros, unless it is logged once.
        ({"vicreg_loss": np.zeros(60), "loss_tgt_mean": LEVEL}, "loss_tgt_mean"),
        ({"loss": np.zeros(60), "train_loss": [None] * 59 + [3.2]}, "loss"),
    ],
)
def test_the_loss_that_is_chosen(log, taken):
    assert stabdiag.read(log).series["loss"].column == taken


# The parts of a loss.


def test_the_sum_of_the_parts_is_used_as_the_loss(build):
    history = build(
        [
            {
                "epoch": n,
                "train/box_loss": 2.0 - 0.1 * n,
                "train/cls_loss": 1.0,
                "val/box_loss": 3.0,
            }
            for n in range(5)
        ],
        "csv",
    )
    loss = history.series["loss"]
    assert loss.column == "train/box_loss + train/cls_loss"
    np.testing.assert_allclose(loss.values, [3.0, 2.9, 2.8, 2.7, 2.6])
    assert history.series["eval_loss"].column == "val/box_loss"


def test_a_part_that_is_nan_makes_the_loss_nan(build):
    records = [
        {"step": n, "loss_cls": 1.0, "loss_box": math.nan if n > 3 else 2.0} for n in range(9)
    ]
    loss = build(records).series["loss"]
    assert np.isnan(loss.values).tolist() == [False] * 4 + [True] * 5


def test_a_record_without_one_of_the_parts_has_no_loss(build):
    records = [
        {"step": n, "loss_cls": 1.0, **({"loss_box": 2.0} if n % 2 else {})} for n in range(8)
    ]
    assert build(records).series["loss"].steps.tolist() == [1, 3, 5, 7]


def test_losses_that_never_share_a_record_are_separate_sets(build):
    records = [{"step": n, "loss": 3.0 - 0.1 * n} for n in range(9)]
    records += [{"step": n, "eval_wiki_loss": 2.0 + n} for n in (2, 5, 8)]
    records += [{"step": n, "eval_code_loss": 4.0} for n in (2, 5, 8)]
    history = build(records)
    assert history.series["eval_loss"].column == "eval_wiki_loss"
    assert history.series["eval_loss"].values.tolist() == [4.0, 7.0, 10.0]


def test_a_part_of_words_is_named(build):
    records = [{"step": n, "loss_cls": 1.0, "loss_box": "[1, 2]"} for n in range(9)]
    with pytest.raises(ColumnError) as caught:
        build(records)
    assert str(caught.value).endswith(
        "'loss_box' contains words, not numbers: the sum of loss_cls and loss_box cannot be used "
        "as the loss; name one with --column loss=NAME"
    )
    assert build(records, chosen={"loss": "loss_cls"}).series["loss"].values.tolist() == [1.0] * 9


@pytest.mark.parametrize("other_columns", [{}, {"loss_cls": 1.0}])
def test_a_damaged_name_is_cut_and_on_one_line(build, other_columns):
    with pytest.raises(ColumnError) as caught:
        build([{"step": n, "loss\n" * 99 + "_box": "[1, 2]", **other_columns} for n in range(9)])
    assert len(str(caught.value)) < 400
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("name", "first", "is_scale"),
    [
        ("scale", 0.5, False),
        ("scale", 1.0, True),
        ("scale", 65536.0, True),
        ("loss_scale", 0.5, True),
        ("amp_scale", 0.5, True),
    ],
)
def test_a_scale_that_begins_below_1_is_not_a_loss_scale(name, first, is_scale):
    scale = np.where(np.arange(60) < 30, first, 2 * first)
    run = stabdiag.diagnose({"step": np.arange(60), "loss": LEVEL, name: scale}).history
    assert ("loss_scale" in run.series) == is_scale


TERMS = {"step": [1, 2, 3], "a_cls_loss": [0.5, 0.25, 0.125], "a_loc_loss": [1.5, 1.25, 1.0]}


@pytest.mark.parametrize("name", ["whole_loss", "ab_seg_loss"])
@pytest.mark.parametrize("last", [1.125, 1.1251, np.nan])
def test_a_loss_that_is_the_sum_of_all_others_is_the_total(name, last):
    history = stabdiag.read({**TERMS, name: [2.0, 1.5, last]})
    assert history.series["loss"].column == name


@pytest.mark.parametrize("sums", [[2.0, 1.5, 1.25], [0.5, 0.25, 0.125], [2.5, 2.0, 1.625]])
def test_a_loss_that_is_not_the_sum_of_all_others_is_no_total(sums):
    history = stabdiag.read({**TERMS, "whole_loss": sums})
    assert history.series["loss"].column != "whole_loss"


def test_a_loss_with_a_known_name_stays_the_total():
    history = stabdiag.read({**TERMS, "loss": [3.0, 2.0, 1.0], "whole_loss": [5.0, 3.5, 2.125]})
    assert history.series["loss"].column == "loss"


def bars(*placeholders, per=50):
    """Return the values of bars that draw each count; some losses at their starts are NaN."""
    losses = np.linspace(3.0, 2.0, per * len(placeholders))
    for epoch, count in enumerate(placeholders):
        losses[per * epoch : per * epoch + count] = np.nan
    return {"step": np.arange(per * len(placeholders)) % per, "loss": losses}


@pytest.mark.parametrize("placeholders", [(2, 2, 2), (3, 3, 1), (4, 0, 4)])
def test_nan_until_a_bar_has_values_to_average_is_a_placeholder(placeholders):
    assert stabdiag.diagnose(bars(*placeholders)).diagnosis.slug == "healthy"


@pytest.mark.parametrize("placeholders", [(2, 2, 12), (2, 2, 50), (0, 50, 50)])
def test_nan_that_lasts_longer_in_a_later_epoch_is_no_placeholder(placeholders):
    assert stabdiag.diagnose(bars(*placeholders)).diagnosis.slug == "nan-dtype-unknown"


@pytest.mark.parametrize("section", ["", "log/", "train/", "metrics.", "train_"])
def test_a_penalty_that_went_nan_is_another_loss_in_any_section(section):
    log = {f"{section}loss": LEVEL, f"{section}aux_loss": lost(0.1 * LEVEL, slice(40, 60))}
    report = stabdiag.diagnose({"step": np.arange(60)} | log)
    assert report.diagnosis.slug == "other-loss-nonfinite"
    assert report.history.series["loss"].column == f"{section}loss"


def test_a_penalty_that_went_nan_is_the_loss_next_to_another_penalty():
    log = {"step": np.arange(60), "l1_loss": LEVEL, "l2_loss": lost(LEVEL, slice(40, 60))}
    assert stabdiag.diagnose(log).diagnosis.slug == "nan-dtype-unknown"
