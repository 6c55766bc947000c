"""English names of losses, learning rates, epochs and steps in other languages."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final, TypeAlias

# A text in another language mentions a loss only with one of these words (损失, 損失, ロス, 손실,
# pérdida, perda, perte, потери, лосс, kayıp) or the German Verlust, and the set of an English loss
# with one of the last.
_FOREIGN_LOSSES: Final = tuple(
    word.encode()
    for word in (
        *("损失", "損失", "误差", "誤差", "ロス", "손실", "로스", "érdida", "erda", "erte"),
        *("отери", "отеря", "отерь", "осс", "шибка", "ayıp", "aybı", "验证集", "测试集"),
        *("entrenamiento", "validación", "validação", "treinamento"),
        *("Эпоха", "эпоха", "에포크", "에폭", "エポック", "轮次", "轮数"),
    )
)

# Texts in these languages have other bytes than ASCII and the blocks of progress bars. Those that
# remain are few, or the text is in one of these languages.
_USUAL_BYTES: Final = bytes(range(128)) + "█▏▎▍▌▋▊▉━╸╺─│…".encode()


def _optionally_after(prefixes: str, words: str) -> str:
    """Return a pattern of words that may follow one of the prefixes.

    All its alternatives begin with a letter, so that ``re`` finds the first letters fast.
    """
    alternatives = [f"{prefix}(?:{words})" for prefix in prefixes.split("|")]
    return f"(?:{'|'.join([*alternatives, words])})"


_MEAN_OR_TOTAL: Final = "平均|总|總"
_ALL: Final = f"(?:{_MEAN_OR_TOTAL})?"
_TRAINING_IN_EAST_ASIAN: Final = (
    _optionally_after(_MEAN_OR_TOTAL, "训练(?:集)?|訓練|学習|훈련|학습") + f"[ _]?{_ALL}"
)
_EVAL: Final = (
    _optionally_after(
        _MEAN_OR_TOTAL, "验证(?:集)?|驗證(?:集)?|検証|검증|测试(?:集)?|測試(?:集)?|テスト|테스트"
    )
    + f"[ _]?{_ALL}"
)
_LOSS: Final = "(?:损失|損失)(?:函数|函數|関数)?(?:值)?|손실|ロス(?<!クロス)|로스(?<!크로스)"
_A_LOSS: Final = f"(?:{_LOSS})"
_AN_ERROR: Final = "(?:误差|誤差)"
_AN_ACCURACY: Final = (
    "(?:准确率|準確率|正确率|正確率|精度(?<!混合精度)(?<!半精度)(?<!单精度)(?<!双精度)|정확도"
    "|[Тт]очность)"
)
_ROMANCE: Final = "[Pp](?<![A-Za-z].)(?:érdida|erda|erte)"
_RUSSIAN: Final = "(?:[Фф]ункция потерь|[Пп]отер[ия]|[Лл]осс)"
_AT_TRAINING: Final = r" (?:на )?(?:обуч(?:ении|ения|ение)?|трейне?|train)\.?"
_AT_EVALUATION: Final = r" (?:на )?(?:вал(?:идации|идация)?|тесте?|теста|val|test)\.?"
_PARTICLE: Final = "[은는이가はが为為是]"
_A_VALUE: Final = r"[-+]?(?:[\d.]|nan|inf|NaN)"
_OF: Final = " (?:d[eou] |d'|de l'|en |no |- )?"

# Parts of names, for a quick test of a whole text.
_FOREIGN_LOSS_STEMS: Final = ("损失", "損失", "손실", "ロス", "로스", "误差", "誤差")
_FOREIGN_ACCURACY_STEMS: Final = ("率", "精度", "정확도", "очность")
_ROMANCE_LOSSES: Final = ("érdida", "erda", "erte")
_RUSSIAN_LOSSES: Final = ("отер", "осс")


# Python evaluates a template with groups for each match, which takes many times the time of these.
def _as_epoch(match: re.Match[str]) -> str:
    return f" epoch {match[1]} "


def _as_step(match: re.Match[str]) -> str:
    return f" step {match[1]} "


def _with_colon(match: re.Match[str]) -> str:
    return f"{match[1]}: "


_Row: TypeAlias = tuple[tuple[str, ...], str, str | Callable[[re.Match[str]], str]]

# Texts, a pattern and the English name; each match has a text of its row. Longer names come first.
# Few logs need them, so ``re`` compiles them on first use.
_IN_ENGLISH: Final[tuple[_Row, ...]] = (
    (
        _FOREIGN_LOSS_STEMS,
        f"{_TRAINING_IN_EAST_ASIAN}(?:{_A_LOSS}|{_AN_ERROR})",
        " train loss",
    ),
    (_FOREIGN_LOSS_STEMS, f"{_EVAL}(?:{_A_LOSS}|{_AN_ERROR})", " val loss"),
    (_FOREIGN_LOSS_STEMS, _optionally_after(_MEAN_OR_TOTAL, _LOSS), " loss"),
    (_FOREIGN_ACCURACY_STEMS, f"{_TRAINING_IN_EAST_ASIAN}{_AN_ACCURACY}", " train acc"),
    (_FOREIGN_ACCURACY_STEMS, f"{_EVAL}{_AN_ACCURACY}", " val acc"),
    (
        _FOREIGN_ACCURACY_STEMS,
        f"(?:整体验证|验证|整体测试|测试)集(?:上)?(?:的)?{_AN_ACCURACY}",
        " val acc",
    ),
    (("очн",), rf"[Тт]очн(?:ость)?\.?{_AT_TRAINING}", "train acc"),
    (("очн",), rf"[Тт]очн(?:ость)?\.?{_AT_EVALUATION}", "val acc"),
    (_FOREIGN_ACCURACY_STEMS, _AN_ACCURACY, " acc"),
    # The loss of the whole set is often the sum of its batches, on another scale.
    (("集",), r"(?<!整体)(?:验证|测试)集(?:上)?(?:的)? ?(?=[Ll]oss|LOSS|[Aa]cc)", " val "),
    (
        _ROMANCE_LOSSES,
        f"{_ROMANCE}{_OF}(?:entrenamiento|treino|treinamento|entraînement)",
        "train loss",
    ),
    (
        _ROMANCE_LOSSES,
        f"{_ROMANCE}{_OF}(?:validación|validação|validation|prueba|teste|test)",
        "val loss",
    ),
    (
        ("entrenamiento", "treino", "treinamento", "entraînement"),
        f"[Ll]oss{_OF}(?:entrenamiento|treino|treinamento|entraînement)",
        "train loss",
    ),
    (
        ("validación", "validação", "prueba", "teste"),
        f"[Ll]oss{_OF}(?:validación|validação|prueba|teste)",
        "val loss",
    ),
    (("xactitud", "recisión"), "[Ee]xactitud|[Pp]recisión", "acc"),
    (_ROMANCE_LOSSES, _ROMANCE, "loss"),
    (_RUSSIAN_LOSSES, f"{_RUSSIAN}{_AT_TRAINING}", "train loss"),
    (_RUSSIAN_LOSSES, f"{_RUSSIAN}{_AT_EVALUATION}", "val loss"),
    (_RUSSIAN_LOSSES, _RUSSIAN, "loss"),
    (("шибка",), f"[Оо]шибка{_AT_TRAINING}", "train error"),
    (("шибка",), f"[Оо]шибка{_AT_EVALUATION}", "val error"),
    (("aybı",), "[Ee]ğitim [Kk]aybı", "train loss"),
    (("aybı",), "[Dd]oğrulama [Kk]aybı", "val loss"),
    (("ayıp", "aybı"), "[Kk](?:ayıp|aybı)", "loss"),
    (("erlust",), "[Tt]rainings-?[Vv]erlust", "train loss"),
    (("erlust",), "[Vv]alidierungs-?[Vv]erlust", "val loss"),
    (("erlust",), "Verlust", "loss"),
    (("率", "학습률", "Lernrate"), "学习率|學習率|学習率|학습률|Lernrate", " lr"),
    (("梯度", "Gradientennorm"), "梯度(?:范数|範數)|Gradientennorm", " grad_norm"),
    (("第",), r"第 {0,2}(\d{1,6}) {0,2}(?:轮|輪|个epoch|个周期|エポック)", _as_epoch),
    (("第",), r"第 {0,2}(\d{1,9}) {0,2}(?:步|次迭代)", _as_step),
    (
        ("에포크", "에폭", "エポック目"),
        r"(\d{1,6}) ?(?:번째 ?(?:에포크|에폭)|(?:에포크|에폭)(?=의|에서)|エポック目)",
        _as_epoch,
    ),
    (
        ("轮", "エポック", "에포크", "에폭", "поха"),
        "轮次|轮数|训练轮|エポック|에포크|에폭|эпоха|Эпоха",
        " epoch ",
    ),
    (
        ("步", "迭代", "ステップ", "스텝", "Schritt"),
        "步数|步骤|迭代(?!次数)|ステップ|스텝|Schritt",
        " step ",
    ),
    # A particle between a name and its value: 손실은 0.53, 損失は0.53, 损失为0.53
    (
        ("은", "는", "이", "가", "は", "が", "为", "為", "是"),
        f"(loss|lr|acc|grad_norm) ?{_PARTICLE}(?=\\s{{0,2}}{_A_VALUE})",
        _with_colon,
    ),
)


def has_foreign_loss_name(text: bytes) -> bool:
    """Return True if a text may name a loss in another language; in plain ASCII only German."""
    if b"erlust" in text:
        return True
    if text.isascii() or not text.translate(None, _USUAL_BYTES):
        return False
    return any(word in text for word in _FOREIGN_LOSSES)


def translate_names(text: bytes) -> bytes:
    """Return a text with the names of losses and counters translated into English."""
    original = text.decode("utf-8", "surrogateescape")
    translated = original
    for texts, pattern, english in _IN_ENGLISH:
        if any(part in translated for part in texts):
            translated = re.sub(pattern, english, translated, flags=re.ASCII)
    if translated is not original:
        translated = _without_new_indents(original, translated)
    return translated.encode("utf-8", "surrogateescape")


def _without_new_indents(original: str, translated: str) -> str:
    """Return a text without the blanks before names that begin a line.

    A blank separates a name from a word before it. An indented line would continue the one above.
    """
    lines = zip(original.split("\n"), translated.split("\n"), strict=True)
    return "\n".join(
        after[1:] if after[:1] == " " and before[:1] != " " else after for before, after in lines
    )
