"""Text with a blank after each character, as ``np.savetxt`` writes strings."""

import pytest

import stabdiag
from stabdiag.errors import LogError


def spaced(text):
    return "".join(f"{' '.join(line)}\n" for line in text.splitlines())


LOG = "".join(f"epoch {n} loss {2.5 / n:.4f}\n" for n in range(1, 13))


@pytest.mark.parametrize(
    ("file", "text"),
    [
        ("run.log", LOG),
        ("loss.csv", "".join(f"{n},{2.5 / n:.4f}\n" for n in range(1, 13))),
        ("loss.txt", "".join(f"{n}.0 {2.5 / n:.4e}\n" for n in range(1, 13))),
    ],
)
def test_characters_are_joined(put, file, text):
    series = stabdiag.read(put(spaced(text), file)).series
    assert series["loss"].values[:2].tolist() == [2.5, 1.25]
    assert series["loss"].steps[-1] == 12


def test_digits_are_not_joined(put):
    digits = "".join(f"{' '.join(str(n * m % 10) for m in range(20))}\n" for n in range(12))
    with pytest.raises(LogError):
        stabdiag.read(put(digits, "loss.txt"))


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be"])
def test_text_in_utf_16_needs_no_mark(tmp_path, encoding):
    path = tmp_path / "run.log"
    path.write_bytes(LOG.encode(encoding))
    assert stabdiag.read(path).series["loss"].values[0] == 2.5
