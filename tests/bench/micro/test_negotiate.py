"""The load generator sends what a host would send, and a small run of the whole."""

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from bench.micro.load_hosts import DECIDING_HOSTS, WORKERS_PER_JOB, load_hosts
from bench.micro.negotiate import Setup
from bench.micro.scale import HOSTS_PER_RACK, needs
from paceline import cli
from paceline.flowcore.model.topology import Topology, clos, star
from paceline.wire import control_pb2 as pb
from paceline.wire.codec import REPORT, FlowPaths, flow_of

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[3]
STAR = star(6, 10.0)
CLOS = clos(5, 4, 1, (10.0, 100.0))


@pytest.mark.parametrize("number", [1, 127, 128, 10**9])
def test_a_message_put_together_by_hand_is_a_message(number: int) -> None:
    host = load_hosts(STAR, 10, 0.25, 10, 1)[0]
    message = pb.HostMessage.FromString(host.message(number, 10**9, 1_700_000_000_000_000_000))
    assert message.sent_ns == 1_700_000_000_000_000_000
    report = REPORT.from_wire(message.report, FlowPaths(STAR))
    assert (report.sender, report.number, report.first_slot) == ("h0", number, 10**9)
    assert len(report.claims) == 10
    assert sum(claim.plan_bps[0] for claim in report.claims) == pytest.approx(2.5e9)


@pytest.mark.parametrize("topology", [STAR, CLOS], ids=["star", "clos"])
@pytest.mark.parametrize("across", [0.0, 0.25, 1.0])
def test_every_host_has_its_flows_and_the_right_part_of_jobs_crosses_racks(topology: Topology, across: float) -> None:
    hosts = load_hosts(topology, 20, across, 10, seed=3)
    flows = [flow_of(text) for host in hosts for text in host.claims.flow]
    assert all(len(host.claims.flow) == 20 for host in hosts)
    assert not any(flow.local for flow in flows)
    racks: dict[str, set[str]] = {}
    workers: dict[str, int] = {}
    for flow in flows:
        racks.setdefault(flow.job, set()).update(topology.switch_of[end] for end in (flow.source, flow.target))
        workers[flow.job] = workers.get(flow.job, 0) + 1
    assert max(workers.values()) <= WORKERS_PER_JOB + 1
    crossing = sum(len(places) > 1 for places in racks.values()) / len(racks)
    assert crossing == pytest.approx(across if topology is CLOS else 0.0, abs=0.1)
    assert sum(host.decides for host in hosts) == min(DECIDING_HOSTS, len(hosts))


def test_a_decision_fits_into_what_is_left() -> None:
    host = load_hosts(STAR, 4, 0.0, 10, 1)[0]
    rows = len(host.claims.flow) * 10
    feedback = pb.Feedback(flow=reversed(host.claims.flow), available_bps=[4e9] * rows, load=[0.1] * rows)
    host.decide(feedback, 10, slot_s=0.06)
    host.freeze()
    sent = pb.HostMessage.FromString(host.message(1, 1, 1)).report.claims
    per_slot = [sum(sent.plan_bps[slot::10]) for slot in range(10)]
    assert 0.0 < max(per_slot) <= 4e9 * (1 + 1e-9)


@pytest.mark.parametrize(
    ("setup", "said"),
    [((1, 1), "2 or more"), ((6, 2), "ToRs and a spine"), ((7, 3), "7 hosts under 2 ToRs, expected equally many")],
)
def test_clusters_that_cannot_be(setup: tuple[int, int], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        Setup(*setup, slots=1)


def test_a_small_run() -> None:
    """In a process of its own, as gRPC's event loop likes it."""
    options = ["--hosts", "4", "--switches", "3", "--slots", "10", "--flows", "2", "--across", "1"]
    command = [sys.executable, "-m", "paceline", "bench", "negotiate", *options, "--policy", "paceline", "--json"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, cwd=ROOT)
    assert (done.returncode, done.stderr) == (0, "")
    found = json.loads(done.stdout)
    assert (found["hosts"], found["switches"], found["slots"], found["phases"]) == (4, 3, 10, "spread")
    assert found["policy"] == "paceline"
    assert found["negotiations"] == 40
    assert found["missed_slots"] < found["negotiations"]
    if found["machine_stalls"] is not None:  # without root they cannot be told from ours
        assert found["missed_outside_stalls"] <= found["missed_slots"]
        assert found["machine_stalls"] >= 0 and 0.0 <= found["machine_stalled_percent"] <= 100.0
    assert 0 < found["p50_ms"] <= found["p90_ms"] <= found["p99_ms"]
    assert 0 < found["echo_p50_ms"] <= found["echo_p90_ms"] <= found["echo_p99_ms"]
    assert found["switch_cpu_percent_by_switch"].keys() == {"tor0", "tor1", "spine0"}
    for key in ("switch_cpu_percent", "host_cpu_percent", "control_mbps", "spine_cpu_us_per_negotiation"):
        assert found[key] > 0
    assert found["plans_answered"] >= 2 * (found["negotiations"] - found["missed_slots"])
    assert {"version", "commit", "machine"} <= found.keys()


def test_when_terminated_it_leaves_no_process_behind() -> None:
    command = [sys.executable, "-m", "paceline", "bench", "negotiate", "--hosts", "2", "--slots", "2000", "--json"]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, cwd=ROOT) as running:
        own, started, until_s = psutil.Process(running.pid), [], time.monotonic() + 30
        while len(started) < 3 and time.monotonic() < until_s:  # a switch, an echo server, a sleeper
            time.sleep(0.1)
            started = own.children(recursive=True)
        running.terminate()
        assert running.wait(60) == 128 + signal.SIGTERM
    _, alive = psutil.wait_procs(started, timeout=10)
    for one in alive:
        one.kill()
    assert len(started) >= 3 and not alive


# ---- Larger clusters ----

MEASURED = {
    "slot_ms": 60.0,
    "tor_cpu_us_per_negotiation": 600.0,
    "spine_cpu_us_per_negotiation": 120.0,
    "control_bytes_per_negotiation": 6000,
}


def test_what_a_thousand_hosts_need() -> None:
    found = needs(MEASURED, 1000)
    assert found["hosts_per_tor"] == HOSTS_PER_RACK  # 60 would fill 0.6 of a core
    assert (found["tor_processes"], found["tor_cores"]) == (21, 10.0)
    assert (found["spine_processes"], found["spine_cores"]) == (4, 2.0)
    assert found["control_mbps"] == pytest.approx(800.0)
    slower = needs(MEASURED | {"tor_cpu_us_per_negotiation": 3600.0}, 1000)
    assert (slower["hosts_per_tor"], slower["tor_processes"]) == (10, 100)


@pytest.mark.parametrize("content", ["{}", "[]", "{", '{"slot_ms": "60"}', "\xff"])
def test_no_measurement(content: str, tmp_path, capsys) -> None:
    file = tmp_path / "result.json"
    file.write_bytes(content.encode("latin-1"))
    assert cli.main(["bench", "scale", str(file)]) == 2
    assert capsys.readouterr().err.count("\n") == 1
