"""A loss of which only the parts were logged."""

import math

import numpy as np
import pytest

from stabdiag.errors import ColumnError


def test_the_sum_of_the_parts_serves_as_the_loss(build):
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


def test_what_no_record_has_together_is_of_several_sets(build):
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
        "'loss_box' holds words, no numbers: the sum of loss_cls and loss_box cannot serve as the"
        " loss; name one with --column loss=NAME"
    )
    assert build(records, chosen={"loss": "loss_cls"}).series["loss"].values.tolist() == [1.0] * 9
