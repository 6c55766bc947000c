"""A last line in words that no other rule knows.

By itself it reports no failure. Below the last record of a run that is not complete, it may say why
the records end.
"""

from __future__ import annotations

from typing import Final

from stabdiag.model.patterns import lazy_pattern
from stabdiag.readers.text.messages.alarms import names_failure
from stabdiag.readers.text.messages.calm_words import (
    CALM_LEVEL,
    CONDITION_BEFORE,
    DATA_WORDS,
    DENIAL,
    HARMLESS,
    LISTED_WORDS,
    PLANNED,
    SWITCH_OR_NUMBER,
    WRITTEN_TEXT,
)
from stabdiag.readers.text.messages.message_kinds import is_source_line, without_labels
from stabdiag.readers.text.messages.recoveries import goes_on
from stabdiag.readers.text.messages.trailers import end_of_words

_CLOSING_BYTES: Final = 2000
_LONGEST_CLOSING: Final = 200
# Words only: a name with a value is a measure or a setting.
_CLOSING_SENTENCE: Final = lazy_pattern(
    rb"[A-Za-z][\w'/.()-]{0,30}[,:]?(?: [\w'\"()/.-]{1,40}[,;:]?(?<!:)){1,30}[ .!]{0,4}"
)
_NAMED_WORD: Final = lazy_pattern(rb"\S+(?:: \S+|:? \W?\d+\W?)")
# A measure has a decimal number, and a sentence at most this many whole ones.
_DECIMAL_NUMBER: Final = lazy_pattern(rb"\d\.\d")
_WHOLE_NUMBERS: Final = lazy_pattern(rb"(?<![\w-])\d+")
_MOST_WHOLE_NUMBERS: Final = 2
_ASCII_DIGITS: Final = b"0123456789"
_LEADING_TIME: Final = lazy_pattern(
    rb"\[[a-z][\w.-]{1,30}\] |(?=[^A-Za-z\n]{0,40}[:\]])[^A-Za-z\n]{1,40}(?=[A-Za-z])"
)
# What the program does next: Closing the writer.
_NEXT_ACTIVITY: Final = lazy_pattern(rb"(?:now )?[a-z]{2,20}ing(?![a-z])")
# Words of lines that programs print at the end of a run that goes well, or in its middle.
_USUAL_WORDS: Final = lazy_pattern(
    rb"(?<![a-z_])(?:sav(?:ed|ing)|writ(?:ing|ten)|wrote|load(?:ed|ing)|best|valid(?:at\w*)?"
    rb"|eval(?:uat\w*)?|test(?:s|ed|ing)?|scor\w*|accurac\w*|metrics?|results?|elapsed|total|finish\w*"
    rb"|complet\w*|done|succe(?:ss|ed)\w*|(?:end|number) of|early|improv\w*|plots?|figures?|graphs?"
    rb"|export\w*|start(?:ing|ed)|begin\w*|generat\w*|sampl\w*|predict\w*|using|deprecat\w*|summary"
    rb"|reduc\w*|adjust\w*|lower(?:ing|ed)|decay\w*|upload\w*|download\w*|synced|view|http\w*|www"
    rb"|converge[ds]|criterion|patience|normally|peak|memory usage|average|code 0|max_\w+"
    rb"|(?:next|last|more) (?:epoch|stage|phase)s?|(?:^|the )end|switch(?:ing|ed)|thanks?|bye"
    rb"|(?:set to|is|are|reached) \d{1,9}|(?:is|are) the|count|handle[dr]\w*|registered|finite"
    rb"|(?:remov|delet)ed (?!by|while|during)|stored|copied|pushed|published|compressed|converted"
    rb"|merged|created|printed|logged(?! out)|pruned|notif\w*|type"
    rb"|on purpose|as (?:requested|planned|configured|expected|scheduled|intended|desired)"
    rb"|restored|exit 0|logs (?:are|is)|press|from scratch"
    rb"|flushed|freed|(?<!core was )dumped(?! core)|warm-?up|symlink|(?:status|return) 0|seed"
    rb"|learning rate|(?:tensorboard|timer|profiler|monitor|logger|writer|dashboard)s?"
    rb" (?:(?:was|were|is|are) )?(?:stopped|closed|ended|shut down)"
    rb"|(?:data ?)?(?:loader|set|iterator|generator) (?:is |was )?exhausted"
    rb"|disabl\w*|(?:de|in)creas\w*|unchanged|please|help|why|how|what|i|my|anyone|you)(?![a-z])"
)
# What people write below a log that they paste, and a line of their program.
_PROSE_OR_SOURCE: Final = lazy_pattern(
    rb"^(?:see|so|but|and|kind|best|import|from|return) |\w\([^)]"
    rb"|\b(?:seems?|attached|curves?|looks|github|somebody|python)\b"
)
# What a program wanted to do and did not.
_NOT_DONE: Final = lazy_pattern(rb"\b(?:could not|couldn't|can ?not|can't|unable to)\b")
_NONFINITE_VALUE: Final = lazy_pattern(rb"\b(?:nan|inf)s?\b")
# Words that make a word for a failure harmless.
_HARMLESS_WORDS: Final = (HARMLESS, DENIAL, CONDITION_BEFORE, PLANNED, DATA_WORDS)


def find_closing_line(data: bytes) -> int | None:
    """Return the position of a last line in words that no other rule knows, or None.

    It is a sentence, and its first two words, without their digits, are not above it.
    """
    end = end_of_words(data)
    begin = data.rfind(b"\n", max(end - _CLOSING_BYTES, 0), end) + 1
    line = data[begin:end].strip()
    if not 0 < len(line) <= _LONGEST_CLOSING or is_source_line(line):
        return None
    message = _message(line)
    if not _is_sentence(message) or _is_known(message.lower()) or goes_on(message):
        return None
    # Records and their counters begin alike, also the last one of a killed job, which breaks off.
    start = b" ".join(message.split()[:2]).translate(None, _ASCII_DIGITS)
    return None if start in data[:begin].translate(None, _ASCII_DIGITS) else begin


def _message(line: bytes) -> bytes:
    """Return a line without the labels, the time and the level in front of it."""
    message = without_labels(line)
    label = CALM_LEVEL.match(message) or _LEADING_TIME.match(message)
    return message if label is None else message[label.end() :]


def _is_sentence(message: bytes) -> bool:
    if _CLOSING_SENTENCE.fullmatch(message) is None or _NAMED_WORD.fullmatch(message):
        return False
    return (
        not _DECIMAL_NUMBER.search(message)
        and len(_WHOLE_NUMBERS.findall(message)) <= _MOST_WHOLE_NUMBERS
    )


def _is_known(lowered: bytes) -> bool:
    """Return True if a message in lower case is usual, or if other rules found it harmless."""
    if any(form.match(lowered) for form in (WRITTEN_TEXT, _NEXT_ACTIVITY)):
        return True
    if _PROSE_OR_SOURCE.search(lowered):
        return True
    if _USUAL_WORDS.search(lowered) and not _NOT_DONE.search(lowered):
        return True
    if any(form.fullmatch(lowered) for form in (SWITCH_OR_NUMBER, LISTED_WORDS)):
        return True
    names_value = _NONFINITE_VALUE.search(lowered) is not None
    if names_value and _WHOLE_NUMBERS.search(lowered):
        # It may be a record, for which the readers of records account.
        return True
    is_failure = names_value or names_failure(lowered)
    return is_failure and any(words.search(lowered) for words in _HARMLESS_WORDS)
