"""Whose job it is: no name makes it another user's."""

import pytest

from paceline.flowcore.model.job_names import flow_log_fields, job_of, log_fields, name_of, readable, tenant_of
from paceline.flowcore.model.patterns import FlowId, Role
from paceline.wire.flow_names import flow_of, text_of


@pytest.mark.parametrize("name", ["bert", "1001/bert", "/", "a/ring/h0>h1", "h0:29500"])
def test_tenant_and_name_come_back_also_from_the_wire(name: str) -> None:
    job = job_of("1000", name)
    assert (tenant_of(job), name_of(job)) == ("1000", name)
    flow = FlowId(job, "h0", "h1", Role.RING)
    assert flow_of(text_of(flow)) == flow


def test_a_host_of_an_older_release_sends_the_name_alone() -> None:
    assert (tenant_of("bert"), name_of("bert")) == ("", "bert")
    assert log_fields("bert") == {"job": "bert"}


def test_a_name_alone_where_it_is_enough() -> None:
    jobs = ["1/bert", "2/bert", "1/llama", "old"]
    assert list(readable(jobs).values()) == ["1/bert", "2/bert", "llama", "old"]


def test_in_the_log_the_name_is_readable() -> None:
    flow = FlowId("1000/bert", "h0", "h1", Role.RING)
    assert flow_log_fields(flow) == {"job": "bert", "tenant": "1000", "flow": "bert/ring/h0>h1"}
