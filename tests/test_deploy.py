"""deploy/ keeps its promises: privileges, limits, and no metric that the daemons do not have."""

import json
import re
import shutil
import subprocess
import tomllib
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from prometheus_client import CollectorRegistry

from bench.jobs.daemons import NICE
from hostd.config import _TOP as HOST_KEYS
from hostd.config import read_config as read_host_config
from paceline.cli import build_parser
from paceline.service.instruments import HostInstruments, SwitchInstruments
from paceline.service.metrics import new_registry
from switchd.config import _TOP as SWITCH_KEYS
from switchd.config import parse_config as parse_switch_config

DEPLOY = Path(__file__).parents[1] / "deploy"
UNITS = ["hostd.service", "switchd@.service"]


def directives(unit: str) -> dict[str, list[str]]:
    """Every directive of a unit and its values, in order; systemd allows one to be repeated."""
    found: dict[str, list[str]] = defaultdict(list)
    for line in (DEPLOY / unit).read_text().splitlines():
        if line and not line.startswith(("#", "[")):
            key, _, value = line.partition("=")
            found[key].append(value)
    return found


# ---- Units ----


@pytest.mark.parametrize("unit", UNITS)
def test_units_are_watched_capped_and_confined(unit: str) -> None:
    found = directives(unit)
    promised = "Type=notify NotifyAccess=main Restart=on-failure RestartPreventExitStatus=2 NoNewPrivileges=yes"
    promised += " ProtectSystem=strict ProtectHome=yes MemoryDenyWriteExecute=yes"
    for key, value in (directive.split("=") for directive in promised.split()):
        assert found[key] == [value], key
    for key in ("WatchdogSec", "CPUQuota", "MemoryMax", "TasksMax", "RuntimeDirectory", "SystemCallFilter"):
        assert found[key], key
    nothing_meant = {"CapabilityBoundingSet", "AmbientCapabilities"}
    assert all("" not in values for key, values in found.items() if key not in nothing_meant)


@pytest.mark.parametrize("unit", UNITS)
def test_units_have_room_for_the_threads_they_start(unit: str) -> None:
    """OpenBLAS starts one per core at import, up to 64 and more, unless told otherwise."""
    found = directives(unit)
    assert "OPENBLAS_NUM_THREADS=1" in found["Environment"][0].split()
    assert int(found["TasksMax"][0]) >= 128


def test_a_lease_that_could_not_be_taken_back_outlives_the_service() -> None:
    assert directives("hostd.service")["RuntimeDirectoryPreserve"] == ["yes"]


def test_hostd_has_two_capabilities_and_lets_go_when_it_ends() -> None:
    found = directives("hostd.service")
    assert found["CapabilityBoundingSet"] == ["CAP_NET_ADMIN CAP_SYS_PTRACE"]
    assert found["ExecStopPost"] == ["/opt/paceline/bin/paceline release --all"]
    assert found["RestrictAddressFamilies"] == ["AF_UNIX AF_INET AF_INET6 AF_NETLINK"]
    assert found["KillMode"] == ["process"]
    assert "pidfd_getfd" in found["SystemCallFilter"][0].split()


def test_hostd_runs_at_least_as_promptly_as_where_it_was_measured() -> None:
    [nice] = directives("hostd.service")["Nice"]
    assert int(nice) <= NICE


def test_the_page_is_served_to_this_machine_without_any_privilege() -> None:
    found = directives("paceline-web.service")
    assert (found["DynamicUser"], found["CapabilityBoundingSet"], found["NoNewPrivileges"]) == (["yes"], [""], ["yes"])
    program, command, *flags = found["ExecStart"][0].split()
    parsed = build_parser().parse_args([command, *flags])
    assert program == "/opt/paceline/bin/paceline" and parsed.switch == ["127.0.0.1:7470"]
    assert parsed.listen.startswith("127.0.0.1:"), "there is no password"


def test_switchd_has_no_privilege_at_all() -> None:
    found = directives("switchd@.service")
    assert found["CapabilityBoundingSet"] == found["AmbientCapabilities"] == [""]
    assert found["DynamicUser"] == ["yes"]
    assert found["RestrictAddressFamilies"] == ["AF_UNIX AF_INET AF_INET6"]


@pytest.mark.parametrize("unit", UNITS)
def test_systemd_understands_every_line(unit: str, tmp_path: Path) -> None:
    """Where systemd is not installed the tests above are all there is."""
    if shutil.which("systemd-analyze") is None:
        return
    text = re.sub(r"/opt/paceline/bin/\w+", "/bin/true", (DEPLOY / unit).read_text())  # it must exist
    (tmp_path / unit).write_text(text)
    instance = tmp_path / unit.replace("@", "@tor0")
    done = subprocess.run(["systemd-analyze", "verify", instance], capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stdout) == (0, "")
    assert unit not in done.stderr  # it may complain about other units of the machine


# ---- Configurations ----


def test_the_examples_are_read_by_the_daemons_and_fit_together() -> None:
    host = read_host_config(DEPLOY / "hostd.toml")
    switch = parse_switch_config((DEPLOY / "switchd.toml").read_text(), "switchd.toml")
    assert host.mode == "observe"  # an example that throttles no job
    assert host.tls is not None and switch.tls is not None
    assert (host.switch, host.switch_name) == (switch.listen, switch.name)
    assert (host.slots, host.policy) == (switch.slots, switch.policy)
    assert host.topology.fingerprint == switch.topology.fingerprint
    assert host.name in host.host_of.values()
    assert host.runtime_directory == Path("/run", directives("hostd.service")["RuntimeDirectory"][0])


def test_the_examples_have_every_key_that_can_be_set() -> None:
    for name, keys in (("hostd.toml", HOST_KEYS), ("switchd.toml", SWITCH_KEYS)):
        text = (DEPLOY / name).read_text()
        missing = [key for key in keys if not re.search(rf"^(# )?({key} = |\[+{key}\])", text, re.MULTILINE)]
        assert missing == [], name


def test_switchd_finds_its_key_where_the_unit_puts_it() -> None:
    switch = tomllib.loads((DEPLOY / "switchd.toml").read_text())
    (credential,) = directives("switchd@.service")["LoadCredential"]
    assert switch["tls"]["key"] == f"/run/credentials/switchd@{switch['name']}.service/{credential.split(':')[0]}"


# ---- Metrics ----


def labels_by_series() -> dict[str, set[str]]:
    """Every time series the daemons export, and its labels."""
    registry = CollectorRegistry()
    instruments = [*vars(SwitchInstruments(registry)).values(), *vars(HostInstruments(registry)).values()]
    series = {}
    for metric in instruments:
        (family,) = metric.describe()
        suffixes = {"counter": ["_total"], "histogram": ["_bucket", "_sum", "_count"], "gauge": [""]}[family.type]
        extra = {"le"} if family.type == "histogram" else set()
        series |= {family.name + suffix: {*metric._labelnames, *extra} for suffix in suffixes}
    return series


SERIES = labels_by_series()
ADDED_BY_PROMETHEUS = {"instance", "job"}


def dashboard_queries() -> Iterator[tuple[str, str]]:
    """Each expression and what is shown of it."""
    dashboard = json.loads((DEPLOY / "grafana-dashboard.json").read_text())
    for panel in dashboard["panels"]:
        yield from ((target["expr"], target["legendFormat"]) for target in panel.get("targets", ()))
    variables = dashboard["templating"]["list"]
    yield from ((variable["query"]["query"], "") for variable in variables if variable["type"] == "query")


def alert_queries() -> Iterator[tuple[str, str]]:
    for group in yaml.safe_load((DEPLOY / "alerts.yml").read_text())["groups"]:
        for rule in group["rules"]:
            assert {"alert", "expr", "labels", "annotations"} <= rule.keys()
            yield rule["expr"], " ".join(rule["annotations"].values())


def names_in(expression: str) -> set[str]:
    return set(re.findall(r"paceline_\w+", expression))


@pytest.mark.parametrize("queries", [dashboard_queries, alert_queries])
def test_queries_use_metrics_and_labels_that_exist(queries) -> None:
    asked = list(queries())
    assert asked
    for expression, shown in asked:
        assert names_in(expression) <= SERIES.keys(), expression
        grouped = ",".join(re.findall(r"\bby \(([^)]*)\)", expression))
        labels = set(re.findall(r"\w+", grouped)) | set(re.findall(r"\{\{ ?(?:\$labels\.)?(\w+) ?\}\}", shown))
        for name in names_in(expression):
            assert labels <= SERIES[name] | ADDED_BY_PROMETHEUS, expression


def test_restarts_are_seen_in_what_outlives_a_process() -> None:
    """Its own counters do not: one that was killed comes back with zeros."""
    [restarted] = [expression for expression, _ in alert_queries() if "process_start_time_seconds" in expression]
    assert "changes(" in restarted and 'job=~"paceline-.*"' in restarted
    assert new_registry().get_sample_value("process_start_time_seconds") > 0
    [fail_open] = [text for expression, text in alert_queries() if "fail_opens" in expression]
    assert "PacelineRestarted" in fail_open


def test_every_metric_has_its_place_on_the_dashboard() -> None:
    shown = set().union(*(names_in(expression) for expression, _ in dashboard_queries()))
    families = {re.sub("_(bucket|sum|count)$", "", name) for name in SERIES}
    assert {re.sub("_(bucket|sum|count)$", "", name) for name in shown} == families


def test_the_dashboard_can_be_imported() -> None:
    dashboard = json.loads((DEPLOY / "grafana-dashboard.json").read_text())
    numbers = [panel["id"] for panel in dashboard["panels"]]
    assert len(set(numbers)) == len(numbers)
    assert "id" not in dashboard  # Grafana gives it one
    for panel in dashboard["panels"]:
        place = panel["gridPos"]
        assert place["x"] + place["w"] <= 24
