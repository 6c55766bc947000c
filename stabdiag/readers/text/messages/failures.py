"""Lines of a program that report a non-finite loss, gradient or other value.

``FloatingPointError: Loss is NaN at step 400, stopping``, ``RuntimeError: Function
'LogSoftmaxBackward0' returned nan values in its 0th output.``, ``WARNING: Current loss value is
nan``. The wording differs from program to program. A line counts if it names a value that is not
finite, and is an exception or names a loss, a gradient, a weight or the training as well.
Source code, comments, settings, conditions and metrics of an evaluation do not count.
"""

from __future__ import annotations

from enum import Enum, auto
from functools import lru_cache
from typing import Final

from stabdiag.model.patterns import lazy_pattern
from stabdiag.readers.text.lines.line_forms import SAME_DIGITS
from stabdiag.readers.text.lines.values import NOT_MEASURED
from stabdiag.readers.text.messages.message_kinds import without_labels


class Failure(Enum):
    """The failure that a line reports."""

    LOSS = auto()
    GRADIENT = auto()
    SKIPPED_STEP = auto()
    MINIMUM_SCALE = auto()


# Most patterns are for lines in lower case: to ignore the case takes several times as long.

# A value that is not finite, as a word of a sentence.
_NOT_FINITE: Final = (
    rb"(?<![\w./-])[-+]?(?:"
    rb"(?:nan/inf|inf/nan)s?(?! (?:check|guard|detect(?:ion|or)|filter|monitor))"
    rb"|nans?|infs?|infinit(?:y|ies)|infinite(?! (?:data|loop|loader|sampler|stream|iterator"
    rb"|generator|horizon))|non[- ]?finite|(?:not|never)(?: been)? (?:a )?finite|isn't finite"
    rb"|no longer finite|diverged|(?:not|no longer) a number)"
    + rb"(?![\w/(-]|\.\w| (?:-{1,3}>|={1,3}>|~>|to|"
    + "→|⟶|➜".encode()
    + rb") [-+]?\d)"
)
_NAMES_IT: Final = lazy_pattern(_NOT_FINITE)
# Messages of exceptions about NaN parameters that do not contain the word NaN.
_IMPLIES_IT: Final = lazy_pattern(
    rb"expects all elements of std >= 0|to satisfy the constraint [^\n]{0,200}found invalid values"
    rb"|nvalid loss, terminating"
    rb"|ssert\w{0,10}\b[^\n]{0,60}\bfailed\b[^\n]{0,60}\.is_?(?:finite|nan)\b"
    rb"|ssertion [`'!][^\n]{0,60}\bis_?(?:finite|nan)\([^\n]{0,60} failed"
    rb"|heck failed: [^\n]{0,60}\bis_?(?:finite|nan)\b|[Cc]heck_?[Nn]umerics[^\n]{0,200}NaN"
    rb"|N[Aa][Nn] in summary histogram"
)
# A line that says nothing else: NaN detected!
_IS_ALONE: Final = lazy_pattern(
    rb"[\W_]{0,20}(?:(?:error|fatal|warning)[\W_]{1,4})?(?:nans?|infs?|nan/inf|nan or inf)"
    rb"(?: values?)? (?:(?:was|were|has been) )?(?:detected|found|encountered|occurred)[\W_]{0,20}"
    rb"|(?:nan!+ ?){1,9}|nan(?:[ ,;.!]{1,3}nan){1,9}[.! ]{0,5}|[*!#=-]{2,20} ?nan ?[*!#=-]{2,20}"
)
_MINIMUM: Final = lazy_pattern(
    rb"inimum loss scale (?:[\w ]{0,20}(?:reached|exceeded))|loss.scale (?:is )?already at"
    rb" (?:the |its )?minimum|(?:loss.scaler?|scaler)[^\n]{0,40}\b(?:reached|hit|(?:is )?at"
    rb"|(?:fell|dropped) to) (?:(?:the|its|a) )?"
    rb"(?:minimum|floor|lower (?:bound|limit)|zero|0(?![.\d]))"
    rb"|loss.scaler? (?:is |was )?(?:exhausted|used up)"
    rb"|loss.scale (?:is )?at (?:the )?floor|grad_scale is too small"
    rb"|loss.scale (?:dropped|fell|is) below [^\n]{0,40}(?:giving up|abort|stop|exit|terminat|quit)"
)

# A part of each of these three patterns, in lower case: a quick test of a whole text. Words that
# share a part are searched for only if a text has this part.
_FAILURE_WORDS: Final = (
    *(b"nan", b"finit", b"diverged", b"not a number", b"no longer a number"),
    *(b"expects all elements", b"heck failed: std::is"),
)
_FAILURE_WORDS_BY_PART: Final = {
    b"invalid": (b"found invalid values", b"invalid loss"),
    b"overflow": (
        *(b"stop", b"abort", b"terminat", b"exit", b"halt", b"quit", b"bail", b"crash", b"ended"),
        *(b"killed", b"shut", b"giv", b"gave", b"cannot", b"can't"),
    ),
    b"scale": (
        *(b"minimum loss scale", b"at minimum", b"at the minimum", b"at its minimum"),
        *(b"reached", b"hit ", b"is at", b"fell to", b"dropped to", b"at floor", b"at the floor"),
        *(b"too small", b" below ", b"exhausted", b"used up", b"at its", b"lower limit"),
    ),
}
_INFINITE: Final = lazy_pattern(rb"infs?(?![\w/(-])")

# RuntimeError: …, torch.cuda.OutOfMemoryError: …, [rank3]: ValueError: …; and of C++ programs.
_EXCEPTION_NAME: Final = lazy_pattern(
    rb"(?<![\w\"'])(?:[A-Za-z_]\w{0,60}\.){0,8}_?[A-Z]\w{0,60}(?:Error|Exception)(?:: |\()"
    rb"|terminate called after throwing|Check failed: "
)
# A part of each alternative.
_EXCEPTION_PARTS: Final = (b"Error", b"Exception", b"terminate called", b"Check failed")
_SUBJECT: Final = lazy_pattern(
    rb"(?<![a-z])(?:loss(?:es)?|losstensor|gradients?|grads?|grad.?norm|global norm|weights?"
    rb"|parameters?|activations?|logits|likelihood|elbo|model|training|train"
    rb"|numerical instabilit(?:y|ies)|optimi(?:zation|[sz]er(?! ?[:=(]))"
    rb"|objective|network|the update"
    rb"|cost(?= (?:is|was|became|went|turned)))(?![a-z])"
    + "|损失|梯度|損失|勾配|p(?:e|é)rdida|perd(?:as?|ita)|perte|verlust|отер|strat[ay]".encode()
)
# Without a name of what is not finite, the program says that it ends.
_ENDING: Final = lazy_pattern(
    rb"(?<![a-z])(?<!early )(?<!early-)(?:abort|terminat|halt|stopp|exit|quit|bail|crash)"
    rb"(?:ing|ed)(?![a-z])|[.,;!] (?:abort|stop|exit|halt|quit)(?: training)?[.!]?$"
)
_RUN_ENDED: Final = lazy_pattern(
    _ENDING.pattern
    + rb"|(?<![a-z])(?:(?:exit|stop|abort|halt|quit)s|(?:is|was|been|has|have) (?:ended|killed"
    rb"|over)|shut(?:s|ting)? down|giv(?:es|ing) up|gave up|(?:cannot|can't) (?:continue|go on"
    rb"|proceed))(?![a-z])"
)
# fp16 and bf16: lines are compared without their digits.
_COMPUTED: Final = (
    rb"(?:grad|loss|backward|[bf]p?\d\d|numerical|floating|precision|\bamp\b|softmax|logits?)"
)
_OVERFLOW_REPORT: Final = lazy_pattern(
    _COMPUTED + rb"[^\n]{0,60}\boverflow(?:ed)?\b|\boverflow(?:ed)?\b[^\n]{0,60}" + _COMPUTED
)
_OCCURRED: Final = lazy_pattern(
    rb"\b(?:detected|found|occurred|encountered|overflowed)\b|!"
    rb"|overflow(?:[.,;)]| (?:in|on|at|after) )"
)
_GRADIENT_NAME: Final = lazy_pattern(rb"(?<![a-z])(?:grad|gnorm|global.norm)")
_LOSS_NAME: Final = lazy_pattern(rb"(?<![a-z])loss(?!.?scal)")
_SKIPS: Final = lazy_pattern(rb"skip|ignor")
_FATAL_WORDS: Final = lazy_pattern(
    rb"(?<![a-z])(?:error|exception|unexpected result|fail(?:ed|ure)?|fatal|critical|abort|exit"
    rb"|stop|terminat|giv(?:e|ing) up|diverg|halt|quit|bail|crash|shut(?:ting)? ?down"
    rb"|(?:cannot|can't|unable to) (?:continue|go on))"
)

# The time, name and level of a line about nothing wrong: the name of its logger, such as train, is
# not what the line is about.
_CALM_LABEL: Final = lazy_pattern(
    rb"[^\n\"'=]{0,120}?\b(?:debug|info)\b[\]:|) -]{1,8}(?:[\w.]{1,60}(?::(?! )| - | \| ))?"
)
_FOUND_WORDS: Final = lazy_pattern(rb"\b(?:detected|found|encountered|occurred|got)\b")

# The name of a bound, not of what was measured: best_loss = inf.
_BOUND: Final = lazy_pattern(
    rb"(?<![a-z])(?:best|min|max|minimum|maximum|lowest|highest|prev|previous|init|initial"
    rb"|threshold"
    rb"|limit|patience)[\w .-]{0,20}(?:loss|grad|norm)\w{0,20}"
    rb"(?: ?[:=]| (?:(?:is|was) )?(?:initiali[sz]ed|set|reset) (?:to|as|with)) ?[-+]?inf"
    rb"|(?<![a-z])(?:max|initial)[\w .-]{0,20}(?:loss|norm)\w{0,20} inf(?:inity)?\s{0,9}$"
    rb"|clip\w{0,6}[\w .-]{0,20} ?[:=] ?[-+]?inf"
)
_NOT_MEASURED: Final = lazy_pattern(NOT_MEASURED)

# A count of such values, which is 0; or values of the data and samples of a batch, without which it
# was trained.
_NONE_COUNTED: Final = lazy_pattern(
    rb"(?:nans?|infs?|infinite|finite|a number)[\w /-]{0,30} ?[:=] ?(?:0|no|none)\s{0,9}$"
    rb"|(?<!all )\b\d{1,9}"
    rb"(?: of \d{1,9})? (?:sample|utterance)s?\b.{0,40}(?:nan|inf).{0,80}(?:ignor|skipp)ed"
    rb"|(?:ignor|replac|mask|filter|dropp|skipp|remov|fill)(?:ing|ed)"
    rb" (?:\d{1,9} (?:\w{1,12} ){0,3})?nans?"
    rb" (?:target|label|pixel|entr|cell|row|input|feature|token|sample|column|annotation)"
    rb"|nans?\b.{0,30}\b(?:data|rows?|labels?|inputs?|features?|columns?|cells|table|csv)\b.{0,30}"
    rb"\b(?:replac|fill|imput|remov|dropp|mask)ed\b"
    rb"|(?:nan|inf)s?(?:/inf| and inf)? checks?(?: of [\w ]{1,20})?(?::| has| have)? (?:passed|ok\b"
    rb"|done)"
)

# A setting that is not finite, not a value that was measured: model.fill_value=nan, max_norm: inf
_SETTING_NOT_FINITE: Final = lazy_pattern(
    rb"(?<![a-z])(?:na|nan|null|fill|pad|padding|clip|default|missing|limit|bound|max|min|maximum"
    rb"|minimum"
    rb"|threshold|tolerance|horizon|timeout|patience|budget|length|len|capacity|deadline|upper"
    rb"|lower)"
    rb"(?![a-z])[\w.-]{0,40}(?: \w{1,20})? ?[:=] ?[\"']?[-+]?(?:nan|inf)(?:inity)?\b"
    rb"|(?<![a-z])best ?[:=] ?[-+]?inf"
)

# Source code, comments and settings.
_SOURCE_CODE: Final = lazy_pattern(
    rb"^[\s>]{0,80}(?:#(?!###-)|//|\"\"\"|'''|(?:el)?if\b|raise\b|assert\b|return\b|def |class "
    rb"|import "
    rb"|from \w|print\b|logg(?:er|ing)\.|warnings?\.|self\.)"
    # Logs are indented in Markdown as well.
    rb"|^ {4}(?!\s{0,80}[\w .!-]{1,40}\b(?:detected|found|encountered)\b[\w .!-]{0,60}$)"
    rb"|raise \w|(?:torch|np|numpy|math|jnp|tf)\.\w{0,20}is_?(?:nan|inf|finite)"
    rb"|[=:] ?(?:True|False|true|false|yes|no)\b|(?:^|\s)--\w|\b(?:en|dis)abled\b"
)
# Conditions, plans and denials shortly before a value: nothing happened.
_CONDITION_WORDS: Final = lazy_pattern(
    rb"\b(?:if|when|whenever|whether|unless|in case|once|avoid|prevent|checks?(?! failed)|checked"
    rb"|checking|(?:scann|look|search|test|screen)(?:ed|ing)|may|might|can|could|would|will"
    rb"|should|must|no|without|0|zero|never|until)\b"
    rb"[^.;\n]{0,60}\Z"
)
_MAX_CONDITION: Final = 80
_EVALUATION_METRIC: Final = lazy_pattern(
    rb"(?<![a-z])(?:val|valid|validation|eval|evaluation|test|metrics?|map|ap|f1|accuracy|auc"
    rb"|score|psnr|fid|bleu)(?![a-z])"
)
# Monitored metric loss = nan
_TRAINING_PREFIX: Final = lazy_pattern(
    rb"(?<![a-z])train|(?<!val )(?<!eval )(?<!test )metric loss ?[=:] ?[-+]?(?:nan|inf)"
)
# A record with a finite loss, and another value that is not finite.
_FINITE_LOSS: Final = lazy_pattern(
    rb"oss[\w/]{0,30}[\"']?[ \t]{0,4}[:= ][ \t]{0,4}[-+]?\d{1,9}\.\d"
)


def has_failure_word(data: bytes) -> bool:
    """Return True if a text contains a word that each failure has; cheap."""
    lowered = data.lower()
    if any(word in lowered for word in _FAILURE_WORDS):
        return True
    parts = (words for part, words in _FAILURE_WORDS_BY_PART.items() if part in lowered)
    if any(word in lowered for words in parts for word in words):
        return True
    return _INFINITE.search(lowered) is not None


def is_exception(line: bytes) -> bool:
    """Return True if a line is the message of an exception."""
    # The search takes far longer than these on a line of many words.
    if not any(part in line for part in _EXCEPTION_PARTS):
        return False
    return _EXCEPTION_NAME.search(line) is not None


def names_no_value(line: bytes) -> bool:
    """Return True if a line has an infinite bound of a measure, or says that it has no value."""
    return _BOUND.search(line.lower()) is not None or _NOT_MEASURED.search(line) is not None


def names_end(name: bytes) -> bool:
    """Return True if words in front of a value say that the program fails or stops."""
    return _FATAL_WORDS.search(name.lower()) is not None


def classify_failure(line: bytes) -> Failure | None:
    """Return the failure that a line reports, or None if all its values are finite."""
    return _failure_of_form(line.translate(SAME_DIGITS))  # a log repeats its lines


@lru_cache(maxsize=4096)
def _failure_of_form(line: bytes) -> Failure | None:
    if not has_failure_word(line):
        return None
    text = line.lower()
    is_minimum = _MINIMUM.search(text) is not None
    is_implied = _IMPLIES_IT.search(line) is not None
    patterns = (_RUN_ENDED, _OVERFLOW_REPORT, _OCCURRED)
    is_overflow = b"overflow" in text and all(pattern.search(text) for pattern in patterns)
    if not (is_minimum or is_implied or is_overflow or _NAMES_IT.search(text)):
        return None
    if any(p.search(line) for p in (_SOURCE_CODE, _FINITE_LOSS)):
        return None
    if _is_harmless(text):
        return None
    if is_minimum:
        return Failure.MINIMUM_SCALE
    if is_implied or (is_overflow and not _SKIPS.search(text)):
        return Failure.LOSS
    raised = is_exception(line)
    if not raised:
        label = _CALM_LABEL.match(text)
        begin = 0 if label is None or _FOUND_WORDS.search(text) else label.end()
        is_about_training = (
            _SUBJECT.search(text, begin)
            or _ENDING.search(text)
            or _IS_ALONE.fullmatch(without_labels(line[begin:]).lower())
        )
        if not is_about_training or _is_condition(text):
            return None
        if _EVALUATION_METRIC.search(text) and not _TRAINING_PREFIX.search(text):
            return None
    if _GRADIENT_NAME.search(text) and not _LOSS_NAME.search(text):
        if _SKIPS.search(text) and not _ENDING.search(text):
            return Failure.SKIPPED_STEP
        return Failure.LOSS if raised or _FATAL_WORDS.search(text) else Failure.GRADIENT
    return Failure.LOSS


def states_failure(line: bytes) -> bool:
    """Return True if a line of text has a value that is not finite, except of an evaluation."""
    text = line.lower()
    if _NAMES_IT.search(text) is None or _is_condition(text) or _is_harmless(text):
        return False
    return not (_SOURCE_CODE.search(line) or _EVALUATION_METRIC.search(text))


def _is_harmless(text: bytes) -> bool:
    """Return True if what is not finite is a setting, a bound, or a part of the data."""
    return any(
        pattern.search(text)
        for pattern in (_BOUND, _NONE_COUNTED, _NOT_MEASURED, _SETTING_NOT_FINITE)
    )


def _is_condition(text: bytes) -> bool:
    """Return True if words before a value that is not finite say that it did not occur."""
    starts = (match.start() for match in _NAMES_IT.finditer(text))
    return any(_CONDITION_WORDS.search(text, max(at - _MAX_CONDITION, 0), at) for at in starts)
