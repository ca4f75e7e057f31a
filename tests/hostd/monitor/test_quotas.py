"""What a tenant may have of its host: whatever it does, others have room."""

import random

from hostd.monitor.quotas import FLOWS_OF_HOST, QuotaLimits, Quotas
from paceline.flowcore.messages.events import JobJoined, JobLeft, Tick
from paceline.flowcore.model.patterns import FlowId, FlowSpec, Role
from paceline.flowcore.switch.claims import JOB_MEMORY_SLOTS

SLOT_NS = 60_000_000
MEMORY_NS = JOB_MEMORY_SLOTS * SLOT_NS


def joins(job: str, *targets: int) -> JobJoined:
    flows = [FlowId(job, "h0", f"h{target}", Role.RING) for target in targets]
    return JobJoined(job, tuple(FlowSpec(flow, 1e6, (), 0.0) for flow in flows))


def test_so_many_jobs_and_then_the_next_one_waits() -> None:
    quotas = Quotas(QuotaLimits(jobs=2), SLOT_NS)
    assert quotas.admit(joins("1/a", 1), 0) and quotas.admit(joins("1/b", 1), 0)
    assert not quotas.admit(joins("1/c", 1), 0) and quotas.admit(joins("2/a", 1), 0)
    assert quotas.admit(joins("1/a", 1, 2), 0), "it joins again"
    assert quotas.refused == {"1/c": "its user has 2 jobs that are paced here, and may have 2"}
    present = {"1/a", "1/b", "1/c", "2/a"}
    assert list(quotas.waiting(present, 0)) == []
    assert quotas.admit(JobLeft("1/a"), 1) and list(quotas.waiting(present, 1)) == ["1/c"]
    assert quotas.admit(joins("1/c", 1), 1) and quotas.refused == {}
    quotas.admit(joins("1/d", 1), 1)
    assert list(quotas.waiting(present, 1)) == [] and quotas.refused == {}, "1/d has gone"
    assert quotas.admit(Tick(), 1)


def test_flows_count_for_as_long_as_the_switch_remembers_them() -> None:
    """Names that come and go would use up the host's share as well."""
    quotas = Quotas(QuotaLimits(flows=4), SLOT_NS)
    for number in range(4):
        assert quotas.admit(joins(f"1/{number}", 1), 0)
        quotas.admit(JobLeft(f"1/{number}"), 0)
    assert not quotas.admit(joins("1/x", 1), MEMORY_NS)
    assert quotas.refused["1/x"] == "its user's other jobs have 4 flows here, it has 1: more than 4"
    assert quotas.admit(joins("2/x", 1, 2, 3, 4), MEMORY_NS)
    assert quotas.admit(joins("1/x", 1), MEMORY_NS + 1)


def test_a_job_that_sends_elsewhere_each_time() -> None:
    quotas = Quotas(QuotaLimits(flows=4), SLOT_NS)
    assert all(quotas.admit(joins("1/a", target), 0) for target in range(4))
    assert not quotas.admit(joins("1/a", 4), 0) and "1/a" in quotas.refused


def test_no_history_exceeds_them() -> None:
    """Beside a crowd of one user another one always has room, and the host never names more than a switch takes."""
    limits = QuotaLimits(jobs=5, flows=20)
    quotas, choice, now_ns = Quotas(limits, SLOT_NS), random.Random(3), 0
    named: dict[FlowId, tuple[str, int | None]] = {}  # flow → its tenant, and when its job left
    for _ in range(1000):
        now_ns += choice.randrange(MEMORY_NS // 100)
        job = f"{choice.randrange(1, 40)}/{choice.randrange(30)}"
        if choice.random() < 0.3:
            quotas.admit(JobLeft(job), now_ns)
            named = {flow: (tenant, now_ns if flow.job == job and left is None else left)
                     for flow, (tenant, left) in named.items()}  # fmt: skip
        elif quotas.admit(event := joins(job, *choice.sample(range(30), choice.randrange(1, 8))), now_ns):
            named |= {spec.flow: (job.partition("/")[0], None) for spec in event.flows}
            named = {flow: (tenant, None if flow.job == job else left) for flow, (tenant, left) in named.items()}
        else:
            named = {flow: (tenant, now_ns if flow.job == job and left is None else left)
                     for flow, (tenant, left) in named.items()}  # fmt: skip
        named = {flow: at for flow, at in named.items() if at[1] is None or now_ns - at[1] <= MEMORY_NS}
        of_tenant = [flow for flow, (tenant, _) in named.items() if tenant == job.partition("/")[0]]
        assert len(of_tenant) <= limits.flows and len(named) <= FLOWS_OF_HOST
        assert len({flow.job for flow in of_tenant if named[flow][1] is None}) <= limits.jobs
    assert len(named) > FLOWS_OF_HOST // 2, "it was full enough to tell"
