"""The ledger: ahead of an equal share, overdrawn, idle; and honest turns that are neither."""

from dataclasses import replace

import pytest

from paceline.flowcore.allocation.arbiters import Contender
from paceline.flowcore.messages.reports import Bid, Claim
from paceline.flowcore.model.patterns import FlowId, Role
from paceline.flowcore.switch.ledger import MOST_AHEAD_S, WATCHED_SLOTS, Ledger

SLOT_NS = 100_000_000
LINK_BPS = {"l": 1e9}
JOBS = {name: Contender(name, Bid(1.0), {"l": 1}) for name in ("a", "b")}


class Switch:
    """Divides one link among jobs as it is told, and moves the bytes."""

    def __init__(self, **weights: float) -> None:
        self.ledger, self.now_ns = Ledger(SLOT_NS), 0
        self._weights = weights
        self._sent_bytes = dict.fromkeys(JOBS, 0.0)

    def divide(self, shares: dict[str, float], slots: int = 1, idle: tuple[str, ...] = ()) -> frozenset[str]:
        """Shares of the link, for so long; returns the jobs that were overdrawn meanwhile."""
        return frozenset().union(*(self._half_a_slot(shares, idle) for _ in range(2 * slots)))

    def _half_a_slot(self, shares: dict[str, float], idle: tuple[str, ...]) -> frozenset[str]:
        members = {name: replace(JOBS[name], weight=self._weights.get(name, 1.0)) for name in shares}
        flows = {name: FlowId(name, "h0", "h1", Role.RING) for name in shares}
        for name, flow in flows.items():
            self.ledger.heard(Claim(flow, ("l",), 1e9, Bid(1.0), self._sent_bytes[name], 0.0, (), ()), self.now_ns)
        still = frozenset(name for name, flow in flows.items() if self.ledger.unmoved(flow))
        overdrawn = self.ledger.overdrawn(members, self.now_ns, still)
        self.ledger.enter(list(members.values()), {name: part * 1e9 for name, part in shares.items()}, LINK_BPS)
        self.now_ns += SLOT_NS // 2
        for name, part in shares.items():
            self._sent_bytes[name] += 0.0 if name in idle else part * 1e9 / 8 * SLOT_NS / 2e9
        return overdrawn


def slots_until_overdrawn(switch: Switch, job: str, shares: dict[str, float]) -> int:
    for slot in range(200):
        if job in switch.divide(shares):
            return slot
    raise AssertionError("never")


def test_a_job_that_has_the_link_while_another_waits_is_overdrawn_in_the_end() -> None:
    """Half of the link was its own."""
    slots = slots_until_overdrawn(Switch(), "a", {"a": 1.0, "b": 0.0})
    assert slots * SLOT_NS / 1e9 == pytest.approx(2 * MOST_AHEAD_S, rel=0.1)


def test_a_heavier_job_may_have_more() -> None:
    """Of weights 3 and 1 three quarters of the link are the heavier job's own."""
    assert not Switch(a=3.0).divide({"a": 0.75, "b": 0.25}, slots=200)
    assert slots_until_overdrawn(Switch(), "a", {"a": 0.75, "b": 0.25})


def test_turns_overdraw_no_job() -> None:
    switch = Switch()
    for turn in range(400):
        first, second = ("a", "b") if turn % 2 else ("b", "a")
        assert not switch.divide({first: 1.0, second: 0.0}, slots=5)


def test_a_short_job_that_goes_first_and_computes_meanwhile_is_not_overdrawn() -> None:
    """With equal shares it would take twice as long, and the other job would not be through any earlier."""
    switch = Switch()
    for _ in range(400):
        assert not switch.divide({"a": 1.0, "b": 0.0}, slots=1)
        assert not switch.divide({"b": 1.0}, slots=4)


def test_a_job_alone_is_never_overdrawn() -> None:
    switch = Switch()
    assert not any(switch.divide({"a": 1.0}) for _ in range(1000))


def test_a_job_that_sends_nothing_of_its_share_is_overdrawn_until_bytes_move() -> None:
    switch = Switch()
    slots = next(n for n in range(100) if "a" in switch.divide({"a": 0.5, "b": 0.5}, idle=("a",)))
    assert WATCHED_SLOTS <= slots <= WATCHED_SLOTS + 1
    assert "a" in switch.divide({"a": 0.1, "b": 0.9})  # at first: bytes move now, and the next report says so
    assert not switch.divide({"a": 0.5, "b": 0.5})


def test_a_job_that_sends_nothing_is_asked_again_ever_more_seldom() -> None:
    switch = Switch()
    asked = [slot for slot in range(800) if "a" not in switch.divide({"a": 0.01, "b": 0.99}, idle=("a",))]
    assert {slot // WATCHED_SLOTS for slot in asked} == {0, 8, 16, 32, 64, 128}


def test_a_job_that_waits_for_its_turn_is_not_idle() -> None:
    switch = Switch()
    for _ in range(3 * WATCHED_SLOTS):
        assert "b" not in switch.divide({"a": 1.0, "b": 0.0})


def test_what_is_through_and_not_ahead_is_forgotten() -> None:
    switch = Switch()
    switch.divide({"a": 1.0, "b": 0.0})
    for _ in range(1000):
        switch.divide({"b": 1.0})
    assert switch.ledger._accounts.keys() == {"b"}


def test_a_clock_that_is_set_overdraws_no_job() -> None:
    switch = Switch()
    switch.divide({"a": 1.0, "b": 0.0})
    switch.now_ns += 1000 * SLOT_NS
    assert not switch.divide({"a": 1.0, "b": 0.0})


def test_a_clock_that_is_set_is_no_computing() -> None:
    """Job a computes for four slots. The clock is set forward meanwhile, while job b is here."""
    switch = Switch()
    for turn in range(20):
        switch.divide({"a": 1.0, "b": 0.0}, slots=1)
        switch.divide({"b": 1.0}, slots=2)
        switch.now_ns += 100 * SLOT_NS if turn == 18 else 0
        switch.divide({"b": 1.0}, slots=2)
    switch.divide({"a": 1.0, "b": 0.0}, slots=1)
    bold = replace(JOBS["a"], bid=Bid(1.0, compute_ns=1e12))
    assert switch.ledger.believed(bold).bid.compute_ns <= 1.5 * 5 * SLOT_NS


def test_no_job_saves_up() -> None:
    switch = Switch()
    for _ in range(500):
        switch.divide({"a": 0.0, "b": 1.0})
    slots = slots_until_overdrawn(switch, "a", {"a": 1.0, "b": 0.0})
    assert slots * SLOT_NS / 1e9 == pytest.approx(4 * MOST_AHEAD_S, rel=0.15)


def test_a_flow_that_never_moved_comes_again_as_what_it_was() -> None:
    """A forged claim is not renewed for a while and then made again: that is no new flow."""
    switch, forged = Switch(), FlowId("a", "h7", "h8", Role.RING)
    claim = Claim(forged, ("l",), 1e9, Bid(1.0), 0.0, 0.0, (), ())
    switch.ledger.heard(claim, switch.now_ns)
    switch.divide({"a": 1.0}, slots=WATCHED_SLOTS + 1)
    assert switch.ledger.unmoved(forged)
    switch.ledger.forget(forged)
    switch.ledger.heard(claim, switch.now_ns)
    assert switch.ledger.unmoved(forged)
    switch.ledger.heard(claim._replace(sent_bytes=1.0), switch.now_ns)
    assert not switch.ledger.unmoved(forged)


def test_a_job_that_fell_behind_is_believed_until_it_has_caught_up() -> None:
    """Else it would lose its turn as soon as it has one."""
    switch, urgent = Switch(), Bid(1e6)

    def believed() -> bool:
        return switch.ledger.believed(replace(JOBS["b"], bid=urgent)).bid == urgent

    switch.divide({"a": 0.5, "b": 0.5}, slots=4)
    assert not believed()
    switch.divide({"a": 1.0, "b": 0.0}, slots=8)  # 0.4 s behind
    assert believed()
    switch.divide({"a": 0.0, "b": 1.0}, slots=6)  # 0.1 s
    assert believed()
    switch.divide({"a": 0.0, "b": 1.0}, slots=4)
    assert not believed()
