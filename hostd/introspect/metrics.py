"""What hostd tells Prometheus once a second. What happens often is counted where it happens."""

from collections import Counter
from typing import TYPE_CHECKING

from hostd.enforce.kernel_check import agrees
from hostd.enforce.trouble_kinds import KINDS, OTHER
from hostd.monitor.flow_view import PHASES, flows_of, iteration_ns_of, phase_of
from paceline.flowcore.model.patterns import FlowId

if TYPE_CHECKING:
    from hostd.daemon import HostDaemon


class Publisher:
    """Knows what it published last, so that what has gone is forgotten and what is counted elsewhere grows here."""

    def __init__(self, daemon: "HostDaemon") -> None:
        self._daemon, self._instruments = daemon, daemon.instruments
        self._fail_opens = 0
        self._troubles: Counter[str] = Counter()
        self._flows: set[FlowId] = set()
        self._jobs: set[str] = set()
        for kind in (*KINDS, OTHER):  # from 0 on, or the first one is no increase
            self._instruments.troubles.labels(kind)

    def publish(self) -> None:
        daemon, instruments = self._daemon, self._instruments
        instruments.switch_silent.set(daemon.agent.isolated)
        instruments.fail_opens.inc(daemon.enforcer.fail_opens - self._fail_opens)
        self._fail_opens = daemon.enforcer.fail_opens
        for kind, count in (daemon.enforcer.trouble_kinds - self._troubles).items():
            instruments.troubles.labels(kind).inc(count)
        self._troubles = Counter(daemon.enforcer.trouble_kinds)
        instruments.switch_word_age.set(word_age_ns(daemon) / 1e9)
        self._publish_watched()
        self._publish_decided()

    def _publish_watched(self) -> None:
        instruments, jobs = self._instruments, self._daemon.monitor.jobs
        for phase in PHASES:
            instruments.jobs.labels(phase).set(sum(phase_of(job) == phase for job in jobs.values()))
        for name, job in jobs.items():
            if (iteration_ns := iteration_ns_of(job)) is not None:
                instruments.iteration.labels(name).set(iteration_ns / 1e9)
        for gone in self._jobs - jobs.keys():
            instruments.forget_job(gone)
        seen = {one.flow: one for job in jobs.values() for one in flows_of(job)}
        for flow in self._flows - seen.keys():
            instruments.forget_flow(flow.job, str(flow))
        for flow, one in seen.items():
            instruments.achieved_rate.labels(flow.job, str(flow)).set(self._daemon.achieved.bps(flow))
            if one.size_bytes is not None:
                instruments.flow_size.labels(flow.job, str(flow)).set(one.size_bytes)
        self._jobs, self._flows = set(jobs), set(seen)

    def _publish_decided(self) -> None:
        instruments, agent, enforcer = self._instruments, self._daemon.agent, self._daemon.enforcer
        kernel = enforcer.read_back()
        enforced = enforcer.backend.name != "observe"
        for flow, decided in agent.flows.items():
            names = (flow.job, str(flow))
            instruments.requested_rate.labels(*names).set(decided.limit.rate_bps)
            found = kernel.get(flow)
            if found is None or found.rate_bps == 0.0:  # it has no sockets that could be held to anything
                instruments.forget_kernel_rate(*names)
                continue
            instruments.kernel_rate.labels(*names).set(found.rate_bps)
            differs = enforced and not agrees(decided.limit, found.rate_bps, agent.nic_bps)
            instruments.kernel_disagrees.labels(*names).set(differs)


def word_age_ns(daemon: "HostDaemon") -> int:
    """Of the switch's last word; 0 while nothing has to be asked."""
    waiting = [flow.ready_ns for flow in daemon.agent.live_flows()]
    if daemon.config.switch is None or not waiting:
        return 0
    return daemon.decider.negotiation.age_ns(min(waiting), daemon.clock.now_ns())
