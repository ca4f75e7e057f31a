"""As much of libbpf as a congestion control needs, through ctypes: load an object, register a control, tell a socket.

A control is registered by a link: it goes with the link's descriptor, so with this process, however that ends. Sockets
that have the control by then keep it until they close; no other can take it.

A kernel knows one control of a name. Where hosts share a kernel, as those of the testbed do, each says another name: it
is written over the one in the object.

libbpf is the host's (Debian: libbpf1). It moves the object's fields to where the running kernel has them, by the types
that the kernel publishes (/sys/kernel/btf/vmlinux).
"""

import ctypes
import functools
import os
import platform
from pathlib import Path
from typing import Self

from hostd.congestion.storage import SYSTEM_CALL, store

LIBRARY = "libbpf.so.1"
TYPES = Path("/sys/kernel/btf/vmlinux")
_LINK_CREATE, _STRUCT_OPS = 28, 44
_BY_LINK = 1 << 13  # of a map: what it holds is registered by a link, not by filling it
NAME_BYTES = 16  # of a congestion control, its last 0 among them


class BpfError(Exception):
    """A congestion control of our own cannot be had here; str() says why in one line."""


class _LinkAttributes(ctypes.Structure):
    _fields_ = [
        ("map_fd", ctypes.c_uint32),
        ("target_fd", ctypes.c_uint32),
        ("attach_type", ctypes.c_uint32),
        ("flags", ctypes.c_uint32),
        ("rest", ctypes.c_uint8 * 48),
    ]


class BpfControl:
    """The congestion control `name` of an object file, known to the kernel until closed, or within the block."""

    def __init__(self, path: Path, name: str, known_as: str | None = None, *, register: bool = True) -> None:
        """`known_as`: another name for it; without `register` the kernel takes the program, and that is all."""
        self.name = known_as or name
        self._libbpf = _libbpf()
        self._link = -1
        text = _renamed(path.read_bytes(), name, self.name)
        self._object = self._libbpf.bpf_object__open_mem(text, len(text), None)
        if not self._object:
            raise BpfError(f"{path.name} cannot be opened: {_reason()}")
        try:
            control = self._map(name)
            self._libbpf.bpf_map__set_map_flags(control, _BY_LINK)
            if self._libbpf.bpf_object__load(self._object) < 0:
                raise BpfError(f"the kernel does not take {path.name}: {_reason()}")
            if register:
                self._link = self._registered(control)
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *failure: object) -> None:
        self.close()

    def close(self) -> None:
        if self._link >= 0:
            os.close(self._link)
        if self._object:
            self._libbpf.bpf_object__close(self._object)
        self._link, self._object = -1, None

    def _registered(self, control: int) -> int:
        """The link's descriptor. From libbpf 1.2 on attaching makes the link; before, with _BY_LINK, it only fills the
        map, whose descriptor it then calls the link's."""
        made = self._libbpf.bpf_map__attach_struct_ops(control)
        if not made:
            raise BpfError(f"{self.name} cannot be registered: {_reason()}")
        link, map_fd = int(self._libbpf.bpf_link__fd(made)), int(self._libbpf.bpf_map__fd(control))
        return _create_link(map_fd, self.name) if link == map_fd else link

    def _tell(self, storage: str, descriptor: int, value: bytes) -> None:
        """Writes the value that the program finds for the socket behind this descriptor; raises OSError."""
        store(self._storage_fd(storage), descriptor, value)

    def _storage_fd(self, storage: str) -> int:
        return int(self._libbpf.bpf_map__fd(self._map(storage)))

    def _map(self, name: str) -> int:
        found = self._libbpf.bpf_object__find_map_by_name(self._object, name.encode())
        if not found:
            raise BpfError(f"the object has no {name}")
        return int(found)


def _renamed(text: bytes, name: str, known_as: str) -> bytes:
    """The name is a field of the control, filled up with zeros; the object's own names are not."""
    if name == known_as:
        return text
    before, after = (one.encode().ljust(NAME_BYTES, b"\0") for one in (name, known_as))
    if len(after) > NAME_BYTES or not after.endswith(b"\0") or text.count(before) != 1:
        raise BpfError(f"the control {name} cannot be called {known_as}")
    return text.replace(before, after)


def _create_link(map_fd: int, name: str) -> int:
    attributes = _LinkAttributes(map_fd, 0, _STRUCT_OPS, 0)
    libc = ctypes.CDLL(None, use_errno=True)
    number = SYSTEM_CALL[platform.machine()]
    link = int(libc.syscall(number, _LINK_CREATE, ctypes.byref(attributes), ctypes.sizeof(attributes)))
    if link < 0:
        raise BpfError(f"{name} cannot be registered: {_reason()}")
    return link


@functools.cache
def _libbpf() -> ctypes.CDLL:
    if platform.machine() not in SYSTEM_CALL:
        raise BpfError(f"not tried on {platform.machine()}")
    if not TYPES.exists():
        raise BpfError(f"the kernel does not publish its types ({TYPES})")
    try:
        library = ctypes.CDLL(LIBRARY, use_errno=True)
    except OSError:
        raise BpfError(f"{LIBRARY} is missing (Debian, Ubuntu: sudo apt install libbpf1)") from None
    pointer, text, integer = ctypes.c_void_p, ctypes.c_char_p, ctypes.c_int
    for name, result, *arguments in (
        ("libbpf_set_print", pointer, pointer),
        ("bpf_object__open_mem", pointer, text, ctypes.c_size_t, pointer),
        ("bpf_object__load", integer, pointer),
        ("bpf_object__close", None, pointer),
        ("bpf_object__find_map_by_name", pointer, pointer, text),
        ("bpf_map__set_map_flags", integer, pointer, ctypes.c_uint32),
        ("bpf_map__attach_struct_ops", pointer, pointer),
        ("bpf_map__fd", integer, pointer),
        ("bpf_link__fd", integer, pointer),
    ):
        function = getattr(library, name)
        function.restype, function.argtypes = result, arguments
    library.libbpf_set_print(None)  # it would write what we say to standard error, too
    return library


def _reason() -> str:
    number = ctypes.get_errno()
    return f"{os.strerror(number)}{' (CAP_BPF, CAP_PERFMON and CAP_NET_ADMIN are needed)' if number == 1 else ''}"
