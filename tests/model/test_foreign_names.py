import pytest

from stabdiag.model.roles.choice import assign
from stabdiag.model.roles.foreign_names import translate_names


@pytest.mark.parametrize(
    ("text", "english"),
    [
        ("损失: 2.5", "loss: 2.5"),
        ("第 3 轮 训练损失: 2.5", "epoch 3   train loss: 2.5"),
        ("epoch 3\n训练集损失为2.5", "epoch 3\ntrain loss: 2.5"),
        ("에포크 3, 손실: 2.5", "epoch  3,  loss: 2.5"),
        ("Эпоха 3: ошибка 2.5", "epoch  3: error 2.5"),
        ("Ошибка: файл 3 не найден", "Ошибка: файл 3 не найден"),
        ("总训练损失 2.5 单精度", "train loss 2.5 单精度"),
        ("クロス 2.5, ロス 2.5", "クロス 2.5,  loss 2.5"),
    ],
)
def test_a_name_at_the_start_of_a_line_is_not_indented(text, english):
    assert translate_names(text.encode()).decode() == english


def test_an_indented_line_stays_indented():
    assert translate_names("a\n  损失: 2.5\n 损失: 2.5".encode()) == b"a\n   loss: 2.5\n  loss: 2.5"


def test_bytes_that_are_not_utf8_stay():
    assert translate_names("损失: 2.5 ".encode() + b"\xff\xe6\x8d") == b"loss: 2.5 \xff\xe6\x8d"


@pytest.mark.parametrize(
    ("names", "roles"),
    [
        (("epoca", "perdida", "val_perdida"), {"epoch", "loss", "eval_loss"}),
        (("Epoca", "perda_treino", "perda_validacao"), {"epoch", "loss", "eval_loss"}),
        (("Schritt", "Verlust", "Genauigkeit"), {"step", "loss", "accuracy"}),
        (("episodio", "recompensa_total"), {"epoch", "reward"}),
        (("epoch", "lossless_ratio", "pasaporte"), {"epoch", "loss"}),
    ],
)
def test_names_of_columns_without_accents(names, roles):
    assert {*assign(names).columns} == roles
