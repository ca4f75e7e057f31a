"""Duplicated sockets: the right one or none, and never kept."""

import errno
import os
import resource
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from hostd.kernel.pidfd import SocketGone, cookie_of, duplicated_socket


@pytest.fixture
def pair() -> "tuple[socket.socket, socket.socket]":
    with socket.create_server(("127.0.0.1", 0)) as listener:
        ours = socket.create_connection(listener.getsockname())
        theirs, _ = listener.accept()
        with ours, theirs:
            yield ours, theirs


def test_the_copy_is_the_same_socket_and_is_closed(pair: tuple[socket.socket, socket.socket]) -> None:
    ours, _ = pair
    descriptors = os.listdir("/proc/self/fd")  # noqa: PTH208
    with duplicated_socket(os.getpid(), ours.fileno(), cookie_of(ours)) as copy:
        assert copy.fileno() != ours.fileno()
        assert cookie_of(copy) == cookie_of(ours)
    assert os.listdir("/proc/self/fd") == descriptors  # noqa: PTH208


def test_another_socket_under_the_same_number_is_gone(pair: tuple[socket.socket, socket.socket]) -> None:
    ours, theirs = pair
    with (
        pytest.raises(SocketGone, match="another socket"),
        duplicated_socket(os.getpid(), ours.fileno(), cookie_of(theirs)),
    ):
        pass


def test_without_room_for_the_copy_it_is_not_gone(pair: tuple[socket.socket, socket.socket]) -> None:
    """Or its options would count as taken back."""
    ours, _ = pair
    free = os.dup(0)
    os.close(free)
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (free + 1, limits[1]))  # the process's handle takes the last one
    try:
        with pytest.raises(OSError) as refused, duplicated_socket(os.getpid(), ours.fileno(), cookie_of(ours)):
            pass
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)
    assert refused.value.errno == errno.EMFILE


def test_a_closed_descriptor_a_file_and_an_ended_process_are_gone() -> None:
    with pytest.raises(SocketGone, match="closed"), duplicated_socket(os.getpid(), 9999, 1):
        pass
    with (
        Path(os.devnull).open() as file,
        pytest.raises(SocketGone, match="no socket"),
        duplicated_socket(os.getpid(), file.fileno()),
    ):
        pass
    ended = subprocess.Popen([sys.executable, "-S", "-c", ""])
    ended.wait()
    with pytest.raises(SocketGone, match="ended"), duplicated_socket(ended.pid, 0, 1):
        pass


def test_nothing_leaks_when_duplicating_fails(pair: tuple[socket.socket, socket.socket]) -> None:
    ours, theirs = pair
    descriptors = os.listdir("/proc/self/fd")  # noqa: PTH208
    for number, cookie in ((ours.fileno(), cookie_of(theirs)), (9999, 1), (2, 1)):
        with pytest.raises(SocketGone), duplicated_socket(os.getpid(), number, cookie):
            pass
    assert os.listdir("/proc/self/fd") == descriptors  # noqa: PTH208
