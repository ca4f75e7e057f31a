"""Every metric of both daemons, by name: the dashboard, the alerts and the daemons agree here.

Law: a label's values come from the daemon's configuration or code, never from a peer: each value is a time series for
as long as the process lives. So `reason` is one of a fixed few, `link` one of the topology's, and a flow that has ended
is forgotten.

A metric that was renamed is exported under its old name, too, for one release.
"""

from collections.abc import Iterable
from contextlib import suppress

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, Metric
from prometheus_client.metrics import MetricWrapperBase
from prometheus_client.registry import Collector

from paceline import __version__

# From a tenth of a tenth of a slot up to several slots of 60 ms: below is fast enough, above is missed anyhow.
LATENCY_BUCKETS_S = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.03, 0.06, 0.12, 0.25)

# New name → old name, which goes with the next release. docs/operations.md has the same list.
OLD_METRIC_NAMES = {
    "paceline_switch_shared_links": "paceline_switch_contested_links",
    "paceline_switch_silent_parents": "paceline_switch_stale_parents",
    "paceline_switch_answer_latency_seconds": "paceline_switch_merge_seconds",
    "paceline_host_enforcement_errors": "paceline_host_troubles",
    "paceline_host_switch_answer_latency_seconds": "paceline_host_negotiation_seconds",
    "paceline_host_switch_answer_age_seconds": "paceline_host_switch_word_age_seconds",
}


class SwitchInstruments:
    """What switchd counts."""

    def __init__(self, registry: CollectorRegistry) -> None:
        def name(text: str) -> str:
            return f"paceline_switch_{text}"

        self.messages = Counter(name("messages"), "Messages received from hosts and switches", registry=registry)
        self.refusals = Counter(name("refusals"), "Plans refused", ["reason"], registry=registry)
        self.bad_peers = Counter(name("bad_peers"), "Messages or streams refused", ["reason"], registry=registry)
        self.link_load = Gauge(
            name("link_load_ratio"),
            "Promised rate and cross traffic ÷ capacity, current slot",
            ["link"],
            registry=registry,
        )
        self.link_cross_traffic = Gauge(
            name("link_cross_traffic_ratio"),
            "What flows of no job send ÷ capacity, as the link's host says",
            ["link"],
            registry=registry,
        )
        self.answer_latency = Histogram(
            name("answer_latency_seconds"),
            "From a host's report to its answer, with the answers of the other switches on the paths",
            buckets=LATENCY_BUCKETS_S,
            registry=registry,
        )
        self.silent_parents = Gauge(
            name("silent_parents"), "Parent switches that are not connected or do not answer", registry=registry
        )
        self.shared_links = Gauge(
            name("shared_links"), "Links shared with cross traffic, where jobs do not take turns", registry=registry
        )
        self.hosts = Gauge(name("hosts"), "Hosts with a stream", registry=registry)
        self.split_jobs = Gauge(
            name("split_jobs"), "Jobs that look like parts of one, known by several names", registry=registry
        )
        self.certificate_expiry = _certificate_expiry(name("certificate_expiry_timestamp_seconds"), registry)
        self.build_info = _build_info(name("build_info"), registry)
        export_old_names(vars(self).values(), registry)


class HostInstruments:
    """What hostd counts."""

    def __init__(self, registry: CollectorRegistry) -> None:
        def name(text: str) -> str:
            return f"paceline_host_{text}"

        flow = ["job", "flow"]
        self.decision = Histogram(
            name("decision_seconds"),
            "From an event to the rates that follow from it",
            buckets=LATENCY_BUCKETS_S,
            registry=registry,
        )
        self.requested_rate = Gauge(name("requested_rate_bps"), "Rate decided on", flow, registry=registry)
        self.kernel_rate = Gauge(name("kernel_rate_bps"), "Rate read back from the kernel", flow, registry=registry)
        self.kernel_disagrees = Gauge(
            name("kernel_disagrees"),
            "1 while the kernel holds the flow to another rate than decided",
            flow,
            registry=registry,
        )
        self.achieved_rate = Gauge(name("achieved_rate_bps"), "Rate the flow achieved", flow, registry=registry)
        self.flow_size = Gauge(name("flow_size_bytes"), "What the flow sends in an iteration", flow, registry=registry)
        self.iteration = Gauge(name("iteration_seconds"), "How long an iteration takes", ["job"], registry=registry)
        self.jobs = Gauge(name("jobs"), "Jobs seen, whether paced or only watched", ["phase"], registry=registry)
        self.slowdown = Gauge(
            name("slowdown_ratio"),
            "How many times as slow as alone, of a paced job",
            ["job"],
            registry=registry,
        )
        self.estimated_slowdown = Gauge(
            name("estimated_slowdown_ratio"),
            "How many times as slow as alone, by the mean of its last iterations; of every job, in every mode",
            ["job"],
            registry=registry,
        )
        self.unpaced_jobs = Gauge(
            name("unpaced_jobs"),
            "Jobs that are not paced, or not all of them, by reason; one with two reasons counts twice",
            ["reason"],
            registry=registry,
        )
        self.cross_traffic_connections = Gauge(
            name("cross_traffic_connections"),
            "Connections of no job that have a part of a device's link, while it is divided between them and jobs",
            ["device"],
            registry=registry,
        )
        self.cross_traffic = Gauge(
            name("cross_traffic_bps"), "What flows of no job send over a device", ["device"], registry=registry
        )
        self.cross_traffic_load = Gauge(
            name("cross_traffic_load_bps"),
            "As which load that counts in the switch's table",
            ["device"],
            registry=registry,
        )
        self.mode = Gauge(name("mode"), "1 for the mode that hostd is in", ["mode"], registry=registry)
        self.backend = Gauge(name("backend"), "1 for the backend that is used", ["backend"], registry=registry)
        self.released = Gauge(
            name("released"), "1 while every limit is lifted by an operator's order", registry=registry
        )
        self.released_jobs = Gauge(
            name("released_jobs"), "Jobs whose limits are lifted by an operator's order", registry=registry
        )
        self.certificate_expiry = _certificate_expiry(name("certificate_expiry_timestamp_seconds"), registry)
        self.build_info = _build_info(name("build_info"), registry)
        self.missed_slots = Counter(name("missed_slots"), "Slots that began without a decision", registry=registry)
        self.fail_opens = Counter(name("fail_opens"), "Times all limits were lifted for safety", registry=registry)
        self.enforcement_errors = Counter(
            name("enforcement_errors"), "Limits that could not be enforced", ["reason"], registry=registry
        )
        self.registrations_refused = Counter(
            name("registrations_refused"), "Jobs' processes that could not register", ["reason"], registry=registry
        )
        self.bad_numbers = Counter(
            name("bad_numbers"), "Readings and claims of jobs with numbers that cannot be", registry=registry
        )
        self.switch_answer_latency = Histogram(
            name("switch_answer_latency_seconds"),
            "From a report to the switch's answer",
            buckets=LATENCY_BUCKETS_S,
            registry=registry,
        )
        self.switch_answer_age = Gauge(
            name("switch_answer_age_seconds"),
            "Time since the switch's last answer; 0 while no flow has anything to send",
            registry=registry,
        )
        self.switch_silent = Gauge(
            name("switch_silent"), "1 while the switch is silent and this host decides alone", registry=registry
        )
        export_old_names(vars(self).values(), registry)

    def forget_flow(self, job: str, flow: str) -> None:
        """A flow has ended; its series end with it."""
        self.forget_kernel_rate(job, flow)
        for gauge in (self.requested_rate, self.achieved_rate, self.flow_size):
            with suppress(KeyError):  # older versions of the client raise it for a series that never was
                gauge.remove(job, flow)

    def forget_kernel_rate(self, job: str, flow: str) -> None:
        """The kernel holds the flow to no rate."""
        for gauge in (self.kernel_rate, self.kernel_disagrees):
            with suppress(KeyError):
                gauge.remove(job, flow)

    def forget_job(self, job: str) -> None:
        self.forget_slowdown(job)
        for gauge in (self.iteration, self.estimated_slowdown):
            with suppress(KeyError):
                gauge.remove(job)

    def forget_slowdown(self, job: str) -> None:
        """The job is not paced, and how fast it would be alone is not known."""
        with suppress(KeyError):
            self.slowdown.remove(job)


def _certificate_expiry(name: str, registry: CollectorRegistry) -> Gauge:
    return Gauge(name, "When it expires, in seconds since 1970", ["certificate"], registry=registry)


def _build_info(name: str, registry: CollectorRegistry) -> Gauge:
    info = Gauge(name, "1; the label has the version", ["version"], registry=registry)
    info.labels(__version__).set(1)
    return info


def export_old_names(metrics: Iterable[MetricWrapperBase], registry: CollectorRegistry) -> None:
    for metric in metrics:
        [family] = metric.describe()
        if family.name in OLD_METRIC_NAMES:
            registry.register(_OldName(metric, OLD_METRIC_NAMES[family.name]))


class _OldName(Collector):
    """A metric's values under another name."""

    def __init__(self, metric: MetricWrapperBase, old_name: str) -> None:
        self._metric, self._old_name = metric, old_name

    def describe(self) -> Iterable[Metric]:
        return map(self._renamed, self._metric.describe())

    def collect(self) -> Iterable[Metric]:
        return map(self._renamed, self._metric.collect())

    def _renamed(self, family: Metric) -> Metric:
        help_text = f"{family.documentation} (deprecated: use {family.name})"
        renamed = Metric(self._old_name, help_text, family.type)
        for sample in family.samples:
            renamed.samples.append(sample._replace(name=self._old_name + sample.name.removeprefix(family.name)))
        return renamed
