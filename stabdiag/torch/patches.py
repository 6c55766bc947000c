"""Wrappers around four functions of PyTorch that report their calls to the open recorders.

A backward pass, a switch between training and evaluation mode, a clipped gradient and a step of a
loss scaler leave no trace that an optimizer hook could read. The wrappers call the original and
do not change arguments or results. They are in place only while a recorder is open.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, Protocol

import torch
from torch import nn


class Listener(Protocol):
    """A recorder, as the wrappers see it. No method raises."""

    def on_backward(self, roots: object) -> None:
        """Before a backward pass begins."""

    def after_backward(self) -> None:
        """After a backward pass."""

    def on_mode(self, module: Any, training: bool) -> None:
        """After a module was switched to training or evaluation mode."""

    def on_clip(self, parameters: object, max_norm: object, total: object) -> None:
        """After gradients were clipped; ``total`` is their norm before."""

    def on_scaler_step(self, scaler: Any, optimizer: Any, done: bool) -> None:
        """Before a loss scaler steps an optimizer, and when that is ``done``."""


_listeners: list[Listener] = []
_asleep: list[Listener] = []
_originals: list[tuple[Any, str, Any]] = []


def listen(listener: Listener) -> None:
    """Report calls to a listener; the first one puts the wrappers in place."""
    if not _listeners:
        _install()
    _listeners.append(listener)


def stop_listening(listener: Listener) -> None:
    """Report no more calls to a listener; after the last one PyTorch is as it was."""
    wake(listener)
    if listener in _listeners:
        _listeners.remove(listener)
    if not _listeners:
        _uninstall()


def sleep(listener: Listener) -> None:
    """Report no backward passes to a listener; if all are asleep, these are not wrapped."""
    _asleep.append(listener)
    if len(_asleep) == len(_listeners):
        _restore(torch.autograd, "backward")


def wake(listener: Listener) -> None:
    """Report backward passes again."""
    if listener not in _asleep:
        return
    _asleep.remove(listener)
    if not any(name == "backward" for _, name, _ in _originals):
        _replace(torch.autograd, "backward", _backward)


def _install() -> None:
    _replace(torch.autograd, "backward", _backward)
    _replace(nn.Module, "train", _train)
    _replace(torch.amp.GradScaler, "step", _scaler_step)
    # The package and its module each have a name for the function.
    _replace(nn.utils, "clip_grad_norm_", _clip)
    _replace(nn.utils.clip_grad, "clip_grad_norm_", _clip)


def _uninstall() -> None:
    for owner, name, _ in [*_originals]:
        _restore(owner, name)
    _originals.clear()


def _restore(owner: Any, name: str) -> None:
    """Remove a wrapper, unless another tool has wrapped it: it then stays and reports nothing."""
    for entry in _originals:
        if entry[0] is owner and entry[1] == name:
            if getattr(getattr(owner, name), "is_stabdiag_wrapper", False):
                setattr(owner, name, entry[2])
                _originals.remove(entry)
            return


def _replace(owner: Any, name: str, make: Callable[[Any], Any]) -> None:
    original = getattr(owner, name)
    wrapper: Any = functools.wraps(original)(make(original))
    wrapper.is_stabdiag_wrapper = True
    _originals.append((owner, name, original))
    setattr(owner, name, wrapper)


def _backward(original: Any) -> Any:
    def backward(tensors: Any, *args: Any, **kwargs: Any) -> Any:
        for listener in _listeners:
            if listener not in _asleep:
                listener.on_backward(tensors)
        try:
            return original(tensors, *args, **kwargs)
        finally:
            for listener in _listeners:
                if listener not in _asleep:
                    listener.after_backward()

    return backward


def _train(original: Any) -> Any:
    def train(self: Any, mode: bool = True) -> Any:
        result = original(self, mode)
        for listener in _listeners:
            listener.on_mode(self, mode)
        return result

    return train


def _clip(original: Any) -> Any:
    def clip_grad_norm_(parameters: Any, max_norm: Any, *args: Any, **kwargs: Any) -> Any:
        if not isinstance(parameters, torch.Tensor):
            parameters = list(parameters)
        total = original(parameters, max_norm, *args, **kwargs)
        for listener in _listeners:
            listener.on_clip(parameters, max_norm, total)
        return total

    return clip_grad_norm_


def _scaler_step(original: Any) -> Any:
    def step(self: Any, optimizer: Any, *args: Any, **kwargs: Any) -> Any:
        for listener in _listeners:
            listener.on_scaler_step(self, optimizer, done=False)
        result = original(self, optimizer, *args, **kwargs)
        for listener in _listeners:
            listener.on_scaler_step(self, optimizer, done=True)
        return result

    return step
