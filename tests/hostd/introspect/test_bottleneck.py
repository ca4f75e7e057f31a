"""Which link holds a flow back: hosts and a switch that really negotiate, without a wire between them."""

from collections import deque

import pytest

from hostd.introspect.bottleneck import Bottleneck, bottleneck
from paceline.flowcore.host.agent import HostAgent
from paceline.flowcore.host.flow_state import FlowState
from paceline.flowcore.messages.events import Effect, FlowReady, JobJoined, OthersSend, Send, Tick
from paceline.flowcore.messages.reports import Feedback, Grant
from paceline.flowcore.model.domain import domains
from paceline.flowcore.model.patterns import FlowId, FlowSpec, Role
from paceline.flowcore.model.slots import SlotClock
from paceline.flowcore.model.topology import Topology, star_of
from paceline.flowcore.model.units import UNLIMITED
from paceline.flowcore.policy import POLICIES
from paceline.flowcore.switch.agent import SwitchAgent

CLOCK = SlotClock(60_000_000, 10)
SIZE_BYTES = 1e9  # many slots of a link of 1 Gbit/s


class Net:
    """Hosts on one switch; every message arrives at once."""

    def __init__(self, with_switch: bool = True) -> None:
        self.topology: Topology = star_of(("h0", "h1", "h2", "h3"), 1.0)
        policy = POLICIES["paceline"]()
        self.agents: dict[str, HostAgent | SwitchAgent] = {
            host: HostAgent(host, self.topology, CLOCK, policy, "sw" if with_switch else None)
            for host in self.topology.hosts
        }
        self.agents["sw"] = SwitchAgent("sw", domains(self.topology)["sw"], CLOCK, policy)
        self.now_ns = 0

    def tell(self, name: str, event) -> None:
        waiting: deque[Effect] = deque(self.agents[name].handle(event, self.now_ns))
        while waiting:
            effect = waiting.popleft()
            if isinstance(effect, Send):
                waiting += self.agents[effect.to].handle(effect.message, self.now_ns)

    def send(self, job: str, source: str, target: str) -> FlowId:
        """An iteration of a job with this one flow is ready."""
        flow = FlowId(job, source, target, Role.RING)
        self.tell(source, JobJoined(job, (FlowSpec(flow, SIZE_BYTES, (), UNLIMITED),)))
        self.tell(source, FlowReady(flow, 0))
        return flow

    def slots(self, count: int = 2) -> None:
        """In which every host plans and hears what the other hosts have planned."""
        for _ in range(count):
            self.now_ns = CLOCK.next_start_ns(self.now_ns)
            for name in self.topology.hosts:
                self.tell(name, Tick())

    def found(self, flow: FlowId) -> Bottleneck:
        host, state = self.of(flow)
        capacity_bps = {name: link.capacity_bps for name, link in self.topology.links.items()}
        return bottleneck(host, state, capacity_bps, CLOCK.index(self.now_ns))

    def of(self, flow: FlowId) -> tuple[HostAgent, FlowState]:
        host = self.agents[flow.source]
        assert isinstance(host, HostAgent)
        return host, host.flows[flow]

    def loser(self, *flows: FlowId) -> FlowId:
        """The flow whose turn it is not."""
        return min(flows, key=lambda flow: self.of(flow)[1].limit.rate_bps)


def test_two_hosts_that_send_to_the_same_one_meet_at_its_downlink() -> None:
    net = Net()
    flows = net.send("a", "h0", "h1"), net.send("b", "h2", "h1")
    net.slots()
    found = net.found(net.loser(*flows))
    assert found.links == ("sw->h1",)
    assert found.price == pytest.approx(1.0, abs=0.02) and found.room_bps == pytest.approx(0.0, abs=2e7)


def test_two_jobs_of_a_host_meet_at_its_nic() -> None:
    net = Net()
    flows = net.send("a", "h0", "h1"), net.send("b", "h0", "h2")
    net.slots()
    found = net.found(net.loser(*flows))
    assert found.links == ("h0->sw",) and found.price == pytest.approx(1.0, abs=0.02)


def test_a_flow_that_has_the_path_to_itself_hears_that_no_other_wants_it() -> None:
    net = Net()
    flow = net.send("a", "h0", "h1")
    net.slots()
    found = net.found(flow)
    assert found.price == pytest.approx(0.0, abs=0.01) and found.room_bps == pytest.approx(1e9)
    assert "other flows want nothing" in found.why


def test_alone_a_host_knows_its_nic() -> None:
    net = Net(with_switch=False)
    flows = net.send("a", "h0", "h1"), net.send("b", "h0", "h1")
    net.slots()
    found = net.found(net.loser(*flows))
    assert found.links == ("h0->sw",) and found.price == pytest.approx(1.0, abs=0.02)


@pytest.mark.parametrize("with_switch", [True, False])
def test_beside_cross_traffic_its_nic_has_less_and_it_says_why(with_switch: bool) -> None:
    net = Net(with_switch)
    flow = net.send("a", "h0", "h1")
    net.tell("h0", OthersSend(4e8, foreign=True))
    net.slots()
    found = net.found(flow)
    assert found.links == ("h0->sw",) and "traffic of no job takes 40% of it" in found.why
    assert (found.room_bps, found.price) == (pytest.approx(6e8), pytest.approx(0.4))


def test_on_a_long_path_it_says_which_it_can_be() -> None:
    net = Net()
    flow = net.send("a", "h0", "h1")
    net.send("b", "h2", "h1")  # or it would be left alone
    host, state = net.of(flow)
    state.path = ("h0->sw", "sw->up", "up->down", "down->h1")
    capacity_bps = {"h0->sw": 1e9, "sw->up": 4e9, "up->down": 2e9, "down->h1": 1e9}

    def found(room_bps: float, price: float) -> Bottleneck:
        grant = Grant(flow, True, 0.0, 0.0, (room_bps,) * 10, (price,) * 10, 1, UNLIMITED, 0.0)
        net.tell("h0", Feedback("sw", -1, 0, (grant,)))
        return bottleneck(host, state, capacity_bps, 0)

    assert found(4e8, 0.6) == (("down->h1",), "no other link leaves it less", 4e8, pytest.approx(0.6))
    several = found(4e8, 0.8)  # up->down with 0.8 alone, or down->h1 with 0.6 and 0.2 on the rest
    assert several.links == ("up->down", "down->h1") and several.price is None
    assert found(4e8, 0.1).links == state.path[1:], "the numbers are of different moments"


def test_where_nothing_is_known_it_says_why() -> None:
    net = Net()
    flow = net.send("a", "h0", "h1")
    net.now_ns += 20 * CLOCK.length_ns
    assert net.found(flow) == ((), "the last answer says nothing about this slot", None, None)
    net.of(flow)[1].lose_grant()
    assert net.found(flow).links == () and "no answer" in net.found(flow).why
    net.of(flow)[1].all_sent()
    assert net.found(flow) == ((), "it has nothing to send", None, None)
