"""Every metric of both daemons, by name: the dashboard, the alerts and the daemons agree here.

Law: a label's values come from our own configuration or code, never from a peer: each value is a time series for as
long as the process lives. So `reason` is one of a fixed few, `link` one of the topology's, and a flow that has ended
is forgotten.
"""

from contextlib import suppress

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

# From a tenth of a tenth of a slot up to several slots of 60 ms: below is fast enough, above is missed anyhow.
LATENCY_BUCKETS_S = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.03, 0.06, 0.12, 0.25)


class SwitchInstruments:
    """What switchd counts."""

    def __init__(self, registry: CollectorRegistry) -> None:
        def name(text: str) -> str:
            return f"paceline_switch_{text}"

        self.messages = Counter(name("messages"), "Messages received from hosts and switches", registry=registry)
        self.refusals = Counter(name("refusals"), "Plans refused", ["reason"], registry=registry)
        self.bad_peers = Counter(name("bad_peers"), "Messages or streams turned away", ["reason"], registry=registry)
        self.link_load = Gauge(
            name("link_load_ratio"), "Promised rate ÷ capacity, current slot", ["link"], registry=registry
        )
        self.merge = Histogram(
            name("merge_seconds"),
            "From a host's message to its answer, parents' tables merged",
            buckets=LATENCY_BUCKETS_S,
            registry=registry,
        )
        self.stale_parents = Gauge(name("stale_parents"), "Parent switches that are silent", registry=registry)
        self.contested_links = Gauge(
            name("contested_links"), "Links where others than ours send: nobody waits for a turn", registry=registry
        )
        self.hosts = Gauge(name("hosts"), "Hosts with a stream", registry=registry)


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
        self.achieved_rate = Gauge(name("achieved_rate_bps"), "Rate the flow really had", flow, registry=registry)
        self.flow_size = Gauge(name("flow_size_bytes"), "What the flow sends in an iteration", flow, registry=registry)
        self.iteration = Gauge(name("iteration_seconds"), "How long an iteration takes", ["job"], registry=registry)
        self.jobs = Gauge(name("jobs"), "Jobs seen, whether paced or only watched", ["phase"], registry=registry)
        self.missed_slots = Counter(name("missed_slots"), "Slots that began without a decision", registry=registry)
        self.fail_opens = Counter(name("fail_opens"), "Times all limits were lifted for safety", registry=registry)
        self.troubles = Counter(name("troubles"), "What could not be enforced", ["reason"], registry=registry)
        self.negotiation = Histogram(
            name("negotiation_seconds"),
            "From a report to the switch's answer",
            buckets=LATENCY_BUCKETS_S,
            registry=registry,
        )
        self.switch_word_age = Gauge(
            name("switch_word_age_seconds"),
            "How old the switch's last word is; 0 while nobody has anything to send",
            registry=registry,
        )
        self.switch_silent = Gauge(
            name("switch_silent"), "1 while the switch is silent and this host decides alone", registry=registry
        )

    def forget_flow(self, job: str, flow: str) -> None:
        """A flow has ended; its series end with it."""
        self.forget_kernel_rate(job, flow)
        for gauge in (self.requested_rate, self.achieved_rate, self.flow_size):
            with suppress(KeyError):  # older clients raise it for a series that never was
                gauge.remove(job, flow)

    def forget_kernel_rate(self, job: str, flow: str) -> None:
        """The kernel has none for it."""
        for gauge in (self.kernel_rate, self.kernel_disagrees):
            with suppress(KeyError):
                gauge.remove(job, flow)

    def forget_job(self, job: str) -> None:
        with suppress(KeyError):
            self.iteration.remove(job)
