"""`auto`: which backend each job has; that a job moves whole, and backends leave each other's jobs their share."""

from collections.abc import Sequence

import pytest

from hostd.enforce.by_job.backend import ELSEWHERE, HERE, NET_PLUGIN, NO_SOCKETS, ByJobBackend, Choice
from hostd.enforce.errors import EnforcementError
from hostd.enforce.observe import ObserveBackend
from hostd.kernel.sockets import DataSocket, own_namespace
from paceline.flowcore.messages.events import FLOOR_BPS, Limit
from paceline.flowcore.model.patterns import FlowId, Role
from paceline.flowcore.model.units import UNLIMITED

NIC = 1e9
A, B, C = (FlowId(job, "h0", "h1", Role.RING) for job in "abc")
A2 = FlowId("a", "h0", "h2", Role.RING)


class Noting(ObserveBackend):
    """Sets nothing, and remembers what it was told."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self.name = name
        self.attached: dict[FlowId, tuple[DataSocket, ...]] = {}
        self.limits: dict[FlowId, Limit] = {}
        self.closed = False

    def attach(self, flow: FlowId, sockets: Sequence[DataSocket]) -> list[EnforcementError]:
        self.attached[flow] = tuple(sockets)
        return super().attach(flow, sockets)

    def detach(self, flow: FlowId) -> list[EnforcementError]:
        self.attached.pop(flow, None)
        self.limits.pop(flow, None)
        return super().detach(flow)

    def apply(self, limits: Sequence[Limit]) -> list[EnforcementError]:
        self.limits |= {limit.flow: limit for limit in limits}
        return []

    def close(self) -> list[EnforcementError]:
        self.closed = True
        return []


class Auto:
    def __init__(self) -> None:
        self.htb, self.pacing, self.gate = (Noting(name) for name in ("htb", "pacing", "gate"))
        self.backend = ByJobBackend(self.htb, {"pacing": lambda: self.pacing, "gate": lambda: self.gate}, NIC)


@pytest.fixture
def auto() -> Auto:
    return Auto()


def socket(cookie: int, elsewhere: bool = False) -> DataSocket:
    return DataSocket(17, 5, cookie, "10.0.0.1", "10.0.0.2", 4000, own_namespace() + elsewhere)


def has(flow: FlowId) -> Limit:
    return Limit(flow, NIC, NIC)


def rests(flow: FlowId) -> Limit:
    return Limit(flow, FLOOR_BPS, NIC)


def test_each_job_has_the_backend_that_reaches_it(auto: Auto) -> None:
    auto.backend.attach(A, (socket(1),))
    auto.backend.attach(B, (socket(2, elsewhere=True), socket(3)))
    auto.backend.attach(C, ())
    assert auto.backend.choice("a") == Choice("htb", HERE) and set(auto.htb.attached) == {A}
    assert auto.backend.choice("b") == Choice("pacing", ELSEWHERE) and set(auto.pacing.attached) == {B}
    assert auto.backend.choice("c") == Choice("gate", NO_SOCKETS) and set(auto.gate.attached) == {C}
    assert auto.backend.name == "htb" and set(auto.backend.read_back()) == {A, B, C}
    auto.backend.close()
    assert auto.htb.closed and auto.pacing.closed and auto.gate.closed


def test_a_job_moves_whole_and_takes_its_limits_along(auto: Auto) -> None:
    auto.backend.attach(A, (socket(1),))
    auto.backend.attach(A2, (socket(2),))
    auto.backend.apply([has(A), rests(A2)])
    auto.backend.attach(A2, (socket(3, elsewhere=True),))
    assert auto.htb.attached == {} and set(auto.pacing.attached) == {A, A2}
    assert auto.pacing.limits == {A: has(A), A2: rests(A2)}
    auto.backend.attach(A, ())
    auto.backend.attach(A2, ())
    assert auto.backend.choice("a").backend == "pacing", "sockets that are closed say nothing"
    auto.backend.detach(A)
    auto.backend.detach(A2)
    assert auto.pacing.attached == {} and auto.backend.choice("a") == Choice("htb", HERE)


def test_jobs_of_other_backends_have_their_share(auto: Auto) -> None:
    auto.backend.attach(A, (socket(1),))
    auto.backend.attach(B, (socket(2, elsewhere=True),))
    auto.backend.attach(C, ())
    auto.backend.apply([has(A), rests(B), rests(C)])
    assert auto.htb.limits[A] == has(A)
    assert auto.pacing.limits[B] == Limit(B, FLOOR_BPS, FLOOR_BPS), "nothing is left to be borrowed"
    assert auto.gate.limits[C].ceiling_bps == FLOOR_BPS
    auto.backend.apply([rests(A)])
    assert auto.pacing.limits[B] == rests(B) and auto.gate.limits[C] == rests(C)
    auto.backend.apply([has(C)])
    assert auto.htb.limits[A].ceiling_bps == FLOOR_BPS and auto.gate.limits[C] == has(C)
    auto.backend.detach(C)
    assert auto.htb.limits[A] == rests(A)


def test_a_reload_may_take_jobs_back(auto: Auto) -> None:
    auto.backend.attach(A, (socket(1, elsewhere=True),))
    auto.backend.apply([has(A)])
    auto.backend.use({})
    assert auto.pacing.attached == {} and set(auto.htb.attached) == {A} and auto.htb.limits == {A: has(A)}
    assert auto.backend.choice("a").why == 'backend = "htb"'
    auto.backend.use({"pacing": lambda: auto.pacing})
    assert set(auto.pacing.attached) == {A}


def test_one_that_cannot_be_made_leaves_the_job_where_it_would_have_been() -> None:
    htb = Noting("htb")

    def cannot() -> Noting:
        raise PermissionError("not permitted")

    backend = ByJobBackend(htb, {"pacing": cannot, "gate": cannot}, NIC)
    [error] = backend.attach(A, (socket(1, elsewhere=True),))
    assert error.flow == A and "not permitted" in error.reason and set(htb.attached) == {A}
    assert backend.choice("a").backend == "htb" and "not permitted" in backend.choice("a").why


def test_a_job_without_sockets_is_throttled_once_its_net_plugin_counts() -> None:
    htb, throttle, gate = (Noting(name) for name in ("htb", "throttle", "gate"))
    throttled: set[FlowId] = set()
    makers = {"pacing": lambda: gate, "throttle": lambda: throttle, "gate": lambda: gate}
    backend = ByJobBackend(htb, makers, NIC, throttled.__contains__)
    backend.attach(A, ())
    assert backend.choice("a") == Choice("gate", NO_SOCKETS)
    throttled.add(A2)
    backend.attach(A2, ())
    assert backend.choice("a") == Choice("throttle", NET_PLUGIN)
    assert {*throttle.attached} == {A, A2} and not gate.attached, "as a whole"
    backend.attach(A, [socket(1)])
    assert backend.choice("a") == Choice("htb", HERE), "what hostd can hold itself it does"


def test_a_job_that_is_left_alone_stays_so_whatever_a_job_of_another_backend_has(auto: Auto) -> None:
    lifted = Limit(A, UNLIMITED, UNLIMITED)
    auto.backend.attach(A, (socket(1),))
    auto.backend.attach(C, ())
    auto.backend.apply([lifted, has(C)])
    assert auto.htb.limits[A] == lifted
