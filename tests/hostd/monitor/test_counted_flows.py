"""Flows of jobs without sockets, by what their net plugin counts, and bytes of launches that wait."""

from collections.abc import Sequence

import pytest

from hostd.kernel.tcp_info import WIRE_PER_PAYLOAD
from hostd.monitor import counted_flows
from hostd.monitor.counted_flows import TOLD_BYTES, Control, CountedFlows
from hostd.monitor.job_tracker import JobTracker
from nccl_shim.page.layout import peer_bytes
from nccl_shim.segment.layout import Kind, ProcessRole, Source
from nccl_shim.segment.reader import ProcessView
from nccl_shim.segment.snapshot import FlowCounters, IterationCounter, ProcessSnapshot
from paceline.flowcore.messages.events import FlowReady, JobJoined
from paceline.flowcore.model.patterns import Role

HOST_OF = {"10.0.0.1": "h0", "10.0.0.2": "h1", "fd00::3": "h2"}
TO_H1, TO_H2 = (Role.RING, "h1"), (Role.RING, "h2")


def record(kind: Kind, size: int, address: str = "") -> FlowCounters:
    told = (size, 1, 0, 0, 0, 0, 0, 0, 0, 0)
    return FlowCounters(kind, Source.NCCL, 1, 0, 2, -1, True, *told, peer_bytes(address) if address else bytes(16))


def view(
    pid: int, flows: Sequence[FlowCounters], iteration: int = 0, held_ns: int = 0, marked: int = 0, counted: int = 0
) -> ProcessView:
    counter = IterationCounter(iteration, 1, 0, marked, 100, 1)
    identity = ("a", 0, 2, 0, ProcessRole.WORKER, pid, 1, 1, 0, True, False, 0, 0, 0)
    snapshot = ProcessSnapshot(
        *identity, counter, tuple(flows), 0, 0, counted, weight=1.0, held_ns=held_ns, iterations=0
    )
    return ProcessView(snapshot, 0, pid, True, 0, None, 0, 0, None)


def test_bytes_are_summed_by_host_and_other_records_are_none_of_them() -> None:
    flows = CountedFlows()
    flows.know(HOST_OF, "h0")
    collective, nowhere = record(Kind.COLLECTIVE, 9), record(Kind.ADDRESS, 9)
    own, unknown = record(Kind.ADDRESS, 9, "10.0.0.1"), record(Kind.ADDRESS, 9, "10.9.9.9")
    views = [
        view(1, [record(Kind.ADDRESS, 1000, "10.0.0.2"), collective, nowhere, own, unknown]),
        view(2, [record(Kind.ADDRESS, 500, "10.0.0.2"), record(Kind.ADDRESS, 70, "fd00::3")]),
    ]
    sent = flows.sent_bytes(views)
    assert sent == pytest.approx({TO_H1: 1500 * WIRE_PER_PAYLOAD, TO_H2: 70 * WIRE_PER_PAYLOAD})
    assert flows.peers(views, "h1") == {(1, "10.0.0.2"), (2, "10.0.0.2")}
    assert flows.peers(views, "h2") == {(2, "fd00::3")}


def test_sockets_that_carry_a_hundredth_of_what_is_counted_carry_its_data() -> None:
    """By what both did since the last look: hostd may have come long after the job, and connections may be new."""
    control, long_ago = Control(), 1e13
    assert not any(control.observe(long_ago + TOLD_BYTES * number, TOLD_BYTES * number) for number in range(3))
    assert not control.observe(long_ago + 2.5 * TOLD_BYTES, 2 * TOLD_BYTES), "too little to tell"
    assert control.observe(long_ago + 4 * TOLD_BYTES, 2.01 * TOLD_BYTES) and control.only
    assert not control.observe(0.0, 0.0) and control.only, "one of its processes has begun anew"
    assert control.observe(TOLD_BYTES, TOLD_BYTES / 50) and not control.only


def test_a_job_without_sockets_joins_by_its_counts_and_a_launch_that_waits_is_a_burst() -> None:
    job, now_ns, sent, events = JobTracker("a", "h0"), 0, 0, []

    def look(iteration: int, held_ns: int = 0) -> None:
        nonlocal now_ns
        now_ns += 30_000_000
        flows = [record(Kind.COLLECTIVE, sent), record(Kind.ADDRESS, sent, "10.0.0.2")]
        seen = view(0, flows, iteration, held_ns)
        job.processes[0].view = seen
        job.counted(seen, now_ns)
        events.extend(job.read(now_ns))

    job.consists_of({0: view(0, [])})
    job._handed_over.know(HOST_OF, "h0")
    for iteration in range(5):
        for _ in range(4):
            sent += 250_000
            look(iteration)
        look(iteration + 1)  # rests
    [joined] = [event for event in events if isinstance(event, JobJoined)]
    assert [(spec.flow.target, round(spec.size_bytes)) for spec in joined.flows] == [
        ("h1", round(1e6 * WIRE_PER_PAYLOAD))
    ]
    assert not job.demand.live and not job.has_sockets
    events.clear()
    look(5, held_ns=now_ns)
    assert [type(event) for event in events] == [FlowReady] and job.demand.live == {TO_H1}


def test_counts_and_marks_are_of_all_processes_also_of_one_that_has_yet_to_mark() -> None:
    job = JobTracker("a", "h0")
    job.consists_of({1: view(1, [], 7, marked=700, counted=750), 2: view(2, [], 6, marked=600, counted=690)})
    job.read(1)
    assert job.facts is not None
    assert job.facts.iteration == 7
    assert (job.facts.counted_bytes, job.facts.marked_bytes) == (1440.0 * WIRE_PER_PAYLOAD, 1300.0 * WIRE_PER_PAYLOAD)


def test_workers_that_begin_anew_announce_as_much_as_before() -> None:
    """Their counts begin anew, too; what the job's sockets have sent does not."""
    job = JobTracker("a", "h0")
    job.consists_of({1: view(1, [], 3, counted=0)})
    job.read(1)
    assert job.facts is not None and job.facts.counts_early, "it only marks"
    job.facts = job.facts._replace(sent_bytes={TO_H1: 1e9})
    job.consists_of({2: view(2, [], 1, counted=1_000_000)})
    job.read(2)
    assert not job.facts.counts_early


def test_addresses_that_a_job_makes_up_fill_no_memory() -> None:
    flows = CountedFlows()
    flows.know(HOST_OF, "h0")
    for number in range(20):
        made_up = [record(Kind.ADDRESS, 9, f"10.{number}.{other // 256}.{other % 256}") for other in range(1000)]
        assert flows.sent_bytes([view(1, [*made_up, record(Kind.ADDRESS, 7, "10.0.0.2")])]).keys() == {TO_H1}
    assert counted_flows._text.cache_info().currsize <= 4096
