"""Lines near the line of a loss that may have other values of its step."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from stabdiag.model.patterns import lazy_pattern
from stabdiag.model.roles.other_losses import LOSS_TERMS, PENALTIES
from stabdiag.readers.text.lines.fixed_texts import line_end
from stabdiag.readers.text.lines.tokens import LONGEST

# A part of the names of rates, norms, scales and evaluated scores. A search for alternatives skips
# bytes that begin none of them, but not if any begins with a character set.
_COMPANION: Final = lazy_pattern(
    rb"lr|LR|rate|Rate|norm|Norm|scale|Scale|l2_|TPS|per_sec|Rew|rew|eturn|val|Val|test|Test"
)

# A part of the names of scores, which lines below a heading may have.
_SCORED: Final = (
    _COMPANION.pattern + rb"|Dice|dice|IOU|IoU|iou|Acc|acc|AUC|auc|PSNR|psnr|F1"
    rb"|Top1|Top-1|top1|top-1|Top5|Top-5|top5|top-5|@|mAP|AP5|AP7|BLEU|bleu|METEOR|CIDEr|ROUGE"
    rb"|Rouge|rouge|SSIM|ssim|WER|CER|EER|MRR|mrr|Recall|recall|Precision|precision|FID|Kappa|kappa"
    rb"|Match|match|earson|pearman|F-score|R2"
)

# The name of a term of the loss, and its value on a line of its own:  kl: 0.31
_TERM_LINE: Final = (
    rb"|(?<![A-Za-z])(?:"
    + "|".join(
        spelling
        for term in sorted(LOSS_TERMS | PENALTIES)
        for spelling in (term, term.upper(), term.capitalize())
    ).encode()
    + rb")(?![a-z])[\w /()-]{0,20}[\"']?[ \t]{0,20}[:=|]"
)
_BELOW_COUNTER: Final = lazy_pattern(_SCORED + _TERM_LINE)


def companion_lines(
    data: bytes, end: int, until: int, *, are_below: bool
) -> Iterator[tuple[int, bytes]]:
    """Yield the lines of a stretch that may have a rate, a norm or a similar value.

    If the lines of losses ``are_below`` the one of their counter, so are those of scores and terms.
    """
    pattern = _BELOW_COUNTER if are_below else _COMPANION
    for match in pattern.finditer(data, end, until):
        if match.start() >= end:
            begin = data.rfind(b"\n", 0, match.start()) + 1
            end = line_end(data, match.start(), LONGEST)
            if end - begin <= LONGEST:
                yield begin, data[begin:end]
