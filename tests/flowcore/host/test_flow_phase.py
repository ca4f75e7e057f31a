"""Every transition of a flow's phase, and that no order of events leaves the diagram."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paceline.flowcore.host.flow_phase import Phase, PhasedFlow
from paceline.flowcore.messages.reports import Grant
from paceline.flowcore.model.patterns import FlowId, Role

GRANT = Grant(FlowId("a", "h0", "h1", Role.RING), True, 1e9, 1e9, (1e9,), (0.0,), 1, 0.0, 0.0)

MOVES = {
    "bytes wait": lambda flow: flow.bytes_wait(5),
    "claim": lambda flow: flow.claim(),
    "grant": lambda flow: flow.take_grant(GRANT, 0),
    "grant lost": lambda flow: flow.lose_grant(),
    "withdraw": lambda flow: flow.withdraw(7),
    "stall": lambda flow: flow.withdraw(7, stalled=True),
    "all sent": lambda flow: flow.all_sent(),
}


def after(*moves: str) -> PhasedFlow:
    flow = PhasedFlow()
    for move in moves:
        MOVES[move](flow)
    return flow


@pytest.mark.parametrize(
    ("moves", "phase"),
    [
        ((), Phase.IDLE),
        (("bytes wait",), Phase.READY),
        (("bytes wait", "claim"), Phase.ASKED),
        (("bytes wait", "claim", "grant"), Phase.GRANTED),
        (("bytes wait", "claim", "grant", "grant lost"), Phase.ASKED),
        (("bytes wait", "claim", "grant", "withdraw"), Phase.RELEASED),
        (("bytes wait", "claim", "grant", "withdraw", "grant"), Phase.RELEASED),
        (("bytes wait", "claim", "grant", "withdraw", "grant lost", "claim"), Phase.ASKED),
        (("bytes wait", "claim", "grant", "withdraw", "all sent"), Phase.IDLE),
        (("bytes wait", "claim", "grant", "all sent"), Phase.SENT),
        (("bytes wait", "claim", "grant", "all sent", "withdraw"), Phase.IDLE),
        (("bytes wait", "claim", "grant", "all sent", "bytes wait"), Phase.ASKED),
        (("bytes wait", "all sent"), Phase.IDLE),
        (("bytes wait", "claim", "grant", "stall"), Phase.STALLED),
        (("bytes wait", "claim", "grant", "stall", "grant"), Phase.STALLED),
        (("bytes wait", "claim", "grant", "stall", "grant lost", "claim"), Phase.ASKED),
        (("bytes wait", "claim", "grant", "stall", "all sent"), Phase.IDLE),
        (("bytes wait", "grant"), Phase.READY),
        (("bytes wait", "grant", "claim"), Phase.GRANTED),
    ],
)
def test_the_phase_after(moves: tuple[str, ...], phase: Phase) -> None:
    assert after(*moves).phase is phase


def test_a_claim_is_withdrawn_once() -> None:
    flow = after("bytes wait", "claim")
    assert flow.withdraw(7) is True and flow.released_ns == 7
    assert flow.withdraw(8) is False and flow.released_ns == 7


def test_a_new_iteration_knows_no_grant() -> None:
    flow = after("bytes wait", "claim", "grant", "all sent", "withdraw", "bytes wait")
    assert flow.grant is None and flow.ready_ns == 5


def possible(phase: Phase) -> list[str]:
    """What hosts and policies do in a phase: they claim only what is live, and finish only what was."""
    moves = ["bytes wait", "withdraw", "stall", "grant lost"]
    return [*moves, "claim", "grant", "all sent"] if phase.live else moves


@given(data=st.data())
def test_granted_always_has_a_grant_and_asked_none(data: st.DataObject) -> None:
    flow = PhasedFlow()
    for _ in range(data.draw(st.integers(1, 20))):
        MOVES[data.draw(st.sampled_from(possible(flow.phase)))](flow)
        assert (flow.phase is not Phase.GRANTED) or flow.grant is not None
        assert (flow.phase is not Phase.ASKED) or flow.grant is None
