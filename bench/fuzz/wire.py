"""Mutants of messages: from hosts and from switches to a switch, and from a switch to a host.

Each goes where a stream hands over its bytes. A switch refuses with BadMessage, and its tables hold what they held; a
host does the same. What is taken reaches the agents, whose timers run meanwhile.
"""

import math
import random
from collections import Counter
from contextlib import suppress
from typing import Any, ClassVar

from google.protobuf.message import DecodeError, Message

from bench.fuzz.mutate import mutant
from paceline.flowcore.detect.clocks import ClockEstimate
from paceline.flowcore.host.agent import HostAgent
from paceline.flowcore.messages.escalation import EscalatedClaims, Share, ShareUpdate
from paceline.flowcore.messages.events import FlowReady, JobJoined, Progress, Tick
from paceline.flowcore.messages.events import Message as FlowMessage
from paceline.flowcore.messages.reports import Bid, Claim, Feedback, Grant, Report, Withdrawal
from paceline.flowcore.model.patterns import FlowId, FlowSpec, Role
from paceline.flowcore.model.scenario import SlotsSpec
from paceline.flowcore.model.topology import Topology, tree
from paceline.flowcore.policy import POLICIES
from paceline.wire import control_pb2 as pb
from paceline.wire.codec import FEEDBACK, REPORT, BadMessage, message_to_envelope
from paceline.wire.host_stream import terms_of
from switchd.config import SwitchConfig
from switchd.handshake import parse
from switchd.streams import Streams
from switchd.switch import Switch

TREE = tree(2, 2, 2, (1.0, 1.5, 2.0))
SLOTS = SlotsSpec(60_000.0, 10)  # so long that what is about this slot stays so
NUMBERS = (0.0, -1.0, math.nan, math.inf, -math.inf, 1e-300, 1e300, 1e18, 1e9, 5e8, 2.0)
INTEGERS = (0, 1, -1, 2**31 - 1, 2**32 - 1, 2**62, 2**63 - 1, 2**64 - 1)
TEXTS = (
    "",
    "x",
    "a/ring/h0>h1",
    "far/ring/h0>h4",
    "a/push/h1>h9",
    "\n",
    "é" * 200,
    "h0",
    "tor0",
    "agg",
    "own/ring/h2>h4",
)
NEAR, FAR, OWN = (FlowId(*ends, Role.RING) for ends in (("a", "h0", "h1"), ("far", "h0", "h4"), ("own", "h2", "h4")))


class WireTarget:
    name: ClassVar[str] = "wire"

    def __init__(self) -> None:
        self._tor = Switch(SwitchConfig("tor0", "127.0.0.1:0", TREE, SLOTS, parents={"edge0": "127.0.0.1:1"}))
        self._edge = Switch(SwitchConfig("edge0", "127.0.0.1:0", TREE, SLOTS, parents={"agg": "127.0.0.1:1"}))
        self._streams = Streams(self._edge)
        self._tor.neighbour_connected("edge0")
        self._tor.host_connected("h0")
        for name in ("tor0", "tor1", "agg"):
            self._edge.neighbour_connected(name)
        slot = self._edge.slots.index(self._edge.clock.now_ns())
        self._reports = [pb.HostMessage(sent_ns=1, report=REPORT.to_wire(one)) for one in _reports(slot)]
        self._frames = [pb.Frame(sent_ns=1, envelope=[one]) for one in _envelopes(slot)]
        self._answers = [pb.SwitchMessage(feedback=FEEDBACK.to_wire(one)) for one in _answers(slot)]
        self._host = _sending_host(TREE, slot)
        self._host_now_ns = now_ns = SLOTS.clock().start_ns(slot)
        self._clock = ClockEstimate()
        clock = pb.ClockEcho(echo_ns=now_ns, received_ns=now_ns + 10**6, sent_ns=now_ns + 2 * 10**6, off_by_ns=5)
        welcome = pb.Welcome(name="tor0", slot_length_ns=60_000_000, horizon=10, phase_ns=1, policy="paceline")
        self._answers.append(pb.SwitchMessage(clock=clock, welcome=welcome))
        for answer in self._answers:
            answer.clock.CopyFrom(clock)

    async def feed(self, draws: random.Random) -> Counter[str]:
        match draws.randrange(3):
            case 0:
                outcome = "host: " + self._from_host(_bytes(draws, self._reports))
            case 1:
                outcome = "switch: " + self._from_switch(
                    draws.choice(("tor0", "tor1", "agg")), _bytes(draws, self._frames)
                )
            case _:
                outcome = "answer: " + self._to_host(_bytes(draws, self._answers))
        return Counter({outcome: 1})

    def _from_host(self, data: bytes) -> str:
        try:
            message = parse(data, pb.HostMessage)
            if not message.HasField("report"):
                return "shape"
            self._tor.take_report("h0", message.report)
        except BadMessage as error:
            return error.reason
        finally:
            _empty(self._tor)
        _check(self._tor)
        return "taken"

    def _from_switch(self, neighbour: str, data: bytes) -> str:
        refused = self._edge.refused.total()
        try:
            self._streams.take_envelopes(neighbour, parse(data, pb.Frame).envelope)
        except BadMessage as error:
            return error.reason
        finally:
            _empty(self._edge)
        _check(self._edge)
        return "taken" if self._edge.refused.total() == refused else "refused"

    def _to_host(self, data: bytes) -> str:
        self._host_now_ns += 1_000_000
        try:
            message = pb.SwitchMessage.FromString(data)
            clock = message.clock
            self._clock.observe(clock.echo_ns, clock.received_ns, clock.sent_ns, self._host_now_ns)
            self._clock.offset_ns(self._host_now_ns)
            if message.HasField("welcome"):
                terms_of(message.welcome)
                return "welcome taken"
            feedback = FEEDBACK.from_wire(message.feedback)
        except (DecodeError, BadMessage):
            return "refused"
        self._host.handle(Progress(((NEAR, 1e6), (FAR, 2e6))), self._host_now_ns)
        self._host.handle(feedback, self._host_now_ns)
        if (deadline_ns := self._host.next_deadline()) is not None and deadline_ns <= self._host_now_ns:
            self._host.handle(Tick(), self._host_now_ns)
        return "taken"

    async def close(self) -> None:
        self._tor.close()
        self._edge.close()


def _bytes(draws: random.Random, whole: list[Any]) -> bytes:
    chance = draws.random()
    if chance < 0.05:
        return draws.randbytes(draws.randrange(60))
    if chance < 0.5:
        return mutant(draws, [one.SerializeToString() for one in draws.sample(whole, 2)])
    message = type(whole[0])()
    message.CopyFrom(draws.choice(whole))
    for _ in range(draws.randint(1, 3)):
        _scramble(draws, message)
    return bytes(message.SerializeToString())


def _scramble(draws: random.Random, message: Message) -> None:
    """Another value somewhere in a message of good form."""
    fields = message.ListFields()
    if not fields:
        return
    field, value = draws.choice(fields)
    if isinstance(value, Message):
        _scramble(draws, value)
    elif hasattr(value, "append") or hasattr(value, "add"):
        at = draws.randrange(len(value))
        if isinstance(value[at], Message):
            _scramble(draws, value[at])
        elif draws.random() < 0.2:
            del value[at]
        else:
            _store(lambda other: value.__setitem__(at, other), draws, value[at])
    else:
        _store(lambda other: setattr(message, field.name, other), draws, value)


def _store(store: Any, draws: random.Random, value: object) -> None:
    choices: tuple[Any, ...] = INTEGERS
    if isinstance(value, bool):
        choices = (True, False)
    elif isinstance(value, float):
        choices = NUMBERS
    elif isinstance(value, str):
        choices = TEXTS
    other = draws.choice(choices)
    if isinstance(value, int) and draws.random() < 0.3:
        other = value + draws.choice((-11, -1, 1, 11))
    with suppress(ValueError):  # no value of its type: a peer cannot send it either
        store(other)


def _empty(switch: Switch) -> None:
    """As if the peers had read."""
    for session in switch.hosts.values():
        session.outbox._items.clear()
    for outbox in switch.neighbours.values():
        outbox._items.clear()


def _check(switch: Switch) -> None:
    arbitration = switch.agent.arbitration
    peak = max(switch.agent.table.peak_ratio, 0.0 if arbitration is None else arbitration.peak_ratio)
    if not peak <= 1 + 1e-6:
        raise AssertionError(f"{switch.name} gave away {peak} of a link")


# ---- Good messages ----


def _claim(flow: FlowId, plan_bps: tuple[float, ...] = (), upstream: tuple[FlowId, ...] = ()) -> Claim:
    path = TREE.path(flow.source, flow.target, str(flow))
    return Claim(flow, path, 25e6, Bid(2.0, 1e8, 1e8), 5e6, 1e6, upstream, (), plan_bps, 4e6)


def _reports(slot: int) -> list[Report]:
    back = FlowId("far", "h4", "h0", Role.RING)
    return [
        Report("h0", 1, slot, (_claim(NEAR),)),
        Report("h0", 2, slot, (_claim(NEAR, (5e8,) * 10), _claim(FAR, (3e8,) * 10, (back,)))),
        Report("h0", 3, slot, (_claim(FAR),), (Withdrawal(NEAR, 25e6),), 3e8),
        Report("h0", 4, slot, (), (Withdrawal(FAR, 25e6),)),
    ]


def _envelopes(slot: int) -> list[pb.Envelope]:
    own = _claim(OWN, (1e8,))
    messages: list[tuple[str, str, FlowMessage]] = [
        ("tor1", "edge0", Report("tor1", 1, slot, (own,))),
        ("tor0", "edge0", Report("tor0", 2, slot, (_claim(FAR, (4e8,) * 10),), (Withdrawal(FAR, 1e6),))),
        ("tor1", "edge0", EscalatedClaims("tor1", (own,), (FlowId("gone", "h2", "h5", Role.RING),))),
        ("agg", "edge0", ShareUpdate("agg", (Share(OWN, 1e8, 1e9),))),
        ("agg", "tor1", Feedback("agg", 1, slot, (_grant(OWN),))),
        ("tor1", "agg", Report("tor1", 1, slot, (own,))),
    ]
    return [*(message_to_envelope(*one) for one in messages), pb.Envelope(source="agg", to="edge0", unreachable=True)]


def _grant(flow: FlowId) -> Grant:
    return Grant(flow, True, 4e8, 9e8, (1e9,) * 10, (0.2,) * 10, 200_000_000, 5e6, 1e6)


def _answers(slot: int) -> list[Feedback]:
    return [
        Feedback("tor0", 1, slot, (_grant(NEAR), _grant(FAR))),
        Feedback("tor0", -1, slot, (_grant(FAR),), ("agg",)),
        Feedback("tor0", 2, slot, (_grant(NEAR)._replace(accepted=False, share_bps=0.0),)),
    ]


def _sending_host(topology: Topology, slot: int) -> HostAgent:
    clock = SLOTS.clock()
    host = HostAgent("h0", topology, clock, POLICIES["paceline"](), "tor0")
    for flow in (NEAR, FAR):
        host.handle(JobJoined(flow.job, (FlowSpec(flow, 25e6, (), 0.0),)), clock.start_ns(slot))
        host.handle(FlowReady(flow, 0), clock.start_ns(slot))
    return host
