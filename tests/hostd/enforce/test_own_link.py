"""The traffic of others on a host's own link, in the real kernel: it has its part beside a job, and no more."""

import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest

from bench.testbed.network import Testbed
from hostd.enforce.base import Others
from hostd.enforce.htb import HtbBackend
from hostd.enforce.htb_device import MAJOR, OTHERS_MINOR, HtbDevice
from hostd.kernel import connections as connections_module
from hostd.kernel.connections import connections
from hostd.kernel.htb_class import RTM_DELTCLASS, TCMSG
from hostd.kernel.netlink import Message, Netlink
from hostd.kernel.sockets import DataSocket
from hostd.safety.undo_log import UndoLog
from paceline.flowcore.messages.events import Limit
from paceline.flowcore.model.topology import star
from paceline.flowcore.model.units import PAYLOAD_SHARE, UNLIMITED
from tests.hostd.conftest import FLOW, HERE, PORT, THERE, Job, Wire, wait_until

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


@pytest.mark.parametrize("foreign", [False, True])
def test_while_a_job_is_left_alone_others_are_foreign_if_they_are_of_no_job(
    network: Wire, backend: HtbBackend, foreign: bool
) -> None:
    """Its own packets are among those of others then, and theirs as well if they are of a job that is left to TCP."""
    beside = Beside(network, backend, 1)
    for limit in (Limit(FLOW, LINK_BPS, LINK_BPS), Limit(FLOW, UNLIMITED, UNLIMITED)):
        assert backend.apply([limit]) == []
    known = beside.job_sockets if foreign else (*beside.job_sockets, *beside.others_sockets)
    asked = []

    def is_foreign() -> bool:
        assert backend.watch_others(lambda: asked.append(1) or {one.cookie for one in known}) == []
        [found] = backend.others().values()
        assert found.foreign or found.load_bps == 0.0, "it is no load of others"
        time.sleep(SLOT_S)
        return found.foreign

    if foreign:
        wait_until(is_foreign)
    else:
        assert not any(is_foreign() for _ in range(60)) and len(asked) > 3
    assert backend.apply([Limit(FLOW, LINK_BPS, LINK_BPS)]) == []
    beside.job_comes_to(1 / 2)


def test_what_is_no_connection_is_foreign(network: Wire, backend: HtbBackend) -> None:
    """Datagrams beside a job that is left alone."""
    network.sink(THERE_THROUGH_A_SWITCH, PORT)
    job = network.send(1, THERE_THROUGH_A_SWITCH, PORT)
    sockets = job.sockets()
    for step in (backend.attach(FLOW, sockets), backend.apply([Limit(FLOW, LINK_BPS, LINK_BPS)])):
        assert step == []
    assert backend.apply([Limit(FLOW, UNLIMITED, UNLIMITED)]) == []
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
        sender.connect((THERE_THROUGH_A_SWITCH, OTHERS_PORT))

        def is_foreign() -> bool:
            for _ in range(round(0.2 * LINK_BPS / 8 * SLOT_S / 1000)):
                with suppress(OSError):  # nobody listens
                    sender.send(bytes(1000))
            assert backend.watch_others(lambda: {one.cookie for one in sockets}) == []
            time.sleep(SLOT_S)
            return any(found.foreign for found in backend.others().values())

        wait_until(is_foreign)


def test_connections_to_other_hosts_are_found_with_what_they_sent(wire: Wire) -> None:
    wire.sink()
    sending = wire.send(count=3)
    sockets = sending.sockets(count=3)
    here, there = (str(HERE.ip),), str(THERE.ip)
    with wire.here.enter():
        wait_until(lambda: sum(one.sends for one in connections(here, here).values()) == 3)
        found = connections(here, here)
        assert {one.cookie for one in sockets} <= found.keys()
        before = sum(one.sent_bytes for one in found.values())
        wait_until(lambda: sum(one.sent_bytes for one in connections(here, here).values()) > before > 0)
        assert connections((), here) == {} and connections(here, there) == {}, "from elsewhere, or within this host"


def test_very_many_connections_are_not_all_looked_at(wire: Wire, monkeypatch: pytest.MonkeyPatch) -> None:
    with wire.here.enter(), ExitStack() as stack:
        listener = stack.enter_context(socket.create_server((str(HERE.ip), PORT), backlog=2000))
        for _ in range(200):  # more than one answer of the kernel has room for
            sender = stack.enter_context(socket.create_connection((str(HERE.ip), PORT)))
            stack.enter_context(listener.accept()[0])
            sender.setblocking(False)
            sender.send(bytes(10_000_000))  # nobody reads
        sending = lambda: sum(one.sends for one in connections((str(HERE.ip),), ()).values())  # noqa: E731
        assert sending() == 200
        monkeypatch.setattr(connections_module, "MOST_LOOKED_AT", 10)
        assert sending() < 200


def test_a_program_deletes_the_class_of_others(network: Wire, backend: HtbBackend) -> None:
    beside = Beside(network, backend, 1)
    backend.apply([Limit(FLOW, LINK_BPS, LINK_BPS)])
    beside.others_come_to(1 / 2)
    with Netlink() as netlink:
        index = backend.set_up("eth0").device.ifindex
        netlink.ask(Message(RTM_DELTCLASS, 0, TCMSG.pack(0, index, MAJOR | OTHERS_MINOR, 0, 0)))
    beside.others_come_to(1 / 2)
