"""Replace what programs for translations print by names and values."""

from __future__ import annotations

from typing import Final

from stabdiag.readers.text.lines.grammar import NUMBER_PATTERN, Normalization

TRANSLATION: Final = (
    # Marian: Ep. 1.25 : Up. 1000 : Sen. 260,147 : Cost 9.71 * 1,234 @ 3,412 after 12 : L.r. 3e-4
    Normalization(
        (b" : Up. ",),
        rb"Ep\. (\d{1,9})[^:\n]{0,20} : Up\. (\d{1,12}) : (Sen\. [\d,]{1,20}) : Cost ",
        rb"epoch \1 : update \2 : \3 : loss ",
    ),
    Normalization((b" : Up. ", b" : L.r. "), rb" : L\.r\. ", b" : lr "),
    # And of an evaluation: [valid] Ep. 1 : Up. 5000 : translation : 20.73 : new best
    Normalization(
        (b"[valid] Ep. ",),
        rb"(?<=\[valid\] )Ep\. (\d{1,9})[^:\n]{0,20} : Up\. (\d{1,12}) : ([\w-]{1,30}) : (?=%b)"
        % NUMBER_PATTERN,
        rb"epoch \1 : update \2 : \3: ",
    ),
    Normalization(
        (b"[valid] Ep. ", b" : translation : "),
        rb"(?<=[ \d] : )translation: (?=%b)" % NUMBER_PATTERN,
        b"bleu: ",
    ),
    # The other cross-entropies are sums over a sentence or over all of them.
    Normalization(
        (b"[valid] Ep. ", b" : ce-mean-words : "),
        rb"(?<=[ \d] : )ce-mean-words: (?=%b)" % NUMBER_PATTERN,
        b"loss: ",
    ),
    # multi-bleu.perl and sacreBLEU: BLEU = 27.1, 58.7/34.6/21.9/14.2 (BP=1.000, ratio=1.002, …):
    # only the score, without the precision of each length
    Normalization(
        (b"BLEU", b"/", b"(BP"),
        rb"\bBLEU[|+\w.:-]{0,120} = (%b),? (?:\d{1,3}\.\d{1,2}/){3}[\d.]{1,6} \(BP[^)\n]{0,120}\)"
        % NUMBER_PATTERN,
        rb"BLEU = \1",
    ),
)
