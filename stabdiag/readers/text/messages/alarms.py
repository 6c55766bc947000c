"""The last words of a log in any wording: a line below the last record that reports a failure.

Elsewhere in a log, the same line may be a warning that the training survived. At the end it may
explain why the records end.
"""

from __future__ import annotations

from typing import Final

from stabdiag.model.patterns import lazy_pattern
from stabdiag.readers.text.lines.cut_end import ends_before_value
from stabdiag.readers.text.messages.calm_words import (
    CALM_LEVEL,
    CONDITION_BEFORE,
    DATA_WORDS,
    DENIAL,
    HARMLESS,
    LISTED_WORDS,
    MEASURED_NUMBER,
    PLANNED,
    SWITCH_OR_NUMBER,
    WRITTEN_TEXT,
)
from stabdiag.readers.text.messages.failure_search import may_report
from stabdiag.readers.text.messages.failures import Failure, classify_failure, states_failure
from stabdiag.readers.text.messages.message_kinds import is_source_line, without_labels
from stabdiag.readers.text.messages.recoveries import goes_on
from stabdiag.readers.text.messages.trailers import end_of_words

# At most this many bytes at the end of a text, and this many lines.
_LAST_BYTES: Final = 2000
_ALARM_LINES: Final = 3
_LONGEST_ALARM: Final = 300
# Comments, commands, items of a list and rows of a table; but not the lines around a heading, nor a
# date whose digits are masked.
_LINE_MARK: Final = lazy_pattern(rb"(?:\*{3,}|={2,}|!{1,3}|-{3,}|#{4}(?=-##)) {0,4}")
_NO_SENTENCE: Final = b"#/>$-=+*|<"
_ROW_OF_VALUES: Final = lazy_pattern(
    rb"[-+]?\d[\d.]{0,20}[ \t,;].{0,200}[ \t,;][-+]?\d[\d.e+-]{0,20}"
)
_PATH: Final = lazy_pattern(rb"/[\w./-]{2,80} [a-z]")
_QUOTED: Final = lazy_pattern(rb"[\"'`{}\[\]=]")
_MOST_QUOTED: Final = 4
# The words of a sentence, which a value and its name lack.
_PROSE_WORDS: Final = lazy_pattern(
    rb"\b(?:a|an|the|is|was|are|were|we|it|i|that'?s|this|only|just|all|everything|but|into|by"
    rb"|became"
    rb"|turned|went|got|hit|saw|gave|produced|nothing|in(?! \d)|from|now|again|after"
    rb"|unrecoverable|unexpected)\b"
)
_BRACES: Final = lazy_pattern(rb"[{}]")

_SENTENCE_END: Final = lazy_pattern(rb"(?<![;.!?])[;.!?]+(?: |$)| [-|] | -{2,3} ")
_PART_END: Final = lazy_pattern(rb", | \(| (?:and|but) (?=not |never |no )")

_JOB: Final = (
    rb"(?:jobs?|runs?|tasks?|process(?:es)?|workers?|pods?|containers?|instances?|sessions?"
    rb"|programs?|train(?:ing|er)|nodes?|hosts?|ranks?|replicas?|actors?|kernel|machines?|gpus?"
    rb"|servers?|vms?|devices?|agents?|trials?|raylets?|allocations?|pid|driver|launcher)"
)
_MACHINES: Final = (
    rb"(?:nodes?|hosts?|ranks?|replicas?|machines?|servers?|vms?|workers?|gpus?|peers?)"
)
# Phrases that no measure and no setting has, in lower case. Only a denial makes them harmless.
_PHRASES: Final = lazy_pattern(
    rb"\b"
    + _JOB
    + rb"\b[^\n]{0,60}\b(?:was|were|is|are|been|got|gets|being) (?:\w+ly )?(?:stopped|ended|removed"
    rb"|shut down|torn down|terminated|killed|lost|aborted|evicted|cancell?ed|reclaimed|rebooted)"
    rb"(?= (?:by|because|since|due|after|as|at|on|in|while|when|during|with)\b)"
    rb"|\bwill be (?:torn down|terminated|killed|aborted|evicted|reclaimed|shut down|removed)\b"
    rb"|\b(?:is|are) going down\b|\bwill shut ?down\b|\b(?:thermal|emergency) shutdown\b"
    rb"|\b(?:exit(?:ed|s)?(?: with)?|(?:exit|return) ?(?:code|status|value)|rc)(?: is"
    rb"| was)?[ :=]{1,3}"
    rb"-?[1-9]\d{0,9}$|\bnon-?zero (?:exit |return )?(?:code|status)\b"
    rb"|^(?:slurm )?(?:job|task|step) [\w.-]{1,40} (?:timeout|oom|cancelled|preempted)$"
    rb"|\b(?:hit|exceed(?:s|ed|ing)?|r[au]n over|went over|used up|reached) (?:its|the|their|a|all"
    rb"|our) (?:\w{1,12} ){0,2}(?:memory|wall-?(?:clock)?|walltime|runtime|disk|storage|quota"
    rb"|time(?= limit))"
    rb"(?:[ -](?:time|limit|allocation|quota|request))?\b"
    rb"|\b(?:hit|exceeded|reached) (?:(?!no\b)\w{1,12} ){0,2}"
    rb"(?:wall-? ?time|(?:time|memory) limit)\b"
    rb"|\bexceeded (?:its |the )?max(?:imum)? (?:run ?time|time|duration|memory)\b"
    rb"|\bwall-?(?: ?clock)?(?: ?time)? (?:(?:was|is|has been) )?exceeded\b"
    rb"|\b(?:halted|stopped|ended|interrupted|cancelled)(?:: | by )(?:the |an? )?(?:operator"
    rb"|user|admin|owner|scheduler|queue|system)"
    rb"|\b(?:two-minute warning|(?:spot|preemption|interruption|termination) (?:notice|warning))\b"
    rb"|\bterminate_on_host_maintenance\b"
    rb"|^outofmemory|\bexceeded time\b|\b(?:time|memory) limit (?:(?:was|is) )?hit\b"
    rb"|\bscaler? underflowed\b|\b(?:shutdown|termination|eviction|reboot) imminent\b"
    rb"|\b(?:vram|ram|swap|disk) (?:(?:is|was) )?exhausted\b|^sig(?:kill|term|segv|abrt|bus|hup"
    rb"|quit)$"
    rb"|\bheartbeats? (?:\w{1,12} ){0,4}(?:missed|lost)\b"
    rb"|\blimit (?:of \S{1,20} )?(?:(?:was|is|has been) )?exceeded\b"
    rb"|\b(?:not (?:have )?enough|insufficient|too little) (?:\w{1,12} ){0,2}(?:memory|space|disk"
    rb"|ram|room"
    rb"|resources)\b|\btoo much (?:\w{1,12} )?memory\b"
    rb"|\bno (?:more )?(?:disk )?(?:heartbeats?|response|answer|reply|space|room|memory left)\b"
    rb"(?! (?:issues?|problems?|errors?))"
    rb"|\b(?:missed|missing|lost) (?:\w{1,12} ){0,3}heartbeats?\b"
    rb"|\bmarked (?:as )?(?:dead|failed|lost|down|unhealthy)\b"
    rb"|\b(?:received|got|caught) (?:an? |the )?(?:\w{1,12} )?(?:termination|preemption|eviction"
    rb"|shutdown|reclaim|kill|interruption) (?:notice|request|signal|warning|order)\b"
    rb"|\b(?:not|stopped) (?:responding|answering)\b|\blost contact (?:with|to)\b"
    rb"|\bconnection refused\b"
    rb"|\bclosed the connection\b|\b(?:server|client|worker|peer|node|rank \d{1,6}) disconnected\b"
    rb"|\bnever (?:arrived|answered|responded|returned|replied|reported|joined|came back)\b"
    rb"|\b(?:did|does|do) not (?:answer|respond|reply|report|return|come back|join|arrive"
    rb"|reach the barrier)\b"
    rb"|\b(?:unable|not able) to (?!find|import|locate|use|detect|determine)[a-z]{3,}"
    rb"|\bsegfaults?\b|\bsegmentation fault\b|\brendezvous closed\b"
    rb"|\binvalid opcode\b|\bgeneral protection\b|\bhardware error\b"
    rb"|\bmemory (?:\w{1,12} )?error on\b"
    rb"|\b(?:is|was|are|were|became|becomes?|went|turned) (?:numerically )?(?:unstable|unhealthy"
    rb"|unresponsive)\b"
    rb"|\b" + _MACHINES + rb"(?: [\w.-]{1,30})? (?:(?:is|are|was|were|has been|have been"
    rb"|went) (?:down|lost|dead|away|offline)"
    rb"|(?:(?:was|were) )?rebooted)\b"
    rb"|\b(?:kills?|ends?|aborts?|stops?) (?:this|the|my|our|your) (?:job|run|process|training)\b"
    rb"|\b(?:is|was) gone\b|\bjob (?:is |was )?lost\b|\bpower (?:loss|failure|outage|cut)\b"
    rb"|\b(?:user |keyboard ?)interrupt\b|\bctrl[-+ ]c (?:was )?(?:pressed|received|caught)"
    rb"|\bcaught signal \d|\bsignal \d{1,2} (?:was )?(?:received|caught)\b"
    rb"|\bsending sig(?:term|kill|int|abrt|hup|quit|usr\d)\b"
    rb"|\bsig(?:kill|term|segv|abrt|hup|bus)\b (?:was )?(?:received|caught)\b"
    rb"|\b(?:nodes?|hosts?|machines?|workers?|gpus?|peers?) lost\b(?! (?:in|time))"
    rb"|\blost (?:rank|node|worker|host|peer|gpu|replica)s? [\w.-]{0,30}\d"
    rb"|\b(?:received|got|caught) signal (?:\d|sig)"
    rb"|\b(?:kill|term|stop|abort|termination) signal (?:was )?(?:received|caught)\b"
    rb"|\bnode_fail\b(?! ?[:=])"
    rb"|\bkill -(?:9|15) (?:from|by|was|sent|received)\b"
    rb"|\b(?:stopped|ended|removed|taken) by (?:the |our )?(?:cloud|provider|host|system|scheduler"
    rb"|os|kernel|queue|cluster|operator|admin|platform|batch|slurm|kubernetes|watchdog|owner)"
    rb"|\b(?:vm|instance|node|host|machine|system|cluster) (?:is )?(?:shutting|going) down\b"
    rb"|\b(?:problem|error|issue) and (?:needs|has|had) to (?:close|stop|exit)\b"
    rb"|\b(?:training|run|model|optimi[sz]ation|simulation|loss|gradients?|weights) "
    rb"(?:has |have |just )?(?:diverged|exploded|blew up|blown up|collapsed|became undefined)\b"
    rb"|\bobjective became undefined\b"
    rb"|\b[a-z]{3,40}(?:error|exception) (?:in|at|from|while|during|occurred|was (?:raised"
    rb"|thrown))\b"
    rb"|\b(?:contains?|has|have|got|found|detected|encountered|produced|returned)"
    rb" (?:an? |some |the value )?(?:nans?|infs?)\b(?![^\n]{0,60}\b(?:columns?|rows?|labels?|data"
    rb"|features?|cells|samples?|pixels|inputs?)\b)"
)
# Words of reports that a part of a sentence may have for other reasons, in lower case.
_FAILURE_EVENT: Final = (
    rb"fail(?:ed|s)|errored|abort(?:ed|ing|s)|crashed|killed|killing|terminated|terminating|died"
    rb"|dying"
    rb"|unreachable|unexpected(?:ly)?|interrupted|disappeared|preempted|evicted|cancell?ed"
    rb"|revoked|reclaimed|will (?:be )?terminated?|went down|(?:presumed|declared|is) dead"
    rb"|giving up|gave up|broken pipe|(?:reset|closed) by (?:the |a )?(?:remote )?peer"
    rb"|lost (?:\w{1,12} ){0,3}connection|connection (?:(?!is|and)\w{1,12} ){0,8}(?:lost|dropped)"
    rb"|read-only"
    rb"|could not (?:write|save|open|read|load|reach|connect|allocate|continue|extend|create|flush"
    rb"|sync|store|upload|copy|start|recover)"
    rb"|requeu(?:ed|eing|ing)"
    rb"|abnormal(?:ly)?|abruptly|not ready|did not respond|out of [a-z]\w{2,20}|dumped core"
    rb"|can ?not (?:access|write|save|create|continue|proceed|train|recover|allocate|fork)"
    rb"|timed out|core dumped"
    rb"|(?:disk|file ?system|volume|quota|device|partition|drive|storage) (?:is )?full"
    rb"|/\S{1,80} is full|stale file handle"
    rb"|rendezvous closed|is destroyed|(?:will be|being) stopped in|user defined signal \d"
    rb"|endpoint closed|device lost|is (?:invalid|corrupt(?:ed)?)"
    rb"|permission denied|preempting|(?:hang|deadlock) detected|deleted (?:while|during)"
    rb"|(?:gpu|device|driver|kernel|system) hang|assert(?:ion)? (?:was )?(?:triggered|failed)"
    rb"|(?:job|run|task|pod|instance|container) (?:was )?(?:removed|purged|deleted)"
    rb"|time-?out (?:while )?waiting"
    rb"|(?:allocation|reservation|lease) (?:has |have |is |was )?(?:expired|ended|revoked)"
    rb"|(?:token|credentials?|licen[cs]e|ticket) (?:has |have |is |was )?expired"
    rb"|removed (?:this|the|my|our|your) (?:job|run|pod|task|container|instance)"
    rb"|will (?:reclaim|terminate|kill|preempt|evict|interrupt) (?:this|the|my|our|your)"
    rb"|connect(?:ion)? time-?out|hung (?:for|at|in|on|since)"
    rb"|stopped working|access violation|was hung|hangup|hung up"
)
# Nouns for a failure, and for what is measured, set or predicted.
_NOUN: Final = (
    rb"errors?|err\w{0,2}_\w{2,20}|\w{1,40}_err(?:or)?(?=\()|failures?|fatal|abort|crash"
    rb"|exceptions?|panic|faults?|preemption|oom|requeue"
)
# A noun in front of another word names a thing: error rate, crash handler, fatal accidents.
_AFTER_NOUN: Final = (
    rb"(?= ?$|[^\w -]| -|[ -](?:in|at|on|from|of|while|when|during|by|with|as|because|and|or|to|due"
    rb"|occurred|occurs|detected|encountered|raised|thrown|caught|reported|code|signal|address"
    rb"|error"
    rb"|exception|number|no|after|message|notice|was|has|is|dump|\w{2,30}ing|\d{1,12})\b(?! (?:log"
    rb"|feedback"
    rb"|budget|message|compens|correction|threshold|flag)))"
)
_EVENTS: Final = lazy_pattern(
    rb"(?<![\w.-])(?:"
    + _FAILURE_EVENT
    + rb")(?![\w-]|[./]\w)|^return code [1-9]|\w(?:run|job|task) failed"
    rb"|^\^c$"
)
_NOUNS: Final = lazy_pattern(rb"(?<![\w.-])(?:" + _NOUN + rb")(?![\w-]|\.\w)" + _AFTER_NOUN)
# A participle in front of the noun that it describes: 3 failed examples, of aborted flights.
_ATTRIBUTE: Final = lazy_pattern(
    rb"\b(?:of|the|all|each|any|for|with|\d{1,9}) (?:failed|aborted|crashed|killed|terminated"
    rb"|interrupted|preempted|evicted|cancell?ed) (?!(?:by|at|on|in|to|due|after|because|with|while"
    rb"|during|when|and|unexpectedly|abnormally)\b)[a-z]{3,}"
    rb"|^(?:failed|aborted|crashed|killed|terminated|interrupted|preempted|evicted|cancell?ed)"
    rb" [a-z]{3,30}(?= ?[:=(]| are| is| will| can)"
)
# What a program works on: Predicting engine failure, Training error detector.
_WORKS_ON: Final = lazy_pattern(
    rb"^(?:load|train|predict|evaluat|detect|classify|test|comput|generat|download|analy[sz]|model"
    rb"|simulat|prepar|build|check|collect|estimat)ing\b"
)

# rc=137, exit code: 1
_EXIT_CODE: Final = lazy_pattern(
    rb"(?:(?:exit|return) ?(?:code|status|value)|exit|rc|status code) ?[:=] ?-?[1-9]\d{0,4}\.?"
)
# pyarrow.lib.ArrowInvalid: the footer is gone
_EXCEPTION: Final = lazy_pattern(
    rb"(?:[a-z_]\w{0,60}\.){1,6}(?:[A-Z]\w{0,60}(?:Invalid|Expired|Timeout|Failed|Failure|Interrupt"
    rb"|NotFound|Unavailable|Exceeded|Aborted|Refused|Denied|Died|Lost)|(?:Bad|Broken|Corrupt"
    rb"|Incomplete|Invalid|Missing|NoSuch|Not|Stop|Too|Unexpected|Unknown|Unsupported)"
    rb"[A-Z]\w{1,60}): \S"
    # socket.gaierror: [Errno -2] Name or service not known
    rb"|(?:[a-z_]\w{0,60}\.){1,6}[a-z_]{0,20}error: (?![-+.\d])\S"
)
# A check of glog that failed, or its level FATAL, ends the program.
_FATAL_CHECK: Final = lazy_pattern(
    rb"\bCheck failed: \S|F\d{4} \d\d:\d\d:\d\d\.\d{1,9} {1,8}\d{1,9} [\w./-]{1,80}:\d{1,6}\] "
)
# Messages of shells and of the C library in other languages.
_TRANSLATED: Final = lazy_pattern(
    "Kein Speicherplatz|Speicherzugriffsfehler|Get\u00f6tet|Erreur de segmentation"
    "|Processus arr\u00eat\u00e9|Aucun espace disponible|No queda espacio"
    "|Violaci\u00f3n de segmento"
    "|\u6bb5\u9519\u8bef|\u5df2\u6740\u6b7b|\u88ab\u7ec8\u6b62|\u5185\u5b58\u4e0d\u8db3"
    "|\u5f37\u5236\u7d42\u4e86|\u30e1\u30e2\u30ea\u4e0d\u8db3".encode()
)
_ERROR_LEVELS: Final = (b"ERROR", b"CRITICAL", b"FATAL")


def find_alarm(data: bytes) -> int | None:
    """Return the position of the last line that reports a failure at the end of a text, or None."""
    # A value may be cut off behind the blanks at the end of the line.
    end = data.find(b"\n", end_of_words(data))
    end = len(data) if end < 0 else end
    begin = max(end - _LAST_BYTES, 0)
    begin = data.find(b"\n", begin) + 1 if begin else 0
    lines = []
    for line in data[begin:end].split(b"\n"):
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
    mark = _LINE_MARK.match(line)
    if not line or len(line) > _LONGEST_ALARM:
        return False
    if mark is None and line[:1] in _NO_SENTENCE and _PATH.match(line) is None:
        return False
    return not is_source_line(line) and _states_alarm(line) and not goes_on(line)


def names_failure(lowered: bytes) -> bool:
    """Return True if a line in lower case has a word for a failure, whatever it says of it."""
    return any(words.search(lowered) for words in (_EVENTS, _NOUNS))


def _states_alarm(line: bytes) -> bool:
    """Return True if a line reports a failure, whether or not the program goes on."""
    # In the middle of a log, losses below the report show that the training survived it.
    failure = classify_failure(line)
    if failure is Failure.GRADIENT or (failure is not None and _lacks_anchors(line)):
        return True
    if _states_nan_in_prose(line):
        return True
    message = without_labels(line)
    is_error = any(level in line[: len(line) - len(message)] for level in _ERROR_LEVELS)
    calm = CALM_LEVEL.match(message)
    if calm is not None:
        message = without_labels(message[calm.end() :])
    if any(end.search(line) for end in (_FATAL_CHECK, _TRANSLATED)) or _EXCEPTION.match(message):
        return True
    if _BRACES.search(message) or len(_QUOTED.findall(message)) > _MOST_QUOTED:
        return False
    lowered = message.lower()
    if _EXIT_CODE.fullmatch(lowered):
        return True
    if any(form.fullmatch(lowered) for form in (SWITCH_OR_NUMBER, LISTED_WORDS)):
        return False
    if WRITTEN_TEXT.match(lowered):
        return False
    lowered = b"error: " + lowered if is_error else lowered
    return any(_reports_failure(sentence) for sentence in _SENTENCE_END.split(lowered))


def _lacks_anchors(line: bytes) -> bool:
    """Return True if the search for failures skips a line that is no record of JSON."""
    return line[:1] != b"{" and not may_report(line)


def _states_nan_in_prose(line: bytes) -> bool:
    """Return True if a sentence states a failure that is not one of the data; no row of values."""
    if not states_failure(line) or _ROW_OF_VALUES.fullmatch(line) is not None:
        return False
    text = line.lower()
    return _PROSE_WORDS.search(text) is not None and DATA_WORDS.search(text) is None


def _reports_failure(sentence: bytes) -> bool:
    """Return True if a sentence in lower case says that something failed."""
    sentence = _ATTRIBUTE.sub(b"", sentence)
    if PLANNED.search(sentence) is not None:
        return False
    begin = 0
    for clause in _PART_END.split(sentence):
        failure = None if DENIAL.search(clause) else _find_failure(clause, sentence)
        begin = sentence.find(clause, begin)
        if failure is not None and CONDITION_BEFORE.search(sentence, 0, begin + failure) is None:
            return True
        begin += len(clause)
    return False


def _find_failure(clause: bytes, sentence: bytes) -> int | None:
    """Return the position of the words for a failure in a part of a sentence, or None."""
    patterns = [_PHRASES]
    # The last line of most logs has a number, which is found first.
    if MEASURED_NUMBER.search(clause) is None and HARMLESS.search(sentence) is None:
        patterns += [_EVENTS] if _WORKS_ON.match(clause) else [_EVENTS, _NOUNS]
    matches = (pattern.search(clause) for pattern in patterns)
    return next((match.end() for match in matches if match is not None), None)
