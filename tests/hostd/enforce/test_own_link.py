"""The traffic of others on a host's own link, in the real kernel: it has its part beside a job, and no more."""

import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from bench.testbed.network import Testbed
from hostd.enforce.base import Others
from hostd.enforce.htb import HtbBackend
from hostd.enforce.htb_device import MAJOR, OTHERS_MINOR, HtbDevice
from hostd.kernel import connections
from hostd.kernel.connections import sending_connections
from hostd.kernel.htb_class import RTM_DELTCLASS, TCMSG
from hostd.kernel.netlink import Message, Netlink
from hostd.kernel.sockets import DataSocket
from hostd.safety.undo_log import UndoLog
from paceline.flowcore.detect.foreign import LEAST_BYTES
from paceline.flowcore.messages.events import Limit
from paceline.flowcore.model.topology import star
from paceline.flowcore.model.units import PAYLOAD_SHARE
from tests.hostd.conftest import FLOW, HERE, PORT, Job, Wire, wait_until

pytestmark = pytest.mark.root

LINK_BPS = 200e6
SLOT_S = 0.06
OTHERS_PORT = PORT + 1
THERE_THROUGH_A_SWITCH = "198.18.0.2"
sent_bytes = HtbDevice.sent_bytes  # as it is, where a test counts its calls
PART = 0.08  # of the link: within so much a share is as it should be


class Beside:
    """A job under htb and a program that hostd knows nothing of, which send as fast as they can."""

    def __init__(self, wire: Wire, backend: HtbBackend, others: int) -> None:
        self.backend, to = backend, [(THERE_THROUGH_A_SWITCH, port) for port in (PORT, OTHERS_PORT)]
        for address, port in to:
            wire.sink(address, port)
        self.job, self.others = wire.send(1, *to[0]), wire.send(others, *to[1])
        self.job_sockets, self.others_sockets = self.job.sockets(), self.others.sockets(count=others)
        assert backend.attach(FLOW, self.job_sockets) == []

    def watch(self, duration_s: float) -> None:
        end_s = time.monotonic() + duration_s
        while time.monotonic() < end_s:
            assert self.backend.watch_others() == []
            time.sleep(SLOT_S)

    def share(self, job: Job, sockets: tuple[DataSocket, ...]) -> float:
        """Of the link, from now on."""
        before, begun_s = job.meter.read(sockets), time.monotonic()
        self.watch(0.5)
        return 8 * (job.meter.read(sockets) - before) / (time.monotonic() - begun_s) / LINK_BPS

    def others_come_to(self, share: float) -> None:
        wait_until(lambda: abs(self.share(self.others, self.others_sockets) - share) < PART)

    def job_comes_to(self, share: float) -> None:
        wait_until(lambda: abs(self.share(self.job, self.job_sockets) - share) < PART)


@pytest.fixture
def network() -> Iterator[Wire]:
    """Two hosts and a switch, whose links carry what is said."""
    with Testbed(star(2, LINK_BPS / 1e9)) as testbed, ExitStack() as stack:
        assert str(testbed.addresses.data["h1"]) == THERE_THROUGH_A_SWITCH
        yield Wire(testbed.nodes["h0"], testbed.nodes["h1"], stack)


@pytest.fixture
def backend(network: Wire, tmp_path: Path) -> Iterator[HtbBackend]:
    with network.here.enter():
        made = HtbBackend(UndoLog(tmp_path / "lease.json"), lambda device: LINK_BPS)
        yield made
        made.close()


@pytest.mark.parametrize(("others", "weight", "share"), [(1, 1.0, 1 / 2), (1, 3.0, 1 / 4), (3, 1.0, 3 / 4)])
def test_others_have_a_part_for_each_connection(
    network: Wire, backend: HtbBackend, others: int, weight: float, share: float
) -> None:
    beside = Beside(network, backend, others)
    assert backend.apply([Limit(FLOW, LINK_BPS, LINK_BPS, weight)]) == []
    beside.others_come_to(share)
    beside.job_comes_to(1 - share)
    assert backend.read_back()[FLOW] == Limit(FLOW, LINK_BPS, LINK_BPS)  # what was asked for is in force


def test_a_flow_that_nobody_limits_has_its_part_beside_others(network: Wire, backend: HtbBackend) -> None:
    beside = Beside(network, backend, 1)
    beside.others_come_to(1 / 2)
    beside.job_comes_to(1 / 2)


def test_when_others_have_ended_the_job_has_all(network: Wire, backend: HtbBackend) -> None:
    beside = Beside(network, backend, 1)
    backend.apply([Limit(FLOW, LINK_BPS, LINK_BPS)])
    beside.others_come_to(1 / 2)
    beside.others.end()
    beside.job_comes_to(PAYLOAD_SHARE)


def test_when_the_job_has_ended_others_are_not_limited(network: Wire, backend: HtbBackend) -> None:
    beside = Beside(network, backend, 1)
    backend.apply([Limit(FLOW, LINK_BPS, LINK_BPS)])
    beside.others_come_to(1 / 2)
    beside.job.end()
    beside.others_come_to(PAYLOAD_SHARE)
    device = backend.set_up("eth0")

    def passes_by() -> bool:
        before = device.use()[OTHERS_MINOR]
        beside.watch(0.3)
        return device.use()[OTHERS_MINOR] == before

    wait_until(passes_by)


def test_while_others_want_little_the_kernel_is_asked_seldom(
    network: Wire, backend: HtbBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    beside = Beside(network, backend, 1)
    backend.apply([Limit(FLOW, LINK_BPS, LINK_BPS)])
    asked = []
    monkeypatch.setattr(HtbDevice, "sent_bytes", lambda one: asked.append(one) or sent_bytes(one))

    def looks_in_ten_slots() -> int:
        asked.clear()
        beside.watch(10 * SLOT_S)
        return len(asked)

    beside.others_come_to(1 / 2)
    assert looks_in_ten_slots() >= 9
    beside.others.end()
    wait_until(lambda: looks_in_ten_slots() <= 4)


def test_what_others_send_is_their_load_but_no_more_than_is_theirs(network: Wire, backend: HtbBackend) -> None:
    beside = Beside(network, backend, 1)
    assert backend.apply([Limit(FLOW, LINK_BPS, LINK_BPS)]) == []
    near = lambda bps, part: abs(bps / LINK_BPS - part) < PART  # noqa: E731

    def comes_to(sent: float, load: float) -> None:
        def there() -> bool:
            beside.watch(0.3)
            [found] = backend.others().values()
            return near(found.sent_bps, sent) and near(found.load_bps, load)

        wait_until(there)

    comes_to(1 / 2, 1 / 2)
    beside.job.end()
    comes_to(1, 1 / 2)
    beside.others.end()
    comes_to(0, 0)


def test_a_link_that_carries_more_than_is_said_is_not_divided(wire: Wire, tmp_path: Path) -> None:
    """The wire has no limit."""
    wire.sink()
    wire.sink(port=OTHERS_PORT)
    job, others = wire.send(), wire.send(port=OTHERS_PORT)
    sockets = others.sockets()
    with wire.here.enter():
        backend = HtbBackend(UndoLog(tmp_path / "lease.json"), lambda device: LINK_BPS)
        backend.attach(FLOW, job.sockets())
        backend.apply([Limit(FLOW, LINK_BPS / 2, LINK_BPS / 2)])
        for _ in range(30):
            assert backend.watch_others() == []
            time.sleep(SLOT_S)
        others.comes_to(sockets, 2 * LINK_BPS)
        assert list(backend.others().values()) == [Others()], "nobody knows how full it is"
        backend.close()


def test_connections_are_counted_that_send_and_are_not_ours(wire: Wire) -> None:
    wire.sink()
    sending = wire.send(count=3)
    sockets = sending.sockets(count=3)
    with wire.here.enter():
        here, known = (str(HERE.ip),), {sockets[0].cookie}
        count = lambda addresses, apart: sending_connections(addresses, apart).connections  # noqa: E731
        wait_until(lambda: count(here, ()) == 3)  # on an idle link they have nothing to send now and then
        wait_until(lambda: count(here, known) == 2)
        assert all(count(here, known) <= 2 and count((), ()) == 0 for _ in range(100))


def test_of_those_that_jobs_have_no_bytes_are_foreign(wire: Wire) -> None:
    wire.sink()
    cookies = {one.cookie for one in wire.send(count=3).sockets(count=3)}
    with wire.here.enter():
        look = lambda of_jobs: sending_connections((str(HERE.ip),), (), of_jobs)  # noqa: E731
        wait_until(lambda: look(cookies).of_jobs == 3)
        assert look(cookies).foreign_bytes == 0
        wait_until(lambda: look(()).foreign_bytes >= LEAST_BYTES)
        assert look(()).of_jobs == 0


def test_very_many_connections_are_not_all_looked_at(wire: Wire, monkeypatch: pytest.MonkeyPatch) -> None:
    with wire.here.enter(), ExitStack() as stack:
        listener = stack.enter_context(socket.create_server((str(HERE.ip), PORT), backlog=2000))
        for _ in range(200):  # more than one answer of the kernel has room for
            sender = stack.enter_context(socket.create_connection((str(HERE.ip), PORT)))
            stack.enter_context(listener.accept()[0])
            sender.setblocking(False)
            sender.send(bytes(10_000_000))  # nobody reads
        assert sending_connections((str(HERE.ip),), ()).connections == 200
        monkeypatch.setattr(connections, "MOST_LOOKED_AT", 10)
        assert sending_connections((str(HERE.ip),), ()).connections < 200


def test_a_program_deletes_the_class_of_others(network: Wire, backend: HtbBackend) -> None:
    beside = Beside(network, backend, 1)
    backend.apply([Limit(FLOW, LINK_BPS, LINK_BPS)])
    beside.others_come_to(1 / 2)
    with Netlink() as netlink:
        index = backend.set_up("eth0").device.ifindex
        netlink.ask(Message(RTM_DELTCLASS, 0, TCMSG.pack(0, index, MAJOR | OTHERS_MINOR, 0, 0)))
    beside.others_come_to(1 / 2)
