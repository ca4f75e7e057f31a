"""The rules by which a job is said not to be paced: one case each, and what two of them make together."""

import time
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from hostd.enforce.errors import EnforcementError, ErrorKind
from hostd.introspect import unpaced_log
from hostd.introspect.host_view import HostView
from hostd.introspect.unpaced_log import PATIENCE_NS, UnpacedLog
from hostd.introspect.why_unpaced import EXPECTED, Reason, why_unpaced
from hostd.kernel.sockets import DataSocket, ProcessSockets
from hostd.monitor.job_tracker import JobTracker, TrackedProcess
from nccl_shim.segment.layout import ProcessRole
from paceline.flowcore.demand.facts import JobFacts
from paceline.flowcore.detect.bursts import BurstRhythm
from paceline.flowcore.messages.events import JobJoined
from paceline.flowcore.model.patterns import FlowId, FlowSpec, Role
from tests.hostd.introspect.test_metrics import ENDS, Published, published

__all__ = ["published"]  # fixture

OWN, PEER, OTHER = "10.0.0.1", "10.0.0.2", "10.0.0.9"
HERE = 4026531840


def socket_to(remote: str, local: str = OWN, namespace: int = HERE) -> DataSocket:
    return DataSocket(17, 5, 1, local, remote, 4000, namespace)


def member(rank: int, world: int = 2) -> Any:
    return SimpleNamespace(snapshot=SimpleNamespace(global_rank=rank, world_size=world, role=ProcessRole.WORKER))


def job(name: str, *sockets: DataSocket, members: tuple[Any, ...] = (), sending: bool = True) -> JobTracker:
    """One with these connections, of which no iteration was seen."""
    tracker = JobTracker(name, "h0")
    tracker.facts = JobFacts(0, False, False, 2, {}, {})
    tracker.processes = {17: TrackedProcess(ProcessSockets(17))}
    tracker.processes[17].sockets.sockets = sockets
    for number, view in enumerate(members):
        tracker.processes[17 + number] = TrackedProcess(ProcessSockets(17 + number), view)
    tracker.sockets.sending = {ENDS: sockets} if sending else {}
    return tracker


@pytest.fixture
def view(published: Published, tmp_path: Path) -> HostView:
    """Of a host whose mode is enforce."""
    published.jobs.clear()
    host_of = {OWN: "h0", PEER: "h1"}
    return replace(published.view(), mode="enforce", host_of=host_of, namespace=HERE, own_ns=7_000_000_000)


def reasons(view: HostView, one: JobTracker) -> dict[Reason, str]:
    view.jobs[one.demand.job] = one  # type: ignore[index]
    now = replace(view)  # what a view has found out about its jobs, it keeps
    return {found.reason: found.why for found in why_unpaced(now, one) if found.reason is not Reason.NO_BACKEND}


def test_a_young_job_is_learned_and_nothing_is_wrong(view: HostView) -> None:
    assert reasons(view, job("a", socket_to(PEER))) == {Reason.NO_ITERATION: "after 7 s no iteration of it has ended"}
    learned = job("b", socket_to(PEER))
    learned.facts = JobFacts(9, False, False, 2, {}, {})
    assert reasons(view, learned)[Reason.LEARNING].startswith("after 7 s, 9 iterations, none was seen whole")
    assert reasons(view, job("c", sending=False)).keys() == {Reason.NO_DATA}
    irregular = job("d", socket_to(PEER))
    irregular.rhythm = BurstRhythm()
    assert reasons(view, irregular).keys() == {Reason.NO_RHYTHM}


def test_addresses_are_named(view: HostView) -> None:
    unknown = reasons(view, job("a", socket_to(OTHER), socket_to("10.0.0.10"), sending=False))
    assert unknown == {Reason.UNKNOWN_PEER: "it sends to 10.0.0.9, 10.0.0.10, of no host in [addresses]"}
    many = reasons(view, job("b", *(socket_to(f"10.0.1.{number}") for number in range(9)), sending=False))
    assert many[Reason.UNKNOWN_PEER].startswith("it sends to 10.0.1.0, 10.0.1.1, 10.0.1.2, 10.0.1.3, 10.0.1.4 and 4 m")
    strange = reasons(view, job("c", socket_to(PEER, local=OTHER)))
    assert strange[Reason.OWN_ADDRESS].startswith(
        "it sends from 10.0.0.9, which [addresses] does not have as h0: other"
    )
    taken = reasons(view, job("d", socket_to(OTHER, local=PEER), sending=False))
    assert "(10.0.0.2 is h1's there)" in taken[Reason.OWN_ADDRESS]
    mistaken = reasons(replace(view, host_of={OWN: "h0", PEER: "h0"}), job("e", socket_to(PEER), sending=False))
    assert mistaken[Reason.UNKNOWN_PEER] == "it sends to 10.0.0.2, which [addresses] has as h0, this host"


def test_what_stays_on_the_host_needs_no_pacing(view: HostView) -> None:
    within = job("a", socket_to("127.0.0.1", "127.0.0.1"), socket_to(OWN), sending=False)
    assert reasons(view, within).keys() == {Reason.WITHIN_HOST}


def test_what_the_operator_said_comes_first(view: HostView) -> None:
    told = replace(view, mode="observe", listed=("b",), released={None: "by uid 0", "a": "by uid 7"})
    found = [one.reason for one in why_unpaced(told, job("a", socket_to(OTHER), sending=False))]
    assert found[:3] == [Reason.OBSERVING, Reason.NOT_LISTED, Reason.RELEASED] and Reason.UNKNOWN_PEER in found
    advised = reasons(replace(view, mode="advise"), job("c", socket_to(PEER)))
    assert Reason.ADVISING in advised


def test_a_network_namespace_of_its_own_is_out_of_htbs_reach(view: HostView, monkeypatch: pytest.MonkeyPatch) -> None:
    pod = job("a", socket_to(PEER, namespace=HERE + 1))
    assert Reason.NAMESPACE not in reasons(view, pod)
    monkeypatch.setattr(view.enforcer.backend, "name", "htb")
    why = reasons(view, pod)[Reason.NAMESPACE]
    assert why.startswith("process 17 has a network namespace of") and why.endswith('backend = "pacing" does')


def test_a_network_that_a_user_has_made_is_no_demand(view: HostView) -> None:
    private = replace(socket_to(PEER, namespace=HERE + 1), private=True)
    why = reasons(view, job("a", private))[Reason.NAMESPACE]
    assert why.startswith("process 17 has a network namespace that a user has made")


def test_an_error_that_lasts_is_a_reason_and_one_that_is_over_is_none(
    view: HostView, monkeypatch: pytest.MonkeyPatch
) -> None:
    flow = FlowId("a", "h0", "h1", Role.RING)
    for kind in (ErrorKind.FOREIGN_QDISC, ErrorKind.KERNEL, ErrorKind.EVADED, ErrorKind.GONE):
        view.enforcer.errors.add([EnforcementError(kind, f"eth0: {kind}", flow)])
    found = reasons(view, job("a", socket_to(PEER)))
    assert found[Reason.FOREIGN_QDISC] == "eth0: foreign_qdisc" and found[Reason.NOT_ENFORCED] == "eth0: kernel"
    assert found[Reason.EVADES] == "eth0: evaded"
    later = view.enforcer.errors._clock_s() + 10
    monkeypatch.setattr(view.enforcer.errors, "_clock_s", lambda: later)
    assert not reasons(view, job("a", socket_to(PEER))).keys() & {Reason.FOREIGN_QDISC, Reason.NOT_ENFORCED}


def test_a_process_that_cannot_be_looked_into(view: HostView) -> None:
    hidden = job("a", sending=False)
    hidden.processes[17].sockets.refused = "not permitted"
    assert reasons(view, hidden) == {Reason.INVISIBLE: "process 17 cannot be looked into: not permitted"}


def test_left_to_tcp_with_its_reason(view: HostView) -> None:
    chatter = job("a", socket_to(PEER))
    chatter.demand._chatter = 99  # type: ignore[attr-defined]
    assert reasons(view, chatter)[Reason.LEFT_TO_TCP] == "it is left to TCP: its bursts are too short for turns"


def test_two_jobs_of_one_name_and_one_of_two_names(view: HostView) -> None:
    merged = job("m", socket_to(PEER), members=(member(0), member(0)))
    assert "several processes have rank 0" in reasons(view, merged)[Reason.MERGED]
    assert "2 and 4 members" in reasons(view, job("n", members=(member(0), member(1, 4))))[Reason.MERGED]
    one, other = job("1/train.py-17", members=(member(0),)), job("1/train.py-18", members=(member(1),))
    reasons(view, one)
    assert "train.py-17 on this host looks like a part of it" in reasons(view, other)[Reason.SPLIT]
    assert Reason.SPLIT in reasons(view, one)
    for name, rank, world in (
        ("1/x.py-1", 1, 2),
        ("1/train.py-19", 0, 2),
        ("1/train.py-20", 1, 4),
        ("2/train.py-20", 1, 2),
    ):
        stranger = job(name, members=(member(rank, world),))
        assert Reason.SPLIT not in reasons(replace(view, jobs={"1/train.py-17": one}), stranger), name


def test_hundreds_of_jobs_are_looked_at_in_no_time(view: HostView) -> None:
    """A user may have as many, and hostd's loop waits for this once a second."""
    jobs = {f"1/x-{n}": job(f"1/x-{n}", socket_to(PEER), members=(member(n, 512),)) for n in range(512)}
    began_s = time.process_time()
    found = UnpacedLog().note(replace(view, jobs=jobs))
    assert time.process_time() - began_s < 0.5, "and not in ten seconds"
    assert all(Reason.SPLIT in {one.reason for one in reasons} for reasons in found.values())


def test_of_a_job_that_is_paced_only_what_is_wrong_is_said(view: HostView) -> None:
    flow = FlowId("a", "h0", "h1", Role.RING)
    view.agent.handle(JobJoined("a", (FlowSpec(flow, 8e6, (), 0.0),)), 0)
    assert reasons(view, job("a", socket_to(PEER))) == {}
    assert reasons(view, job("a", socket_to(PEER), socket_to(OTHER))).keys() == {Reason.UNKNOWN_PEER}


def test_the_log_says_it_once_and_when_it_is_over(view: HostView, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    log, young = UnpacedLog(), job("a", socket_to(PEER))
    watched = replace(view, mode="advise", jobs={"a": young})
    log.note(watched)
    assert caplog.messages == [], "it has only just come"
    log.note(replace(watched, own_ns=PATIENCE_NS))
    log.note(replace(watched, own_ns=2 * PATIENCE_NS))
    [said] = caplog.records
    assert said.levelname == "INFO" and "no iteration of it has ended" in said.message
    young.processes[17].sockets.sockets = (socket_to(OTHER),)
    log.note(watched)
    assert caplog.records[-1].levelname == "WARNING" and OTHER in caplog.messages[-1], "an operator can mend it"
    assert {Reason.UNKNOWN_PEER, Reason.SPLIT, Reason.FOREIGN_QDISC}.isdisjoint(EXPECTED)


def test_reasons_take_a_bounded_time_each_second_however_many_sockets_there_are(
    view: HostView, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A user had hundreds of processes that inherit hundreds of connections; every job has its turn all the same."""
    monkeypatch.setattr(unpaced_log, "MOST_NS", 0)
    looked: list[str] = []
    monkeypatch.setattr(unpaced_log, "why_unpaced", lambda _, one: looked.append(one.demand.job) or [])
    log, jobs = UnpacedLog(), {name: job(name, socket_to(PEER)) for name in "abc"}
    for _ in range(6):
        found = log.note(replace(view, jobs=jobs))
    assert looked == [*"abcabc"] and found.keys() == jobs.keys()
    del jobs["b"]
    assert log.note(replace(view, jobs=jobs | {"d": job("d")})).keys() == {*"acd"} and looked[-1] == "d"
