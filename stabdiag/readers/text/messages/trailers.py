"""Lines that shells, terminals and trackers print below the last message of a program."""

from __future__ import annotations

from typing import Final

from stabdiag.model.patterns import lazy_pattern

_MOST_TRAILERS: Final = 60
_LONGEST_TRAILER: Final = 300
# A banner, the end of a session, its duration, a prompt, the time: logout, user 1m3.1s.
_TRAILER: Final = lazy_pattern(
    rb"[-=*#~_+.|<> \t]*|(?i:logout|exit|bye|end of (?:the )?(?:job|script|log|output|file))\.?"
    rb"|(?:Shared )?[Cc]onnection to [\w.-]{1,80} closed\.|Script done[ ,:].{0,80}"
    rb"|(?:real|user|sys)[ \t]{1,8}(?:\d{1,9}m)?[\d.,]{1,12}s?"
    rb"|(?:\([\w. -]{1,40}\) ?)?\[?[\w.-]{1,40}@[\w.-]{1,80}[: ][\w~/.-]{0,120}\]? ?[$#%>]"
    # Sat Jan  3 04:12:57 UTC 2026
    rb"|(?:[A-Z][a-z]{2},? {1,2}){1,2}[ \d:]{4,20}(?:[AP]M )?(?:[A-Z]{2,5})?(?: \d{4})?"
    rb"|\d{4}-\d\d-\d\d[T ][\d:.,]{4,16}Z?"
    rb"|wandb: (?!.{0,200}(?i:error|fail|lost|crash|kill|abort|interrupt|terminat)).{0,250}"
)


def end_of_words(data: bytes) -> int:
    """Return the position behind the last line of a text that is no trailer."""
    end = len(data.rstrip())
    for _ in range(_MOST_TRAILERS):
        begin = data.rfind(b"\n", max(end - _LONGEST_TRAILER, 0), end) + 1
        if begin == 0 or _TRAILER.fullmatch(data[begin:end].strip()) is None:
            break
        end = len(data[:begin].rstrip())
    return end
