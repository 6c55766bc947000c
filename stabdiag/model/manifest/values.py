"""The values of a configuration, as frameworks write them: numbers, counts, flags, dtypes."""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING

from stabdiag.model.manifest.spelling import plain

if TYPE_CHECKING:
    from collections.abc import Mapping


_DTYPES: Mapping[str, tuple[str, ...]] = {
    # O1 to O3 are levels of NVIDIA's apex, mixed_float16 a policy of Keras.
    "fp16": (
        *("fp16", "float16", "half", "16", "f16", "16_mixed", "16_true", "fp16_mixed"),
        *("mixed_fp16", "mixed_float16", "amp_fp16", "o1", "o2", "o3"),
    ),
    "bf16": (
        *("bf16", "bfloat16", "bf16_mixed", "bf16_true", "mixed_bf16", "mixed_bfloat16"),
        "amp_bf16",
    ),
    "fp32": ("fp32", "float32", "float", "32", "32_true", "f32", "single", "tf32", "no", "o0"),
    "fp64": ("fp64", "float64", "double", "64", "64_true", "f64"),
}


def dtype_of(value: object) -> str | None:
    """Return our name of a dtype, or None if it is not one."""
    name = plain(str(value).rpartition("torch.")[2].rpartition("jnp.")[2])
    return next((dtype for dtype, names in _DTYPES.items() if name in names), None)


_SCALED = re.compile(r"(\d{1,9}(?:\.\d{1,9})?)([kKmM])")
_SCALES = {"k": 1e3, "m": 1e6}


def number(value: object) -> float | None:
    """Return a finite number, or None; fairseq writes a number as a list of one."""
    if isinstance(value, list) and len(value) == 1:
        value = value[0]
    if isinstance(value, bool):
        return None
    try:
        read = float(str(value))
    except ValueError:
        return None
    return read if math.isfinite(read) else None


def count(value: object) -> int | None:
    """Return a whole number, or None; also of ``100k``, and of the ``100ba`` of Composer."""
    read = number(value.removesuffix("ba") if isinstance(value, str) else value)
    scaled = _SCALED.fullmatch(value.strip()) if isinstance(value, str) else None
    if scaled is not None:
        read = round(float(scaled[1]) * _SCALES[scaled[2].lower()], 6)
    return int(read) if read is not None and read >= 0 and read == int(read) else None


def positive_count(value: object) -> int | None:
    """Return a whole number above 0, or None; 0 is how a configuration says none."""
    return count(value) or None


def clip(value: object) -> float | None:
    """Return a threshold, or None; null is how a configuration says that there is no clipping."""
    return 0.0 if value is None else number(value)


def word(value: object) -> str | None:
    """Return a text that is not empty, or None."""
    return value if isinstance(value, str) and value else None


def flag(value: object) -> bool | None:
    """Return true or false, or None for anything else."""
    if isinstance(value, bool):
        return value
    return {"true": True, "false": False}.get(str(value).lower())
