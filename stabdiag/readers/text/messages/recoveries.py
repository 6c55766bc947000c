"""Messages about a failure that the training survived, and settings that name a failure."""

from __future__ import annotations

from typing import Final

from stabdiag.model.patterns import lazy_pattern

# What the program does next, or who takes the place of what failed, in lower case.
_SURVIVES: Final = (
    rb"retrying|will (?:be )?retr(?:y|ied)|f(?:alls|alling|ell) back|recovered|recovering"
    rb"|reconnected|resumed|resuming|continues|continuing|restored|took over|takes over"
    rb"|(?:was|were|is|are) (?:replaced|restored|recovered|handled)|go(?:es|ing) on"
    rb"|carr(?:ies|ying) on|next (?:trial|attempt)|fits|halved"
    rb"|in (?:the|a|an) (?:previous|earlier|last) (?:run|job|attempt)"
    rb"|start(?:ed|ing) from (?:its|the|a) (?:last )?checkpoint"
)
_SURVIVED: Final = lazy_pattern(rb"(?<![\w-])(?:" + _SURVIVES + rb")(?![\w-])")
# At the end of a log, in a sentence that need not name the job.
_GOES_ON: Final = lazy_pattern(
    rb"(?<![\w-])(?:" + _SURVIVES + rb"|skip\w*|retr(?:y|ied|ies)(?! (?:count|limit|exc))|ignor\w*"
    rb"|fallback|(?<!no )recover\w*|reconnect\w*|(?<!not )resum\w*|(?<!to )(?<!not )continu\w*"
    rb"|restoring"
    rb"|replac(?:ed|ing)|rebuil\w*|restart\w*|again|will try|later|imputed|interpolat\w*"
    rb"|filled)(?![\w-])"
)
_GIVES_UP: Final = lazy_pattern(
    rb"\bg(?:iv(?:ing|es)|ave) up\b|\b(?:exit|abort|terminat|quitt|bail|shutt|abandon|leav)ing\b"
)
# oom_kill_disable=false, if a worker was killed, number of workers that died: 0
_PLAN: Final = lazy_pattern(
    rb"(?:^|[\]:|-] )(?:(?:if|when|whenever|unless|in case|number of|count of) "
    rb"|[\w./-]{1,80} ?[:=] ?(?:true|false|yes|no|on|off|none)\.?\s{0,9}$)"
)


def survives(line: bytes) -> bool:
    """Return True if a line says that the training goes on, or plans for a failure."""
    lowered = line.lower()
    return _SURVIVED.search(lowered) is not None or _PLAN.search(lowered) is not None


def goes_on(line: bytes) -> bool:
    """Return True if a line at the end of a log says that the program does something else next."""
    lowered = line.lower()
    return _GOES_ON.search(lowered) is not None and _GIVES_UP.search(lowered) is None
