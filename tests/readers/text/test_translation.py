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
