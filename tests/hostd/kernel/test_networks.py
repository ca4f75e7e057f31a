"""What is sent in a network that a user has made need not leave the host, whatever addresses it has there."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from hostd.kernel.sockets import DataSocket, ProcessSockets, by_host, own_namespace
from tests.hostd.conftest import next_line, wait_until
from tests.hostd.kernel.network_within import LOCAL, REMOTE

pytestmark = pytest.mark.root

ROOT = Path(__file__).parents[3]
NOBODY = 65534
HOST_OF = {LOCAL: "h0", REMOTE: "h1"}

Sender = Callable[[int], DataSocket]


@pytest.fixture
def sender() -> Iterator[Sender]:
    """Of a process that holds a socket in such a network, and lives elsewhere itself."""
    with ExitStack() as stack:

        def start(uid: int) -> DataSocket:
            command = [sys.executable, "-m", "tests.hostd.kernel.network_within", str(uid)]
            process = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
            stack.enter_context(process)
            stack.callback(process.kill)
            assert next_line(process) == "sent"
            sockets = ProcessSockets(process.pid)
            wait_until(lambda: sockets.look() or sockets.sockets)
            [one] = sockets.sockets
            assert (one.local, one.remote) == (LOCAL, REMOTE)
            assert one.namespace != own_namespace() == os.stat(f"/proc/{process.pid}/ns/net").st_ino  # noqa: PTH116
            return one

        yield start


def test_a_network_of_a_users_own_is_no_demand(sender: Sender) -> None:
    one = sender(NOBODY)
    assert one.private
    assert by_host([one], HOST_OF, "h0") == {}


def test_a_network_that_root_has_made_is_if_its_address_is_this_hosts(sender: Sender) -> None:
    one = sender(0)
    assert not one.private
    assert by_host([one], HOST_OF, "h0") == {"h1": (one,)}
    assert by_host([one], {REMOTE: "h1"}, "h0") == {}
