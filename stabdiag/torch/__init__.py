"""Record a training run in PyTorch, so that a diagnosis finds what an ordinary log cannot show.

    import stabdiag.torch as sd

    recorder = sd.Recorder(model, optimizer, "run.jsonl")
    for batch in recorder.batches(loader):
        ...
        recorder.step(loss)

Then ``stabdiag diagnose run.jsonl``. This package needs PyTorch, and no other part of stabdiag.
"""

from stabdiag.torch.probe import ProbeResult, probe
from stabdiag.torch.ranks import merge_ranks
from stabdiag.torch.recorder import Recorder
from stabdiag.torch.sanity import sanity
from stabdiag.torch.sanity_result import SanityResult

__all__ = [
    "HFCallback",
    "LightningCallback",
    "ProbeResult",
    "Recorder",
    "SanityResult",
    "merge_ranks",
    "probe",
    "sanity",
]

TYPE_CHECKING = False
if TYPE_CHECKING:
    from stabdiag.torch.hf import HFCallback
    from stabdiag.torch.pl import LightningCallback

_CALLBACKS = {"HFCallback": "stabdiag.torch.hf", "LightningCallback": "stabdiag.torch.pl"}


def __getattr__(name: str) -> object:
    """Import a callback's framework on first access."""
    if name not in _CALLBACKS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(_CALLBACKS[name]), name)
