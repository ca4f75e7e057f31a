"""A gRPC stream without gRPC: as much HTTP/2 as one stream on a connection of its own needs (RFC 9113).

To a switch it is a host like any other. To the generator it costs a tenth of a gRPC client, which on two cores is the
difference between measuring the switches and measuring the generator.

    frame    3 bytes length, type, flags, 4 bytes stream, payload
    message  in DATA frames of stream 1: one byte 0 (not compressed), 4 bytes length, bytes
"""

import asyncio
import struct
from typing import Self, cast

import grpc.aio

_DATA, _HEADERS, _RESET, _SETTINGS, _PING, _GOAWAY, _WINDOW = 0, 1, 3, 4, 6, 7, 8
_ACK = _END_STREAM = 1
_END_HEADERS = 4
_STREAM = 1
_LARGEST_WINDOW = 2**31 - 1
_USUAL_WINDOW = 65_535
_INITIAL_WINDOW = 4  # a setting


class StreamEnded(ConnectionError):
    """The other end hung up, or does not read any more."""


class RawStream(asyncio.Protocol):
    """Has what the benchmark uses of a gRPC call: write, read, cancel."""

    def __init__(self) -> None:
        self._arrived: asyncio.Queue[bytes | None] = asyncio.Queue()
        self._frames = bytearray()  # read so far, and not yet a whole frame
        self._messages = bytearray()
        self._initial_window = self._stream_window = self._connection_window = _USUAL_WINDOW

    @classmethod
    async def open(cls, address: str, method: str) -> Self:
        """Waits until a switch listens there."""
        host, _, port = address.rpartition(":")
        while True:
            try:
                transport, stream = await asyncio.get_running_loop().create_connection(cls, host, int(port))
                break
            except ConnectionRefusedError:  # the switch is about to listen
                await asyncio.sleep(0.05)
        # Whatever the other end sends fits into these windows: we never open them again.
        settings = struct.pack("!HI", _INITIAL_WINDOW, _LARGEST_WINDOW)
        more = struct.pack("!I", _LARGEST_WINDOW - _USUAL_WINDOW)
        transport.write(
            b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
            + _frame(_SETTINGS, 0, 0, settings)
            + _frame(_WINDOW, 0, 0, more)
            + _frame(_HEADERS, _END_HEADERS, _STREAM, _headers(address, method))
        )
        return stream

    async def write(self, message: bytes) -> None:
        payload = b"\0" + len(message).to_bytes(4, "big") + message
        self._stream_window -= len(payload)
        self._connection_window -= len(payload)
        if self._transport.is_closing() or min(self._stream_window, self._connection_window) < 0:
            raise StreamEnded("the other end hung up, or does not read")
        self._transport.write(_frame(_DATA, 0, _STREAM, payload))

    async def read(self) -> bytes | object:
        message = await self._arrived.get()
        return grpc.aio.EOF if message is None else message

    def cancel(self) -> None:
        self._transport.close()

    # ---- asyncio.Protocol ----

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's is none by name

    def connection_lost(self, error: Exception | None) -> None:
        self._arrived.put_nowait(None)

    def data_received(self, data: bytes) -> None:
        self._frames += data
        while len(self._frames) >= 9:
            length = int.from_bytes(self._frames[:3], "big")
            if len(self._frames) < 9 + length:
                break
            kind, flags = self._frames[3], self._frames[4]
            on_stream = int.from_bytes(self._frames[5:9], "big") == _STREAM
            payload = bytes(self._frames[9 : 9 + length])
            del self._frames[: 9 + length]
            self._take(kind, flags, on_stream, payload)

    def _take(self, kind: int, flags: int, on_stream: bool, payload: bytes) -> None:
        if kind == _DATA:
            self._take_data(payload)
        elif kind == _SETTINGS and not flags & _ACK:
            for setting, value in struct.iter_unpack("!HI", payload):
                if setting == _INITIAL_WINDOW:
                    self._stream_window += value - self._initial_window
                    self._initial_window = value
            self._transport.write(_frame(_SETTINGS, _ACK, 0, b""))
        elif kind == _PING and not flags & _ACK:
            self._transport.write(_frame(_PING, _ACK, 0, payload))
        elif kind == _WINDOW:
            more = int.from_bytes(payload, "big")
            if on_stream:
                self._stream_window += more
            else:
                self._connection_window += more
        if kind in (_RESET, _GOAWAY) or (kind == _HEADERS and flags & _END_STREAM):
            self._transport.close()

    def _take_data(self, payload: bytes) -> None:
        self._messages += payload
        while len(self._messages) >= 5:
            end = 5 + int.from_bytes(self._messages[1:5], "big")
            if len(self._messages) < end:
                break
            self._arrived.put_nowait(bytes(self._messages[5:end]))
            del self._messages[:end]


def _frame(kind: int, flags: int, stream: int, payload: bytes) -> bytes:
    return len(payload).to_bytes(3, "big") + bytes((kind, flags)) + stream.to_bytes(4, "big") + payload


def _headers(address: str, method: str) -> bytes:
    """Two of HPACK's known fields by their number (RFC 7541, appendix A), the others spelt out."""
    fields = {":path": method, ":authority": address, "te": "trailers", "content-type": "application/grpc"}
    post, http = 0x80 | 3, 0x80 | 6
    return bytes((post, http)) + b"".join(b"\0" + _text(name) + _text(value) for name, value in fields.items())


def _text(text: str) -> bytes:
    assert len(text) < 127  # longer ones have a longer length
    return bytes((len(text),)) + text.encode()
