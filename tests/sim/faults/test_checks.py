"""The checks find a broken rule: each test breaks one, in a history in which it matters."""

import pytest

from paceline.flowcore.host.agent import HostAgent
from paceline.flowcore.model.units import UNLIMITED
from paceline.flowcore.policy.paceline import Paceline
from paceline.flowcore.switch.arbitration import Arbitration
from paceline.flowcore.switch.load_table import LoadTable
from paceline.sim.faults.draw import draw
from paceline.sim.faults.history import Fault, History, Job, Kind
from paceline.sim.faults.host_shell import HostShell
from paceline.sim.faults.run import check
from paceline.sim.faults.shrink import shrink

pytestmark = pytest.mark.slow

RINGS = ("h0", "h2"), ("h1", "h2"), ("h0", "h1", "h2")  # flows of several hosts meet at every host
CROWD = tuple(Job(f"job{n}", ring, (), 16.0, 0.5, 0.1 * n) for n, ring in enumerate(RINGS))


def history(*faults: Fault, topology: str = "star", shape: tuple[int, ...] = (3,)) -> History:
    return History(1, topology, shape, 16, CROWD, faults)


def rules(*histories: History) -> set[str]:
    return {check(one).rule for one in histories}


def cut(at_slot: float) -> Fault:
    return Fault(Kind.CUT, "h0", at_slot, 10.0, "sw")


def test_nothing_is_wrong_with_them() -> None:
    assert rules(history(), *(history(cut(at_slot)) for at_slot in (3.0, 4.0, 5.0))) == {""}


def test_a_job_that_leaves_without_a_word(monkeypatch: pytest.MonkeyPatch) -> None:
    def leave(self: HostAgent, name: str, _now_ns: int, **_: object) -> None:
        job = self.jobs.pop(name, None)
        for flow in job.flows if job is not None else ():
            self.limit(flow, UNLIMITED, UNLIMITED)
            del self.flows[flow.id]

    monkeypatch.setattr(HostAgent, "_leave", leave)
    assert rules(history()) == {"forgotten"}


def test_a_host_that_goes_on_with_a_lost_switch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(HostAgent, "_isolate", lambda self: None)
    assert "on its own" in rules(*(history(cut(3 + 0.25 * n)) for n in range(8)))


def test_an_arbiter_that_gives_everything_to_everybody(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Paceline, "arbiter", staticmethod(lambda contenders, capacity_bps: [1e9] * len(contenders)))
    assert check(history()).rule == "tables"


@pytest.mark.slow
@pytest.mark.parametrize("what", [LoadTable, Arbitration])
def test_entries_that_never_end(monkeypatch: pytest.MonkeyPatch, what: type) -> None:
    monkeypatch.setattr(what, "expire", lambda self, slot: [] if what is LoadTable else False)
    lost = (Fault(Kind.CRASH, "h0", 3.0 + 0.25 * n, 2.0) for n in range(6))
    phantoms = Fault(Kind.LIE, "h0", 3.0, 2.0, "phantom")
    assert "forgotten" in rules(history(phantoms), *map(history, lost))


def test_limits_that_stay_when_the_daemon_is_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(HostShell, "lift_all", lambda self: None)
    assert check(history(Fault(Kind.CRASH, "h0", 4.0, 5.0))).rule == "lifted"


def test_a_share_for_everybody(monkeypatch: pytest.MonkeyPatch) -> None:
    real = HostAgent.limit

    def generous(self: HostAgent, flow, rate_bps: float, ceiling_bps: float, *more: float) -> None:  # type: ignore[no-untyped-def]
        real(self, flow, self.nic_bps if ceiling_bps != UNLIMITED else rate_bps, ceiling_bps, *more)

    monkeypatch.setattr(HostAgent, "limit", generous)
    assert check(history()).rule == "shares"


def test_an_agent_that_raises(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(HostAgent, "_clock_set", lambda self, by_ns, now_ns: 1 / 0)
    found = check(history(Fault(Kind.SUSPEND, "h0", 3.0, 4.0)))
    assert (found.rule, found.what) == ("crash", "ZeroDivisionError: division by zero")


def test_what_fails_shrinks_to_what_it_needs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(HostShell, "lift_all", lambda self: None)
    failing = next(verdict for seed in range(100) if (verdict := check(draw(seed, "star", 16))).rule == "lifted")
    smallest = shrink(failing)
    assert smallest.rule == "lifted"
    assert [fault.kind for fault in smallest.history.faults] in ([Kind.CRASH], [Kind.STALL], [Kind.SUSPEND])
    assert len(smallest.history.jobs) == 1
