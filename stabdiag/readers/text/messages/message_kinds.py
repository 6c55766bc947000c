"""The kinds of messages that no scalar shows: out of memory, a timeout, a traceback."""

from __future__ import annotations

import re
from typing import Final

from stabdiag.model.events import EventCode
from stabdiag.model.frozen import frozen
from stabdiag.model.patterns import lazy_pattern
from stabdiag.readers.text.messages.job_ends import (
    DEVICE_ANCHORS,
    DEVICE_FAULTS,
    JOB_END_ANCHORS,
    JOB_ENDS,
)
from stabdiag.readers.text.messages.recoveries import survives


@frozen
class MessageKind:
    """A kind of message: its lines match ``line``, and contain one of the texts ``anchors``.

    The whole log is searched for each anchor, so that kinds share a few anchors. If a pattern is
    slow, its lines also contain one of ``words``, which excludes most others. A line that says that
    the training survived is no message, if it ``can_be_survived``.
    """

    code: EventCode
    title: str
    anchors: tuple[bytes, ...]
    line: re.Pattern[bytes]
    words: tuple[bytes, ...] = (b"",)
    can_be_survived: bool = True

    def describes(self, line: bytes) -> bool:
        """Return True if a line is a message of this kind, also behind labels of its process."""
        if not any(word in line for word in self.words):
            return False
        if self.line.search(line) is None:
            message = without_labels(line)
            if message == line or self.line.search(message) is None:
                return False
        return not (is_source_line(line) or (self.can_be_survived and survives(line)))


# [rank3]: , [W socket.cpp:90] [c10d] , (TrainWorker pid=4811, ip=10.1.2.3), worker2: , and the
# time, name and level of a line about an error: 2026-01-02 03:04:05,678 - train - ERROR - ,
# ERROR:train:
_PROCESS_LABELS: Final = lazy_pattern(
    rb"\s{0,8}(?:\[[A-Za-z][\w .:-]{0,40}[\d#]\]:?(?: \[[a-z]\d{1,2}[a-z]\])?"
    rb"|\((?:\w{1,40} )?(?:rank=\d{1,6} )?pid=[^)\n]{1,60}\)"
    rb"|\w{0,12}\d{1,6}:) {1,4}"
    rb"|[^\na-z\"'=]{0,60}(?:[\w.:/-]{1,60}[ |-]{1,4}|[\w.:/-]{1,60}\] ){0,2}"
    rb"\b(?:ERROR|CRITICAL|FATAL)\b(?:[\]:|) -]{1,8}(?:[\w.:]{1,60}(?::(?! )| - | \| ))?"
    rb"|:[\w.]{1,60}:)"
)
_MOST_LABELS: Final = 3


def without_labels(line: bytes) -> bytes:
    """Return a line without the labels of its process and the level of an error in front of it."""
    start = 0
    for _ in range(_MOST_LABELS):
        label = _PROCESS_LABELS.match(line, start)
        if label is None or label.end() == start:
            break
        start = label.end()
    return line[start:]


# A line of a program, with a message in it.
_SOURCE_LINE: Final = lazy_pattern(
    rb"[ \t>]{0,80}(?:(?:except|raise|elif|if|assert|return(?! code)|print|logg(?:er|ing)\.\w{1,20}"
    rb"|warnings?\.\w{1,20}|self\.\w{1,40})\b[^\n]{0,400}[:(\"'#]|# |// )"
)


def is_source_line(line: bytes) -> bool:
    """Return True if a line is source code, with a message in it."""
    return _SOURCE_LINE.match(line) is not None


SORTS: Final = (
    MessageKind(
        code=EventCode.OUT_OF_MEMORY,
        title="out of memory",
        anchors=(
            *(b"rror", b"ut of memory", b"ut Of Memory", b"oom", b"OOMK", b"o allocate"),
            b"bad_alloc",
            *(
                b"nsufficient Memory",
                b"ran out of ",
                b"annot allocate ",
                b"_EXHAUSTED",
                b"OOM",
                b"low on resource",
                b"emory limit",
                b"emory exhausted",
                b"hausted ",
                b"emory not enough",
                b"emory isn't enough",
            ),
            *(b"ll available ", "存不足".encode(), "存溢出".encode(), "メモリ不足".encode()),
            *("памяти".encode(), b"memoria insuf", b"moire insuf"),
        ),
        line=lazy_pattern(
            rb"(?:CUDA|HIP|XPU|GPU|MPS|TPU|backend) out of memory(?![\"'`] errors?)"
            rb"|OutOfMemoryError: |\bstd::bad_alloc\b|CUDA_ERROR_OUT_OF_MEMORY"
            rb"|RESOURCE_EXHAUSTED|^Out of memory\b|Out of memory: Killed process"
            rb"|oom.(?:kill|reap)|OOMKilled"
            rb"|(?:rror|ailed): [^\n]{0,40}\bout of memory|\bFailed to allocate (?:memory|\d)"
            rb"|execution failed: Insufficient Memory|error \(2\) ?: out of memory"
            rb"|task \d{1,6}: Out Of Memory|\b[Rr]an out of (?:\w{1,10} )?memory\b"
            rb"|[Ee]xceeded (?:job |step |the )?(?:\w{1,10} )?memory limit"
            rb"|\bOOM(?:!|:?[ -](?:[Kk]ill(?!er score)|[Ee]rror|occurred|detected|encountered|when "
            rb"|while ))"
            rb"|\b[Cc]annot allocate (?:vector|memory)|low on resource: \w"
            rb"|using all available (?:RAM|memory)|allocate more memory than"
            rb"|\b[Mm]emory (?:\w{2,4} )?(?:been )?exhausted"
            rb"|\b[Ee]xhausted (?:\w{1,10} ){0,3}memory|[Mm]emory (?:is )?(?:not|isn't) enough"
            rb"|(?<!if )(?<!when )\b[Oo]ut of memory (?:error on|on (?:GPU|device|node)|allocating"
            rb"|(?:when|while) (?:trying|attempting|allocating))\b"
            + "|(?:显|内)存(?:不足|溢出)|メモリ不足|едостаточно памяти".encode()
            + "|memoria insuficiente|m(?:e|é)moire insuffisante".encode()
        ),
    ),
    MessageKind(
        code=EventCode.DISK_FULL,
        title="the disk is full",
        anchors=(b"o space left", b"ENOSPC", b"uota "),
        line=lazy_pattern(
            rb"[Nn]o space left on device|\bENOSPC\b"
            rb"|[Qq]uota (?:was |has been )?(?:exceeded|reached)"
            rb"|[Ee]xceeded (?:\w{1,10} ){0,3}quota\b"
        ),
    ),
    MessageKind(
        code=EventCode.COLLECTIVE_FAILED,
        title="collective communication failed",
        anchors=(
            b"rror",
            b"atchdog",
            b"NCCL t",
            b"NCCL W",
            b"has timed out",
            b"by peer",
            b"imed out waiting",
        ),
        line=lazy_pattern(
            rb"NCCL WARN [^\n]{0,200}(?:failed with error|connection (?:lost|closed)|[Tt]imed out)"
            rb"|[Tt]imed out waiting (?:\d{1,12} ?m?s )?for (?:recv|send|all|barrier|collective"
            rb"|rank|peer)"
            rb"|socket has timed out|[Gg]loo[^\n]{0,200}[Cc]onnection (?:reset|closed) by peer"
            rb"|collective operation timeout|DistBackendError: "
            rb"|NCCL (?:timeout|error)(?! (?:handling|is \d|of \d|set\b|= ?\d))"
            rb"|nccl(?:(?:System|Internal|Remote)Error|UnhandledCudaError)"
            rb"|atchdog (?:got stuck|thread terminated)"
        ),
    ),
    MessageKind(
        code=EventCode.SCALE_AT_MINIMUM,
        title="the loss scale cannot fall any further",
        anchors=(b"inimum",),
        line=lazy_pattern(rb"loss scale already at minimum|inimum loss scale reached \(\d"),
    ),
    MessageKind(
        code=EventCode.NOT_FINITE,
        title="a value that is not finite",
        anchors=(b"Loss is ", b"NaN in "),
        line=lazy_pattern(
            rb"Loss is (?:nan|inf)|found (?:NaN|Inf) in (?:local|forward|grad|loss|param)"
        ),
    ),
    MessageKind(
        code=EventCode.LOSS_EXPLODED,
        title="the program stopped as the loss exploded",
        anchors=(b"xplod", b"iverg", b"oss > ", b"oss exceed", b"oss too ", b"blew ", b"blown "),
        line=lazy_pattern(
            rb"(?:[Ee]xplod(?:ed|ing)|[Dd]iverg(?:ed|ing|ence))\b[^\n]{0,60}"
            rb"\b(?:[Aa]bort|[Ss]topping|[Tt]erminating|[Ee]xiting|[Qq]uitting|[Gg]iving up"
            rb"|[Kk]illing)"
            rb"|\b[Ll]oss (?:has |just ){0,2}(?:blew|blown|exploded|diverged)(?: up)? "
            rb"(?:at|in|after) (?:\w{1,10} ){0,2}\d"
            rb"|\b[Ll]oss (?:exceed(?:s|ed)|> ?\d|too (?:high|large))[^\n]{0,40}[,;:.] "
            rb"(?:[Ss]top|[Aa]bort|[Ee]xit|[Tt]erminat|[Hh]alt|[Gg]iving up|[Qq]uit)"
            rb"|(?:[Aa]bort|[Ss]topp|[Tt]erminat|[Ee]xit|[Qq]uitt)(?:ing|ed|ion)?\b[^\n]{0,40}"
            rb"(?:\b(?:exploded|exploding|diverged|diverging|divergence (?:detected|found)"
            rb"|blew up)\b"
            rb"|\b[Ll]oss (?:> ?\d|exceed(?:s|ed) (?:the )?(?:\d|limit|threshold|max)"
            rb"|too (?:high|large)[\s.!]{0,9}(?:$|[(,;])))"
        ),
    ),
    MessageKind(
        code=EventCode.CUDA_ERROR,
        title="CUDA error",
        anchors=(b"rror", b"_STATUS_", b"Assertion `", b"CUDA_ERROR", b"kernel image"),
        line=lazy_pattern(
            rb"CUDA error: (?!out of memory)|(?i:cuda runtime error) (?!\(2\))\(\d"
            rb"|CU(?:BLAS|DNN|FFT|SOLVER)_STATUS_(?!SUCCESS)[A-Z]"
            rb"|\b(?:no|device) kernel image is |\.cuh?:\d{1,9}:[^\n]{0,120}Assertion `"
            rb"|cudaError[A-Z]|\bCUDA_ERROR_(?!OUT_OF_MEMORY)[A-Z]"
        ),
    ),
    MessageKind(
        code=EventCode.DEVICE_FAILED,
        title="a device failed",
        anchors=DEVICE_ANCHORS,
        line=DEVICE_FAULTS,
    ),
    MessageKind(
        code=EventCode.KILLED,
        title="killed",
        anchors=(
            *(b"SIG", b"illed", b"egmentation", b"rror", b"xit", b"core dumped", b"free"),
            *(b"erminated", b"borted", b"reempted", b"rashed", b"died", b"ancel"),
            *(b"on signal ", b"by signal ", b"th signal ", b"ught signal "),
            *(
                b"nterrupted",
                b"llegal ",
                b"victed",
                b"xceeded",
                b"ode fail",
                b"oint exception",
                b"is lost",
            ),
            *(b"forcing job", b"illing job", b"smashing", b"corrupted ", b"malloc", b"munmap"),
            *(b"lost communication", b"off the bus", b"MPI_ABORT", b"illing ", b"borting "),
            *(b"erminating ", b"nterruption", b"will be ", b"isconnected", b"timed out"),
            *(b"ignal: ", b"bort(", b"revoked", b"deleted by", b"panic", b"pure virtual"),
            *(b"requested cancel", b"was stopped", b"tack overflow", b"process down"),
            *(b"TimeExceeded", b"timeExceeded", b"ack-off", b"BackOff", b"ailed", b"FAILED"),
        ),
        words=(
            *(b"SIG", b"ignal ", b"Signal", b"CANCELLED", b"core dumped", b"DUE TO", b"xit"),
            *(b"illed", b"illing job", b"egmentation fault", b"us error", b"oint exception"),
            *(b"llegal ", b"bort", b"erminated", b"ode fail", b"off the bus", b"is lost"),
            *(b"lost communication", b"forcing job", b"xceeded", b"reempted", b"rashed"),
            *(b"ancel", b"died", b"nterrupted", b"victed", b"unexpectedly", b"make: *"),
            *(b"free", b"alloc(", b"munmap", b"corrupted ", b"smashing", b"atal Python"),
            *(b"MPI_ABORT", b"illing ", b"rminating ", b"nterruption", b"nstance will be"),
            *(b"isconnected", b"ession ", b"imeExceeded", b"ack-off", b"BackOff"),
            *(b"ailed", b"FAILED", b"revoked", b"deleted by", b"panic", b"pure virtual"),
            *(b"was stopped", b"*** Error in", b"tack overflow", b"process down"),
        ),
        line=lazy_pattern(
            rb"(?:[Rr]eceived|[Gg]ot|[Cc]aught|by|with|exitcode|\*\*\*)[^\n]{0,60}SIG[A-Z]{3,4}"
            rb"(?![^\n]{0,80}\bcontinu)"
            rb"|closing signal SIG|\*\*\* Aborted at [\d#]|taking the (?:\w{1,10} )?process down"
            rb"|Signal \d{1,2} \(SIG|CANCELLED AT|\(core dumped\)|is killed by signal"
            rb"|DUE TO (?:TIME LIMIT|PREEMPTION|NODE FAILURE)"
            rb"|[Ee]xit(?:ed|s|ing)?[- ]?(?:with )?(?:exit |error |return |non-?zero )?"
            rb"(?:status )?(?:code|status)[ :=]{1,4}(?!0(?:x0{1,8})?\b)-?\d"
            rb"|SIG(?:TERM|KILL|INT|SEGV|ABRT|BUS|USR1) received|\bdouble free or corr"
            rb"|^(?:\w{1,40}: )?\w{0,12}(?:free|alloc|munmap_chunk)\w{0,20}\(\): [a-z]"
            rb"|^corrupted (?:size|double)"
            rb"|stack smashing detected|\bFatal Python error: "
            rb"|make: \*\*\* [^\n]{0,80}Error \d|\bKilled\s{0,80}$"
            rb"|\bKilled\s{1,80}(?:python|torchrun|srun)"
            rb"|\b(?:exited on|terminated by|killed by|died with|[Cc]aught) signal \d"
            # The message of a shell about its program.
            rb"|^(?:\w{2,5}: (?:line \d{1,6}: )?)?(?:\[\d{1,4}\][+-]?\s{1,8})?(?:\d{1,9} )?"
            rb"(?:[Kk]illed|[Ss]egmentation fault|[Bb]us error|[Ff]loating point exception"
            rb"|[Ii]llegal (?:hardware )?instruction|[Aa]bort(?:ed)?!?|Terminated)"
            rb"(?:: [1-9]\d?)?(?:\s{0,80}$|\s{2,40}\S)"
            rb"|[Nn]ode fail(?:ure|ed)\b|fallen off the bus|GPU (?:\d{1,3} )?is lost"
            rb"|lost communication with"
            rb"|forcing job termination|^mpi\w{2,5}: killing job|job killed[: ]"
            rb"|[Ee]xceeded (?:the |its )?(?:job )?(?:wall ?(?:clock )?time|time limit)"
            rb"|\b(?:[Ww]all ?(?:clock )?time|time limit)(?: limit)?(?: of \S{1,20})? exceeded"
            rb"|\bSignal: (?:Segm|Abort|Bus|Kill|Term|Float|Illeg)|^Abort\(\d"
            rb"|^pure virtual method called|^[Ss]tack overflow\b"
            rb"|\*\*\* Error in [^\n]{1,80}: (?:free|malloc|double|corr)"
            rb"|\b[Jj]ob(?: allocation)?(?: [\w.-]{0,60}\d)? (?:has been |was )?"
            rb"(?:revoked|deleted by|terminated by)\b|requested cancellation of"
            rb"|\b[Rr]un was stopped (?:from|by)\b|^Kernel panic(?! is)\b"
            rb"|MPI_ABORT was invoked|\bMPI_Abort\(|Killing subprocess \d|Max(?:Runtime"
            rb"|WaitTime)Exceeded"
            rb"|[Bb]ack-off (?:\w{1,12} )?restarting failed|\bCrashLoopBackOff\b"
            rb"|\b(?:[Kk]illing|[Aa]borting|[Tt]erminating) (?:the |this )?"
            rb"(?:job|process(?: group)?|run|trainer|training|program)\b(?! (?:time|loop))"
            rb"|\b[Ss]pot [\w ]{0,12}interruption"
            rb"|\binstance will be (?:terminated|stopped|reclaimed)"
            rb"|\b(?:[Ss]ession|[Rr]untime|[Kk]ernel) (?:has |was |has been )?"
            rb"(?:crashed|died|timed out|disconnected)\b"
            rb"|(?<![Nn]o )\b(?:[Jj]ob|[Rr]un|[Tt]raining(?: job)?)(?: [\w.-]{1,40})? (?:has )?"
            rb"(?:failed|FAILED)(?=[\s.!]{0,9}$|[:;,.]| (?:with|due|after|because)\b)"
            rb"(?![^\n]{0,80}\bretry)"
            # Messages about a part of the job.
            rb"|(?<![Nn]o )\b(?:[Jj]ob|[Rr]un|[Tt]ask|[Tt]raining|[Pp]rocess(?:es|\(es\))?"
            rb"|[Ww]orker|[Aa]ctor|[Nn]ode|[Rr]ank|[Ii]nstance|[Oo]peration|[Pp]od|[Cc]ontainer"
            rb"|^User)"
            rb"(?: step| [\w.-]{0,60}\d[\w.-]{0,20}| \(pid[^\n)]{0,20}\)[^\n]{0,20})?"
            rb"(?: was| were| has been| got)? (?:aborted|preempted|crashed|killed|cancell?ed|died"
            rb"|interrupted|evicted|exited unexpectedly)"
            rb"(?=[\s.!]{0,9}$|[:;,]| (?:by|due|after|because|on|at|with|unexpectedly)\b)"
        ),
    ),
    MessageKind(code=EventCode.KILLED, title="killed", anchors=JOB_END_ANCHORS, line=JOB_ENDS),
)

# An exception without its traceback: the last line of a log that was cut, or of a C++ program.
LONE_EXCEPTION: Final = MessageKind(
    code=EventCode.TRACEBACK,
    title="traceback",
    can_be_survived=False,
    anchors=(
        *(b"rror", b"Exception", b"KeyboardInterrupt", b"terminate called", b"StopIteration"),
        b"SystemExit: ",
        *(b"abi: terminating", b"panic: ", b"panicked at", b"atal error: "),
        *(b"FATAL", b"CRITICAL", b"atal e", b"heck failed", b"heck failure", b"what():"),
        *(b"ssertion `", b"exc.", b"xceptions.", b"rrors.", b": F "),
        *(b"xception in thread ", b".lua:", b": attempt to "),
    ),
    line=lazy_pattern(
        rb"^(?:\[\w.: -]{1,40}\]:? ?|\w{1,12}[:|] |Caused by: )?(?:[A-Za-z_]\w{0,60}\.){0,8}"
        rb"(?:_?[A-Z]\w{0,60}(?:Error|Exception)(?:: | with |:?\s{0,9}$)"
        rb"|Exception: [A-Za-z]|(?:\^C)?KeyboardInterrupt:?\s{0,9}$"
        rb"|StopIteration(?::|\s{0,9}$)|SystemExit: [1-9])"
        # Exceptions whose names do not say so: requests.exceptions.ReadTimeout: …
        rb"|^(?:[A-Za-z_]\w{0,60}\.){0,6}(?:exc|exceptions|errors)\.[A-Z]\w{2,60}: "
        rb"|^\s{0,8}what\(\): |^\*{0,3} ?Check failure stack trace"
        rb"|: [Aa]ssertion [`'][^\n]{1,400}' failed\.?\s{0,9}$"
        rb"|^terminate called (?:after throwing|without an active exception|recursively)"
        rb"|^panic: |^thread '[^'\n]{1,40}' panicked at |^fatal error: "
        rb"|^Error in [^\n]{1,80}[){}] ?: "
        rb"|^libc\+\+abi(?:\.dylib)?: terminating"
        # Java, Lua, Ruby, Elixir, Nim, and Cargo of a program in Rust.
        rb"|\bException in thread \"[^\"\n]{1,80}\" \S"
        rb"|^\S{1,200}(?: \S{1,200})?\.lua:\d{1,6}:\s(?! ?[Ww]arn)"
        rb"|: attempt to (?:call|index|perform|compare|concatenate) "
        rb"|^\S{1,120}\.rb:\d{1,6}:in [`'][^\n]{1,400}\(\w{2,60}Error\)\s{0,9}$"
        rb"|^\*\* \([A-Z][\w.]{1,60}Error\) \S|^Error: unhandled exception: "
        rb"|^error: process didn't exit successfully: "
        rb"|(?<!\b[Nn]o )\b[Ff]atal (?:error|exception)\b(?! (?:handl|rate|count))"
        rb"|^(?:F\d{4} \d\d:\d\d:\d\d\.\d|[\d-]{10} \d\d:\d\d:\d\d(?:\.\d{1,9})?: F )[^\n]{0,80}\] "
        # Hydra
        rb"|^Error executing job with overrides: "
        # The level of a line, after its time and its place.
        rb"|^[^\na-z\"'=]{0,60}[\w.:/ -]{0,40}\b(?:FATAL|CRITICAL)(?: ERROR)?(?:[\]:|]| - )"
    ),
)
