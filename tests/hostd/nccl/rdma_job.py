"""A job over RDMA: NCCL's calls of both plugins, and a transport that takes 25 MB a second.

The net plugin's bucket and counts are the real ones; bytes go nowhere. A job called `agreeing` has a connection over
TCP besides, as one that agrees on something over gloo does: it carries little, and in all as much as data would.
"""

import ctypes
import socket
import threading
import time

from bench.workload.assignment import Assignment, ComputeTimes
from bench.workload.runner_protocol import iteration_ended, wait_for_go
from hostd.kernel.sockets import LEAST_DATA_BYTES
from nccl_shim.build import NET_LIBRARY_NAME
from nccl_shim.page.layout import peer_bytes
from nccl_shim.segment.clibrary import library_path
from nccl_shim.segment.writer import process_writer
from paceline.flowcore.model.units import bytes_from_mb
from tests.hostd.nccl.plugin_calls import Communicator

CHUNK_BYTES, BYTES_PER_S = 1 << 16, 25e6
AGREED_BYTES = 10_000


class Transport:
    def __init__(self, peer: str) -> None:
        self._net = ctypes.CDLL(str(library_path().with_name(NET_LIBRARY_NAME)))
        self._shim = ctypes.CDLL(str(library_path()))
        for library, name, arguments in (
            (self._net, "bucket_of", (ctypes.c_char_p,)),
            (self._shim, "pls_process", ()),
            (self._shim, "pls_find_address", (ctypes.c_void_p, ctypes.c_char_p)),
        ):
            function = getattr(library, name)
            function.restype, function.argtypes = ctypes.c_void_p, arguments
        self._net.bucket_take.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int64)
        self._shim.pls_enqueue.argtypes = (ctypes.c_void_p, ctypes.c_void_p, ctypes.c_uint64, ctypes.c_uint64)
        self._bucket = self._net.bucket_of(peer_bytes(peer))
        self._segment = self._shim.pls_process()
        self._record = self._shim.pls_find_address(self._segment, peer_bytes(peer))

    def send(self, size_bytes: int) -> None:
        while not self._net.bucket_take(self._bucket, size_bytes, time.monotonic_ns()):
            time.sleep(0.001)
        self._shim.pls_enqueue(self._segment, self._record, size_bytes, 0)
        time.sleep(size_bytes / BYTES_PER_S)


class Agreement:
    """Each rank's to the other, which reads what comes."""

    def __init__(self, own: Assignment) -> None:
        other = own.data[own.job.workers[1 - own.rank]]
        listener = socket.create_server((own.data[own.host], own.port))
        threading.Thread(target=self._read, args=(listener,), daemon=True).start()
        while True:
            try:
                self._connection = socket.create_connection((other, own.port))
                break
            except ConnectionRefusedError:
                time.sleep(0.05)
        self._connection.sendall(bytes(2 * LEAST_DATA_BYTES))

    def _read(self, listener: socket.socket) -> None:
        connection, _ = listener.accept()
        while connection.recv(1 << 16):
            pass

    def reach(self) -> None:
        self._connection.sendall(bytes(AGREED_BYTES))


def main(assignment: str) -> None:
    own = Assignment.from_json(assignment)
    communicator, marks, compute = Communicator(own.rank), process_writer(), ComputeTimes(own)
    transport = Transport(own.data[own.job.workers[1 - own.rank]])
    agreement = Agreement(own) if own.job.name == "agreeing" else None
    size_bytes = round(bytes_from_mb(own.job.model_mb))
    wait_for_go()
    while True:
        time.sleep(compute.next_s())
        communicator.call(size_bytes)
        communicator.launched(size_bytes)
        marks.end_iteration()
        for _ in range(size_bytes // CHUNK_BYTES):
            transport.send(CHUNK_BYTES)
            communicator.sent(CHUNK_BYTES)
        if agreement is not None:
            agreement.reach()
        iteration_ended()
