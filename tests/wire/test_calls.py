"""What both ends of a stream promise each other, over a real one."""

import asyncio

import grpc

from paceline.wire.calls import UNREAD_BYTES, open_channel
from switchd.daemon import SERVER_OPTIONS

MESSAGE = bytes(1000)


async def test_a_writer_waits_for_a_reader_that_does_not_read() -> None:
    """What waits with the writer can still be coalesced."""
    read = asyncio.Event()
    written = 0

    async def slow(_requests: object, context: grpc.aio.ServicerContext) -> None:
        await read.wait()
        while await context.read() is not grpc.aio.EOF:
            pass

    server = grpc.aio.server(options=SERVER_OPTIONS)
    handlers = {"Stream": grpc.stream_stream_rpc_method_handler(slow)}
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("test.Slow", handlers),))
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    try:
        async with open_channel(f"127.0.0.1:{port}", None) as channel:
            call = channel.stream_stream("/test.Slow/Stream")(wait_for_ready=True)

            async def write() -> None:
                nonlocal written
                for _ in range(100):
                    await call.write(MESSAGE)
                    written += 1

            writing = asyncio.create_task(write())
            await asyncio.wait([writing], timeout=0.5)
            assert 0 < written * len(MESSAGE) <= 2 * UNREAD_BYTES
            read.set()
            await asyncio.wait_for(writing, 30)
            await call.done_writing()
    finally:
        await server.stop(0)


async def test_a_switch_that_is_busy_when_all_its_hosts_return_can_take_its_time() -> None:
    """Attempts that are given up too early would be made again, by all of them, for ever."""

    relays: list[asyncio.Task[None]] = []

    async def late(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there_reader, there_writer = await asyncio.open_connection("127.0.0.1", port)
        relays.append(asyncio.create_task(pass_on(reader, there_writer, 0.0)))
        relays.append(asyncio.create_task(pass_on(there_reader, writer, 0.3)))

    async def pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, after_s: float) -> None:
        while data := await reader.read(4096):
            await asyncio.sleep(after_s)
            writer.write(data)
        writer.close()
        await writer.wait_closed()

    async def echo(request: bytes, _context: object) -> bytes:
        return request

    server = grpc.aio.server(options=SERVER_OPTIONS)
    handlers = {"Echo": grpc.unary_unary_rpc_method_handler(echo)}
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("test.Late", handlers),))
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    relay = await asyncio.start_server(late, "127.0.0.1", 0)
    address = f"127.0.0.1:{relay.sockets[0].getsockname()[1]}"
    try:
        async with open_channel(address, None) as channel:
            assert await channel.unary_unary("/test.Late/Echo")(MESSAGE, wait_for_ready=True, timeout=10) == MESSAGE
    finally:
        relay.close()
        await server.stop(None)
        await asyncio.wait_for(asyncio.gather(*relays, return_exceptions=True), 10)
