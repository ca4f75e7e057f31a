"""What hostd tells Prometheus once a second. What happens often is counted where it happens."""

from collections import Counter
from collections.abc import Iterable, Mapping

from hostd.enforce.base import agrees
from hostd.enforce.errors import ErrorKind
from hostd.introspect.estimate import estimate_of
from hostd.introspect.host_view import HostView
from hostd.introspect.why_unpaced import Reason, Unpaced
from hostd.monitor.flow_view import PHASES, flows_of, iteration_ns_of, phase_of
from hostd.monitor.users import JobNames
from paceline.flowcore.model.patterns import FlowId
from paceline.service.instruments import HostInstruments

Labels = tuple[str, str]  # job and flow, as people call them


def _labels(flow: FlowId, names: JobNames) -> Labels:
    return names.shown(flow.job), names.shown_flow(flow)


class HostMetrics:
    """Knows what it was told last, so that what has gone is forgotten and what is counted elsewhere grows here."""

    def __init__(self, instruments: HostInstruments) -> None:
        self._instruments = instruments
        self._fail_opens = 0
        self._errors: Counter[ErrorKind] = Counter()
        self._registrations_refused: Counter[str] = Counter()
        self._bad_readings = 0
        self._jobs: set[str] = set()  # as they were shown
        self._watched: set[Labels] = set()
        self._decided: set[Labels] = set()
        self._has_sockets: dict[FlowId, bool] = {}
        for kind in ErrorKind:  # from 0 on, or the first one is no increase
            self._instruments.enforcement_errors.labels(kind.value)
        for reason in Reason:
            self._instruments.unpaced_jobs.labels(reason.value)

    def update(self, view: HostView, unpaced: Mapping[str, Iterable[Unpaced]] | None = None) -> None:
        instruments, enforcer = self._instruments, view.enforcer
        instruments.switch_silent.set(view.agent.isolated and view.switch.address is not None)
        instruments.fail_opens.inc(enforcer.fail_opens - self._fail_opens)
        self._fail_opens = enforcer.fail_opens
        for kind, count in (enforcer.errors.by_kind - self._errors).items():
            instruments.enforcement_errors.labels(kind.value).inc(count)
        self._errors = Counter(enforcer.errors.by_kind)
        for reason, count in view.registrations_refused.items():
            instruments.registrations_refused.labels(reason).inc(count - self._registrations_refused[reason])
        self._registrations_refused = Counter(view.registrations_refused)
        instruments.bad_numbers.inc(view.bad_readings - self._bad_readings)
        self._bad_readings = view.bad_readings
        instruments.switch_answer_age.set(view.answer_age_ns / 1e9)
        names = view.names
        self._forget(view, names)
        self._update_watched(view, names)
        self._update_decided(view, names)
        self._update_state(view)
        reasons = Counter(reason for job in (unpaced or {}).values() for reason in {one.reason for one in job})
        for reason in Reason:
            instruments.unpaced_jobs.labels(reason.value).set(reasons[reason])

    def _update_state(self, view: HostView) -> None:
        instruments = self._instruments
        for mode in ("observe", "advise", "enforce"):
            instruments.mode.labels(mode).set(view.mode == mode)
        for backend in ("htb", "pacing", "throttle", "gate", "observe"):
            instruments.backend.labels(backend).set(view.enforcer.backend.name == backend)
        for gauge in (
            instruments.cross_traffic_connections,
            instruments.cross_traffic,
            instruments.cross_traffic_load,
        ):
            gauge.clear()  # a device may have gone, or have no classes any more
        for device, others in view.enforcer.backend.others().items():
            if others.connections:
                instruments.cross_traffic_connections.labels(device).set(others.connections)
            instruments.cross_traffic.labels(device).set(others.sent_bps)
            instruments.cross_traffic_load.labels(device).set(others.load_bps)
        instruments.released.set(None in view.released)
        instruments.released_jobs.set(len(view.released.keys() - {None}))

    def _forget(self, view: HostView, names: JobNames) -> None:
        """What has gone, is decided no longer, or is shown by another name."""
        jobs = set(map(names.shown, view.jobs))
        watched = {_labels(one.flow, names) for job in view.jobs.values() for one in flows_of(job)}
        decided = {_labels(flow, names) for flow in view.agent.flows}
        for gone in self._jobs - jobs:
            self._instruments.forget_job(gone)
        for labels in (self._watched - watched) | (self._decided - decided):
            self._instruments.forget_flow(*labels)
        self._jobs, self._watched, self._decided = jobs, watched, decided

    def _update_watched(self, view: HostView, names: JobNames) -> None:
        instruments, jobs = self._instruments, view.jobs
        for phase in PHASES:
            instruments.jobs.labels(phase).set(sum(phase_of(job) == phase for job in jobs.values()))
        for key, job in jobs.items():
            name = names.shown(key)
            if (iteration_ns := iteration_ns_of(job)) is not None:
                instruments.iteration.labels(name).set(iteration_ns / 1e9)
            if (joined := view.agent.jobs.get(key)) is not None:
                instruments.slowdown.labels(name).set(joined.progress.slowdown)
            else:
                instruments.forget_slowdown(name)
            if (estimate := estimate_of(view, job)) is not None:
                instruments.estimated_slowdown.labels(name).set(estimate.slowdown)
        seen = {one.flow: one for job in jobs.values() for one in flows_of(job)}
        for flow, one in seen.items():
            labels = _labels(flow, names)
            instruments.achieved_rate.labels(*labels).set(view.throughput.bps(flow))
            if one.size_bytes is not None:
                instruments.flow_size.labels(*labels).set(one.size_bytes)
        self._has_sockets = {flow: one.sockets > 0 for flow, one in seen.items()}

    def _update_decided(self, view: HostView, names: JobNames) -> None:
        instruments, agent, enforcer = self._instruments, view.agent, view.enforcer
        kernel = enforcer.read_back()
        enforced = enforcer.backend.name != "observe"
        for flow, decided in agent.flows.items():
            labels = _labels(flow, names)
            instruments.requested_rate.labels(*labels).set(decided.limit.rate_bps)
            found = kernel.get(flow)
            if found is None or found.rate_bps == 0.0:
                instruments.forget_kernel_rate(*labels)
                if enforced and self._has_sockets.get(
                    flow
                ):  # and the kernel holds them to nothing: a foreign qdisc, say
                    instruments.kernel_disagrees.labels(*labels).set(1)
                continue
            instruments.kernel_rate.labels(*labels).set(found.rate_bps)
            differs = enforced and not agrees(decided.limit, found.rate_bps, agent.nic_bps)
            instruments.kernel_disagrees.labels(*labels).set(differs)
