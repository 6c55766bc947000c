"""The last words of a log in any wording: a line below the last record that reports a failure.

Elsewhere in a log, the same line may be a warning that the training survived. At the end it may
explain why the records end.
"""

from __future__ import annotations

from typing import Final

from stabdiag.model.patterns import lazy_pattern
from stabdiag.readers.text.lines.cut_end import ends_before_value
from stabdiag.readers.text.messages.failures import Failure, classify_failure
from stabdiag.readers.text.messages.message_kinds import is_source_line

# At most this many bytes at the end of a text, and this many lines.
_LAST_BYTES: Final = 2000
_ALARM_LINES: Final = 3
_LONGEST_ALARM: Final = 300

# Words of failures, in lower case.
_ALARM: Final = lazy_pattern(
    rb"(?<![\w.-])(?:errors?(?! are| (?:feedback|budget|message|log|correction|compens))"
    rb"|err\w{0,2}_\w{2,20}|fail(?:ed|ure|s)?|fatal|abort(?! (?:threshold|on|flag|at))(?:ed|ing|s)?"
    rb"|crash(?:ed)?|killed|killing|terminated|terminating|died|dying|exceptions?(?! are)"
    rb"|panic|faults?"
    rb"|unreachable|unexpected(?:ly)?|interrupted|disappeared|preempt(?:ed|ion)|evicted|cancell?ed"
    rb"|revoked|reclaimed|will (?:be )?terminated?|went down|(?:presumed|declared|is) dead"
    rb"|giving up|gave up|broken pipe|(?:reset|closed) by (?:the |a )?(?:remote )?peer"
    rb"|lost (?:\w{1,12} ){0,3}connection|connection (?:(?!is|and)\w{1,12} ){0,8}lost|read-only"
    rb"|unable to (?:write|save|open|read|load|reach|connect|allocate|continue)|requeued?"
    rb"|abnormal(?:ly)?|abruptly|oom|not ready|did not respond|out of \w{3,20}|dumped core"
    rb"|cannot (?:access|write|save|create|continue|proceed)|timed out|core dumped"
    rb"|(?:disk|file ?system|volume|quota) (?:is )?full|stale file handle"
    rb"|rendezvous closed|is destroyed|(?:will be|being) stopped in|user defined signal \d"
    rb"|endpoint closed|device lost"
    rb"|stopped working|access violation|was hung|hangup|hung up)(?![\w-]|\.\w)"
    rb"|^return code [1-9]|\w(?:run|job|task) failed|^\^c$"
)
# Words of denials, plans, settings, measures and ends as planned.
_NO_ALARM: Final = lazy_pattern(
    rb"(?<![\w-])(?:no|not(?! (?:ready|respond))|zero"
    rb"|(?<!\.)(?<!gpu )(?<!rank )(?<!node )(?<!device )0(?!\.\d)|without|never|none"
    rb"|nobody|skip\w*|retr(?:y|ied|ying|ies)|old|guard|active|ignor\w*|fallback|recover\w*|reconnect\w*"
    rb"|resum\w*|continu\w*|warnings?|deprecat\w*|instead"
    rb"|avoid\w*|prevent\w*|unlikely"
    rb"|using|(?<!file )handl\w*|rates?|analysis|bars?|saved|saving|stale(?! file)"
    rb"|(?<!to )previous|protection|success\w*|succeeded"
    rb"|complet\w*|finished|normally|graceful\w*"
    rb"|if|when|may|might|would|can|could|should|off|press|hint|tip|true|false"
    rb"|accuracy|f1|score|mean|average|test|val|valid|validation|eval|evaluation|word|passed"
    rb"|reached|cache|tolerance|robust\w*|samples?|examples?|images?|cases?|criterion|condition"
    rb"|detection|prediction|installed|(?<!not )ready|enabled"
    rb"|disabled|policy|limit|count|limiting|again|restart\w*|defaults?|loaders?|episodes?"
    rb")(?![\w-])"
    # Counts, instructions, the end of helpers, and decimal numbers that are not addresses.
    rb"|^(?:number|count) of "
    rb"|^(?:set|use|pass|add|see|try) |(?:kill|terminat|stopp|abort)ing (?:\w{1,20} ){0,3}"
    rb"(?:\w{0,6}loaders?|workers|threads|servers?|prefetch\w*)(?![\w-])"
    rb"|(?:kill|terminat|stopp|abort)(?:ing|ed) (?:\w{1,20} ){0,3}"
    rb"(?:tensorboard|dashboards?|profilers?|uploaders?|monitors?|prefetch\w*)(?![\w-])"
    # Sizes of memory are no measures of the training.
    rb"|(?<!signal )(?<!\d:)(?<![\w(.])\d{1,9}\.\d{1,40}(?!\.?\d| ?[kmgt]i?b\b)"
    rb"|[=:] ?-?\d{1,12}(?:e[-+]?\d{1,3})?\s{0,9}$"
)
_QUOTED: Final = lazy_pattern(rb"[\"'`{}\[\]=]")


def find_alarm(data: bytes) -> int | None:
    """Return the position of the last line that reports a failure at the end of a text, or None."""
    begin = max(len(data) - _LAST_BYTES, 0)
    begin = data.find(b"\n", begin) + 1 if begin else 0
    lines = []
    for line in data[begin:].split(b"\n"):
        lines.append((begin, line))
        begin += len(line) + 1
    lines = [(place, line) for place, line in lines if line.strip()]
    above = [line for _, line in lines]
    return next(
        (
            place
            for place, line in reversed(lines[-_ALARM_LINES:])
            if is_alarm(line) and not ends_before_value(line, above)
        ),
        None,
    )


def is_alarm(line: bytes) -> bool:
    """Return True if a line reports a failure in plain words."""
    line = line.strip()
    if not line or len(line) > _LONGEST_ALARM or line[:1] in b"#/>$-=+*|<":
        return False
    lowered = line.lower()
    if is_source_line(line):
        return False
    # In the middle of a log, losses below the report show that the training survived it.
    if classify_failure(line) is Failure.GRADIENT:
        return True
    if _ALARM.search(lowered) is None or _NO_ALARM.search(lowered) is not None:
        return False
    return len(_QUOTED.findall(line)) <= 2
