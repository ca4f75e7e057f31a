"""From what hosts have watched to jobs that can be simulated."""

from typing import Any

import pytest

from paceline.flowcore.model.fields import InputError
from paceline.flowcore.model.scenario import Pattern
from paceline.flowcore.model.topology import star
from paceline.whatif.measured import MeasuredCluster, MeasuredJob, measured_cluster
from paceline.whatif.record import parse_record
from tests.whatif.watched import flow, job, pair, record


def cluster(*records: dict[str, Any]) -> MeasuredCluster:
    return measured_cluster([parse_record(one, one["host"]) for one in records])


def only(*records: dict[str, Any]) -> MeasuredJob:
    [found] = cluster(*records).jobs
    return found


def test_a_ring_of_two_is_computing_and_as_many_bytes_as_each_sends() -> None:
    on_h0, on_h1 = pair("a", 10e6, 200, 100)
    found = only(record("h0", on_h0), record("h1", on_h1))
    assert found.spec.workers == ("h0", "h1") and found.spec.pattern is Pattern.ALLREDUCE
    assert found.spec.compute_s == pytest.approx(0.1) and found.spec.model_mb == pytest.approx(10.0)
    assert found.alone_s == pytest.approx(0.18) and found.iteration_s == pytest.approx(0.2)
    assert found.hosts_seen == 2 and not found.approximated


def test_an_exchange_is_as_long_as_it_was_when_alone() -> None:
    on_h0, on_h1 = pair("a", 10e6, 200, 100, fastest_ns=184e6)
    found = only(record("h0", on_h0), record("h1", on_h1))
    assert found.alone_s == pytest.approx(0.184)
    assert found.spec.model_mb == pytest.approx(10.5), "84 ms of the link"


def test_of_unequal_workers_the_slowest_counts() -> None:
    on_h0, _ = pair("a", 10e6, 200, 100)
    _, on_h1 = pair("a", 10e6, 200, 110)
    assert only(record("h0", on_h0), record("h1", on_h1)).spec.compute_s == pytest.approx(0.11)


def test_a_ring_is_found_from_host_to_host_and_closed_where_one_is_unheard_of() -> None:
    steps = (("h0", "h2"), ("h2", "h1"), ("h1", "h0"))
    parts = [
        record(source, job("a", flow(source, target, 4e6), iteration_ms=200, computing_ms=100))
        for source, target in steps
    ]
    assert only(*parts).spec.workers == ("h0", "h2", "h1")
    assert only(*parts).spec.model_mb == pytest.approx(3.0)
    assert only(*parts[:2]).spec.workers == ("h0", "h2", "h1") and only(*parts[:2]).hosts_seen == 2
    assert only(parts[0]).spec.workers == ("h0", "h2"), "what is not known does not count"


def test_flows_of_another_shape_are_said_to_be() -> None:
    sizes = [flow("h0", "h1", 2e6), flow("h0", "h2", 2e6)]
    found = only(record("h0", job("a", *sizes, iteration_ms=200, computing_ms=100)))
    assert found.approximated and found.spec.workers == ("h0", "h1", "h2")
    assert found.spec.model_mb == pytest.approx(3.0), "4 MB a host"


def test_a_parameter_server_has_its_workers_computing_and_not_its_own() -> None:
    workers = [
        record(host, job("a", flow(host, "h2", 6e6, "push"), iteration_ms=300, computing_ms=100))
        for host in ("h0", "h1")
    ]
    pulls = [flow("h2", host, 6e6, "pull") for host in ("h0", "h1")]
    server = record("h2", job("a", *pulls, iteration_ms=300, computing_ms=250))
    found = only(*workers, server)
    assert found.spec.pattern is Pattern.PS and found.spec.servers == ("h2",) and found.spec.workers == ("h0", "h1")
    assert found.spec.compute_s == pytest.approx(0.1) and found.spec.model_mb == pytest.approx(6.0)
    assert found.alone_s == pytest.approx(0.196), "the server's link carries both workers' bytes"
    assert cluster(server).left_out.keys() == {"a"}


def test_overlap_bursts_and_jitter_come_from_what_was_seen() -> None:
    on_h0, on_h1 = pair("a", 10e6, 200, 60, beside_ns=40e6, bursts=4, jitter=0.03)
    spec = only(record("h0", on_h0), record("h1", on_h1)).spec
    assert (spec.compute_s, spec.overlap, spec.bursts, spec.jitter) == pytest.approx((0.1, 0.4, 4, 0.03))


def test_jobs_that_are_not_known_well_enough_are_named_with_the_reason() -> None:
    no_size = job("small", iteration_ms=10, computing_ms=5)
    unsampled = job("new", flow("h0", "h1", 1e6), iteration_ms=10, computing_ms=None)
    found = cluster(record("h0", no_size, unsampled))
    assert not found.jobs and found.left_out.keys() == {"small", "new"}


def test_the_newer_record_of_a_host_counts_and_two_topologies_are_refused() -> None:
    old, _ = pair("a", 10e6, 200, 100)
    new, on_h1 = pair("a", 10e6, 200, 120)
    found = only(record("h0", new, time_s=2e9), record("h1", on_h1), record("h0", old))
    assert found.spec.compute_s == pytest.approx(0.12)
    with pytest.raises(InputError, match="h1: the topology"):
        cluster(record("h0", old), record("h1", on_h1, topology=star(3, 2.0)))


def test_jobs_are_called_by_their_name_and_by_their_tenant_where_two_have_one() -> None:
    jobs = [pair(name, 10e6, 200, 100)[0] for name in ("1000/bert", "1001/bert", "1001/gpt")]
    assert [one.spec.name for one in cluster(record("h0", *jobs)).jobs] == ["1000/bert", "1001/bert", "gpt"]
