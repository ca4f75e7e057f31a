"""NCCL's part of the net interface, versions 8 to 12, through ctypes: its structs, and calls as it makes them."""

import ctypes
from ctypes import POINTER, Structure, byref, c_char_p, c_float, c_int, c_int16, c_size_t, c_uint64, c_void_p
from pathlib import Path
from typing import Any

HANDLE_BYTES, HOST, SUCCESS, REMOTE_ERROR = 128, 1, 0, 6
VERSIONS = (8, 9, 10, 11, 12)
_OUT = POINTER(c_void_p)


def _function(*arguments: Any) -> Any:
    return ctypes.CFUNCTYPE(c_int, *arguments)


class VirtualV9(Structure):
    _fields_ = (("ndevs", c_int), ("devs", c_int * 4))


class VirtualV12(Structure):
    _fields_ = (("ndevs", c_int), ("devs", c_int * 8))


def _properties(version: int) -> type[Structure]:
    fields: list[tuple[str, Any]] = [("name", c_char_p), ("pciPath", c_char_p), ("guid", c_uint64)]
    fields += [("ptrSupport", c_int), ("regIsGlobal", c_int)] + ([("forceFlush", c_int)] if version >= 9 else [])
    fields += [("speed", c_int), ("port", c_int), ("latency", c_float), ("maxComms", c_int), ("maxRecvs", c_int)]
    fields += [("netDeviceType", c_int), ("netDeviceVersion", c_int)]
    if version >= 9:
        fields += [("vProps", VirtualV12 if version >= 12 else VirtualV9)]
        fields += [("maxP2pBytes", c_size_t), ("maxCollBytes", c_size_t)]
    fields += [("maxMultiRequestSize", c_int)] if version >= 11 else []
    fields += [("railId", c_int16), ("planeId", c_int16)] if version >= 12 else []
    return type(f"PropertiesV{version}", (Structure,), {"_fields_": fields})


PROPERTIES = {version: _properties(version) for version in VERSIONS}


def _plugin(version: int) -> type[Structure]:
    init: tuple[Any, ...] = (c_void_p,)
    init = (c_void_p, c_void_p) if version == 10 else init
    init = (_OUT, c_uint64, POINTER(c_int), c_void_p, c_void_p) if version >= 11 else init
    context = (c_void_p,) if version >= 11 else ()
    config = (POINTER(c_int),) if version == 10 else ()
    size, event = (c_int if version == 8 else c_size_t), ((c_void_p,) if version >= 10 else ())
    connected = _function(*context, c_int, *config, c_void_p, _OUT, _OUT)
    send = _function(c_void_p, c_void_p, size, c_int, c_void_p, *event, _OUT)
    receive = _function(
        c_void_p, c_int, _OUT, POINTER(size), POINTER(c_int), _OUT, *((_OUT,) if version >= 10 else ()), _OUT
    )
    close, virtual = _function(c_void_p), VirtualV12 if version >= 12 else VirtualV9
    fields: list[tuple[str, Any]] = [
        ("name", c_char_p),
        ("init", _function(*init)),
        ("devices", _function(POINTER(c_int))),
        ("getProperties", _function(c_int, POINTER(PROPERTIES[version]))),
        ("listen", _function(*context, c_int, c_void_p, _OUT)),
        ("connect", connected),
        ("accept", _function(c_void_p, _OUT, _OUT)),
        ("regMr", _function(c_void_p, c_void_p, c_size_t, c_int, _OUT)),
        ("regMrDmaBuf", _function(c_void_p, c_void_p, c_size_t, c_int, c_uint64, c_int, _OUT)),
        ("deregMr", _function(c_void_p, c_void_p)),
        ("isend", send),
        ("irecv", receive),
        ("iflush", _function(c_void_p, c_int, _OUT, POINTER(c_int), _OUT, _OUT)),
        ("test", _function(c_void_p, POINTER(c_int), POINTER(c_int))),
        ("closeSend", close),
        ("closeRecv", close),
        ("closeListen", close),
        ("getDeviceMr", _function(c_void_p, c_void_p, _OUT)),
        ("irecvConsumed", _function(c_void_p, c_int, c_void_p)),
    ]
    fields += [("makeVDevice", _function(POINTER(c_int), POINTER(virtual)))] if version >= 9 else []
    fields += [("finalize", close), ("setNetAttr", _function(c_void_p, c_void_p))] if version >= 11 else []
    return type(f"NetV{version}", (Structure,), {"_fields_": fields})


class NetError(Exception):
    def __init__(self, what: str, code: int) -> None:
        super().__init__(f"{what}: {code}")
        self.code = code


class Net:
    """A loaded plugin in one version of the interface. What NCCL asks for again and again is asked once here."""

    def __init__(self, library: Path, version: int, config: int = -1, comm_id: int = 77) -> None:
        self.version = version
        self.c: Any = _plugin(version).in_dll(ctypes.CDLL(str(library)), f"ncclNetPlugin_v{version}")
        self.name = self.c.name.decode()
        self.config = c_int(config)
        self.context = c_void_p()
        if version >= 11:
            self._check("init", self.c.init(byref(self.context), comm_id, byref(self.config), None, None))
        else:
            self._check("init", self.c.init(*([None] * (2 if version == 10 else 1))))

    def devices(self) -> int:
        count = c_int()
        self._check("devices", self.c.devices(byref(count)))
        return count.value

    def properties(self, device: int) -> Any:
        found = PROPERTIES[self.version]()
        self._check("getProperties", self.c.getProperties(device, byref(found)))
        return found

    def listen(self, device: int = 0) -> tuple[bytes, c_void_p]:
        handle, comm = ctypes.create_string_buffer(HANDLE_BYTES), c_void_p()
        self._check("listen", self.c.listen(*self._context(), device, handle, byref(comm)))
        return handle.raw, comm

    def connect(self, handle: ctypes.Array[ctypes.c_char], device: int = 0) -> c_void_p:
        """One call; NCCL calls with the same handle until there is a comm."""
        comm, offload = c_void_p(), c_void_p()
        config = (byref(self.config),) if self.version == 10 else ()
        code = self.c.connect(*self._context(), device, *config, handle, byref(comm), byref(offload))
        self._check("connect", code)
        return comm

    def accept(self, listening: c_void_p) -> c_void_p:
        comm, offload = c_void_p(), c_void_p()
        self._check("accept", self.c.accept(listening, byref(comm), byref(offload)))
        return comm

    def register(self, comm: c_void_p, data: Any, size: int, kind: int = HOST) -> c_void_p:
        memory = c_void_p()
        self._check("regMr", self.c.regMr(comm, data, size, kind, byref(memory)))
        return memory

    def isend(self, comm: c_void_p, data: Any, size: int, tag: int, memory: Any = None, event: int = 0) -> c_void_p:
        request = c_void_p()
        events = (c_void_p(event),) if self.version >= 10 else ()
        self._check("isend", self.c.isend(comm, data, size, tag, memory, *events, byref(request)))
        return request

    def irecv(self, comm: c_void_p, data: Any, size: int, tag: int, memory: Any = None, event: int = 0) -> c_void_p:
        request = c_void_p(1)  # as NCCL says "need not complete"
        buffers = (c_void_p * 1)(ctypes.cast(data, c_void_p))
        sizes = ((c_int if self.version == 8 else c_size_t) * 1)(size)
        tags, memories = (c_int * 1)(tag), (c_void_p * 1)(memory)
        events = ((c_void_p * 1)(event),) if self.version >= 10 else ()
        self._check("irecv", self.c.irecv(comm, 1, buffers, sizes, tags, memories, *events, byref(request)))
        return request

    def test(self, request: c_void_p) -> int | None:
        """The bytes of a request that is done."""
        done, size = c_int(), c_int(-1)
        self._check("test", self.c.test(request, byref(done), byref(size)))
        return size.value if done.value else None

    def close(self, kind: str, comm: c_void_p) -> None:
        self._check(f"close{kind}", getattr(self.c, f"close{kind}")(comm))

    def finalize(self) -> None:
        if self.version >= 11:
            self._check("finalize", self.c.finalize(self.context))

    def _context(self) -> tuple[c_void_p, ...]:
        return (self.context,) if self.version >= 11 else ()

    def _check(self, what: str, code: int) -> None:
        if code != SUCCESS:
            raise NetError(what, code)
