"""Names are the contract: dashboards outlive releases."""

from pathlib import Path

from prometheus_client import CollectorRegistry, generate_latest

from paceline.service.instruments import OLD_METRIC_NAMES, HostInstruments, SwitchInstruments

OPERATIONS = Path(__file__).parents[2] / "docs" / "operations.md"


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
    assert {family.name for family in registry.collect()} - set(OLD_METRIC_NAMES.values()) == {
        "paceline_switch_messages",
        "paceline_switch_refusals",
        "paceline_switch_bad_peers",
        "paceline_switch_link_load_ratio",
        "paceline_switch_link_cross_traffic_ratio",
        "paceline_switch_answer_latency_seconds",
        "paceline_switch_silent_parents",
        "paceline_switch_shared_links",
        "paceline_switch_hosts",
        "paceline_switch_split_jobs",
        "paceline_switch_certificate_expiry_timestamp_seconds",
        "paceline_switch_build_info",
        "paceline_host_slowdown_ratio",
        "paceline_host_estimated_slowdown_ratio",
        "paceline_host_unpaced_jobs",
        "paceline_host_cross_traffic_connections",
        "paceline_host_cross_traffic_bps",
        "paceline_host_cross_traffic_load_bps",
        "paceline_host_mode",
        "paceline_host_backend",
        "paceline_host_released",
        "paceline_host_released_jobs",
        "paceline_host_certificate_expiry_timestamp_seconds",
        "paceline_host_build_info",
        "paceline_host_registrations_refused",
        "paceline_host_bad_numbers",
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
        "paceline_host_switch_answer_age_seconds",
        "paceline_host_switch_answer_latency_seconds",
        "paceline_host_enforcement_errors",
    }


def test_renamed_metrics_have_their_old_name_too() -> None:
    registry = CollectorRegistry()
    switch, host = SwitchInstruments(registry), HostInstruments(registry)
    switch.shared_links.set_function(lambda: 3)
    host.switch_answer_age.set(1.5)
    host.enforcement_errors.labels("gone").inc(2)
    host.switch_answer_latency.observe(0.004)
    for old, new in (
        ("switch_contested_links", "switch_shared_links"),
        ("host_switch_word_age_seconds", "host_switch_answer_age_seconds"),
        ("host_negotiation_seconds_count", "host_switch_answer_latency_seconds_count"),
    ):
        value = registry.get_sample_value(f"paceline_{new}")
        assert value and registry.get_sample_value(f"paceline_{old}") == value
    bucket = {"le": "0.005"}
    assert registry.get_sample_value("paceline_host_negotiation_seconds_bucket", bucket) == 1.0
    assert registry.get_sample_value("paceline_host_troubles_total", {"reason": "gone"}) == 2.0
    text = generate_latest(registry).decode()
    for new, old in OLD_METRIC_NAMES.items():
        [help_line] = [line for line in text.splitlines() if line.startswith(f"# HELP {old}")][:1]
        assert f"(deprecated: use {new})" in help_line


def test_operators_can_read_every_renamed_metric() -> None:
    listed = OPERATIONS.read_text().partition("## Renamed in this release")[2]
    rows = {tuple(cell.strip(" `") for cell in line.split("|")[1:3]) for line in listed.splitlines() if "`" in line}
    suffix = {"paceline_host_enforcement_errors": "_total"}  # a counter
    expected = {(old + suffix.get(new, ""), new + suffix.get(new, "")) for new, old in OLD_METRIC_NAMES.items()}
    assert {row for row in rows if row[0].startswith("paceline_")} == expected
