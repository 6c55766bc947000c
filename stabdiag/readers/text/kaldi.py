"""Replace the objectives of Kaldi and EESEN by names and values."""

from __future__ import annotations

from typing import Final

from stabdiag.readers.text.grammar import NUMBER_PATTERN, Normalization

KALDI: Final = (
    # Kaldi: Average objective function for 'output' for minibatches 10-19 is -4.0400 over 12800 …
    Normalization(
        (b"bjective function for '", b"minibatches "),
        rb"[Aa]verage(\s{1,2})objective function for '\w{1,40}' for minibatches (\d{1,9})-\d{1,9} "
        rb"is (?=%b)" % NUMBER_PATTERN,
        rb"\1batch \2 objective: ",
    ),
    # EESEN: After 1000 sequences (1.2Hr): Obj(log[Pzx]) = -95.2   TokenAcc = 20.1 %
    Normalization(
        (b"Obj(log[Pzx]) = ",),
        rb"After (\d{1,12}) sequences \([^)\n]{1,40}\): Obj\(log\[Pzx\]\) = ",
        rb"step: \1, objective = ",
    ),
    # The files of all iterations, as grep prints them; the sum of an objective and its penalty:
    # exp/tdnn/log/compute_prob_valid.20.log:LOG (…) Overall log-probability for 'output' is
    # -0.0912 + -0.0087 = -0.0999 per frame, over 18500 frames.
    Normalization(
        (b"compute_prob_", b"Overall log-"),
        rb"(?m)^[^\n]{0,200}compute_prob_(train|valid)\w{0,20}\.(\d{1,7})\.log[:-][^\n]{0,200}"
        rb"Overall log-(?:probability|likelihood) for 'output' is (?:%b \+ %b = )?(?=%b per frame)"
        % (NUMBER_PATTERN, NUMBER_PATTERN, NUMBER_PATTERN),
        rb"iteration \2, \1 objective: ",
    ),
)
