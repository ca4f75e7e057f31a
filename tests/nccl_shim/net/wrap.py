"""A wrapped plugin called through ours in every version, and what it was told.

python -m tests.nccl_shim.net.wrap OURS FAKE
"""

import ctypes
import json
import sys
from ctypes import byref, c_char, c_int, c_long, c_longlong, c_ubyte, c_void_p
from pathlib import Path
from typing import Any

from tests.nccl_shim.net.nccl import VERSIONS, Net, VirtualV9, VirtualV12

TAG, SIZE, EVENT = 17, 123_456, 0x5150


class Told(ctypes.Structure):
    _fields_ = (
        *((name, c_long) for name in ("inits", "finalizes", "attributes", "closed")),
        *((name, c_longlong) for name in ("comm_id", "config", "connect_config", "device", "bytes", "tag")),
        *((name, c_longlong) for name in ("receive_bytes", "receive_tag", "members")),
        *((name, c_void_p) for name in ("context", "send_comm", "memory", "event", "receive_event", "request")),
        ("connect_handle", c_ubyte * 128),
    )


def called(ours: Path, fake: Path, version: int) -> dict[str, Any]:
    told = Told.in_dll(ctypes.CDLL(str(fake)), "fake")
    ctypes.memset(byref(told), 0, ctypes.sizeof(told))
    net = Net(ours, version, config=55)
    properties = net.properties(1)
    handle, listening = net.listen(2)
    shared = (c_char * 128).from_buffer_copy(handle)
    assert not net.connect(shared, 2)
    comm = net.connect(shared, 2)
    receiving = net.accept(listening)
    buffer = ctypes.create_string_buffer(SIZE)
    memory = net.register(comm, buffer, SIZE)
    refused = 0
    while not (request := net.isend(comm, buffer, SIZE, TAG, memory, EVENT)):
        refused += 1
    received = net.irecv(receiving, buffer, SIZE, TAG, memory, EVENT)
    tested = net.test(request), net.test(received)
    result = {
        "name": net.name,
        "devices": net.devices(),
        "properties": {
            name: getattr(properties, name).decode() if isinstance(getattr(properties, name), bytes) else value
            for name, _ in properties._fields_
            if not isinstance(value := getattr(properties, name), ctypes.Structure)
        },
        "lacking": [name for name, *_ in net.c._fields_ if not getattr(net.c, name)],
        "memory_kept": told.memory == memory.value == ctypes.addressof(buffer),
        "request_kept": told.request == request.value,
        "comm_kept": told.send_comm == comm.value,
        "context_kept": version < 11 or told.context in (None, net.context.value),
        "tagged": handle[104:112] == b"PACEPEER",
        "handle_at_connect": bytes(told.connect_handle).hex(),
        "refused": refused,
        "tested": tested,
    }
    if version >= 9 and net.c.makeVDevice:
        members, device = (VirtualV12 if version >= 12 else VirtualV9)(2), c_int()
        members.devs[0], members.devs[1] = 3, 1
        net.c.makeVDevice(byref(device), byref(members))
        result["virtual"] = [device.value, told.members]
    if version >= 11 and net.c.setNetAttr:
        net.c.setNetAttr(net.context, None)
    for kind, one in (("Send", comm), ("Recv", receiving), ("Listen", listening)):
        net.close(kind, one)
    net.finalize()
    numbers = {name: getattr(told, name) for name, kind in told._fields_ if kind in (c_long, c_longlong)}
    return result | {"told": numbers | {"event": told.event, "receive_event": told.receive_event}}


if __name__ == "__main__":
    ours, fake = map(Path, sys.argv[1:3])
    print(json.dumps({version: called(ours, fake, version) for version in VERSIONS}))
