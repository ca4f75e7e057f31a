"""What gRPC and the machine take by themselves: a server that sends back what it gets, in a process of its own.

A negotiation is measured beside it, in the same run and under the same load: as a multiple of a bare round trip it
says something about Paceline, in milliseconds as much about the machine.
"""

import asyncio
import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

import grpc

from bench.child_process import start_child
from bench.micro.conversation import until
from bench.micro.switch_processes import free_ports
from paceline.flowcore.model.slots import SlotClock
from paceline.service.shared_clock import SharedClock
from paceline.wire.calls import open_channel

_METHOD = "/bench.Echo/Echo"


@contextmanager
def running_echo() -> Iterator[str]:
    """Yields the server's address."""
    (port,) = free_ports(1)
    process = start_child([sys.executable, "-m", "bench.micro.echo", str(port)], start_new_session=True)
    try:
        yield f"127.0.0.1:{port}"
    finally:
        process.kill()
        process.wait()


def quiet_phase_ns(phases_ns: Iterable[int], length_ns: int) -> int:
    """A time of the slot in which no host reports and no switch reallocates (at its beginning and in its middle).

    The probe keeps this phase: one that drifts through the slot would meet now this host and now that.
    """
    first_ns, *others_ns = sorted(set(phases_ns))
    return (first_ns + others_ns[0]) // 2 if others_ns else first_ns + length_ns // 4


async def measure_echo(
    address: str, message: bytes, slots: SlotClock, phase_ns: int, clock: SharedClock, latencies_ms: list[float]
) -> None:
    """A round trip at this phase of each slot, until cancelled."""
    async with open_channel(address, None) as channel:
        call = channel.stream_stream(_METHOD)(wait_for_ready=True)
        await call.write(message)
        await call.read()
        slot = 0
        while True:
            slot = max(slot, slots.index(clock.own_ns() - phase_ns)) + 1
            await until(slots.start_ns(slot) + phase_ns, clock)
            sent_s = time.perf_counter()
            await call.write(message)
            await call.read()
            latencies_ms.append(1e3 * (time.perf_counter() - sent_s))


async def _serve(port: int) -> None:
    async def echo(_requests: object, context: grpc.aio.ServicerContext) -> None:
        while (data := await context.read()) is not grpc.aio.EOF:
            await context.write(data)

    handler = grpc.method_handlers_generic_handler("bench.Echo", {"Echo": grpc.stream_stream_rpc_method_handler(echo)})
    server = grpc.aio.server()
    server.add_generic_rpc_handlers((handler,))
    server.add_insecure_port(f"127.0.0.1:{port}")
    await server.start()
    await server.wait_for_termination()


if __name__ == "__main__":
    asyncio.run(_serve(int(sys.argv[1])))
