"""Parameter servers of any kind, in five lines of the job's own code:

    from nccl_shim import ps
    channel = ps.connect(role="worker", rank=0, world_size=3)
    with channel.push(peer=2, size_bytes=len(gradients)): send(gradients)
    with channel.pull(peer=2, size_bytes=len(parameters)): parameters = receive()
    channel.iteration_done()

Law: counting never raises, and waits only for a turn: a worker's first push of an iteration is where its burst begins,
and it is held there as long as hostd's page says (page/gate.py). What leaves this process is a push, what comes in is a
pull, so a server pushes parameters to its workers. Only pushes count towards an iteration: each side announces what it
sends. A `with` block counts its bytes as waiting until it ends; without `with`, call `done()`.
"""

from __future__ import annotations

import zlib
from dataclasses import replace
from types import TracebackType

from nccl_shim.page.gate import LaunchGate
from nccl_shim.segment.identity import identity_from_env
from nccl_shim.segment.layout import Kind, ProcessRole, Source
from nccl_shim.segment.writer import Writer, process_writer, warn_once


class Transfer:
    """Bytes on their way."""

    def __init__(self, writer: Writer, record: int | None, tx_bytes: int, rx_bytes: int) -> None:
        self._writer, self._record, self._moved = writer, record, (tx_bytes, rx_bytes)

    def done(self) -> None:
        """The bytes have arrived; later calls do nothing."""
        moved, self._moved = self._moved, (0, 0)
        if any(moved):
            self._writer.transmit(self._record, *moved)

    def __enter__(self) -> Transfer:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.done()  # after an error too: nothing waits any more


class Channel:
    """This process's part in a parameter-server job."""

    _announced = False

    def __init__(self, writer: Writer, rank: int, world_size: int, name: str, gate: LaunchGate | None = None) -> None:
        self._writer, self._rank, self._world_size = writer, rank, world_size
        self._gate, self._pushes = gate, False  # in this iteration
        self._comm_id = zlib.crc32(name.encode())

    def push(self, peer: int, size_bytes: int) -> Transfer:
        """Announces `size_bytes` that leave for `peer`; the first of an iteration waits for its turn."""
        transfer, first, self._pushes = self._transfer(Kind.PUSH, peer, size_bytes), not self._pushes, True
        if first and self._gate is not None:
            self._gate.wait()
        return transfer

    def pull(self, peer: int, size_bytes: int) -> Transfer:
        """Announces `size_bytes` that are awaited from `peer`."""
        return self._transfer(Kind.PULL, peer, size_bytes)

    def iteration_done(self) -> int:
        """Ends an iteration; returns how many have ended."""
        Channel._announced, self._pushes = True, False
        return self._writer.end_iteration()

    def round_done(self) -> None:
        """The same as guessed from the job's calls: ignored once the job announces its iterations itself."""
        if not Channel._announced:
            self._pushes = False
            self._writer.end_iteration()

    def _transfer(self, kind: Kind, peer: int, size_bytes: int) -> Transfer:
        try:
            record = self._writer.find(kind, Source.PS, self._comm_id, self._rank, self._world_size, peer)
            outbound = kind is Kind.PUSH
            self._writer.enqueue(record, size_bytes, size_bytes if outbound else 0)
            return Transfer(self._writer, record, size_bytes * outbound, size_bytes * (not outbound))
        except Exception as error:
            warn_once(f"cannot count a {kind.name.lower()}: {error!r}; training is not affected")
            return Transfer(self._writer, None, 0, 0)


def connect(role: str = "worker", rank: int = -1, world_size: int = 0, name: str = "ps") -> Channel:
    """Joins as `role` ("worker" or "server"); rank and world size default to the environment's."""
    if role not in ("worker", "server"):
        raise ValueError(f"role is {role!r}, expected 'worker' or 'server'")
    known = identity_from_env()
    identity = replace(
        known,
        role=ProcessRole.SERVER if role == "server" else ProcessRole.WORKER,
        global_rank=known.global_rank if rank < 0 else rank,
        world_size=world_size or known.world_size,
    )
    gate = LaunchGate() if role == "worker" else None
    return Channel(process_writer(identity), identity.global_rank, identity.world_size, name, gate)
