"""What Prometheus is told of jobs that are paced and of those that are only watched; of those that left, nothing."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from hostd.enforce.enforcer import Enforcer
from hostd.enforce.errors import ErrorKind
from hostd.enforce.settings import EnforcementSettings
from hostd.introspect.durations import Durations
from hostd.introspect.host_view import HostView, SwitchView
from hostd.introspect.metrics import HostMetrics
from hostd.introspect.status import status
from hostd.introspect.why_unpaced import Reason, Unpaced
from hostd.monitor.job_tracker import JobTracker
from hostd.monitor.throughput import Throughput
from paceline.flowcore.demand.facts import JobFacts
from paceline.flowcore.host.agent import HostAgent
from paceline.flowcore.messages.events import FlowReady, JobJoined
from paceline.flowcore.model.patterns import FlowId, FlowSpec, Role
from paceline.flowcore.model.slots import SlotClock
from paceline.flowcore.model.topology import star_of
from paceline.flowcore.policy import POLICIES
from paceline.service.instruments import HostInstruments

ENDS = (Role.RING, "h1")
SLOT_NS = 60_000_000


def watched(name: str) -> JobTracker:
    job = JobTracker(name, "h0")
    job.demand.learner.size, job.demand.live = {ENDS: 8e6}, {ENDS}
    job.facts = JobFacts(4, True, False, 2, {ENDS: 3e6}, {})
    return job


class Published:
    """Metrics and what they are told; `at` is what a scrape would find."""

    def __init__(self, directory: Path) -> None:
        self.topology = star_of(("h0", "h1"), 1.0)
        self.registry = CollectorRegistry()
        self.instruments = HostInstruments(self.registry)
        self.now_ns = 0
        self.enforcer = Enforcer(EnforcementSettings(False, directory / "lease.json", 1e9), SLOT_NS)
        self.agent = HostAgent("h0", self.topology, SlotClock(SLOT_NS, 10), POLICIES["paceline"](), None)
        self.jobs = {name: watched(name) for name in ("mine", "theirs")}
        self.throughput = Throughput()
        self._metrics = HostMetrics(self.instruments)

    def update(self, unpaced: dict[str, list[Unpaced]] | None = None, **other: Any) -> None:
        self._metrics.update(replace(self.view(), **other), unpaced)

    def view(self) -> HostView:
        return HostView(
            name="h0",
            mode="advise",
            policy="paceline",
            now_ns=self.now_ns,
            topology=self.topology,
            agent=self.agent,
            enforcer=self.enforcer,
            switch=SwitchView("sw", "127.0.0.1:7470"),
            jobs=self.jobs,
            invisible={},
            throughput=self.throughput,
            decisions=Durations(),
            missed_slots=0,
            control_refused=0,
        )

    def at(self, name: str, **labels: str) -> float | None:
        return self.registry.get_sample_value(f"paceline_host_{name}", labels)

    def of_flow(self, name: str, job: str) -> float | None:
        return self.at(name, job=job, flow=f"{job}/ring/h0>h1")


@pytest.fixture
def published(tmp_path: Path) -> Iterator[Published]:
    made = Published(tmp_path)
    yield made
    made.enforcer.close()


def test_a_job_that_is_only_watched_has_its_size_and_its_rate(published: Published) -> None:
    flow = FlowId("mine", "h0", "h1", Role.RING)
    published.agent.handle(JobJoined("mine", (FlowSpec(flow, 8e6, (), 0.0),)), 0)
    published.throughput.sample([(flow._replace(job="theirs"), 0, 0.0)])
    published.throughput.sample([(flow._replace(job="theirs"), 1_000_000, 1000.0)])
    published.update()
    assert published.of_flow("requested_rate_bps", "mine") is not None
    assert published.of_flow("requested_rate_bps", "theirs") is None
    assert published.of_flow("achieved_rate_bps", "theirs") == pytest.approx(8e6)
    assert [published.of_flow("flow_size_bytes", job) for job in ("mine", "theirs")] == [8e6, 8e6]
    assert [published.at("jobs", phase=phase) for phase in ("learning", "computing", "sending")] == [0, 0, 2]


def test_a_watched_job_is_compared_with_alone(published: Published) -> None:
    job = published.jobs["theirs"]
    for iteration in range(12):  # 36 ms of computing, 100 of sending; 8 MB take 64 alone
        began_ns = (iteration + 1) * 136_000_000
        for announced_ns, outstanding in ((began_ns - 100_000_000, False), (began_ns + 36_000_000, True)):
            facts = JobFacts(iteration, True, False, 2, {}, {}, outstanding=outstanding, began_ns=began_ns)
            job.timing.observe(facts._replace(announced_ns=announced_ns, completed_ns=began_ns), began_ns)
    published.update(mode="observe")
    assert published.at("slowdown_ratio", job="theirs") is None
    assert published.at("estimated_slowdown_ratio", job="theirs") == pytest.approx(136 / 100)
    assert published.at("estimated_slowdown_ratio", job="mine") is None, "it was not seen to end iterations"
    [_, theirs] = status(published.view())["jobs"]  # type: ignore[misc]
    assert (theirs["estimated_slowdown"], theirs["estimated_alone_ms"]) == (1.36, 100.0)
    del published.jobs["theirs"]
    published.update(mode="observe")
    assert published.at("estimated_slowdown_ratio", job="theirs") is None


def test_what_has_left_leaves_no_series(published: Published) -> None:
    published.instruments.iteration.labels("theirs").set(1.0)
    published.update()
    del published.jobs["theirs"]
    published.update()
    assert published.of_flow("achieved_rate_bps", "theirs") is None
    assert published.at("iteration_seconds", job="theirs") is None
    assert published.of_flow("achieved_rate_bps", "mine") == 0.0


def test_errors_are_counted_by_kind_and_only_once(published: Published) -> None:
    assert published.at("enforcement_errors_total", reason="gone") == 0.0, "so that the first one is an increase"
    published.enforcer.errors.by_kind.update({ErrorKind.GONE: 2, ErrorKind.OTHER: 1})
    published.update()
    published.enforcer.errors.by_kind.update({ErrorKind.GONE: 1})
    published.update()
    assert [published.at("enforcement_errors_total", reason=kind) for kind in ("gone", "other")] == [3.0, 1.0]


def test_the_switchs_answer_grows_old_while_a_flow_has_bytes_to_send(published: Published) -> None:
    flow = FlowId("mine", "h0", "h1", Role.RING)
    published.agent.handle(JobJoined("mine", (FlowSpec(flow, 8e6, (), 0.0),)), 0)
    published.now_ns = 5_000_000_000
    published.update()
    assert published.at("switch_answer_age_seconds") == 0.0, "no flow has anything to send"
    published.agent.handle(FlowReady(flow, 0), published.now_ns)
    published.now_ns += 2_000_000_000
    published.update()
    assert published.at("switch_answer_age_seconds") == 2.0


def test_what_the_kernel_has_no_rate_for_has_no_series(published: Published) -> None:
    flow = FlowId("mine", "h0", "h1", Role.RING)
    published.agent.handle(JobJoined("mine", (FlowSpec(flow, 8e6, (), 0.0),)), 0)
    published.enforcer.attach(flow, ())
    published.update()
    assert published.of_flow("kernel_disagrees", "mine") == 0.0, "in advise mode nothing is set"
    assert published.of_flow("kernel_rate_bps", "mine") is not None
    published.enforcer.detach(flow)
    published.update()
    assert published.of_flow("kernel_rate_bps", "mine") is None


def test_mode_backend_release_and_reasons_each_have_a_series(published: Published) -> None:
    published.update()
    assert [published.at("mode", mode=mode) for mode in ("observe", "advise", "enforce")] == [0, 1, 0]
    assert [published.at("backend", backend=name) for name in ("htb", "pacing", "observe")] == [0, 0, 1]
    assert published.at("released") == published.at("released_jobs") == 0
    assert published.at("unpaced_jobs", reason="unknown_peer") == 0
    why = Unpaced(Reason.UNKNOWN_PEER, "it sends to 10.0.0.9")
    published.update({"mine": [why, why], "theirs": [why]}, released={None: "by uid 0", "mine": "by uid 0"})
    assert published.at("unpaced_jobs", reason="unknown_peer") == 2, "a job with two such addresses counts once"
    assert published.at("released") == published.at("released_jobs") == 1


def test_slowdown_is_known_of_jobs_that_are_paced(published: Published) -> None:
    flow = FlowId("mine", "h0", "h1", Role.RING)
    published.agent.handle(JobJoined("mine", (FlowSpec(flow, 8e6, (), 0.0),)), 0)
    published.update()
    assert published.at("slowdown_ratio", job="mine") == 1.0 and published.at("slowdown_ratio", job="theirs") is None
    published.jobs.pop("mine")
    published.update()
    assert published.at("slowdown_ratio", job="mine") is None
