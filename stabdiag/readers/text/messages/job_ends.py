"""Messages of drivers, schedulers, shells and systems about a job that ended or died."""

from __future__ import annotations

from typing import Final

from stabdiag.model.patterns import lazy_pattern

# A part of each alternative of the pattern below. The whole log is searched for these.
DEVICE_ANCHORS: Final = (
    *(b"access fault", b"STATUS_ERROR", b"DEVICE_LOST", b"Xid (", b"ncorrectable ", b"core halted"),
    *(b"BLAS error", b"MIOpen", b"failed assertion", b"ommand buffer", b"eplica ", b"TPU "),
    *(b"in use by another", b"HPU ", b"NPU ", b"GPU reset", b"hipError", b"MIOPEN_STATUS_"),
    *(b"RESULT_ERROR", b"ealth check failed", b"a bad state", b"device handle"),
)
# ROCm, level zero, the driver of NVIDIA, Metal, and the runtime of TPUs.
DEVICE_FAULTS: Final = lazy_pattern(
    rb"[Mm]emory access fault by |HSA_STATUS_ERROR|(?:RESULT|PI)_ERROR_DEVICE_LOST"
    rb"|\bXid \(PCI|(?<!\b0 )[Uu]ncorrectable (?:\w{1,20} ){0,4}(?:\([A-Z]{2,4}\) )?error(?!s?: ?0)"
    rb"|\bcore halted|(?:roc|hip|cu)BLAS error: |MIOpen(?:\([A-Z]{1,20}\))?:? [Ee]rror"
    rb"|: failed assertion [`'\"]|[Cc]ommand buffer (?:exited with error|execution failed)"
    rb"|[Rr]eplica [\w-]{1,40} (?:failed|exited with (?:a )?non-?zero|ran out)"
    rb"|\b[THN]PU (?:\w{1,20} ){0,3}(?:has |have |was |is )?(?:terminated|halted|lost|crashed|died"
    rb"|unhealthy|preempted)\b"
    rb"|in use by another process, (?:abort|exit)"
    rb"|\bGPU reset\b(?! (?:ok|done|succeeded))|\bhipError[A-Z]|MIOPEN_STATUS_(?!SUCCESS)[A-Z]"
    rb"|\b(?:ZE|UR|PI)_RESULT_ERROR_|[Hh]ealth check failed|\bis in a bad state\b"
    rb"|[Uu]nable to determine the device handle"
)

JOB_END_ANCHORS: Final = (
    *(b"received signal", b"BAD TERMINATION", b"xceeded hard", b"xceeded soft", b"Job <"),
    *(b"Job disconnected", b"Evicted", b"reempting", b"OOMKilling", b"NodeNotReady"),
    *(
        b"backoff limit",
        b"BackoffLimit",
        b"than specified deadline",
        b"orkers killed",
        b"killed due to",
    ),
    *(b"rial task failed", b"Spot ", b"spot ", b"non-zero", b"nonzero", b"have died"),
    *(b"ession ", b"otebook ", b" being ", b"sending signal", b"death signal"),
    *(b"Faulting app", b"nhandled exception at", b"xception code: 0x", b"Debug Assertion"),
    *(b"has been called", b"ignal (", b" (1): ", b"xecution halted", b"caught segfault"),
    *(b"shutdown signal", b"code=killed", b"code=dumped", b"closed by remote host"),
    *(
        b"send disconnect",
        b"llowed Compute",
        b"atus: ",
        b"tate: ",
        b"vent: ",
        b"tate=",
        b"atus=",
        b"JOB_STATE_",
    ),
    *(b"slurmstepd: error", b"srun: error", b"srun: Force", b"srun: Term", b"rror response from"),
    *(b"failed with TM", b"Terminated by sig"),
    *(b"its memory limit", b"probe failed", b"killing pods", b"unexpectedly exits", b" died: "),
    *(b"xception Code: 0x", b"could not be read", b"could not be writ", b"overrun detected"),
    *(b"pthread_create", b"emporarily unavailable", b"symbol lookup", b"bus error"),
    *(b"HDF5-DIAG", b"xception caught", b"ABORTED: ", b"DATA_LOSS: ", b"INTERNAL: "),
    *(b"UNAVAILABLE: ", b"EXCEEDED: ", b"PRECONDITION: ", b"ERROR", b"Error: "),
    *map(str.encode, ("Убито", "сегментирования", "Getötet", "Speicherzugriffsfehler", "段错误")),
    *map(str.encode, ("已杀死", "已终止", "強制終了", "de segmentation", "de segmento")),
)
_MACHINE: Final = (
    rb"(?:[Ii]nstance|[Nn]ode|VM|[Mm]achine|[Jj]ob|[Pp]od|[Tt]ask|[Cc]ontainer|[Hh]ost)"
)
JOB_ENDS: Final = lazy_pattern(
    # MPI, Grid Engine, LSF, HTCondor.
    rb"\*\*\* Process received signal \*\*\*|\bBAD TERMINATION OF\b"
    rb"|[Ee]xceeded (?:hard|soft) (?:wall|memory|h_|s_|time|limit)"
    rb"|\bJob <\d{1,12}>[^\n]{0,60} (?:is|was|has been) (?:terminated|killed|aborted)"
    rb"|\bJob disconnected\b"
    # Kubernetes, Ray and the clouds.
    rb"|\bWarning\s{1,20}(?:Evicted|Preempting|OOMKilling|NodeNotReady)\s"
    rb"|reached the specified backoff limit|\bBackoffLimitExceeded\b"
    rb"|active longer than specified deadline|\b[Ww]orkers (?:\([^)\n]{1,40}\) )?killed due to\b"
    rb"|\b[Tt]rial task failed\b"
    rb"|\b[Ss]pot (?:\w{1,20} ){1,3}(?:was |were |is |has been )?(?:being )?"
    rb"(?:reclaimed|preempted|evicted|interrupted|terminated)\b"
    rb"|\b"
    + _MACHINE
    + rb" (?:is|was) being (?:preempted|evicted|reclaimed|terminated|shut down)\b"
    rb"|[Ee]xit(?:ed|s|ing)? with (?:a )?non-?zero (?:exit |return )?(?:status|code)"
    rb"|returned (?:a )?non-?zero (?:exit |return )?(?:status|code)"
    rb"|\b[Kk]ernel\b[^\n]{0,80} (?:appears to|seems to|may) have died"
    rb"|\b(?:[Ss]ession|[Nn]otebook) (?:was |has been |is )?(?:terminated|stopped|killed|evicted)\b"
    rb"|Exceeded Allowed Compute|has received a shutdown signal"
    # Shells and systems.
    rb"|^timeout: sending signal|[Rr]eceived \d{1,2} death signal"
    rb"|^Faulting application name|[Uu]nhandled exception at 0x|\bexception code: 0x"
    rb"|^Debug Assertion Failed|\babort\(\) has been called"
    rb"|\bsignal (?:\(\d{1,2}\)|\d{1,2} \(\d{1,3}\)): [A-Z]|^Execution halted|\bcaught segfault\b"
    rb"|\bcode=(?:killed|dumped), status=|^Connection to \S{1,200} closed by remote host"
    rb"|^client_loop: send disconnect"
    # In other languages, as a shell translates them.
    + "|^[^\\n]{0,60}(?:Убито|Ошибка сегментирования|Getötet|Speicherzugriffsfehler|段错误"
    "|已杀死|已终止|強制終了|Erreur de segmentation|Violación de segmento)".encode()
    + rb"|\bJOB_STATE_(?:FAILED|CANCELLED|EXPIRED)\b|^(?:slurmstepd|srun): error: "
    rb"|^srun: (?:Force )?Terminat|\bError response from daemon: "
    rb"|failed with TM error|^Terminated by signal|exceeded its memory limit"
    rb"|(?:[Ll]iveness|[Rr]eadiness|[Ss]tartup) probe failed|\bkilling pods\b"
    rb"|\bunexpectedly exits\b|\(\) died: |\bException Code: 0x"
    rb"|memory could not be (?:read|written)|overrun detected, |pthread_create failed"
    rb"|Resource temporarily unavailable|symbol lookup error|[Uu]nexpected bus error"
    rb"|HDF5-DIAG: Error|\b[Ee]xception caught: "
    # The codes of gRPC and Abseil, and the level of an error at the start of a line.
    rb"|^(?:ABORTED|DATA_LOSS|INTERNAL|UNAVAILABLE|DEADLINE_EXCEEDED|FAILED_PRECONDITION): "
    rb"|^(?:\[ERROR\]:? |ERROR: |Error: )(?!-?[\d.])(?![^\n]{0,200}\bretr(?:y|ies))[^\n]{0,200}"
    rb"(?:fail|abort|crash|kill|died|dead|cannot|could not|unable|lost|unexpected|invalid|fatal"
    rb"|corrupt|timed out|timeout|not found|denied|exceed|refused|unreachable)"
    # The last state of a record.
    rb"|^(?:\w{1,20}: )?(?:[Jj]ob ?|[Rr]un ?)?(?:\w{1,20} )?(?:[Ss]tatus|[Ss]tate|[Ee]vent)(?:: "
    rb"|=)[\"']?"
    rb"(?:[Ff]ailed|FAILED"
    rb"|[Cc]rash(?:ed)?|CRASHED|[Kk]illed|KILLED|[Aa]borted|ABORTED|[Pp]reempted|PREEMPTED|OOM|oom"
    rb"|[Dd]iverged|DIVERGED|[Ee]rrored|[Cc]ancell?ed|CANCELL?ED|NODE_FAIL|TIMEOUT|OUT_OF_MEMORY)"
    rb"[\"']?\s{0,9}(?:$|[,;(|]| \w{1,20}=)(?![^\n]{0,80}\bretr)"
)
