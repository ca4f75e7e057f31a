"""Which job has the turn, by the limits of all."""

from paceline.flowcore.host.launches import Turn, turns
from paceline.flowcore.messages.events import Limit
from paceline.flowcore.model.units import UNLIMITED
from tests.flowcore.host.turn_limits import B2, NIC, A, B, C, has, rests, shut


def told(*limits: Limit, host_bps: float = NIC) -> dict[str, Turn]:
    return turns(limits, NIC, host_bps)


def test_while_one_job_has_the_link_the_others_of_its_host_wait() -> None:
    assert told(has(A), rests(B), rests(C)) == {"a": Turn.HAS, "b": Turn.WAITS, "c": Turn.WAITS}
    assert told(rests(A), rests(B)) == {"a": Turn.RESTS, "b": Turn.RESTS}
    assert told(has(A, 0.5), has(B, 0.5), rests(C)) == {"a": Turn.HAS, "b": Turn.HAS, "c": Turn.WAITS}
    assert told(has(A, 0.6), rests(B)) == {"a": Turn.HAS, "b": Turn.RESTS}, "what is left it may borrow"
    assert told(has(A), rests(B), host_bps=2 * NIC)["b"] is Turn.RESTS, "another NIC is free"


def test_a_job_that_another_hosts_job_keeps_waiting() -> None:
    assert told(shut(A)) == {"a": Turn.WAITS_AFAR}
    assert told(has(B), shut(B2)) == {"b": Turn.WAITS_AFAR}, "one of its flows is enough"


def test_a_job_that_is_left_alone_waits_for_no_answer() -> None:
    lifted = Limit(A, UNLIMITED, UNLIMITED)
    assert told(lifted, rests(B)) == {"a": Turn.HAS, "b": Turn.RESTS}
    assert told(lifted, has(B)) == {"a": Turn.HAS, "b": Turn.HAS}
