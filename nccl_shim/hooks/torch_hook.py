"""Installs counting into torch.distributed. Law: classes are patched, objects are not (so pickles, state and
comm hooks stay the user's), and every patch ends in the original call.

DDP's reducer calls its process group from C++, where no Python patch is seen. It is therefore given a group
of our own that forwards to the user's, which keeps everything else (the user's handle included) as it was. A
reducer over NCCL keeps the real group: there the NCCL plugin counts, and only the end of an iteration is
taken from the backward pass.
"""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable
from types import ModuleType
from typing import Any

import torch
import torch.distributed as dist
from torch.nn.parallel import distributed as ddp_module

from nccl_shim.hooks.boundary import in_backward
from nccl_shim.hooks.torch_count import OPERATIONS, TorchCounter, counted, is_nccl
from nccl_shim.segment.writer import warn_once

MOST_PARTS = 1000  # of a forward pass's output that are looked at

_installed: TorchCounter | None = None


class ForwardingGroup(dist.ProcessGroup):
    """The user's group as the reducer sees it; its methods are Python, so they are counted on the way."""

    def __init__(self, inner: dist.ProcessGroup, counter: TorchCounter, allreduce: Callable[..., Any]) -> None:
        base: Any = super()  # torch declares another of its constructors
        base.__init__(inner.rank(), inner.size())
        self._inner, self._size = inner, inner.size()
        self._allreduce, self._announce = allreduce, counter.announce_bucket
        self._record = counter.bucket_record(inner)
        # The same backends underneath: whatever is not forwarded below works as on the original.
        for device in inner._device_types:
            backend = inner._get_backend(device)
            kind = getattr(self.BackendType, backend.name().upper(), self.BackendType.CUSTOM)
            self._set_default_backend(kind)
            self._register_backend(device, kind, backend)

    def allreduce(self, tensors: Any, *options: Any) -> Any:
        self._announce(self._record, self._size, tensors)
        return self._allreduce(self._inner, tensors, *options)

    def allreduce_coalesced(self, *args: Any) -> Any:
        return self._inner.allreduce_coalesced(*args)

    def broadcast(self, *args: Any) -> Any:
        return self._inner.broadcast(*args)

    def getBackendName(self) -> str:
        name: str = self._inner.name()
        return name


def install() -> None:
    """Patches torch.distributed once; never raises."""
    global _installed
    if _installed is not None:
        return
    try:
        in_backward()  # is asked at every pass: better to learn now that this torch does not know
        counter = _installed = TorchCounter()
        allreduce = dist.ProcessGroup.allreduce
        _patch_process_group(counter)
        _patch_broadcast(counter)
        _patch_ddp(counter, allreduce)
    except Exception as error:
        warn_once(f"this torch cannot be observed: {error!r}; training is not affected")


def _patch_process_group(counter: TorchCounter) -> None:
    for name in OPERATIONS:
        method = getattr(dist.ProcessGroup, name, None)
        if method is not None:
            setattr(dist.ProcessGroup, name, counted(method, name, counter))


def _patch_broadcast(counter: TorchCounter) -> None:
    """DDP sends buffers (batch-norm statistics) by a C++ function that takes the group as an argument."""
    distributed: Any = dist  # which does not declare it
    original = distributed._broadcast_coalesced

    @functools.wraps(original)
    def _broadcast_coalesced(process_group: Any, tensors: Any, *args: Any, **kwargs: Any) -> Any:
        announced = counter.announce(process_group, "Broadcast", list(tensors), -1)
        result = original(process_group, tensors, *args, **kwargs)
        counter.made(announced, None)
        return result

    distributed._broadcast_coalesced = _broadcast_coalesced


def _patch_ddp(counter: TorchCounter, allreduce: Callable[..., Any]) -> None:
    ddp: Any = ddp_module.DistributedDataParallel
    original_init, original_forward = ddp._ddp_init_helper, ddp.forward
    # The reducer must not outlive the Python side of its group.
    groups: weakref.WeakKeyDictionary[torch.nn.Module, ForwardingGroup] = weakref.WeakKeyDictionary()

    @functools.wraps(original_init)
    def _ddp_init_helper(self: Any, *args: Any, **kwargs: Any) -> Any:
        real = self.process_group
        forwarding = _forwarding_group(self, real, counter, allreduce)
        if forwarding is None:
            return original_init(self, *args, **kwargs)
        try:
            self.process_group = forwarding
            result = original_init(self, *args, **kwargs)
        except Exception as error:
            # The forwarding group's fault, or the user's own error: without it DDP either works or raises again.
            self.process_group = real
            result = original_init(self, *args, **kwargs)
            warn_once(f"DDP does not take our process group ({error!r}); its buckets are not counted")
        else:
            groups[self] = forwarding
        finally:
            self.process_group = real
        return result

    @functools.wraps(original_forward)
    def forward(self: Any, *inputs: Any, **kwargs: Any) -> Any:
        if getattr(self, "_use_python_reducer", False):  # then the compiler may trace all of this into one graph
            return original_forward(self, *inputs, **kwargs)
        output = original_forward(self, *inputs, **kwargs)
        if torch.is_grad_enabled() and self.require_backward_grad_sync:
            _expect_backward(counter, None if self in groups else output)
        return output

    ddp._ddp_init_helper, ddp.forward = _ddp_init_helper, forward


def _forwarding_group(
    module: Any, real: dist.ProcessGroup, counter: TorchCounter, allreduce: Callable[..., Any]
) -> ForwardingGroup | None:
    try:
        device = next(p.device for p in module.module.parameters() if p.requires_grad)
        return None if is_nccl(real, device) else ForwardingGroup(real, counter, allreduce)
    except Exception as error:
        warn_once(f"DDP's buckets are not counted: {error!r}")
        return None


def _expect_backward(counter: TorchCounter, output: Any) -> None:
    """Before a backward pass; with an `output`, it ends an iteration although Python sees none of its collectives."""
    try:
        counter.begin()  # not before: forward sends buffers, which are no burst
        if not in_backward():
            counter.boundary.between_passes()
        tensor: Any = _first_with_grad(output)
        if tensor is not None:
            tensor.register_hook(lambda _grad: _communicated(counter))
    except Exception as error:
        warn_once(f"ends of iterations are not counted: {error!r}; training is not affected")


# torch.compile must not trace into this.
_expect_backward._torchdynamo_disable = True  # type: ignore[attr-defined]


def _communicated(counter: TorchCounter) -> None:
    try:
        counter.boundary.communicated()
    except Exception as error:
        warn_once(f"the end of an iteration is not counted: {error!r}; training is not affected")


def _first_with_grad(output: Any) -> torch.Tensor | None:
    """The first tensor in there that the backward pass goes through. A leaf is none: it would keep its hook for ever,
    and get another one in every iteration."""
    waiting, seen = [output], set[int]()
    while waiting and len(seen) < MOST_PARTS:
        part = waiting.pop()
        if isinstance(part, torch.Tensor):
            if part.grad_fn is not None:
                return part
        elif id(part) not in seen:
            seen.add(id(part))
            waiting += reversed(_parts(part))
    return None


def _parts(one: Any) -> list[Any]:
    """Of what a forward pass returned; a loss lies in no module."""
    if isinstance(one, dict):
        return list(one.values())
    if isinstance(one, (list, tuple)):
        return list(one)
    if isinstance(one, (torch.nn.Module, ModuleType, type)) or not hasattr(one, "__dict__"):
        return []
    return list(vars(one).values())
