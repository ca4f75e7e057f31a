"""What is shown of jobs without decisions about them: the monitor's facts, whichever of them are known."""

from hostd.kernel.sockets import DataSocket
from hostd.monitor.flow_view import flows_of, iteration_ns_of, moving, phase_of
from hostd.monitor.job_tracker import JobTracker
from paceline.flowcore.demand.facts import JobFacts
from paceline.flowcore.model.patterns import FlowId, Role

ENDS = (Role.RING, "h1")
FLOW = FlowId("a", "h0", "h1", Role.RING)
SOCKET = DataSocket(1, 3, 7, "10.0.0.1", "10.0.0.2", 5000, 0)


def job(sent_bytes: float, resting: bool = False) -> JobTracker:
    facts = JobFacts(4, True, False, 2, {ENDS: sent_bytes}, {}, resting)
    made = JobTracker("a", "h0")
    made.sockets.sending, made.facts, made.measured_ns = {ENDS: (SOCKET,)}, facts, 50
    return made


def test_before_an_iteration_was_seen_whole_a_flow_has_no_size() -> None:
    learning = job(3e6)
    [one] = flows_of(learning)
    assert one == (FLOW, 1, None, 0.0, 3e6, False)
    assert phase_of(learning) == "learning" and iteration_ns_of(learning) is None


def test_a_sending_flow_has_sent_a_part_of_its_size() -> None:
    sending = job(3e6)
    sending.demand.learner.size, sending.demand.live = {ENDS: 8e6}, {ENDS}
    sending.sockets.sending[Role.RING, "h2"] = (SOCKET,)  # it carries next to nothing: control
    [one] = flows_of(sending)
    assert one == (FLOW, 1, 8e6, 3e6, 3e6, True)
    assert phase_of(sending) == "sending"
    sending.demand.live.clear()
    assert phase_of(sending) == "computing"
    assert next(flows_of(sending)).sent_bytes == 0.0


def test_only_what_moves_has_a_rate() -> None:
    assert list(moving({"a": job(3e6)})) == [(FLOW, 50, 3e6)]
    assert list(moving({"a": job(3e6, resting=True)})) == []
    assert list(moving({"a": JobTracker("a", "h0")})) == [], "never read"
