"""HTTP/2 by hand against a real gRPC server."""

import asyncio

import grpc
import pytest

from bench.micro.raw_stream import RawStream, StreamEnded


async def _echo(_requests: object, context: grpc.aio.ServicerContext) -> None:
    while (data := await context.read()) is not grpc.aio.EOF:
        if data == b"enough":
            await context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, "enough")
        await context.write(data)


@pytest.fixture
async def address():
    handler = grpc.method_handlers_generic_handler("raw.Echo", {"Echo": grpc.stream_stream_rpc_method_handler(_echo)})
    server = grpc.aio.server()
    server.add_generic_rpc_handlers((handler,))
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    yield f"127.0.0.1:{port}"
    await server.stop(None)


async def test_messages_come_back_whole(address: str) -> None:
    """More of them than any window holds, so that windows open again."""
    async with asyncio.timeout(60):
        stream = await RawStream.open(address, "/raw.Echo/Echo")
        for size in [0, 1, 5, 1000, 60_000] * 20:
            message = bytes(range(256)) * (size // 256 + 1)
            await stream.write(message[:size])
            assert await stream.read() == message[:size]
        stream.cancel()


async def test_it_notices_the_end(address: str) -> None:
    async with asyncio.timeout(60):
        stream = await RawStream.open(address, "/raw.Echo/Echo")
        await stream.write(b"enough")
        assert await stream.read() is grpc.aio.EOF
        with pytest.raises(StreamEnded):
            await stream.write(b"more")
