"""The plot keeps every spike and stays within its frame."""

from dataclasses import replace

import numpy as np
import pytest

from stabdiag.formats.canvas import Scale, View, bad_columns, curve, round_numbers, strip
from stabdiag.formats.subject import choose
from stabdiag.formats.terminal.page import Page
from stabdiag.formats.terminal.plot import draw
from stabdiag.model.history import Series


def series(values, role="loss"):
    steps = np.arange(len(values), dtype=np.int64)
    return Series(role=role, column=role, steps=steps, values=values)


def drawn(report, width=80):
    return [line.plain for line in draw(choose(report), Page(width=width))]


@pytest.mark.parametrize("ascii", [False, True])
@pytest.mark.parametrize("step", [0, 1, 499_999, 777_777, 999_999])
def test_a_single_spike_among_a_million_steps_is_drawn(step, ascii):
    values = np.ones(1_000_000)
    values[step] = 9.0
    view = View(first=0, last=999_999, columns=66)
    top = curve(series(values), view, Scale.of(values), 8, ascii=ascii)[0]
    assert [i for i, c in enumerate(top) if c not in " \u2800"] == [view.column(step)]
    bars = strip(series(values), view, ascii=ascii)
    assert bars.count("@" if ascii else "█") == 1


@pytest.mark.parametrize(
    ("low", "high", "expected"),
    [
        (1.89, 4.58, [2.0, 3.0, 4.0]),
        (61, 461, [100, 200, 300, 400]),
        (0, 4999, [0, 1000, 2000, 3000, 4000]),
        (-3.0, 3.0, [-2.0, 0.0, 2.0]),
        (0, 5000, [0, 2000, 4000]),
        (2.1e-9, 9.9e-9, [4e-9, 6e-9, 8e-9]),
        (1.0, 1.0, []),
        (0.0, 1e-323, []),
        (-1.7e308, 1.7e308, []),
    ],
)
def test_round_numbers_are_round_and_within(low, high, expected):
    result = round_numbers(low, high, 5)
    assert result == pytest.approx(expected)


def test_ranges_over_two_decades_are_logarithmic_with_powers_of_ten():
    logs = [Scale.of(np.array(ends)).log for ends in ([1.0, 100.0], [1.0, 101.0], [-1.0, 1e6])]
    assert logs == [False, True, False]
    assert Scale(low=2.0, high=2e16, log=True).ticks(5) == [1e5, 1e10, 1e15]
    assert Scale(low=2.0, high=300.0, log=True).ticks(5) == pytest.approx([10.0, 100.0])


def with_base(report, base):
    diagnosis = replace(report.diagnosis, evidence={"base": base})
    return replace(report, findings=(diagnosis,))


def test_a_level_within_the_range_is_a_line(persistent):
    lines = drawn(with_base(persistent, 2.5))
    (level,) = [line for line in lines if "base 2.5 ┤" in line]
    assert "┈" in level
    assert all("┈" not in line for line in lines if line != level)
    for base in (-5.0, 1e9, float("nan")):
        assert "┈" not in "".join(drawn(with_base(persistent, base)))
    lowest = choose(persistent).series.values.min()  # an extreme keeps its label
    lines = drawn(with_base(persistent, float(np.nextafter(lowest, 9.0))))
    assert "base" not in "".join(lines)
    assert f"{lowest:.3g} ┤" in "".join(lines)


def test_nan_breaks_the_line_and_is_marked():
    values = np.array([1.0, 1.0, np.nan, np.nan, 2.0, 2.0])
    view = View(first=0, last=5, columns=30)
    bad = bad_columns(series(values), view)
    assert bad[view.column(2)]
    assert bad[view.column(3)]
    rows = curve(series(values), view, Scale.of(values), 8, ascii=True)
    between = {row[view.column(2) : view.column(3) + 1] for row in rows}
    assert {"".join(part).strip() for part in between} == {""}


def test_section_three_draws_the_loss_scale(nan):
    diagnosis = replace(nan.diagnosis, slug="loss-scale-collapsed", section="§3")
    plot = choose(replace(nan, findings=(diagnosis,)))
    assert plot.series.role == "loss_scale"
    assert [companion.role for companion in plot.companions] == ["grad_norm"]
    assert plot.level == ("floor", 1)


def test_the_weight_norm_that_changes_most_is_drawn(persistent):
    diagnosis = replace(
        persistent.diagnosis, slug="divergence-weight-norm-climbing", section="§4", step=5000
    )
    logged = dict(persistent.history.series)
    for name, growth in (("flat", 1.0), ("growing", 3.0), ("slow", 1.5)):
        values = np.linspace(1.0, growth, 6200)
        logged[f"weight_norm/{name}"] = series(values, f"weight_norm/{name}")
    history = replace(persistent.history, series=logged)
    plot = choose(replace(persistent, findings=(diagnosis,), history=history))
    assert [companion.role for companion in plot.companions] == ["weight_norm/growing"]
    assert (plot.first, plot.last) == (0, 6199)
