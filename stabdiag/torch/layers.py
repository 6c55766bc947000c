"""Which layer a parameter belongs to: at most 64, by the names of the modules."""

from __future__ import annotations

import re
from collections.abc import Sequence

# More columns than this make a log slow to read, and no person looks at them.
MAX_LAYERS = 64

# The prefixes that wrappers put before the name of each parameter.
_WRAPPER_PREFIX = re.compile(r"(?:^|(?<=\.))(?:module|_orig_mod|_fsdp_wrapped_module)\.")


def plain_name(name: str) -> str:
    """Return a parameter's name without what DDP, FSDP and torch.compile put before it.

    >>> plain_name("_orig_mod.module.head.weight")
    'head.weight'
    """
    return _WRAPPER_PREFIX.sub("", name)


def fold_names(names: Sequence[str], pattern: str | None = None) -> dict[str, str]:
    """Return the layer of each parameter.

    The layer is the module that has the parameter. If there are more than 64 of these, it is the
    part that they share at the greatest depth with at most 64. With a pattern, parameters whose
    names it matches are in the layer of its first group, or of the match; others in none.

    >>> fold_names(["body.0.weight", "body.0.bias", "head.weight"])
    {'body.0.weight': 'body.0', 'body.0.bias': 'body.0', 'head.weight': 'head'}
    """
    if pattern is not None:
        matches = {name: re.search(pattern, plain_name(name)) for name in names}
        return {
            name: (match.group(1) if match.re.groups else match.group(0)) or "all"
            for name, match in matches.items()
            if match
        }
    paths = {name: plain_name(name).split(".")[:-1] or ["all"] for name in names}
    deepest = max((len(path) for path in paths.values()), default=1)
    layers: dict[str, str] = {}
    for depth in range(deepest, 0, -1):
        layers = {name: ".".join(path[:depth]) for name, path in paths.items()}
        if len({*layers.values()}) <= MAX_LAYERS:
            return layers
    # Even the outermost modules are more: the rest shares a layer.
    kept = [*dict.fromkeys(layers.values())][: MAX_LAYERS - 1]
    return {name: layer if layer in kept else "other" for name, layer in layers.items()}
