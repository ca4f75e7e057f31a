"""The writer of this process. Law: `process_writer()` never raises; it gives a writer that counts or one that
ignores, and says which in at most one line.
"""

from __future__ import annotations

import atexit
import ctypes
import os
import sys
import threading
from contextlib import suppress
from functools import partial
from typing import Protocol

from nccl_shim.segment.clibrary import CIdentity, LibraryUnusable, load_library
from nccl_shim.segment.identity import Identity, identity_from_env
from nccl_shim.segment.layout import Kind, Source
from nccl_shim.segment.python_writer import PythonWriter


class Writer(Protocol):
    """Counts what this process sends. A record is one flow's; None is a flow that is not counted."""

    def find(self, kind: Kind, source: Source, comm_id: int, rank: int, nranks: int, peer: int) -> int | None:
        """The flow's record, claimed on first use."""

    def enqueue(self, record: int | None, size_bytes: int, expected_tx_bytes: int) -> None:
        """The job has handed over `size_bytes` of payload, for which this rank should send `expected_tx_bytes`."""

    def transmit(self, record: int | None, tx_bytes: int, rx_bytes: int) -> None:
        """So much was sent and received."""

    def end_iteration(self) -> int:
        """Ends the current iteration; returns how many have ended."""

    def begin_iterations(self) -> None:
        """The first iteration starts here: what was moved until now prepared it. Nothing once one has ended."""

    def finish(self) -> None:
        """The process ends as it should."""


class NativeWriter:
    """Counts through the C library, into the segment that the NCCL plugin in this process also uses. What it does is
    the library's functions themselves, with the segment as their first argument."""

    def __init__(self, library: ctypes.CDLL, header: int) -> None:
        self.header = header
        self._find = partial(library.pls_find, header)
        self.enqueue = partial(library.pls_enqueue, header)
        self.transmit = partial(library.pls_transmit, header)
        self.end_iteration = partial(library.pls_end_iteration, header)
        self.begin_iterations = partial(library.pls_begin_iterations, header)
        self.finish = partial(library.pls_finish, header)

    def find(self, kind: Kind, source: Source, comm_id: int, rank: int, nranks: int, peer: int) -> int | None:
        record: int | None = self._find(kind, source, comm_id & 0xFFFF_FFFF_FFFF_FFFF, rank, nranks, peer)
        return record


class SilentWriter:
    """What is left when nothing can be written: accepts everything, counts nothing."""

    def find(self, kind: Kind, source: Source, comm_id: int, rank: int, nranks: int, peer: int) -> None:
        return None

    def enqueue(self, record: int | None, size_bytes: int, expected_tx_bytes: int) -> None:
        pass

    def transmit(self, record: int | None, tx_bytes: int, rx_bytes: int) -> None:
        pass

    def end_iteration(self) -> int:
        return 0

    def begin_iterations(self) -> None:
        pass

    def finish(self) -> None:
        pass


_opening = threading.Lock()
_writer: Writer | None = None
_warned = False


def warn_once(message: str) -> None:
    """One line per process on standard error; never raises."""
    global _warned
    if not _warned and sys.stderr is not None:
        _warned = True
        with suppress(OSError, ValueError):  # its reader has gone, or it is closed
            sys.stderr.write(f"paceline: {message}\n")


def process_writer(identity: Identity | None = None) -> Writer:
    """This process's writer; `identity` matters to the first caller only."""
    global _writer
    if _writer is None:
        with _opening:
            if _writer is None:
                _writer = _open(identity or identity_from_env())
    return _writer


def _open(identity: Identity) -> Writer:
    if os.environ.get("PACELINE_SHIM") == "0":
        return SilentWriter()
    try:
        library = load_library()
    except LibraryUnusable as error:
        return _open_python(identity, why=str(error))
    try:
        header = library.pls_process_as(CIdentity.of(identity))  # prints its own line on failure
    except OSError as error:
        header = None
        warn_once(f"{error}; training goes on unobserved")
    return NativeWriter(library, header) if header else SilentWriter()


def _open_python(identity: Identity, why: str) -> Writer:
    try:
        writer = _python_writer(identity)
    except OSError as error:
        warn_once(f"cannot write counters in {identity.directory}: {error}; training goes on unobserved")
        return SilentWriter()
    warn_once(f"no C library ({why}); counting in pure Python, without the NCCL plugin")
    atexit.register(writer.finish)
    return writer


def _python_writer(identity: Identity) -> PythonWriter:
    """For hostd if it listens, else a file for it to find, else memory that waits for it; raises OSError."""
    with suppress(OSError):
        return PythonWriter.at_hostd(identity)
    try:
        return PythonWriter(identity)
    except OSError as error:
        with suppress(OSError):
            return PythonWriter.at_hostd(identity, must=True)
        raise error


def _forget_in_child() -> None:
    # The segment belongs to the parent; a child that communicates gets its own.
    global _writer, _opening
    if isinstance(_writer, PythonWriter):
        _writer.forget()
        atexit.unregister(_writer.finish)
    _writer, _opening = None, threading.Lock()


os.register_at_fork(after_in_child=_forget_in_child)
