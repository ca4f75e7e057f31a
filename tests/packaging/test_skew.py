"""Version skew: daemons of an older version, from the repository's history, beside today's. docs/upgrading.md says what
holds: they work together, as the protocol's version says, and old jobs' counters are read."""

import asyncio
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from subprocess import PIPE

import pytest

from bench.jobs.daemons import DaemonProcess, switchd
from bench.jobs.fork_server import ForkServer
from bench.jobs.process_group import ProcessGroup
from hostd.config import RENAMED
from paceline.flowcore.model.slots import SlotClock
from paceline.flowcore.model.topology import tree
from paceline.wire.calls import open_channel
from tests.hostd.cluster import SETTLED_S, SLOTS, Cluster, fork_server, joined
from tests.switchd.fabric import flow, until
from tests.switchd.processes import Switches, run
from tests.switchd.reporting import Reporter

__all__ = ["fork_server"]  # a fixture

pytestmark = [pytest.mark.root, pytest.mark.slow]

ROOT = Path(__file__).parents[2]
TREE = tree(3, 2, 1, (1.0, 10.0, 10.0))
TREE_TOML = 'kind = "tree"\nservers_per_tor = 3\ntors_per_edge = 2\nedges = 1\nlink_gbps = [1.0, 10.0, 10.0]'
# Before the messages had their last field, and modules, keys and metrics their new names.
OLD_VERSION = "f23d0b7f563f147af41d174b835f099e5322003d"
JOB = """
import sys
from nccl_shim import ps
channel = ps.connect(role="worker", rank=0, world_size=2)
with channel.push(peer=1, size_bytes=1000):
    pass
channel.iteration_done()
print("counted", flush=True)
sys.stdin.read()
"""


@pytest.fixture(scope="module")
def old(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the older version's packages."""
    made = subprocess.run(["git", "archive", OLD_VERSION], cwd=ROOT, capture_output=True, check=False)
    if made.returncode != 0:
        pytest.skip("the history is not here: a clone without it, or no clone")
    folder = tmp_path_factory.mktemp("old")
    subprocess.run(["tar", "-x", "-C", str(folder)], input=made.stdout, check=True)
    env = {**os.environ, "PYTHONPATH": str(folder), "PYTHONSAFEPATH": "1"}
    command = [sys.executable, "-c", "import hostd.__main__ as h, switchd.__main__ as s; print(h.__file__, s.__file__)"]
    found = subprocess.run(command, env=env, capture_output=True, text=True, check=True).stdout
    assert found.count(str(folder)) == 2, "today's would be beside today's"
    return folder


def of_version(daemon: DaemonProcess, folder: Path) -> DaemonProcess:
    """The daemon, from that folder, with the keys that it knows."""
    daemon.argv = ["env", f"PYTHONPATH={folder}", "PYTHONSAFEPATH=1", *daemon.argv]
    text = daemon.config_path.read_text()
    for old_key, key in RENAMED.items():
        text = text.replace(key, old_key)
    daemon.config_path.write_text(text)
    return daemon


def test_hosts_of_both_versions_are_paced_under_an_older_switch_and_then_a_newer_one(
    old: Path, fork_server: ForkServer
) -> None:
    with ExitStack() as stack:
        cluster = Cluster(fork_server, stack)
        newer, older = (
            switchd(cluster.testbed, cluster.topology.switches[0], cluster.directory / which, SLOTS)
            for which in ("newer", "older")
        )
        hosts = [cluster.hostd(host, with_switch=True, start=False) for host in ("h0", "h1")]
        of_version(hosts[0], old)
        with of_version(older, old):
            for daemon in hosts:
                stack.enter_context(daemon)
            group = cluster.jobs("a", "b")
            _comes_true(cluster, group, hosts, lambda daemon: joined(daemon) == {"a", "b"})
            _comes_true(cluster, group, hosts, _is_answered)
        _comes_true(cluster, group, hosts, lambda daemon: not _is_answered(daemon))
        with newer:
            _comes_true(cluster, group, hosts, _is_answered)
            cluster.pause(group, 0.5)
            _comes_true(cluster, group, hosts, _is_answered)  # and stays so
        refused = set(re.findall(r"refused[^:\"]*: (\w+)", newer.log() + older.log()))
        assert refused <= {"slot"}, "a busy machine's report may be late, and nothing else"


def _is_answered(daemon: DaemonProcess) -> bool:
    switch = daemon.status()["switch"]
    return bool(switch["connected"]) and not switch["deciding_alone"]


def _comes_true(
    cluster: Cluster, group: ProcessGroup, hosts: Sequence[DaemonProcess], holds: Callable[[DaemonProcess], bool]
) -> None:
    """Of both hosts. On a busy machine a daemon may not answer in time."""

    def all_hold() -> bool:
        with suppress(OSError):
            return all(holds(daemon) for daemon in hosts)
        return False

    cluster.run(group, all_hold, 3 * SETTLED_S)


def test_counters_of_an_older_shim_are_read(old: Path, tmp_path: Path) -> None:
    """And the other way round: where no hostd listens, the shim writes the files that an older one reads."""
    for folder, read_by in ((old, ROOT), (ROOT, old)):
        counters = tmp_path / folder.name
        env = {**os.environ, "PYTHONPATH": str(folder), "PYTHONSAFEPATH": "1", "PACELINE_SHM_DIR": str(counters)}
        env |= {"PACELINE_JOB": "bert"}
        with subprocess.Popen([sys.executable, "-c", JOB], env=env, stdin=PIPE, stdout=PIPE, text=True) as job:
            assert job.stdout is not None and job.stdout.readline() == "counted\n"
            env["PYTHONPATH"] = str(read_by)
            command = [sys.executable, "-m", "nccl_shim", "jobs", "--json", "--shm-dir", str(counters)]
            found = subprocess.run(command, env=env, capture_output=True, text=True, check=True)
            job.communicate()
        [process] = json.loads(found.stdout)["processes"]
        assert (process["job"], process["alive"], process["iteration"]) == ("bert", True, 1), read_by


class BothVersions(Switches):
    """Switches of a tree, of which those named are of an older version."""

    def __init__(self, place: Path, old: Path, older: Sequence[str]) -> None:
        super().__init__(TREE, TREE_TOML, place, SLOTS.length_ms)
        self._old, self._older = old, older

    def start(self, *names: str) -> None:
        for name in names or self.topology.switches:
            env = {**os.environ, "PYTHONPATH": str(self._old if name in self._older else ROOT), "PYTHONSAFEPATH": "1"}
            self.processes[name] = run("switchd", "--config", str(self._place / f"{name}.toml"), env=env)


async def test_older_and_newer_switches_answer_together(old: Path, tmp_path: Path) -> None:
    """For a flow from rack to rack: its ToR asks an edge switch that is newer, which has an older one above it."""
    switches = BothVersions(tmp_path, old, ("tor0", "agg"))
    host = Reporter(flow("job", "h0", "h3"))
    clock = SlotClock(round(SLOTS.length_ms * 1e6), SLOTS.horizon)
    try:
        switches.start()
        async with open_channel(switches.addresses["tor0"], None) as channel:
            reporting = asyncio.create_task(host.run(channel, clock))
            await until(lambda: host.first_accepted_after(0.0) is not None)
            reporting.cancel()
            await asyncio.gather(reporting, return_exceptions=True)
    finally:
        switches.close()
