"""Find the names and values on a line of any log, and the losses among them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, TypeAlias

from stabdiag.readers.text.grammar import NUMBER

if TYPE_CHECKING:
    from collections.abc import Iterator

# Where the value of each name stands in a line.
Spans: TypeAlias = dict[str, tuple[int, int]]

# The part of loss, Loss, train_loss, … that every line with a loss contains.
LOSS: Final = b"oss"

# What a log may call its loss if it calls nothing a loss, in the order of preference: an error,
# such as mse, is as often a metric as it is a loss.
OTHER_LOSSES: Final = (
    b"LOSS",
    *(b"cross_entropy", b"cross-entropy", b"cross entropy", b"crossentropy", b"CrossEntropy"),
    *(b"Cross-Entropy", b"Cross-entropy", b"Cross Entropy", b"Cross entropy", b"xent"),
    *(b"nll", b"NLL", b"cost", b"Cost", b"elbo", b"ELBO", b"objective", b"Objective"),
    *(b"bce", b"BCE", b"rmse", b"RMSE", b"mse", b"MSE", b"ce", b"CE", b"mae", b"MAE"),
    *(b"'s l2", b"'s l1", b"Score at", b"perplexity", b"Perplexity", b"ppl", b"PPL"),
)
# Of these, the one that rises as a network learns.
ELBO: Final = b"elbo"
# policy=2.1 mse=0.2 reg=0.1 total=2.4, as Leela Chess Zero trains: the total beside the parts.
SUMMED: Final = re.compile(rb"\b[Rr]eg=%b [^\n]{0,80}\b([Tt]otal)=" % NUMBER)
_OTHER_LOSS: Final = re.compile(
    r"((?:(?:val|valid|validation|eval|test|dev|train|training|tr|avg|average|mean|total)[ _/-]"
    r"|\w{1,30}'s ){0,2})"
    r"(?:cross[ _-]?entropy|xent|nll|cost|elbo|objective|bce|r?mse|ce|mae|l[12]|total|score at"
    r"|perplexity|ppl)",
    re.IGNORECASE,
)

# The prefix of names on a line of an evaluation.
VALIDATED: Final = "val "

# Names of several capitalised words: Generator Loss, Avg. Train Loss, Learning Rate, Loss Scale,
# Loss D, Gen Loss Total. The level of a logger is no part of them.
_TITLE: Final = (
    rb"(?<![A-Za-z])(?:(?!INFO|DEBUG|WARN|ERROR)[A-Z][\w-]{0,20}\.? ){1,3}"
    rb"(?:Loss(?: Total)?|Rate|Norm|Scale|Cost|Entropy|Objective|MSE|BCE|NLL|ELBO)"
    rb"|[Ll]oss [A-Z]\w?(?![\w.])"
)

# What Python prints around a number: [1e-4], '1e-4', np.float64(2.31), tensor([2.31], device=…)
_AROUND: Final = rb"(?:[\[\"']|(?:np\.float(?:16|32|64)|tensor|[Aa]rray)\(\[?)?"

# A number, without the full stop of a sentence that it ends.
_NUMBER: Final = NUMBER.replace(rb"\d[\d.]{0,40}", rb"\d{1,40}(?:\.\d{0,40})?")

# What may follow a number: nanxxx, as Python fills the width of a NaN, and the points that end a
# sentence, as in Loss: 2.31.. Accuracy: 0.5.. That a loss is NaN or inf is no number.
_AFTER: Final = rb"(?:(?<=[nN])x{1,4}|\.{1,3}(?![\w.]))?(?![\w/\[-]|\.\S|:\w|,\d| or )"

# No name begins with what replaces a number: grad_norm: N/A loss: 2.31, loss_ctc inf lr 1e-4
_NO_VALUE: Final = rb"(?:N/A|None|null|[nN]a[nN]|[iI]nf)[ \t]"

# loss: 2.31, "lr"=1e-4, grad norm: 0.5, training's logloss: 0.5, loss is 2.31; and without a sign,
# loss 2.31, for names that are known to be those of measurements.
PAIR: Final = re.compile(
    rb"(?<![A-Za-z\d])(?<!N/)(?!%b)(%b|[A-Za-z][\w./-]{0,60}(?:'s)?(?: [a-z]\w{0,20}){0,2}?)"
    rb"(?:[\"'\]]? {0,12}[:=][ \t]{0,12}| is )%b(%b)%b"
    rb"|(?<![\w./-])(?!%b)"
    rb"((?:[A-Za-z]\w{0,20}[ /])?[\w./-]{0,40}?"
    rb"(?:[Ll]oss|LOSS|lr|[Ll]earning [Rr]ate|[Nn]orm(?:/[\w.-]{1,40})?|[Ss]cale|ppl"
    rb"|[Aa]cc(?:uracy)?|[Cc]ost|xent|nll|NLL|bce|BCE|mse|MSE|elbo|ELBO))"
    rb"\]?[ \t]{1,24}%b(%b)%b"
    % (_NO_VALUE, _TITLE, _AROUND, _NUMBER, _AFTER, _NO_VALUE, _AROUND, _NUMBER, _AFTER)
)

# What a word and a number look like that stand in turn: epoch 3 step 120 loss 2.31 foo 1.2
_WORD: Final = re.compile(rb"[A-Za-z][\w./-]{0,40}")
_WHOLE_NUMBER: Final = re.compile(rb"%b[,;|]?" % _NUMBER)
_FEWEST_IN_TURN: Final = 3

# Loss at step 100: 2.31, Cost after epoch 3: 2.31, Training loss (for one batch) at step 100: 2.31;
# and Score at iteration 100 is 2.31, as Deeplearning4j calls its loss.
TOLD_AT: Final = re.compile(
    rb"(?<![\w./-])((?:[A-Za-z][\w-]{0,20} ){0,2}?[\w./-]{0,40}"
    rb"(?:[Ll]oss|LOSS|[Cc]ost|[Ee]ntropy|[Oo]bjective|MSE|mse|NLL|nll|Score(?= at)))"
    rb"(?: \([\w ]{1,40}\))? (?:at|after|in|for|on|of) (?:(?:the )?end of )?"
    rb"(?:global[ _])?(?:step|iteration|iter|epoch|batch|update|episode|round)[ #:]{1,3}"
    rb"\d{1,12}(?:/\d{1,12})?(?: is | was | {0,3}[:=] {0,4})%b(%b)%b" % (_AROUND, _NUMBER, _AFTER),
)
# What is no loss without what stands behind it; and words that tell of one out of many.
_SCORE: Final = b"Score"
_OF_MANY: Final = re.compile(
    rb"(?<![a-z])(?:best|lowest|min(?:imum|imal)?)(?![a-z])[^:=]{0,60}$", re.IGNORECASE
)

# Losses: x 0.272, y 0.254, total 15.143
_LIST: Final = re.compile(rb"[Ll]osses: ([^\n\]]{1,1000})")
_LISTED: Final = re.compile(rb"(?<![\w.])(\w{1,40}) (%b)(?=[,\]\s]|$)" % NUMBER)

# CV is the set for cross-validation.
_EVALUATION: Final = re.compile(
    rb"(?<![A-Za-z])(?:val|vali|valid|validation|eval|evaluation|test|dev|(?-i:CV))(?![A-Za-z_])",
    re.IGNORECASE,
)


def listed(line: bytes) -> Spans:
    """Return the losses of a line that lists them after the word, without signs."""
    found = _LIST.search(line) if b"osses: " in line else None
    if found is None:
        return {}
    return {
        f"{one[1].decode()} loss": one.span(2)
        for one in _LISTED.finditer(line, found.start(1), found.end(1))
    }


def in_turn(line: bytes) -> Spans:
    """Return all values of a line that holds nothing but words and numbers in turn.

    There each word names the number behind it, whether the word is known or not.
    """
    tokens = line.split()
    words, numbers = tokens[::2], tokens[1::2]
    if len(words) != len(numbers) or len(words) < _FEWEST_IN_TURN:
        return {}
    if not (all(map(_WORD.fullmatch, words)) and all(map(_WHOLE_NUMBER.fullmatch, numbers))):
        return {}
    found: Spans = {}
    end = 0
    for word, number in zip(words, numbers, strict=True):
        begin = line.index(number, line.index(word, end) + len(word))
        end = begin + len(number.rstrip(b",;|"))
        found.setdefault(word.decode("utf-8", "replace"), (begin, end))
    return found


def told_at(line: bytes) -> Iterator[tuple[str, int, tuple[int, int]]]:
    """Yield what a line tells of a step that stands before the value: name, its place, the span."""
    for match in TOLD_AT.finditer(line):
        if _OF_MANY.search(line[: match.end(1)]):
            continue
        name = match[1] + b" at" if match[1].endswith(_SCORE) else match[1]
        yield name.decode("utf-8", "replace"), match.start(), match.span(2)


def evaluated(line: bytes, first: int) -> bool:
    """Tell whether a word before the first name of a line shows that it is of an evaluation."""
    return _EVALUATION.search(line, 0, first) is not None


def renamed(pairs: Spans, word: bytes) -> Spans:
    """Name a loss what the log calls by a word of ``OTHER_LOSSES``: avg_cost is avg_loss."""
    made: Spans = {}
    for name, span in pairs.items():
        match = _OTHER_LOSS.fullmatch(name)
        is_one = match is not None and name.endswith(word.decode())
        made.setdefault(f"{match[1]}loss" if match is not None and is_one else name, span)
    return made
