"""Messages that end a run, and what to do about each."""

from __future__ import annotations

import re
from typing import Final

from stabdiag.model.events import Event, EventCode, Phase
from stabdiag.model.findings import Action
from stabdiag.model.findings import ActionKind as Do
from stabdiag.model.frozen import frozen


@frozen
class Ending:
    """What to do about a message that ends a run: a first clause, and further actions.

    A message has to match ``quote``, and its traceback has to end in ``phase``, if they are given.
    ``is_deliberate`` means that someone stopped the run, ``is_certain`` that the run did end there;
    ``title`` is the title of an error, or of an end that is not certain.
    """

    kind: Do
    clause: str
    code: EventCode | None = None
    quote: re.Pattern[str] | None = None
    phase: Phase | None = None
    next_actions: tuple[Action, ...] = ()
    is_deliberate: bool = False
    is_certain: bool = True
    title: str = ""


def _pattern(text: str) -> re.Pattern[str]:
    return re.compile(text, re.IGNORECASE)


_SHARD: Final = Action(
    Do.FREE_MEMORY,
    "If weights and optimizer states alone fill the memory (16 bytes a parameter with Adam), shard "
    "them (FSDP, ZeRO), use 8-bit Adam, or offload them to the CPU.",
)
_ACCUMULATE: Final = (
    "Use less memory: halve the batch and double the accumulation steps, shorten the sequences, or "
    "checkpoint activations"
)
_LATER: Final = Action(
    Do.FREE_MEMORY,
    "If earlier steps went well, look for a tensor that keeps its graph from step to step, and set "
    "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True against fragmentation.",
)
_NO_GRAD: Final = Action(Do.FREE_MEMORY, "Evaluate under torch.no_grad(), in smaller batches.")
_DEBUG_RANKS: Final = (
    Action(
        Do.CHECK_RANKS,
        "Check that all ranks call the same collectives in the same order: no logging, saving or "
        "branch that only one rank takes.",
    ),
    Action(
        Do.FIX_LOADER,
        "Give every rank the same number of batches: DistributedSampler, drop_last=True, or the "
        "join() context.",
    ),
    Action(Do.READ_LOGS, "Run with NCCL_DEBUG=INFO and TORCH_DISTRIBUTED_DEBUG=DETAIL."),
)
_CHECKPOINTS: Final = Action(Do.KEEP_CHECKPOINT, "Save a checkpoint when the run is interrupted.")
_ON_CPU: Final = Action(
    Do.RERUN,
    "Run the batch on the CPU, or with CUDA_LAUNCH_BLOCKING=1: the traceback then names the "
    "operation.",
)

# The first that matches counts.
ENDINGS: Final = (
    Ending(
        quote=_pattern(r"killed process|oom.kill"),
        kind=Do.FREE_MEMORY,
        clause="Use less memory on the host: fewer loader workers, less prefetching, a smaller "
        "cache",
    ),
    Ending(
        code=EventCode.OUT_OF_MEMORY,
        phase=Phase.EVALUATION,
        kind=Do.FREE_MEMORY,
        clause="Evaluate under torch.no_grad(), in smaller batches, without keeping the outputs",
        next_actions=(_LATER,),
    ),
    Ending(
        code=EventCode.OUT_OF_MEMORY,
        phase=Phase.UPDATE,
        kind=Do.FREE_MEMORY,
        clause="Make room for the optimizer's states (8 bytes a parameter with Adam): shard them "
        "(FSDP, ZeRO), use 8-bit Adam, or offload them to the CPU",
        next_actions=(Action(Do.CHANGE_BATCH, f"{_ACCUMULATE}."),),
    ),
    Ending(
        code=EventCode.OUT_OF_MEMORY,
        kind=Do.FREE_MEMORY,
        clause=_ACCUMULATE,
        next_actions=(_LATER, _SHARD, _NO_GRAD),
    ),
    Ending(
        code=EventCode.DISK_FULL,
        kind=Do.READ_LOGS,
        clause="Free space on the disk or raise the quota, and keep fewer checkpoints; the last "
        "checkpoint may be cut off",
    ),
    Ending(
        quote=_pattern(
            r"DistStoreError|clients joined|rendezvous|MASTER_(?:ADDR|PORT)|EADDRINUSE"
            r"|address already in use|init_process_group|TCPStore"
        ),
        kind=Do.CHECK_RANKS,
        clause="Check MASTER_ADDR, MASTER_PORT and the world size on every node, and that the port "
        "is free and open: not all processes joined the job",
        next_actions=(
            Action(Do.READ_LOGS, "Find the rank that is missing, and read the end of its log."),
        ),
    ),
    Ending(
        code=EventCode.COLLECTIVE_FAILED,
        kind=Do.READ_LOGS,
        clause="Find the first error in the logs of every rank: the rank that times out was "
        "waiting for another one",
        next_actions=_DEBUG_RANKS,
    ),
    Ending(
        quote=_pattern(r"t >= 0 && t < n_classes|cur_target|Target -?\d+ is out of bounds"),
        kind=Do.CHECK_LABELS,
        clause="Check the labels: one is outside 0 to K - 1 for K classes; a label to be skipped "
        "has to be the loss's ignore_index",
        next_actions=(_ON_CPU,),
    ),
    Ending(
        quote=_pattern(
            r"srcIndex < srcSelectDimSize|index out of range in self|index out of bounds"
            r"|ind >= 0 && ind < ind_dim_size"
        ),
        kind=Do.INSPECT_DATA,
        clause="Check the token ids: one is not below the number of rows of the embedding, as when "
        "tokenizer and model differ, or positions exceed the longest sequence",
        next_actions=(_ON_CPU,),
    ),
    Ending(
        code=EventCode.LOSS_EXPLODED,
        kind=Do.LOWER_LR,
        clause="Lower the learning rate to a tenth, and clip the gradient norm",
        title="The loss exploded, and the run stopped",
    ),
    Ending(
        code=EventCode.DEVICE_FAILED,
        kind=Do.READ_LOGS,
        clause="Find out which device failed (dmesg, nvidia-smi, rocm-smi), and leave its node out",
    ),
    Ending(
        code=EventCode.KILLED,
        kind=Do.READ_LOGS,
        clause="Find out who killed the process: the scheduler's log (time limit, preemption), or "
        "dmesg (exit code 137: the host ran out of memory)",
    ),
    Ending(
        code=EventCode.CUDA_ERROR,
        kind=Do.RERUN,
        clause="Run the last steps again with CUDA_LAUNCH_BLOCKING=1: the traceback then names the "
        "operation that failed",
    ),
    Ending(
        code=EventCode.TRACEBACK,
        quote=_pattern(r"^(?:\W?[\w.: -]{1,40}\W? ?)?KeyboardInterrupt\b"),
        kind=Do.KEEP_GOING,
        clause="If the run is to go on, find out who interrupted it (Ctrl-C, or a signal of the "
        "scheduler)",
        next_actions=(_CHECKPOINTS,),
        is_deliberate=True,
    ),
    Ending(code=EventCode.TRACEBACK, kind=Do.READ_LOGS, clause="Fix the error in the traceback"),
    Ending(
        code=EventCode.LAST_WORDS,
        kind=Do.READ_LOGS,
        clause="Find out what the last line of the log means, and whether the run ended there",
    ),
)
# A last line in words that no rule knows: an end, if it names one, or any other message.
_CLOSING_LINES: Final = (
    Ending(
        code=EventCode.CLOSING_LINE,
        quote=_pattern(
            r"\b(?:lost|gone|vanish\w*|disappear\w*|brok?e|broken|burst|stuck|stall\w*|hung|dead|died"
            r"|halt\w*|quit\w*|bail\w*|stopp\w+|stops|suspend\w*|drained|depleted|dry|exhausted"
            r"|truncated|mismatch|refused|rejected|unreachable|unusable|unavailable|missing"
            r"|collaps\w*|explod\w*|blew|diverg\w*|breakdown|corrupt\w*|cannot|could not|couldn't"
            r"|not enough|too (?:few|small|soon|little)|ran (?:out|into)|used up|any more|no longer"
            r"|limits? (?:hit|passed|reached)|not reached|unplugged|bumped|panicked|thrashing"
            r"|tripped|silent|signall?ed|revoked|withdrawn"
            r"|(?:deleted|removed|taken) by|detached while|deallocated|watchdog fired"
            r"|invalid|illegal|overflow\w*|nan|inf|infinity)\b"
        ),
        kind=Do.READ_LOGS,
        clause="Find out what the last line of the log means, and whether the run ended there",
    ),
    Ending(
        code=EventCode.CLOSING_LINE,
        kind=Do.READ_LOGS,
        clause="Find out whether the run ended at the last line of the log, and why",
        title="The log ends with a message",
        is_certain=False,
    ),
)
_UNKNOWN: Final = Ending(kind=Do.READ_LOGS, clause="Find out why the run ended")

# These end a run; other messages may only precede its end.
FATAL: Final = frozenset(ending.code for ending in ENDINGS if ending.code is not None)


def find_ending(event: Event) -> Ending:
    """Return the ending with the actions for the message that ended a run."""
    endings = (*ENDINGS, *_CLOSING_LINES)
    return next((ending for ending in endings if _matches(ending, event)), _UNKNOWN)


def _matches(ending: Ending, event: Event) -> bool:
    return (
        ending.code in (None, event.code)
        and ending.phase in (None, event.phase)
        and (ending.quote is None or ending.quote.search(event.quote) is not None)
    )
