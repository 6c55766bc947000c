"""Replace unusual forms of a loss and its name, which any program may print, by a usual one."""

from __future__ import annotations

import re
from typing import Final

from stabdiag.model.patterns import lazy_pattern
from stabdiag.readers.text.lines.grammar import NUMBER_PATTERN, Normalization

# Counts between the name and the value: Loss [1, 100](epoch, minibatch): 2.31, loss (epoch 1, iter
# 100): 2.31, Loss: [1, 100] 2.31, loss at [1/4, 100/600]: 2.31, and Train loss [100/600]: 2.31
_NAMED_COUNT: Final = rb"(?:(?i:epoch|batch|minibatch|iter(?:ation)?|step)[ :=]{0,2})?\d{1,9}"
_COUNTS: Final = rb" {0,3}%b(?:(?:/\d{1,9})?(?:, {0,6}|\]\[)%b(?:/\d{1,9})?|/\d{1,9})[\])]" % (
    _NAMED_COUNT,
    _NAMED_COUNT,
)
_SHORT_COUNT: Final = lazy_pattern(rb"\d{1,9}(?:/\d{1,9})?")


def _with_counts_first(row: re.Match[bytes]) -> bytes:
    """Return the name of a loss behind its counts: [1, 100] loss: , or [100/600] loss: ."""
    counts = [match[0] for match in _SHORT_COUNT.finditer(row[3])]
    joined = b"][" if all(b"/" in count for count in counts) else b", "
    return b"[%b] %b%b: " % (joined.join(counts), row[1].lstrip(), row[2])


# The counter is in the name of the loss: loss_epoch_3 = 2.31, epoch_3_val_loss: 2.31, Loss (300):
# 2.31, loss[300]: 2.31, and loss of epoch3-batch-50: 2.31. Several on a line are parts of a loss.
COUNTED_NAMES: Final = (
    Normalization((b"oss_epoch_",), rb"\b(\w{0,40}[Ll]oss)_epoch_(\d{1,6})\b", rb"epoch \2 \1"),
    *(
        Normalization(
            (b"oss" + opening,),
            rb"(?m)^([A-Za-z][A-Za-z_]{0,20}[ _])?([Ll]oss)%b(\d{1,9})%b"
            rb"(?= ?[:=] ?%b)(?![^\n]{0,200}oss%b)"
            % (re.escape(opening), re.escape(closing), NUMBER_PATTERN, re.escape(opening)),
            rb"step \3 \1\2",
        )
        for opening, closing in ((b"[", b"]"), (b" (", b")"))
    ),
    *(
        Normalization(
            (b"oss" + before,),
            rb"(?m)^([ \t>*-]{0,8}(?:[A-Za-z]\w{0,20}[ _])?)([Ll]oss|LOSS)%b(%b)"
            rb"(?:\([a-z]{4,12}, ?[a-z]{4,12}\))?(?:[ \t]{1,4}|[ \t]{0,4}[:=][ \t]{0,4})"
            rb"(?=%b(?:[\s,;|]|$))" % (re.escape(before), _COUNTS, NUMBER_PATTERN),
            _with_counts_first,
        )
        for before in (b"[", b" [", b": [", b" at [", b" after [", b"(", b" (", b" at (")
    ),
    Normalization(
        (b" loss of epoch", b"batch"),
        rb" loss of epoch[ _-]?(\d{1,6})[ ,_-]{1,2}batch[ _-]?(\d{1,9}) ?[:=] ?(?=%b)"
        % NUMBER_PATTERN,
        rb" epoch \1 batch \2 loss: ",
    ),
    # The finetuning of GPT-2 counts steps and seconds: [310 | 1234.56] loss=0.91 avg=1.36
    Normalization(
        (b" | ", b"] loss"),
        rb"(?m)^([ \t>]{0,8})\[ ?(\d{1,9}) \| \d{1,9}\.\d{1,4}s?\] (?=loss ?[=:])",
        rb"\1step: \2, ",
    ),
)

# The split or the mean follows the name, without a colon before the value: loss (train) 2.31
# acc [val] 0.5
_SPLIT_WORDS: Final = b"train|training|tr|val|valid|validation|test|dev|eval|avg|mean|ema|total"
QUALIFIED_NAMES: Final = tuple(
    Normalization(
        (b"oss%b%b" % (blank, opening),),
        rb"(?i)\b([a-z]\w{0,20}) ?%b(%b)%b {1,4}(?=%b[\s,;|])"
        % (re.escape(opening), _SPLIT_WORDS, re.escape(closing), NUMBER_PATTERN),
        rb"\2_\1: ",
    )
    for opening, closing in ((b"(", b")"), (b"[", b"]"))
    for blank in (b"", b" ")
)


# A measure, and its value on each split: loss train 2.31, val 2.40; cost tr=2.31 te=2.40
_SPLITS_BEHIND: Final = b"val|valid|validat(?:e|ion)|va|test|te|dev|eval"
SPLITS_OF_MEASURES: Final = tuple(
    Normalization(
        (b"%b %b" % (measure, split),),
        rb"\b%b (%b(?:ing)?)( ?[:= ] ?%b)( ?[,;/| ] ?)(?:%b )?(%b)(?= ?[:= ] ?%b(?:[\s,;|]|$))"
        % (measure, split, NUMBER_PATTERN, measure, _SPLITS_BEHIND, NUMBER_PATTERN),
        rb"\1_%b\2\3\4_%b" % (measure, measure),
    )
    for measure in (
        *(b"loss", b"Loss", b"error", b"cost", b"mse", b"MSE", b"rmse", b"RMSE"),
        *(b"acc", b"accuracy", b"ppl"),
    )
    for split in (b"train", b"tr")
)


# A measure, and the name of the split behind each value: rmse = 2.31 (train), 2.40 (test)
VALUES_OF_SPLITS: Final = tuple(
    Normalization(
        (b"(%b)" % train, b"(%b)" % evaluated),
        rb"(?<![\w.])([A-Za-z]\w{0,20}) ?[:= ] ?(%b) \((%b)\)[,;/|]? {1,3}(%b) \((%b)\)"
        % (NUMBER_PATTERN, train, NUMBER_PATTERN, evaluated),
        rb"\3_\1: \2, \5_\1: \4",
    )
    for train in (b"train", b"training", b"tr")
    for evaluated in (b"val", b"valid", b"validation", b"test", b"dev", b"eval")
)


# The count of a value is in front of its unit: log-likelihood after 30 iterations: -231.5
COUNTS_BEFORE_UNITS: Final = tuple(
    Normalization(
        (b" after ", b" %bs" % unit),
        rb" after (\d{1,12}) %bs(?: ?[:=]| is| was)? {0,4}(?<=[:= ])(?=%b(?:[\s,;|]|$))"
        % (unit, NUMBER_PATTERN),
        b" after %b \\1: " % counter,
    )
    for unit, counter in (
        *(
            (unit, unit)
            for unit in (b"epoch", b"episode", b"step", b"iteration", b"update", b"round")
        ),
        *((unit, b"step") for unit in (b"example", b"sample", b"batche", b"sentence", b"game")),
    )
)


# Mean test loss of 8 batches: 0.326
COUNTED_BATCHES: Final = (
    Normalization(
        (b"oss of ", b" batches: "),
        rb"([Ll]oss) of \d{1,9} batches(?=: ?%b)" % NUMBER_PATTERN,
        rb"\1",
    ),
)

# A list of names and values: [('average_q', 5.1), ('average_loss', 0.5)]. ChainerRL prints it below
# outdir:results step:2000 episode:11 R:24.41
PAIRED_NAMES: Final = (
    Normalization(
        (b" episode:", b" R:"), rb"( episode:\d{1,9} )R:(?=%b)" % NUMBER_PATTERN, rb"\1reward:"
    ),
    Normalization((b" R:", b", ('n_updates', "), rb", \('n_updates', \d{1,12}\)", b""),
)

# A program that prints without blanks: idx: 3loss: 2.31, epoch=3loss=2.31acc=0.5. A digit may also
# end a name, as in head1loss, so the digits before the name have to be a value.
_UNSPACED_VALUE: Final = (
    rb"((?:^|[ \t:=#\[])%b)(?=(?:(?:train|val|test)_?)?(?:loss|acc|lr|avg|val)\w{0,12} ?[:=])"
    % NUMBER_PATTERN
)
UNSPACED_PAIRS: Final = tuple(
    Normalization((marker,), b"(?mi)" + _UNSPACED_VALUE, rb"\1 ")
    for marker in (b"0loss", b"1loss", b"0Loss", b"1Loss")
)

# The generation of an evolution: Gen  3: best=0.5, Gen10: best=0.7
GENERATIONS: Final = tuple(
    Normalization(
        (b"%b%b1" % (word, sign),),
        rb"(?<![\w./-])%b(?=[ :=#]{1,4}\d{1,7}(?![\w.%%])|(\d{1,7}: ))" % word,
        lambda match: b"generation " if match[1] else b"generation",
    )
    for word in (b"Gen", b"gen", b"GEN")
    for sign in (b" ", b"  ", b"   ", b"    ", b": ", b"=", b" #", b"")
)

# Other forms of a name and a value.
OTHER_PAIRS: Final = (
    # Last 10 training episodes: mean/median reward 15.2/14.0, min/max reward 2.0/21.0
    Normalization(
        (b"mean/median ",),
        rb"\b(mean|min)/(median|max) (reward|return|score)s?:? (%b) ?/ ?(%b)(?![\w/])"
        % (2 * (NUMBER_PATTERN,)),
        rb"\1 \3: \4, \2 \3: \5",
    ),
    # mean reward (100 episodes) 7.43, as a homework prints it
    Normalization(
        (b"eward (",),
        rb"(?m)\b([Rr]ewards?|[Rr]eturns?) \([\w -]{1,24}\) (?=%b[ \t]{0,4}$)" % NUMBER_PATTERN,
        rb"\1: ",
    ),
    # average return over the last 100 episodes: 7.43, mean score for last 100 = 7.43
    *(
        Normalization(
            (b" %b %b " % (of, last),),
            rb" %b %b \d{1,6}(?: [a-z]{3,12})?(?<=[a-z\d])(?=(?: ?[:=]| is)? ?%b(?:[\s,;|)]|$))"
            % (of, last, NUMBER_PATTERN),
            b"",
        )
        for of in (b"over", b"for", b"of", b"in")
        for last in (b"last", b"the last", b"past", b"the past", b"previous", b"the previous")
    ),
    # Episode 3 finished after 12 timesteps and got 1.5 reward
    Normalization(
        (b"pisode", b" reward"),
        rb"\b(got|received|earned|collected|gained|obtained) (%b) (?:total )?rewards?\b"
        rb"(?!\w| ?[:=]| %b)" % (NUMBER_PATTERN, NUMBER_PATTERN),
        rb"\1 reward: \2",
    ),
    # In epoch 3, the loss was 2.31. That it was NaN is a report of a failure.
    Normalization((b"loss was ",), rb"\bloss was (?=\d{1,9}\.\d|nan, [a-z])", b"loss is "),
    # Objective value: 2.31, cost function = 2.31, loss function value 2.31
    *(
        Normalization(
            (marker,),
            rb"(?i)\b(objective|cost|loss) (?:function value|value|function)"
            rb"(?=[ :=]{1,4}%b(?:[\s,;|]|$))" % NUMBER_PATTERN,
            rb"\1",
        )
        for marker in (b"bjective value", b"bjective function", b"ost function", b"oss function")
    ),
    # Cost=234 sec and Time: 3.1s, cost: 0.2s are times.
    *(
        Normalization(
            (word + sign,),
            rb"%b(?<=\b.{4})"
            rb"(?=[:=]{1,2} ?\d{1,9}(?:\.\d{1,9})? ?(?:s|secs?|seconds|ms|min)(?![\w/]))" % word,
            b"time",
        )
        for word in (b"cost", b"Cost")
        for sign in (b"=", b":")
    ),
    # In epoch 3 I get a loss of 2.31
    Normalization(
        (b"loss of ",), rb"\bloss of (?=-?\d{1,9}\.\d|(?:nan|NaN|inf)(?:[\s,;]|$))", b"loss: "
    ),
    # <epoch>3</epoch><loss>2.31</loss>
    Normalization(
        (b"oss>", b"</"),
        rb"<([A-Za-z][\w-]{0,40})>[ \t]{0,4}(%b)[ \t]{0,4}</\1>" % NUMBER_PATTERN,
        rb" \1: \2 ",
    ),
    # kl - 0.021 | lr_multiplier - 1.5 | loss - 4.81
    Normalization((b" | ", b"loss - "), rb"(?<=\w) - (?=%b(?: \||\n|$))" % NUMBER_PATTERN, b": "),
    # 10.5008 loss, 0.000016 LR, 8.83 GB used: tinygrad prints values before their names
    *(
        Normalization(
            (b" loss, ", b" LR, "),
            rb"(?<![\w.])(%b) %b, (?=%b ?[A-Za-z%%])" % (NUMBER_PATTERN, name, NUMBER_PATTERN),
            name + rb": \1, ",
        )
        for name in (b"loss", b"LR")
    ),
    # step 10, loss_train, 0.896: a comma between the name and the value
    *(
        Normalization(
            (name + b", ",),
            # 2.31 avg loss, 0.001 rate: the name may be behind its value.
            rb"%b, (?<=\b%b, )(?=[-+]?(?:\d{1,9}\.\d|nan|inf))(?!\S{1,30} [A-Za-z])" % (name, name),
            name + b": ",
        )
        for name in (b"loss", b"loss_train", b"train_loss", b"loss_val", b"val_loss")
    ),
    # epoch_3: train_loss_2.31_val_loss_2.40; in loss_nan False, the value is not NaN
    Normalization(
        (b"loss_",),
        rb"_(?=[-+\dnNi])(?:(?<=oss_)|(?<=OSS_)|(?<=[aA]cc_)|(?<=ccuracy_))"
        rb"([-+]?(?:\d{1,12}\.\d{1,12}|[nN]a[nN]|inf))(?:_(?=[A-Za-z])|(?![\w.]))"
        rb"(?!(?:count|steps)?[ \t:=]{0,8}(?:tensor)?[\[(]?(?:False|0)\b(?!\.))",
        rb": \1 ",
    ),
    # Epoch 3......loss 2.31......val 2.40, loss.......2.31, epoch:3------loss:2.31------val:2.40
    *(
        Normalization(
            (4 * sign, b"oss"),
            rb"%b{4}(?<=%b%b{4})%b{0,76} ?(?=%b)"
            % (re.escape(sign), before, re.escape(sign), re.escape(sign), behind),
            replacement,
        )
        for sign in (b".", b"-")
        for before, behind, replacement in (
            (rb"\d", b"[A-Za-z]", b"  "),
            (b"nan", b"[A-Za-z]", b"  "),
            (b"[A-Za-z]", rb"[-+\d]|nan", b": "),
        )
    ),
    # What a call returns: loss(x, y) = 2.31 and sum(loss.(x, y)) = 2.31 as Julia shows them,
    # train.getError(): 2.31, and in Julia (loss(x, y), now()) = (2.31, 2026-01-02T03:04:05)
    *(
        Normalization(
            (name, b")%b" % sign),
            rb"(?<![\w.(])(?:[A-Za-z_]\w{0,20}\()?(?:\w{1,30}\.){0,3}"
            rb"(?:get_?|calc(?:ulate)?_?|compute_?|eval(?:uate)?_?)?"
            rb"((?:(?:train|test|val|valid|total|mean|avg)_?)?%b)\.?"
            rb"\([^()\n=]{0,60}(?:\([^()\n]{0,40}\)[^()\n=]{0,40}){0,3}\){1,2}"
            rb"(?= ?%b ?%b(?:[\s,;|]|$))" % (stem, sign, NUMBER_PATTERN),
            rb"\1",
        )
        for name, stem in (
            (b"oss", rb"[Ll]oss"),
            (b"ccuracy", rb"[Aa]ccuracy"),
            (b"rror", rb"[Ee]rror"),
            (b"ost", rb"[Cc]ost"),
        )
        for sign in (b" =", b":")
    ),
    Normalization(
        (b"(loss(", b"), now()) = ("),
        rb"\(loss\([A-Za-z_][^()\n=]{0,60}\), now\(\)\) = \((%b),[^()\n]{1,40}\)" % NUMBER_PATTERN,
        rb"loss = \1",
    ),
    # L: 7.37, L_crf: 6.53, L_selection: 0.84, a total and its parts
    Normalization((b"L: ", b", L_"), rb"(?<![\w.])L: (?=%b, L_)" % NUMBER_PATTERN, b"loss: "),
    Normalization((b"L: ", b", L_"), rb"(?<=, )L_(?=\w{1,40}: [-+\dniNI])", b"loss_"),
    # VSE++ and the programs made from it: Eit 12400  lr 0.0002  Le 25.6 (26.1)
    Normalization(
        (b"Eit ", b" Le "),
        rb"\bEit (\d{1,12}[ \t]{1,4}lr %b[ \t]{1,4})Le (?=%b)" % (NUMBER_PATTERN, NUMBER_PATTERN),
        rb"step \1loss ",
    ),
    # The server of Flower: fit progress: (3, 2.31, {'accuracy': 0.5}, 12.3), and before the first
    # round: initial parameters (loss, other metrics): 2.31, {'accuracy': 0.1}
    Normalization(
        (b"fit progress: (",),
        rb"\bfit progress: \((\d{1,7}), (%b)(?:, \{([^{}\n]{0,1000})\})?(?:, %b)?\)?"
        % (NUMBER_PATTERN, NUMBER_PATTERN),
        rb"round: \1, loss: \2, \3",
    ),
    Normalization(
        (b"(loss, other metrics): ",),
        rb"\binitial parameters \(loss, other metrics\): (?=%b, \{)" % NUMBER_PATTERN,
        b"round: 0, loss: ",
    ),
    # J(theta) = 2.31, as lectures call a cost
    Normalization(
        (b"J(",),
        rb"\bJ\((?:[Tt]hetas?|\xce\xb8|[wW]|b)[^()\n]{0,20}\)(?= ?[:=] ?%b)" % NUMBER_PATTERN,
        b"cost",
    ),
    # Sum of squared errors: 2.31
    Normalization(
        (b"um of ", b"rrors"),
        rb"(?i)\bsum of (?:the )?(?:squared?|absolute) errors?(?= ?[:=] ?%b)" % NUMBER_PATTERN,
        b"squared error",
    ),
)
