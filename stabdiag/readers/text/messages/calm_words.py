"""Words of lines about nothing wrong: denials, plans, settings, measures, ends as planned."""

from __future__ import annotations

from typing import Final

from stabdiag.model.patterns import lazy_pattern

# Words of denials, plans, settings, measures and ends as planned, in a sentence.
HARMLESS: Final = lazy_pattern(
    rb"(?<![\w-])(?:without|never(?! (?:arriv|answer|respon|return|repli|report|join|came))"
    rb"|none|nobody|nothing|old|guard|active|warnings?|deprecat\w*|instead|avoid\w*|prevent\w*"
    rb"|unlikely|using|(?<!file )handl\w*|rates?|analysis|bars?|saved"
    rb"|(?<!while )(?<!when )saving"
    rb"|stale(?! file)|idle|orphan\w*|zombies?|unused|leftovers?|earlier|last run"
    rb"|(?<!to )previous|protection|success\w*|succeeded|complet(?:e|ed|es|ely|ing)|finished"
    rb"|normally|graceful\w*|early stopping"
    rb"|passed|(?<!quota )reached|cache|tolerance|robust\w*|samples?|examples?|images?|cases?"
    rb"|criterion|condition|detection|prediction|installed|(?<!not )ready|enabled|disabled|policy"
    rb"|count"
    rb"|(?<!memory )(?<!time )(?<!its )limit"
    rb"|limiting|defaults?|episodes?"
    rb"|accuracy|f1|score|mean|average|test|val|valid|validation|eval|evaluation|word"
    rb")(?![\w-])"
    rb"|^(?:number|count) of |^(?:set|use|pass|add|see|try) "
    rb"|(?:kill|terminat|stopp|abort)ing (?:\w{1,20} ){0,3}"
    rb"(?:\w{0,6}loaders?|workers|(?:worker |loader |child |sub)process(?:es)?"
    rb"|threads|servers?|prefetch\w*)(?![\w-])"
    rb"|(?:kill|terminat|stopp|abort)(?:ing|ed) (?:\w{1,20} ){0,3}"
    rb"(?:tensorboard|dashboards?|profilers?|uploaders?|monitors?|prefetch\w*|loaders?)(?![\w-])"
)
# Plans: nothing happened.
PLANNED: Final = lazy_pattern(
    rb"(?<![\w-])(?:(?<!cut )off|press|hint|tip|true|false|automatically|always|usually|on purpose"
    rb"|as (?:requested|planned|configured|expected|scheduled|intended|desired))(?![\w-])"
    rb"|^(?:help|usage|example|note):"
)
# Conditions in front of what they are about. Behind it, they say when it happened.
CONDITION_BEFORE: Final = lazy_pattern(
    rb"(?<![\w-])(?:if|when|may|might|would|can(?! ?not\b)|could(?! not\b)|should)(?![\w-])"
    rb"|^(?:on|upon|in case of) "
)
# Denials of a part of a sentence, and counts of nothing.
DENIAL: Final = lazy_pattern(
    rb"(?<![\w-])(?:no(?! (?:more )?(?:disk )?(?:heartbeat|response|answer|reply|space|room|such"
    rb"|memory left))"
    rb"|zero"
    rb"|(?<!could )(?<!can )not(?! (?:ready|able|responding|reach|enough|have enough|found|exist"
    rb"|available"
    rb"|respond|answer|reply|report|return|come|join|arrive)))(?![\w-])"
    rb"|(?<![\w.#:/-])(?<!gpu )(?<!rank )(?<!ranks )(?<!node )(?<!device )(?<!task )(?<!worker )"
    rb"(?<!host )(?<!step )(?<!trial )(?<!replica )(?<!process )(?<!at )0(?![\w.:/-])"
    # A count in a line of W&B, which has no digits any more.
    rb"|(?<![\w#])# (?:errors|failures|failed)\b"
)
# Texts that a user or a model wrote.
WRITTEN_TEXT: Final = lazy_pattern(
    rb"(?:[qa]|user|(?:\w{1,20} )?(?:prompt|human|assistant|question|answer|story|caption|response"
    rb"|translation|transcript))(?: \d{1,9})?: "
)
# What a NaN may be in without harm to the weights.
DATA_WORDS: Final = lazy_pattern(
    rb"\b(?:columns?|rows?|labels?|data|dataset|features?|cells|samples?|pixels|inputs?)\b"
)
# A value of a measure, but no number of a line of a file, no address, no time, and no size of
# memory.
MEASURED_NUMBER: Final = lazy_pattern(
    rb"(?<!signal )(?<!stage )(?<!version )(?<!\d:)(?<![\w(.])\d{1,9}\.\d{1,40}"
    rb"(?!\.?\d| ?[kmgt]i?b\b)"
    rb"|\s[<>]=? \d"
    rb"|(?<!\])(?<!:\d\d)(?<!\.[a-z]{1})(?<!\.[a-z]{2})(?<!\.[a-z]{3})[=:] ?-?\d{1,12}"
    rb"(?:e[-+]?\d{1,3})?\s{0,9}$"
)
# crash reports: off, exceptions: [], requeue on preemption: yes; but no time of day
SWITCH_OR_NUMBER: Final = lazy_pattern(
    rb"[\w .,/()-]{1,60} ?(?<! \d\d)[:=] ?(?:yes|no|on|off|true|false|none|null|auto|default|ok"
    rb"|log|skip|\[ ?\]|\{ ?\}|\d[\w.:%]{0,20}(?: [a-z]{1,3})?)\.?"
)
# Names: classes: killed, injured, unharmed
LISTED_WORDS: Final = lazy_pattern(
    rb"(?!(?:\w{1,30} )?(?:error|fatal|critical|warning)\b)[\w /-]{1,40}: ?"
    rb"(?:[\w-]{1,30}(?: [\w-]{1,30})?, ?){2,40}[\w-]{1,30}(?: [\w-]{1,30})?\.?"
)
# The time, name and level of a line about nothing wrong.
CALM_LEVEL: Final = lazy_pattern(
    rb"[^\na-z\"'=]{0,60}(?:[\w.:/-]{1,60}[ |-]{1,4}){0,2}\b(?:DEBUG|INFO|NOTICE"
    rb"|TRACE)\b[\]:|) -]{1,8}"
    rb"(?:[\w.]{1,60}(?::(?! )| - | \| ))?"
)
