"""Replace names of losses that contain a counter, a split or the end of the value before them."""

from __future__ import annotations

import re
from typing import Final

from stabdiag.readers.text.grammar import NUMBER_PATTERN, Normalization

# The counter is in the name of the loss: loss_epoch_3 = 2.31, epoch_3_val_loss: 2.31, Loss (300):
# 2.31, loss[300]: 2.31, and loss of epoch3-batch-50: 2.31. Several on a line are parts of a loss.
COUNTED_NAMES: Final = (
    Normalization((b"oss_epoch_",), rb"\b(\w{0,40}[Ll]oss)_epoch_(\d{1,6})\b", rb"epoch \2 \1"),
    Normalization(
        (b"poch_", b"_loss"), rb"\b[Ee]poch_(\d{1,6})_((?:\w{1,20}_)?loss)\b", rb"epoch \1 \2"
    ),
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
    Normalization(
        (b" loss of epoch", b"batch"),
        rb" loss of epoch[ _-]?(\d{1,6})[ ,_-]{1,2}batch[ _-]?(\d{1,9}) ?[:=] ?(?=%b)"
        % NUMBER_PATTERN,
        rb" epoch \1 batch \2 loss: ",
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


# A list of names and values: [('average_q', 5.1), ('average_loss', 0.5)]. ChainerRL prints it below
# outdir:results step:2000 episode:11 R:24.41
PAIRED_NAMES: Final = (
    Normalization(
        (b" episode:", b" R:"), rb"( episode:\d{1,9} )R:(?=%b)" % NUMBER_PATTERN, rb"\1reward:"
    ),
    Normalization((b" R:", b", ('n_updates', "), rb", \('n_updates', \d{1,12}\)", b""),
    Normalization(
        (b"[('", b"oss', "), rb"\('([A-Za-z]\w{0,40})', (%b)\)" % NUMBER_PATTERN, rb"\1: \2"
    ),
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
