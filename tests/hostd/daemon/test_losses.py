"""hostd on a path that loses packets."""

from contextlib import ExitStack

import pytest

from bench.jobs.fork_server import ForkServer
from bench.testbed.impair import Impairment
from hostd.enforce.transport import LOSSY_CONGESTION_CONTROL, TCP_CONGESTION
from hostd.kernel.pidfd import duplicated_socket
from hostd.kernel.sockets import DataSocket
from tests.hostd.cluster import Cluster, fork_server

__all__ = ["fork_server"]  # a fixture

pytestmark = pytest.mark.root

SOON_S = 10.0  # it takes half a second of sending, of which these jobs do little


def test_losses_are_noticed_while_the_job_runs_and_all_is_given_back(fork_server: ForkServer) -> None:
    with ExitStack() as stack:
        cluster = Cluster(fork_server, stack, Impairment(loss=0.02))
        group = cluster.jobs("a")
        sockets = cluster.sockets(group)
        before = cluster.state(sockets)
        daemon = cluster.hostd()
        cluster.run(group, lambda: any(map(_prepared, sockets)), SOON_S)
        assert daemon.status()["troubles"] == {}
        assert daemon.stop() == 0
        assert cluster.state(sockets) == before


def _prepared(one: DataSocket) -> bool:
    with duplicated_socket(one.pid, one.fd, one.cookie) as theirs:
        return theirs.getsockopt(*TCP_CONGESTION, 16).rstrip(b"\0") == LOSSY_CONGESTION_CONTROL
