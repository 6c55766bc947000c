"""Logs of programs for translations."""

import stabdiag


def test_evaluations_of_marian_alone(tmp_path):
    form = (
        "[2019-06-05 20:11:56] [valid] Ep. 1 : Up. {0} : perplexity : {1} : {2}\n"
        "[2019-06-05 20:12:02] [valid] Ep. 1 : Up. {0} : translation : {3} : {2}\n"
    )
    rows = [(5000, 1100.5, "new best", 2.1), (10000, 410.2, "new best", 48.5)]
    rows += [(15000, 910.4, "stalled 1 times", 0.4), (20000, 3200.1, "stalled 2 times", 0.1)]
    (tmp_path / "run.log").write_text("".join(form.format(*row) for row in rows))
    series = stabdiag.read(tmp_path / "run.log").series
    assert series["loss"].steps.tolist() == [5000, 10000, 15000, 20000]
    assert series["loss"].values.tolist() == [1100.5, 410.2, 910.4, 3200.1]
    assert series["score/val bleu"].values.tolist() == [2.1, 48.5, 0.4, 0.1]


def test_the_cross_entropy_of_a_word_is_the_evaluation_loss_of_marian(tmp_path):
    form = (
        "[2021-07-17 21:11:31] Ep. 1 : Up. {0} : Sen. 5,529,093 : Cost {1} : Time 8.4s : "
        "2193.04 words/s\n"
        "[2021-07-17 21:12:00] [valid] Ep. 1 : Up. {0} : ce-mean-words : {2} : new best\n"
        "[2021-07-17 21:12:00] [valid] Ep. 1 : Up. {0} : perplexity : {3} : new best\n"
    )
    rows = [(1000, 6.51, 6.2, 492.7), (2000, 5.92, 5.8, 330.3), (3000, 5.61, 5.5, 244.7)]
    (tmp_path / "run.log").write_text("".join(form.format(*row) for row in rows))
    series = stabdiag.read(tmp_path / "run.log").series
    assert series["loss"].values.tolist() == [6.51, 5.92, 5.61]
    assert series["eval_loss"].values.tolist() == [6.2, 5.8, 5.5]
    assert series["eval_loss"].steps.tolist() == [1000, 2000, 3000]


def test_the_precision_of_each_length_next_to_a_bleu_score_is_no_measure(tmp_path):
    forms = (
        "step {0}\nBLEU = {1}, 42.1/16.0/7.3/3.4 (BP=0.980, ratio=0.981, hyp_len=43, ref_len=44)\n",
        "step {0} BLEU+case.mixed+tok.13a+version.1.4.2 = {1} 42.1/16.0/7.3/3.4 (BP = 0.980 "
        "ratio = 0.981 hyp_len = 43 ref_len = 44)\n",
    )
    for form in forms:
        text = "".join(form.format(500 * n, 10.5 + n) for n in range(1, 6))
        (tmp_path / "run.log").write_text(text)
        history = stabdiag.read(tmp_path / "run.log")
        assert history.series["score/BLEU"].values.tolist() == [11.5, 12.5, 13.5, 14.5, 15.5]
        assert history.series["score/BLEU"].steps.tolist() == [500, 1000, 1500, 2000, 2500]
