"""The C library through ctypes. Law: one of another ABI is not used, and its absence is not an error."""

from __future__ import annotations

import ctypes
import os
from pathlib import Path

from nccl_shim.build import LIBRARY_NAME
from nccl_shim.segment.identity import SOCKET_BYTES, Identity
from nccl_shim.segment.layout import JOB_BYTES

ABI = 4


class CIdentity(ctypes.Structure):
    _fields_ = (
        ("job", ctypes.c_char * JOB_BYTES),
        ("dir", ctypes.c_char * 256),
        ("socket", ctypes.c_char * SOCKET_BYTES),
        ("global_rank", ctypes.c_int32),
        ("world_size", ctypes.c_int32),
        ("local_rank", ctypes.c_int32),
        ("role", ctypes.c_uint32),
    )

    @classmethod
    def of(cls, identity: Identity) -> CIdentity:
        directory = os.fsencode(identity.directory)
        if len(directory) > 255:
            raise OSError(f"path too long: {identity.directory}")
        return cls(
            identity.job_bytes,
            directory,
            b"" if identity.socket is None else os.fsencode(identity.socket),
            identity.global_rank,
            identity.world_size,
            identity.local_rank,
            identity.role,
        )


class LibraryUnusable(Exception):
    """The library is missing, does not load here, or speaks another ABI."""


def library_path() -> Path:
    """Where the library is, or would be: PACELINE_SHIM_LIBRARY, else beside this package."""
    return Path(os.environ.get("PACELINE_SHIM_LIBRARY") or Path(__file__).parents[1] / LIBRARY_NAME)


def load_library(path: Path | None = None) -> ctypes.CDLL:
    """The library, with argument types declared; raises LibraryUnusable."""
    path = path or library_path()
    try:
        # PyDLL would keep the GIL: these calls take tens of nanoseconds, less than giving it away and back,
        # and a GIL given away at every bucket is a chance for another thread to delay training.
        library = ctypes.PyDLL(str(path))
        library.pls_abi_version.restype = ctypes.c_int
        found = library.pls_abi_version()
    except (OSError, AttributeError) as error:
        raise LibraryUnusable(str(error)) from error
    if found != ABI:
        raise LibraryUnusable(f"{path} has ABI {found}, this Python needs {ABI}")
    return _declare(library)


def _declare(library: ctypes.CDLL) -> ctypes.CDLL:
    pointer, u32, u64, i32 = ctypes.c_void_p, ctypes.c_uint32, ctypes.c_uint64, ctypes.c_int32
    identity = ctypes.POINTER(CIdentity)
    signatures = {
        "pls_identity_from_env": (None, (identity,)),
        "pls_create": (pointer, (identity, ctypes.c_char_p, ctypes.c_size_t)),
        "pls_process_as": (pointer, (identity,)),
        "pls_find": (pointer, (pointer, u32, u32, u64, i32, i32, i32)),
        "pls_enqueue": (None, (pointer, pointer, u64, u64)),
        "pls_transmit": (None, (pointer, pointer, u64, u64)),
        "pls_close_record": (None, (pointer,)),
        "pls_end_iteration": (u64, (pointer,)),
        "pls_begin_iterations": (None, (pointer,)),
        "pls_finish": (None, (pointer,)),
        "pls_read_iteration": (ctypes.c_int, (pointer, ctypes.POINTER(u64 * 7))),
        "pls_warn_once": (None, (ctypes.c_char_p,)),
        "pls_note_once": (None, (ctypes.c_char_p,)),
    }
    for name, (restype, argtypes) in signatures.items():
        function = getattr(library, name)
        function.restype, function.argtypes = restype, argtypes
    return library
