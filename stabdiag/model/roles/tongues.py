"""Losses, learning rates, epochs and steps in other languages, by their names in English."""

from __future__ import annotations

import re
from typing import Final

# Without one of these a text tells of no loss that is not called so: 损失, 損失, 손실, pérdida,
# perda, perte, потери.
_LOSSES: Final = tuple(
    word.encode() for word in ("损失", "損失", "손실", "érdida", "erda", "erte", "отери", "отеря")
)

# The patterns are of bytes, in which a letter is several: none stands in brackets, and none alone
# before a sign that repeats it.
_ALL: Final = "(?:平均|总|總)?"
_TRAINING: Final = f"{_ALL}(?:训练(?:集)?|訓練|学習|훈련|학습)[ _]?{_ALL}"
_HELD_BACK: Final = (
    f"{_ALL}(?:验证(?:集)?|驗證(?:集)?|検証|검증|测试(?:集)?|測試(?:集)?|テスト|테스트)[ _]?{_ALL}"
)
_LOSS: Final = "(?:(?:损失|損失)(?:函数|函數|関数)?(?:值)?|손실)"
_ROMANCE: Final = "(?<![A-Za-z])(?:P|p)(?:érdida|erda|erte)"
_RUSSIAN: Final = "(?:П|п)отер(?:и|я)"
_OF: Final = " (?:d[eou] |d'|de l'|en |no |- )?"

# In this order: what is more of a name comes first.
_WORDS: Final = tuple(
    (re.compile(pattern.encode()), english)
    for pattern, english in (
        (f"{_TRAINING}{_LOSS}", b" train loss"),
        (f"{_HELD_BACK}{_LOSS}", b" val loss"),
        (f"{_ALL}{_LOSS}", b" loss"),
        (f"{_ROMANCE}{_OF}(?:entrenamiento|treino|treinamento|entraînement)", b"train loss"),
        (f"{_ROMANCE}{_OF}(?:validación|validação|validation|prueba|teste|test)", b"val loss"),
        (_ROMANCE, b"loss"),
        (f"{_RUSSIAN} на обучении", b"train loss"),
        (f"{_RUSSIAN} на (?:валидации|тесте)", b"val loss"),
        (_RUSSIAN, b"loss"),
        ("学习率|學習率|学習率|학습률", b" lr"),
        (r"第 {0,2}(\d{1,6}) {0,2}(?:轮|輪|个epoch|个周期|エポック)", rb" epoch \1 "),
        (r"第 {0,2}(\d{1,9}) {0,2}(?:步|次迭代)", rb" step \1 "),
        ("轮次|轮数|训练轮|エポック|에포크|эпоха|Эпоха", b" epoch"),
        ("步数|步骤|迭代(?!次数)|ステップ|스텝", b" step"),
    )
)


def tells_a_loss(text: bytes) -> bool:
    """Tell whether a text may name a loss in another language; one in ASCII alone is none such."""
    return not text.isascii() and any(word in text for word in _LOSSES)


def in_english(text: bytes) -> bytes:
    """Return a text with its losses, and what counts them, by their names in English."""
    for pattern, english in _WORDS:
        text = pattern.sub(english, text)
    return text
