"""Counts torch RPC, as parameter servers use it. Law: a call goes through unchanged; tensors in its arguments
are pushed to the callee, tensors in its reply are pulled from it. The callee counts the reply as pushed to an
unnamed peer (-1), because torch does not name the caller.

Nothing is patched before init_rpc: most jobs that import torch.distributed.rpc never use it.
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Callable
from itertools import islice
from typing import Any

import torch
from torch.distributed import rpc
from torch.distributed.rpc import api, internal

from nccl_shim import ps
from nccl_shim.hooks.cycle import CallCycle
from nccl_shim.segment.writer import warn_once

_UNNAMED = -1
# torch's own barriers and look-ups travel as RPCs too; they carry no tensors and follow no cycle.
_TORCHS_OWN = ("torch.distributed.rpc.api", "torch.distributed.rpc._utils")
_installed = False
# torch declares no types for what is patched and asked here.
_rpc: Any = rpc
MOST_PARTS = 10_000

_api: Any = api
_internal: Any = internal


def install() -> None:
    """Waits for init_rpc; never raises."""
    original = _rpc.init_rpc

    def init_rpc(*args: Any, **kwargs: Any) -> Any:
        try:
            _patch()
        except Exception as error:
            warn_once(f"this torch RPC cannot be observed: {error!r}; training is not affected")
        return original(*args, **kwargs)

    _rpc.init_rpc = init_rpc


def payload_bytes(value: Any) -> int:
    """Bytes of the tensors inside arguments or a reply; not all of a list of a million numbers is looked at."""
    size_bytes, waiting, left = 0, [value], MOST_PARTS
    while waiting and left:
        part, left = waiting.pop(), left - 1
        if isinstance(part, torch.Tensor):
            size_bytes += part.numel() * part.element_size()
        elif isinstance(part, (list, tuple)):
            waiting += part[:left]
        elif isinstance(part, dict):
            waiting += islice(part.values(), left)
    return size_bytes


class RpcCounter:
    """Turns calls and replies of this process into pushes, pulls and iterations."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._channel: ps.Channel | None = None
        self._cycle = CallCycle()

    def call(self, to: Any, func: Any, args: Any, kwargs: Any) -> Callable[[Any], None] | None:
        """A call to `to` that is about to be made: it waits for its turn if it begins a round. Returns what hears of
        its end."""
        if getattr(func, "__module__", None) in _TORCHS_OWN:
            return None
        peer: int = _api._to_worker_info(to).id
        request_bytes = payload_bytes(args) + payload_bytes(kwargs or {})
        channel = self._join("worker")
        with self._lock:
            if self._cycle.started((peer, _name_of(func, args))):
                channel.round_done()
        request = channel.push(peer, request_bytes) if request_bytes else None

        def done(finished: Any) -> None:
            reply_bytes = 0
            with contextlib.suppress(Exception):  # the call failed: the job hears of it through its own future
                reply_bytes = payload_bytes(finished.value())
            if request is not None:
                request.done()
            if reply_bytes:
                channel.pull(peer, reply_bytes).done()
            with self._lock:
                if self._cycle.finished(reply_bytes):
                    channel.round_done()

        return done

    def serve(self, reply: Any) -> None:
        """This process ran a function for a caller and is about to send `reply`."""
        reply_bytes = payload_bytes(reply)
        if reply_bytes:
            self._join("server").push(_UNNAMED, reply_bytes).done()

    def _join(self, role: str) -> ps.Channel:
        if self._channel is None:
            workers = _api._get_current_rpc_agent().get_worker_infos()
            role = os.environ.get("PACELINE_ROLE") or role  # else: a process that is called before it calls, serves
            self._channel = ps.connect(role, rank=_rpc.get_worker_info().id, world_size=len(workers))
        return self._channel


def _name_of(func: Any, args: Any) -> str:
    name = getattr(func, "__qualname__", str(func))
    # A call through an RRef is one torch function that takes the method's name.
    return f"{name}:{args[1]}" if len(args) > 1 and isinstance(args[1], str) else name


def _patch() -> None:
    global _installed
    if _installed:
        return
    _installed = True
    counter = RpcCounter()
    invoke, run_function = _api._invoke_rpc, _internal._run_function

    def _invoke_rpc(to: Any, func: Any, rpc_type: Any, args: Any = None, kwargs: Any = None, *rest: Any) -> Any:
        done = _quietly(counter.call, to, func, args or (), kwargs)
        try:
            future = invoke(to, func, rpc_type, args, kwargs, *rest)
        except BaseException:
            if done is not None:
                _quietly(done, None)
            raise
        if done is not None:
            _quietly(future.add_done_callback, done)
        return future

    def _run_function(python_udf: Any) -> Any:
        reply = run_function(python_udf)
        _quietly(counter.serve, reply)
        return reply

    _api._invoke_rpc, _internal._run_function = _invoke_rpc, _run_function


def _quietly(count: Any, *arguments: Any) -> Any:
    try:
        return count(*arguments)
    except Exception as error:
        warn_once(f"cannot count an RPC: {error!r}; training is not affected")
        return None
