"""Parsers of the values of a configuration, and the plain form of its names."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from functools import lru_cache

from stabdiag.model.patterns import lazy_pattern
from stabdiag.model.text import word_list


@lru_cache(maxsize=1 << 12)
def plain(name: str) -> str:
    """Return a normalized name for comparisons: lower case, words joined by ``_``."""
    return re.sub(r"[^a-z0-9]+", "_", name.strip().lower()).strip("_")


_DTYPE_SPELLINGS: Mapping[str, tuple[str, ...]] = {
    # O1 to O3 are levels of NVIDIA's apex, mixed_float16 a policy of Keras.
    "fp16": word_list(
        "fp16 float16 half 16 f16 16_mixed 16_true fp16_mixed mixed_fp16 mixed_float16 amp_fp16 "
        "o1 o2 o3"
    ),
    "bf16": word_list("bf16 bfloat16 bf16_mixed bf16_true mixed_bf16 mixed_bfloat16 amp_bf16"),
    "fp8": word_list(
        "fp8 float8 f8 fp8_mixed mixed_fp8 fp8_hybrid fp8_e4m3 fp8_e5m2 float8_e4m3fn float8_e5m2 "
        "transformer_engine"
    ),
    "fp32": ("fp32", "float32", "float", "32", "32_true", "f32", "single", "tf32", "no", "o0"),
    "fp64": ("fp64", "float64", "double", "64", "64_true", "f64"),
}


def parse_dtype(value: object) -> str | None:
    """Return our name of a dtype, or None if it is not one."""
    name = plain(str(value).rpartition("torch.")[2].rpartition("jnp.")[2])
    return next((dtype for dtype, names in _DTYPE_SPELLINGS.items() if name in names), None)


_SCALED = lazy_pattern(r"(\d{1,9}(?:\.\d{1,9})?)([kKmM])")
_COUNT_SUFFIXES = {"k": 1e3, "m": 1e6}


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
        read = round(float(scaled[1]) * _COUNT_SUFFIXES[scaled[2].lower()], 6)
    return int(read) if read is not None and read >= 0 and read == int(read) else None


def positive_count(value: object) -> int | None:
    """Return a whole number above 0, or None; 0 means none in a configuration."""
    return count(value) or None


def steps(value: object) -> tuple[int, ...] | None:
    """Return steps in rising order from a list or a text such as ``100,200``, or None."""
    parts = value.split(",") if isinstance(value, str) else value
    if not isinstance(parts, list | tuple):
        return None
    counts = [positive_count(part) for part in parts]
    valid = {step for step in counts if step is not None}
    return tuple(sorted(valid)) if valid and None not in counts else None


def clip(value: object) -> float | None:
    """Return a threshold, or None if it is invalid; null means no clipping."""
    return 0.0 if value is None else number(value)


def word(value: object) -> str | None:
    """Return a text that is not empty, or None."""
    return value if isinstance(value, str) and value else None


def flag(value: object) -> bool | None:
    """Return true or false, or None for anything else."""
    if isinstance(value, bool):
        return value
    return {"true": True, "false": False}.get(str(value).lower())
