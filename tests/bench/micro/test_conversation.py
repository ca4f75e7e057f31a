"""A measured host against a server that answers only every other report: what is missed counts as well."""

from collections.abc import AsyncIterator

import grpc
import pytest

from bench.micro.conversation import Conversation, Tally
from bench.micro.echo import quiet_phase_ns
from bench.micro.load_hosts import LoadHost, load_hosts
from paceline.flowcore.model.slots import SlotClock
from paceline.flowcore.model.topology import Topology, clos, star
from paceline.service.shared_clock import SharedClock
from paceline.wire import control_pb2 as pb
from paceline.wire.calls import SERVICE
from switchd.topology.phases import phases

SLOTS = SlotClock(50_000_000, 10)
PHASE_NS = 20_000_000
SENT, FLOWS = 8, 2


async def answer_every_other(_requests: object, context: grpc.aio.ServicerContext) -> None:
    await context.read()
    await context.write(pb.SwitchMessage(welcome=pb.Welcome(phase_ns=PHASE_NS)).SerializeToString())
    while (data := await context.read()) is not grpc.aio.EOF:
        report = pb.HostMessage.FromString(data).report
        if report.number % 2:
            columns = [1e9] * (FLOWS * SLOTS.horizon)
            answer = pb.Feedback(answers=report.number, flow=report.claims.flow, accepted=[True] * FLOWS)
            answer.available_bps.extend(columns)
            answer.load.extend(columns)
            await context.write(pb.SwitchMessage(feedback=answer).SerializeToString())


@pytest.fixture
async def address() -> AsyncIterator[str]:
    server = grpc.aio.server()
    negotiate = grpc.stream_stream_rpc_method_handler(answer_every_other)
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(SERVICE, {"Negotiate": negotiate}),))
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    yield f"127.0.0.1:{port}"
    await server.stop(None)


async def test_a_missed_slot_counts_with_its_length(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    host = load_hosts(star(2, 1.0), FLOWS, 0.0, SLOTS.horizon, seed=1)[0]
    clock, tally = SharedClock(), Tally()
    frozen_at: list[int] = []
    monkeypatch.setattr(LoadHost, "freeze", lambda _host: frozen_at.append(len(tally.decided_s)))
    conversation = Conversation(host, SLOTS, clock, tally, together=False)
    await conversation.open(address)
    assert conversation.phase_ns == PHASE_NS
    try:
        first = SLOTS.index(clock.own_ns()) + 1
        await conversation.run(first, first, SENT)
    finally:
        await conversation.close()
    assert tally.negotiations == len(tally.decided_s) == SENT
    assert len(tally.missed_s) >= SENT // 2  # on a busy machine an answer may be late as well
    assert set(tally.missed_s) <= set(tally.decided_s)
    assert all(end_s - begin_s >= SLOTS.length_ns / 1e9 - 1e-9 for begin_s, end_s in tally.missed_s)
    answered = SENT - len(tally.missed_s)
    assert len(frozen_at) == answered
    assert 0 not in frozen_at  # a decision was noted before the next message was put together


RATES = (1.0, 1.0)


@pytest.mark.parametrize("topology", [star(2, 1.0), star(48, 1.0), clos(3, 2, 1, RATES), clos(24, 4, 1, RATES)])
@pytest.mark.parametrize("together", [False, True])
def test_the_bare_round_trip_keeps_away_from_hosts_and_ticks(topology: Topology, together: bool) -> None:
    length_ns = 60_000_000
    racks = set(topology.switch_of.values())
    phases_ns = {0} if together else {ns for rack in racks for ns in phases(topology, rack, length_ns).values()}
    found_ns = quiet_phase_ns(phases_ns, length_ns)
    assert 0 < found_ns < length_ns
    apart_ns = length_ns // (8 * len(topology.hosts))
    assert all(abs(found_ns - busy_ns) > apart_ns for busy_ns in (*phases_ns, 0, length_ns // 2))
