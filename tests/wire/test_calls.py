"""What both ends of a stream promise each other, over a real one."""

import asyncio

import grpc

from switchd.daemon import SERVER_OPTIONS
from wire.calls import UNREAD_BYTES, open_channel

LETTER = bytes(1000)


async def test_a_writer_waits_for_a_reader_that_does_not_read() -> None:
    """What waits with the writer can still be joined."""
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
                    await call.write(LETTER)
                    written += 1

            writing = asyncio.create_task(write())
            await asyncio.wait([writing], timeout=0.5)
            assert 0 < written * len(LETTER) <= 2 * UNREAD_BYTES
            read.set()
            await asyncio.wait_for(writing, 30)
            await call.done_writing()
    finally:
        await server.stop(0)
