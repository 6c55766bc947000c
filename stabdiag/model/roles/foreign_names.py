"""English names of losses, rewards, learning rates, epochs and steps in other languages."""

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
        *(
            "奖励",
            "獎勵",
            "報酬",
            "报酬",
            "回报",
            "得分",
            "分数",
            "スコア",
            "보상",
            "점수",
            "аград",
        ),
        *("écompense", "dül", "hưởng", "ntuación", "胜率", "勝率", "승률"),
    )
)
# Words without an accent: Verlust, perda, perte, Belohnung, recompensa, ricompensa, punteggio,
# nagroda.
ASCII_LOSSES: Final = (
    *(b"erlust", b"elohnung", b"compensa", b"unteggio", b"untuaci", b"agroda"),
    *(b"perda", b"Perda", b"perte", b"Perte", b"perdida", b"Perdida"),
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
# How a reward is averaged, before or behind it.
_MEAN_FORMS: Final = (
    "平均|평균|[Сс]редн[а-я]{1,3}|[Oo]rtalama|[Dd]urchschnittliche|[Mm]ittlere|[Ss]rednia",
    "平均|medi[ao]|média|promedio|moyenne|trung bình",
)
_TOTAL_FORMS: Final = (
    "累计|累計|累積|总|總|총|누적|[Сс]уммарн[а-я]{1,3}|[Оо]бщ[а-я]{1,3}|[Tt]oplam|[Gg]esamt"
    "|[Tt]otal[ae]?|[Tt]ổng",
    "合計|合计|总和|총합|[Tt]otal[ae]?|acumulad[ao]|cumulée",
)
_A_REWARD: Final = (
    "(?:奖励|獎勵|报酬|報酬|回报|보상|리워드)(?:值|값)?|[Нн]аград[аы]|[Rr][ei]compensas?"
    "|[Rr]écompenses?|[Bb]elohnung(?:en)?|[Öö]dül|[Nn]agroda|[Pp]hần thưởng"
)
_A_SCORE: Final = (
    "得分|分数|スコア|점수|[Pp]untuación|[Pp]untaje|[Pp]ontuação|[Pp]unteggio|[Pp]unktzahl"
)
_REWARD_STEMS: Final = (
    *("奖励", "獎勵", "报酬", "報酬", "回报", "보상", "리워드", "аград", "compensa", "écompense"),
    *("elohnung", "dül", "agroda", "thưởng", "得分", "分数", "スコア", "점수", "untuaci", "untaje"),
    *("ontuação", "unteggio", "unktzahl"),
)
_LOSS: Final = "(?:损失|損失)(?:函数|函數|関数)?(?:值)?|손실|ロス(?<!クロス)|로스(?<!크로스)"
_A_LOSS: Final = f"(?:{_LOSS})"
_AN_ERROR: Final = "(?:误差|誤差)"
_AN_ACCURACY: Final = (
    "(?:准确率|準確率|正确率|正確率|精度(?<!混合精度)(?<!半精度)(?<!单精度)(?<!双精度)|정확도"
    "|[Тт]очность)"
)
_ROMANCE: Final = "[Pp](?<![A-Za-z].)(?:[ée]rdida|erda|erte)(?![a-z])"
_RUSSIAN: Final = "(?:[Фф]ункция потерь|[Пп]отер[ия]|[Лл]осс)"
_AT_TRAINING: Final = r" (?:на )?(?:обуч(?:ении|ения|ение)?|трейне?|train)\.?"
_AT_EVALUATION: Final = r" (?:на )?(?:вал(?:идации|идация)?|тесте?|теста|val|test)\.?"
_PARTICLE: Final = "[은는이가はが为為是]"
_A_VALUE: Final = r"[-+]?(?:[\d.]|nan|inf|NaN)"
_OF: Final = " (?:d[eou] |d'|de l'|en |no |- )?"

_EPISODE_STEMS: Final = (
    *(
        "回合",
        "局",
        "エピソード",
        "에피소드",
        "пизод",
        "pisode",
        "pisodio",
        "pisódio",
        "ölüm",
        "pizod",
    ),
    *("Tập", "artida"),
)
_AN_EPISODE: Final = (
    "回合|エピソード|에피소드|[Ээ]пизод|[Éé]pisode|[Ee]pis[oó]dio|[Bb]ölüm|[Ee]pizod|Tập|[Pp]artida"
)

# Parts of names, for a quick test of a whole text.
_FOREIGN_LOSS_STEMS: Final = ("损失", "損失", "손실", "ロス", "로스", "误差", "誤差")
_FOREIGN_ACCURACY_STEMS: Final = ("率", "精度", "정확도", "очность")
_ROMANCE_LOSSES: Final = ("rdida", "erda", "erte")
_RUSSIAN_LOSSES: Final = ("отер", "осс")


# Python evaluates a template with groups for each match, which takes many times the time of these.
def _as_epoch(match: re.Match[str]) -> str:
    return f" epoch {match[1]} "


def _as_step(match: re.Match[str]) -> str:
    return f" step {match[1]} "


def _as_episode(match: re.Match[str]) -> str:
    return f" episode {match[1]} "


def _as_reward(match: re.Match[str]) -> str:
    is_mean, is_total = ({*match.group(*groups)} != {None} for groups in ((1, 4), (2, 5)))
    kind = "mean " if is_mean else "total " if is_total else ""
    name = "reward" if re.fullmatch(_A_REWARD, match[3]) else "score"
    return f" {kind}{name}"


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
    # A message may begin with the same word.
    (("шибка",), rf"[Оо]шибка(?=\s?[:=]?\s{{1,3}}{_A_VALUE})", "error"),
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
        "(?:训练)?轮[次数]|训练轮|エポック|에포크|에폭|эпоха|Эпоха",
        " epoch ",
    ),
    (
        ("步", "迭代", "ステップ", "스텝", "Schritt"),
        "步数|步骤|迭代(?!次数)|ステップ|스텝|Schritt",
        " step ",
    ),
    (
        _REWARD_STEMS,
        f"(?:(?:({_MEAN_FORMS[0]})|({_TOTAL_FORMS[0]})) ?)?(?:回合)?({_A_REWARD}|{_A_SCORE})"
        f"(?: ?(?:({_MEAN_FORMS[1]})|({_TOTAL_FORMS[1]})))?",
        _as_reward,
    ),
    (_EPISODE_STEMS, r"第 {0,2}(\d{1,9}) {0,2}(?:个?回合|局)", _as_episode),
    (_EPISODE_STEMS, r"(\d{1,9}) ?(?:번째 ?에피소드|エピソード目)", _as_episode),
    (_EPISODE_STEMS, rf"(?:{_AN_EPISODE})(?:数)?(?=[ :：=#]{{0,4}}\d)", " episode "),
    (("率", "승률", "성공률"), "胜率|勝率|승률", " win rate"),
    (("率", "성공률"), "成功率|성공률", " success rate"),
    (("探索率", "입실론", "псилон"), "探索率|입실론|[Ээ]псилон", " epsilon"),
    # A particle between a name and its value: 손실은 0.53, 損失は0.53, 损失为0.53
    (
        ("은", "는", "이", "가", "は", "が", "为", "為", "是"),
        f"(loss|lr|acc|grad_norm|reward|score) ?{_PARTICLE}(?=\\s{{0,2}}{_A_VALUE})",
        _with_colon,
    ),
)


def has_foreign_loss_name(text: bytes) -> bool:
    """Return True if a text may name a loss or a reward in another language with its accents."""
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
