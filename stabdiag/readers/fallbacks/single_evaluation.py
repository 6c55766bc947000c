"""The scores and losses of a single evaluation, in a text without another record.

::

    ***** Eval results *****
      accuracy = 0.8123
      f1 = 0.7711

They are one record, which is too little to judge a run by. Settings and prose have other names and
sentences, and a loss alone may be a setting.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final

from stabdiag.model.patterns import lazy_pattern
from stabdiag.model.roles.choice import assign
from stabdiag.model.roles.names import is_a_reward, is_evaluation, is_setting
from stabdiag.model.roles.scores import Direction, is_known_score, score_direction
from stabdiag.readers.fallbacks.only_record import short_text, with_only_records
from stabdiag.readers.reader import Reader
from stabdiag.readers.source import Stream
from stabdiag.readers.text.evidence.excerpts import ASSIGNS, SENTENCE
from stabdiag.readers.text.evidence.single_record import PAGE_HEADING
from stabdiag.readers.text.grammars.plain_lists import has_column
from stabdiag.readers.text.lines.counters import LONE_COUNT, counter_value, is_word, line_counters
from stabdiag.readers.text.lines.grammar import NUMBER_PATTERN, is_a_loss
from stabdiag.readers.text.lines.tokens import Field, line_fields
from stabdiag.readers.text.names.notations import find_notations
from stabdiag.readers.text.names.standard_names import find_normalizations, normalize

# The fewest scores, if no line says that they are the results of an evaluation, and the fewest
# values of a result of episodes.
_MIN_MEASURED: Final = 2
_MIN_OF_EPISODES: Final = 3
_TITLE_OF_RESULTS: Final = lazy_pattern(rb"(?i)(?<![a-z])(?:eval|test|valid|result)")

# Kaldi and ESPnet: %WER 10.86 [ 3729 / 34324, 665 ins, 1142 del, 1922 sub ]
_ERROR_RATE: Final = lazy_pattern(
    rb"%%([WCP]ER) (%b) \[ {0,4}\d{1,12} / \d{1,12}[^\n]{0,400}" % NUMBER_PATTERN
)
# Bars of tqdm are not a part of the text.
_BAR_OF_TQDM: Final = lazy_pattern(rb"[^\n]{0,200}\d%\|[^\n\[]{0,400}\[[^\]\n]{0,200}\]")
# The word and the sentence error rate of two sets.
_MAX_RATES: Final = 4
_TITLE_OF_TRAINING: Final = lazy_pattern(rb"(?i)train")
# Evaluating validation set, above its scores.
_SET_TITLE: Final = lazy_pattern(
    rb"(?i)(?<![a-z])(train|valid|val|dev|eval|test)(?:ing|ation)?(?![a-z])"
)

_NEXT: Final = lazy_pattern(rb",|[ \t]{1,8}[-+]?\.?\d|[ \t]{0,8}$")
# A loss with more values is a series, with any separators.
_MORE_VALUES: Final = lazy_pattern(rb"(?:[ \t]{0,8}[,;\t ][ \t]{0,8}[-+]?\.?\d[\d.eE+-]{0,30}){2}")
# A statement of source code.
_CODE_LINE: Final = lazy_pattern(
    rb"[ \t]{0,40}(?:for|while|if|elif|else|def|class|import|from|return|print|with)\b"
)
_ANY_WORD: Final = lazy_pattern(rb"[A-Za-z][A-Za-z\d]")
# The report of scikit-learn: rows of classes, the accuracy and the means below a heading. Older
# versions print one mean.
_REPORT: Final = lazy_pattern(
    rb"(?m)^(?:[^\n]{0,60}[ \t:]precision {1,8}recall {1,8}f1-score {1,8}support[ \t]{0,8}\n"
    rb"(?:[^\n]{0,120}\n){1,200}?|(?=[ \t]{0,60}accuracy ))"
    rb"(?:[ \t]{0,60}accuracy {1,60}(?P<accuracy>\d\.\d{1,4}) {1,12}\d{1,12}[ \t]{0,8}\n)?"
    rb"(?:[ \t]{0,60}m(?:acro|icro) avg [^\n]{1,80}\n){0,2}"
    rb"[ \t]{0,60}(?:weighted avg|avg / total) {1,12}(?P<precision>\d\.\d{1,4})"
    rb" {1,12}(?P<recall>\d\.\d{1,4}) {1,12}(?P<f1>\d\.\d{1,4}) {1,12}\d{1,12}[ \t]{0,8}$"
)

# A row of a frame, as Rich and Lightning print it: │ test_f1 │ 0.87 │. If it has a number for each
# set, the first one counts.
_FRAME_BAR: Final = rb"[ \t]{0,80}(?:\||\xe2\x94[\x82\x83]|\xe2\x95\x91)[ \t]{0,80}"
_FRAMED_PAIR: Final = lazy_pattern(
    rb"(?m)^%b[*`]{0,2}([A-Za-z][\w@./() -]{0,60}?)[*`]{0,2}%b[*`]{0,2}(%b%%?)[*`]{0,2}%b"
    rb"[^A-Za-z\n]{0,400}$" % (_FRAME_BAR, _FRAME_BAR, NUMBER_PATTERN, _FRAME_BAR)
)

# What the settings of a program have and its results lack.
_SETTING_NAME: Final = lazy_pattern(r"batch[_ ]?size|seed")

# A score has decimals, unlike the number of its classes, or is not finite.
SCORE_VALUE: Final = lazy_pattern(rb"[-+]?(?:\d{0,9}\.\d{1,20}(?:[eE][-+]?\d{1,4})?|(?i:nan|inf))")
_LONG_LOSS: Final = lazy_pattern(rb"[-+]?(?:\d{0,9}\.\d{3,20}(?:[eE][-+]?\d{1,4})?|(?i:nan|inf))")


def evaluated(
    stream: Stream, detect: Callable[[Stream], Reader | None]
) -> tuple[Stream, Reader] | None:
    """Return the stream of the only scores in a text as a JSON record, and its reader.

    Return None if there are none that ``detect`` recognizes.
    """
    text = short_text(stream)
    if text is None or has_column(stream.peek(len(text))):
        return None
    # In a log, the best record repeats one above it; here, it may be the only one.
    usual = normalize(text, (*find_normalizations(text), *find_notations(text)))
    record = _find_scores(usual) or _find_scores(text) or _find_report(text)
    if record is None:
        return None
    note = "only the scores of an evaluation are read"
    return with_only_records(stream, [record], detect, note)


def _find_scores(data: bytes) -> list[tuple[str, str]] | None:
    """Return the scores of the only evaluation of a text, or None."""
    rates = _ERROR_RATE.findall(data)
    if len(rates) > _MAX_RATES:
        return None  # of a search for the best weight of the language model
    if rates:
        return [(name.decode(), value.decode()) for name, value in dict(reversed(rates)).items()]
    lines = lines_with_words(_with_plain_pairs(data))
    fields = [(line, [*assigned_fields(line)]) for line in lines]
    named = _with_sets(fields)
    others = [line for line, items in fields if not items and not _begins_list(line)]
    if len(others) > len(lines) - len(others) or not _are_single_results(lines, named):
        return None
    values = [(item.name, line[slice(*item.value)]) for line, item in named]
    scores = [(name, value) for name, value in values if is_score(name) or is_loss_or_norm(name)]
    measured = _measured_names(scores)
    is_titled = (
        any(map(_TITLE_OF_RESULTS.search, others))
        or (any(map(is_evaluation, measured)) and len(named) + len(others) > 1)
        or any(LONE_COUNT in line_counters(line) for line in lines)
        or (any(map(is_a_reward, measured)) and len(named) >= _MIN_OF_EPISODES)
    )
    if len(measured) < (1 if is_titled else _MIN_MEASURED):
        return None
    counters = _find_counters(lines)
    is_result = not counters and any(
        _TITLE_OF_RESULTS.search(line) and not _TITLE_OF_TRAINING.search(line) for line in others
    )
    return [
        *counters,
        *((_result_name(name) if is_result else name, value.decode()) for name, value in scores),
    ]


def _with_plain_pairs(data: bytes) -> bytes:
    """Return a text with the rows of its frame or report as names and values, and without bars."""
    framed = [b"%b: %b" % pair for pair in _FRAMED_PAIR.findall(data)]
    data = b"\n".join(framed) if len(framed) >= _MIN_MEASURED else _REPORT.sub(_as_pairs, data)
    return _BAR_OF_TQDM.sub(b"", data) if b"%|" in data else data


def _are_single_results(lines: Sequence[bytes], named: Sequence[tuple[bytes, Field]]) -> bool:
    """Return True if all names differ, and no value is a setting or part of a list."""
    names = [item.name.lower() for _, item in named]
    if len({*names}) < len(names) or is_code_or_settings(lines, names) or assign(names).has("lr"):
        return False
    return not any(
        is_a_loss(item.name) and _MORE_VALUES.match(line, item.value[1]) for line, item in named
    )


def _measured_names(scores: Sequence[tuple[str, bytes]]) -> list[str]:
    """Return the names of the values that a program measured.

    A single loss may be a setting, stop_loss: 0.02.
    """
    trained = [name for name, value in scores if not is_score(name) and _LONG_LOSS.fullmatch(value)]
    measured = [name for name, value in scores if is_score(name) and SCORE_VALUE.fullmatch(value)]
    return measured + trained if measured or not all(map(is_a_loss, trained)) else measured


def _find_counters(lines: Sequence[bytes]) -> list[tuple[str, str]]:
    """Return the counters of a text with one count each, or else its only count without a name."""
    counters = [
        (word, str(*counts))
        for word, counts in _counts(lines).items()
        if len(counts) == 1 and assign([word]).has("step", "epoch")
    ]
    rounds = [line[slice(*at)] for line in lines if (at := line_counters(line).get(LONE_COUNT))]
    if not counters and len(rounds) == 1:
        return [("step", str(counter_value(rounds[0])))]
    return counters


def lines_with_words(data: bytes) -> list[bytes]:
    """Return the lines of a text that have a word."""
    return [line for line in data.split(b"\n") if _ANY_WORD.search(line)]


def is_code_or_settings(lines: Iterable[bytes], names: Iterable[str]) -> bool:
    """Return True if lines are source code, or if one of the names on them is of a setting."""
    return any(map(_CODE_LINE.match, lines)) or any(
        is_setting(name) or _SETTING_NAME.search(name) for name in names
    )


def _result_name(name: str) -> str:
    """Return the name of a value below the title of an evaluation: a loss becomes ``eval_loss``."""
    is_loss = assign([name]).has("loss") or score_direction(name) is Direction.LOWER
    return f"eval_{name}" if is_loss and not (_names_set(name) or is_evaluation(name)) else name


def _find_report(data: bytes) -> list[tuple[str, str]] | None:
    """Return the means of the only report of scikit-learn among other lines, or None."""
    reports = [*_REPORT.finditer(data)]
    is_page = len(PAGE_HEADING.findall(data)) > 1
    if len(reports) != 1 or is_page or any(map(_CODE_LINE.match, data.split(b"\n"))):
        return None
    pairs = (line.split(b": ") for line in _as_pairs(reports[0]).split(b"\n"))
    return [(name.decode(), value.decode()) for name, value in pairs]


def _with_sets(fields: Sequence[tuple[bytes, Sequence[Field]]]) -> list[tuple[bytes, Field]]:
    """Return the values with the names of their sets, if two sets use the same names.

    Evaluating validation set is above MRR: 0.51, and Evaluating test set above MRR: 0.49.
    """
    named = [(line, item) for line, items in fields for item in items]
    if len({item.name for _, item in named}) == len(named):
        return named
    result: list[tuple[bytes, Field]] = []
    prefix = ""
    for line, items in fields:
        titles = _SET_TITLE.findall(line)
        prefix = f"{titles[-1].decode().lower()}_" if titles else prefix
        result += [
            (line, item if _names_set(item.name) else item._replace(name=f"{prefix}{item.name}"))
            for item in items
        ]
    if not prefix:
        return result
    # The best value of a set may be printed again.
    values = {
        (item.name, line[slice(*item.value)]): (line, item) for line, item in reversed(result)
    }
    return [*reversed(values.values())]


def _names_set(name: str) -> bool:
    """Return True if a name begins with the name of a set: Train loss, val_acc."""
    return _SET_TITLE.match(name.encode()) is not None


def _as_pairs(report: re.Match[bytes]) -> bytes:
    """Return the means of a report as names and values."""
    means = (b"weighted_%b" % name for name in (b"precision", b"recall", b"f1"))
    pairs = [*zip(means, report.group("precision", "recall", "f1"), strict=True)]
    accuracy = [(b"accuracy", report["accuracy"])] if report["accuracy"] else []
    return b"\n".join(b"%b: %b" % pair for pair in [*accuracy, *pairs])


def assigned_fields(line: bytes) -> Iterator[Field]:
    """Yield the fields of a line with nothing but a sign or blanks before their values.

    Sentences about a score do not count. Lists do not count either: their first value may belong to
    an epoch or a class.
    """
    for item in () if SENTENCE.search(line) else line_fields(line):
        gap, after = line[item.at[1] : item.value[0]], line[item.value[1] :]
        if ASSIGNS.fullmatch(gap) and not (gap.endswith((b"[", b"(")) and _NEXT.match(after)):
            yield item


def _begins_list(line: bytes) -> bool:
    """Return True if a line has a name and the values of several classes."""
    return any(line[item.at[1] : item.value[0]].endswith(b"[") for item in line_fields(line))


def is_score(name: str) -> bool:
    """Return True for the name of a score, a reward or the loss of an evaluation."""
    is_evaluated_loss = is_a_loss(name) and is_evaluation(name)
    return is_known_score(name) or is_a_reward(name) or is_evaluated_loss


def is_loss_or_norm(name: str) -> bool:
    """Return True for the name of a loss or of a gradient norm of the training."""
    return is_a_loss(name) or assign([name]).has("grad_norm")


def _counts(lines: Sequence[bytes]) -> dict[str, set[int]]:
    """Return the counts of each counter that is a word."""
    counts: dict[str, set[int]] = {}
    for line in lines:
        for word, at in line_counters(line).items():
            if is_word(word):
                counts.setdefault(word.decode(), set()).add(counter_value(line[slice(*at)]))
    return counts
