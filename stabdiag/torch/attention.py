"""The logits and the entropy of attention, while a held-out batch is measured."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch.nn import functional

# Only queries of this many positions are measured: the logits of each take a row of the keys.
_MAX_QUERIES = 64


class AttentionLogits:
    """Measures each call of ``scaled_dot_product_attention``, which it replaces for the time.

    ``place`` returns the name of the module that runs.
    """

    def __init__(self, place: Callable[[], str]) -> None:
        self._place = place
        self._highest: dict[str, float] = {}
        self._entropy: dict[str, tuple[float, int]] = {}

    @contextmanager
    def watch(self) -> Iterator[None]:
        """Measure the calls of a forward pass."""
        original = functional.scaled_dot_product_attention
        # The fast path of nn.MultiheadAttention is a single operation.
        has_fast_path = torch.backends.mha.get_fastpath_enabled()

        def measured(*args: Any, **kwargs: Any) -> Any:
            self._measure(*args, **kwargs)
            return original(*args, **kwargs)

        try:
            functional.scaled_dot_product_attention = measured
            torch.backends.mha.set_fastpath_enabled(False)
            yield
        finally:
            functional.scaled_dot_product_attention = original
            torch.backends.mha.set_fastpath_enabled(has_fast_path)

    def _measure(
        self,
        query: torch.Tensor,
        key: torch.Tensor,
        value: torch.Tensor,
        attn_mask: torch.Tensor | None = None,
        dropout_p: float = 0.0,
        is_causal: bool = False,
        scale: float | None = None,
        **_: Any,
    ) -> None:
        """Compute the logits of the last queries."""
        if query.shape[1] != key.shape[1] and query.ndim == 4:
            return  # grouped queries have fewer keys
        count = min(query.shape[-2], _MAX_QUERIES)
        logits = query[..., -count:, :].float() @ key.float().mT
        logits = logits * (scale if scale is not None else 1 / math.sqrt(query.shape[-1]))
        allowed = torch.ones_like(logits, dtype=torch.bool)
        if is_causal:
            first = query.shape[-2] - count
            allowed = allowed.tril(first)
        if attn_mask is not None:
            mask = attn_mask[..., -count:, :] if attn_mask.shape[-2] > 1 else attn_mask
            if mask.dtype == torch.bool:
                allowed = allowed & mask
            else:
                logits = logits + mask.float()
        logits = logits.masked_fill(~allowed, -math.inf)
        chances = logits.softmax(-1)
        entropy = float(torch.special.entr(chances).sum(-1).nanmean())
        place = self._place()
        highest = float(logits.max())
        self._highest[place] = max(self._highest.get(place, -math.inf), highest)
        total, calls = self._entropy.get(place, (0.0, 0))
        self._entropy[place] = (total + entropy, calls + 1)

    def columns(self) -> dict[str, float]:
        """Return the largest logit and the mean entropy of each module."""
        result = {f"max_attention_logit/{place}": value for place, value in self._highest.items()}
        result |= {
            f"attention_entropy/{place}": total / calls
            for place, (total, calls) in self._entropy.items()
        }
        return {name: value for name, value in result.items() if math.isfinite(value)}
