"""A host and a rack are added to a running cluster: nothing restarts, no slot is missed elsewhere unless the machine
stands still, and the new host is paced within 5 s. Real switchd and hostd, real jobs. `pytest -s` prints what was seen.
"""

import json
import shutil
import signal
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack

import pytest

from bench.jobs.daemons import PORT, DaemonProcess
from bench.jobs.fork_server import ForkServer
from bench.jobs.launch import process_specs
from bench.jobs.process_group import ProcessGroup
from bench.stalls import Stalls, watching_stalls
from bench.testbed.leftovers import new_directory
from bench.testbed.network import Testbed
from paceline.flowcore.model.scenario import JobSpec, Pattern, Scenario, SlotsSpec
from paceline.flowcore.model.topology_file import parse_topology_file
from tests.hostd.cluster import SETTLED_S, flows, fork_server, joined

__all__ = ["fork_server"]  # a fixture

pytestmark = pytest.mark.root

SLOTS = SlotsSpec(60.0)
FIRST = ("core", "rack1"), ("gpu-a", "gpu-b")
CABLES = {"core": "", "rack1": "core", "rack2": "core", "gpu-a": "rack1", "gpu-b": "rack1", "gpu-c": "rack1",
          "gpu-d": "rack2"}  # fmt: skip
SWITCHES = [name for name in CABLES if not name.startswith("gpu")]
HOSTS = [name for name in CABLES if name.startswith("gpu")]
PACED_WITHIN_S = 5.0


class GrowingCluster:
    """A testbed with all cables, and daemons that know of some of them."""

    def __init__(self, fork_server: ForkServer, stack: ExitStack) -> None:
        self.directory = new_directory()
        stack.callback(shutil.rmtree, self.directory, ignore_errors=True)
        bare = topology_text(SWITCHES, HOSTS, {name: f"{name}:1" for name in SWITCHES}, {})
        self.testbed = stack.enter_context(Testbed(parse_topology_file(bare, "the testbed's").topology))
        self.file, self.jobs = self.directory / "topology.toml", self.directory / "jobs"
        for host in HOSTS:
            (self.jobs / host).mkdir(parents=True)
        self._fork_server, self._stack = fork_server, stack
        self._jobs: list[JobSpec] = []

    def write(self, switches: tuple[str, ...], hosts: tuple[str, ...]) -> None:
        """The file that all daemons read."""
        addresses = self.testbed.addresses
        listen = {switch: f"{addresses.control[switch].ip}:{PORT}" for switch in switches}
        data = {host: str(addresses.data[host]) for host in hosts}
        self.file.write_text(topology_text(switches, hosts, listen, data))

    def daemon(self, node: str) -> DaemonProcess:
        place = self.directory / node
        common = f'name = "{node}"\ntopology_file = "{self.file}"\nplaintext = true\n'
        slots = f"[slots]\nlength_ms = {SLOTS.length_ms}\n"
        if node in SWITCHES:
            return self._stack.enter_context(DaemonProcess(self.testbed, node, "switchd", common + slots, place))
        own = f'mode = "enforce"\nbackend = "htb"\nruntime_directory = "{place}"\n'
        own += f'shim_directory = "{self.jobs / node}"\n'
        return self._stack.enter_context(DaemonProcess(self.testbed, node, "hostd", common + own + slots, place))

    def job(self, name: str, hosts: tuple[str, str]) -> ProcessGroup:
        """Iterations alone take some 0.15 s."""
        self._jobs.append(JobSpec(name, Pattern.ALLREDUCE, hosts, (), 1.25, 0.1, None, 0.0, 0.0))
        scenario = Scenario("test", 1, None, SLOTS, self.testbed.topology, tuple(self._jobs), ())
        specs = process_specs(scenario, 1, "synthetic", self.testbed.addresses, self.jobs)
        new = [spec for spec in specs if spec.job == name]
        group = self._stack.enter_context(ProcessGroup(self._fork_server, self.testbed, new, self.directory))
        group.await_ready()
        group.go()
        return group


def topology_text(
    switches: Iterable[str], hosts: Iterable[str], listen: dict[str, str], addresses: dict[str, str]
) -> str:
    lines = ["version = 1", "[switches]"]
    for name in switches:
        above = f'parents = ["{CABLES[name]}"], gbps = 0.4, ' if CABLES[name] else ""
        lines.append(f'{name} = {{{above}listen = "{listen[name]}"}}')
    lines += ["[hosts]"]
    for name in hosts:
        own = json.dumps([addresses[name]] if name in addresses else [])
        lines.append(f'{name} = {{switch = "{CABLES[name]}", gbps = 0.2, addresses = {own}}}')
    return "\n".join(lines)


def answers(daemon: DaemonProcess) -> bool:
    daemon.require_running()
    try:
        return bool(daemon.status())
    except OSError:
        return False


def paced(daemon: DaemonProcess, job: str) -> bool:
    """By the switch's answers, and in the kernel."""
    status = daemon.status()
    return (
        status["switch"]["connected"]
        and not status["switch"]["deciding_alone"]
        and job in joined(daemon)
        and any(flow["live"] and flow["kernel_bps"] for flow in flows(status))
    )


@pytest.fixture
def cluster(fork_server: ForkServer) -> Iterator[GrowingCluster]:
    with ExitStack() as stack:
        yield GrowingCluster(fork_server, stack)


def run(groups: list[ProcessGroup], holds: Callable[[], bool], limit_s: float = SETTLED_S) -> float:
    began_s = time.monotonic()
    while not holds():
        assert time.monotonic() < began_s + limit_s, "it never came"
        for group in groups:
            group.listen_until(lambda: False, time.monotonic_ns() + 15_000_000)
    return time.monotonic() - began_s


def excused(stalls: Stalls) -> int:
    """Slots that both hosts together may miss: one each, for each time that the machine itself stood still."""
    long = [end_s - begin_s >= SLOTS.length_ms / 2e3 for begin_s, end_s in stalls.spans_s]
    return 2 * sum(long) if stalls.reliable else 0


def test_a_host_and_a_rack_are_added_to_a_running_cluster(cluster: GrowingCluster) -> None:
    cluster.write(*FIRST)
    switches = {name: cluster.daemon(name) for name in FIRST[0]}
    hosts = {name: cluster.daemon(name) for name in FIRST[1]}
    running = switches | hosts
    for daemon in hosts.values():
        daemon.await_hostd(connected=True, switches=list(switches.values()))
    old = cluster.job("old", ("gpu-a", "gpu-b"))
    young = cluster.job("young", ("gpu-c", "gpu-d"))  # its hosts have no hostd yet
    first_s = run([old, young], lambda: all(paced(daemon, "old") for daemon in hosts.values()))
    pids = {name: daemon.pid for name, daemon in running.items()}
    alone: list[str] = []

    def missed() -> int:
        """Slots, and times that limits were lifted because too many were."""
        every = [daemon.status() for daemon in hosts.values()]
        return sum(status["missed_slots"] + status["fail_opens"] for status in every)

    def all_told() -> bool:
        alone.extend(name for name, daemon in hosts.items() if daemon.status()["switch"]["deciding_alone"])
        return all("another topology: 4 hosts, 3 switches" in daemon.log() for daemon in running.values())

    def all_paced() -> bool:
        return all_told() and paced(new["gpu-c"], "young") and paced(new["gpu-d"], "young")

    with watching_stalls() as at_reload:
        before = missed()
        cluster.write(tuple(SWITCHES), tuple(HOSTS))
        for daemon in running.values():
            daemon.signal(signal.SIGHUP)
        told_s = run([old, young], all_told)
        missed_by_reload = missed() - before

    began_s = time.monotonic()
    new = {name: cluster.daemon(name) for name in ("rack2", "gpu-c", "gpu-d")}
    run([old, young], lambda: answers(new["gpu-c"]) and answers(new["gpu-d"]), 3 * SETTLED_S)
    up_s = time.monotonic() - began_s  # three interpreters start, on the cores of all the others

    with watching_stalls() as at_join:
        before = missed()
        run([old, young], all_paced)
        paced_s = time.monotonic() - began_s - up_s
        run([old, young], lambda: time.monotonic() > began_s + up_s + paced_s + 1.0)
        missed_by_join = missed() - before

    print(f"\nrunning daemons had the new topology after {told_s:.1f} s, {missed_by_reload} slots missed")
    print(f"the new hosts' hostd was up after {up_s:.1f} s more")
    print(f"and they were paced {paced_s:.1f} s later, {missed_by_join} slots missed elsewhere")
    for name, daemon in running.items():
        assert daemon.pid == pids[name] and daemon.process.poll() is None, "nothing restarts"
        assert '"ERROR"' not in daemon.log()
    assert paced_s < max(PACED_WITHIN_S, 2 * first_s), "on a busy machine the first hosts take longer, too"
    assert missed_by_reload <= excused(at_reload) and missed_by_join <= excused(at_join)
    assert alone == [], "the switch has answered all the time"
    for daemon in hosts.values():
        status = daemon.status()
        assert status["troubles"] == {} and joined(daemon) == {"old"}
