"""Names are the contract: dashboards outlive releases."""

from prometheus_client import CollectorRegistry

from paceline.service.instruments import HostInstruments, SwitchInstruments


def test_ended_flows_leave_no_series() -> None:
    registry = CollectorRegistry()
    host = HostInstruments(registry)
    host.requested_rate.labels("bert", "h0-h1").set(5e8)
    assert registry.get_sample_value("paceline_host_requested_rate_bps", {"job": "bert", "flow": "h0-h1"}) == 5e8
    host.forget_flow("bert", "h0-h1")
    host.forget_flow("bert", "never was")
    host.forget_job("never was")
    assert registry.get_sample_value("paceline_host_requested_rate_bps", {"job": "bert", "flow": "h0-h1"}) is None


def test_promised_names() -> None:
    registry = CollectorRegistry()
    SwitchInstruments(registry)
    HostInstruments(registry)
    assert {family.name for family in registry.collect()} == {
        "paceline_switch_messages",
        "paceline_switch_refusals",
        "paceline_switch_bad_peers",
        "paceline_switch_link_load_ratio",
        "paceline_switch_merge_seconds",
        "paceline_switch_stale_parents",
        "paceline_switch_contested_links",
        "paceline_switch_hosts",
        "paceline_host_decision_seconds",
        "paceline_host_requested_rate_bps",
        "paceline_host_kernel_rate_bps",
        "paceline_host_kernel_disagrees",
        "paceline_host_achieved_rate_bps",
        "paceline_host_flow_size_bytes",
        "paceline_host_iteration_seconds",
        "paceline_host_jobs",
        "paceline_host_missed_slots",
        "paceline_host_fail_opens",
        "paceline_host_switch_silent",
        "paceline_host_switch_word_age_seconds",
        "paceline_host_negotiation_seconds",
        "paceline_host_troubles",
    }
