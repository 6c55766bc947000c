"""The processes of a job."""

from __future__ import annotations

import os

import torch


def process_rank() -> int:
    """Return the rank of this process, 0 if there is only one."""
    distributed = torch.distributed
    if distributed.is_available() and distributed.is_initialized():
        return int(distributed.get_rank())
    return int(os.environ.get("RANK", "0"))


def world_size() -> int:
    """Return the number of processes."""
    distributed = torch.distributed
    if distributed.is_available() and distributed.is_initialized():
        return int(distributed.get_world_size())
    return int(os.environ.get("WORLD_SIZE", "1"))
