"""Tables of LaTeX and points of pgfplots."""

import pytest

import stabdiag
from stabdiag.errors import LogError

LOSSES = [2.31, 2.1, 1.9, 1.7, 1.5]

TABULAR = r"""\begin{tabular}{|c|c|c|}
\toprule
Epoch & Train Loss & Accuracy (\%) \\ \midrule
"""
BARE = "".join(rf"{100 * n} {loss} \\" for n, loss in enumerate(LOSSES, start=1))
AXIS = r"\begin{axis}[xlabel={Epoch}, ylabel=Loss, legend style={at={(0.9,0.9)}}]"
POINTS = " ".join(f"({n}, {loss})" for n, loss in enumerate(LOSSES, start=1))
PLOT = rf"\addplot[thick, blue]  coordinates {{{POINTS}}};"


def rows(ends=r" \\ \hline"):
    cells = (rf"{n} & \textbf{{{loss}}} & {n}1.5\%" for n, loss in enumerate(LOSSES, start=1))
    return "".join(f"{row}{ends}\n" for row in cells)


@pytest.mark.parametrize(
    ("file", "text", "first"),
    [
        ("table.tex", TABULAR + rows() + r"\end{tabular}", 1),
        ("table.tex", "The table shows the training.\n\n" + TABULAR + rows(r" \\[2pt]"), 1),
        ("loss.txt", BARE, 100),
        ("loss.dat", BARE.replace("\\\\", "\\\\\n"), 100),
        ("curve.dat", "step loss \\\\\n" + BARE, 100),
        ("plot.tex", f"{AXIS}\n{PLOT}\n\\end{{axis}}", 1),
        ("plot.tex", f"{AXIS}\n{PLOT}\n{PLOT.replace('2.31', '2.35')}\n\\legend{{Oak, Elm}}", 1),
        (
            "plot.tex",
            rf"{PLOT} \addlegendentry{{train loss}} {PLOT} \addlegendentry{{val loss}}",
            1,
        ),
    ],
)
def test_losses_of_latex(put, file, text, first):
    series = stabdiag.read(put(text, file)).series
    assert series["loss"].values.tolist() == LOSSES
    assert series["loss"].steps[0] == first


@pytest.mark.parametrize(
    "text",
    [
        AXIS.replace("Loss", "Time (s)") + PLOT,
        "Method & Accuracy \\\\\nOak & 0.91 \\\\\nElm & 0.92 \\\\\nFir & 0.95 \\\\\n",
    ],
)
def test_other_tables_of_latex_are_refused(put, text):
    with pytest.raises(LogError):
        stabdiag.read(put(text, "paper.tex"))


def test_a_log_with_backslashes_keeps_its_lines(put):
    lines = [rf"C:\\runs\\oak & co: step {n} loss {2 - n / 10} \\" for n in range(9)]
    series = stabdiag.read(put("\n".join(lines), "run.log")).series
    assert series["loss"].values[0] == 2
    assert len(series["loss"].values) == 9
