"""What goes wrong on a host: one clear line and the right exit status, or a counted event. Never a crash."""

import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from bench.jobs.daemons import DaemonProcess
from hostd.introspect.control import ask
from tests.hostd.cluster import Cluster, cluster, flows, fork_server, joined

__all__ = ["cluster", "fork_server"]  # fixtures

pytestmark = pytest.mark.root

ROOT = Path(__file__).parents[3]
NET_ADMIN, SYS_PTRACE = 12, 19


def end_of(daemon: DaemonProcess) -> tuple[int, str]:
    """Exit status and what it said; it must end by itself."""
    daemon.start()
    status = daemon.process.wait(20)
    return status, daemon.log()


def without(daemon: DaemonProcess, *capabilities: int) -> None:
    """Starts it without these."""
    drop = "import ctypes, os, sys\n" + "".join(
        f"assert ctypes.CDLL(None).prctl(24, {number}) == 0\n" for number in capabilities
    )
    daemon.argv[:1] = [sys.executable, "-c", drop + "os.execv(sys.argv[1], sys.argv[1:])", sys.executable]


def test_a_second_hostd_in_a_namespace(cluster: Cluster) -> None:
    first = cluster.hostd()
    place = Path(str(first.place) + "-too")
    config = first.config_path.read_text().replace(str(first.place), str(place))
    status, said = end_of(DaemonProcess(cluster.testbed, "h0", "hostd", config, place))
    assert status == 2
    assert f"another instance (pid {first.pid}) is running in this network namespace" in said
    assert "Traceback" not in said
    assert first.status()["guardian_pid"] and first.process.poll() is None, "the first one goes on"


def test_a_hostd_in_another_namespace_and_after_one_that_was_killed(cluster: Cluster) -> None:
    first = cluster.hostd()
    cluster.hostd("h1")
    first.process.kill()
    first.process.wait()
    cluster.start(first)
    assert first.status()["host"] == "h0"


def test_a_busy_port(cluster: Cluster) -> None:
    with cluster.testbed.nodes["h0"].enter():
        taken = socket.create_server(("127.0.0.1", 9465))
    with taken:
        status, said = end_of(cluster.hostd(more='metrics = "127.0.0.1:9465"', start=False))
    assert status == 1
    assert "cannot serve metrics on 127.0.0.1:9465" in said and len(said.splitlines()) <= 2, said


def test_without_the_capability_to_change_queues(cluster: Cluster) -> None:
    daemon = cluster.hostd(start=False)
    without(daemon, NET_ADMIN)
    status, said = end_of(daemon)
    assert status == 1
    assert "htb does not work here" in said and "grant CAP_NET_ADMIN" in said and "Traceback" not in said


def test_a_process_it_may_not_look_into(cluster: Cluster) -> None:
    """The job is root with all capabilities, hostd is root with fewer: the kernel refuses to duplicate its sockets."""
    group = cluster.jobs("a")
    daemon = cluster.hostd(mode="advise", start=False)
    without(daemon, SYS_PTRACE)
    cluster.start(daemon)
    cluster.run(group, lambda: daemon.status()["invisible"])
    (reason,) = daemon.status()["invisible"].values()
    assert "ermi" in reason, reason
    assert not joined(daemon) and daemon.process.poll() is None


def test_broken_counters_are_refused_by_name(cluster: Cluster) -> None:
    shim = cluster.directory / "h0"
    (shim / "garbage.paceline").write_bytes(os.urandom(4096))
    group = cluster.jobs("a")
    suffix = next(path.suffix for path in shim.iterdir() if path.name != "garbage.paceline")
    (shim / "garbage.paceline").rename(shim / f"garbage{suffix}")
    (shim / f"garbage{suffix}").chmod(0o600)
    (shim / f"directory{suffix}").mkdir()
    daemon = cluster.hostd()
    cluster.run(group, lambda: joined(daemon) == {"a"})
    assert daemon.status()["invisible"].keys() == {f"garbage{suffix}", f"directory{suffix}"}
    for path in shim.iterdir():  # cut short under its eyes
        if path.is_file() and not path.name.startswith("garbage"):
            os.truncate(path, 100)
    cluster.run(group, lambda: not joined(daemon))
    assert daemon.process.poll() is None


def test_a_job_that_vanishes_in_the_middle_of_a_burst(cluster: Cluster) -> None:
    staying, leaving = cluster.jobs("stays"), cluster.jobs("leaves", model_mb=12.5)
    daemon = cluster.hostd()
    cluster.run(staying, lambda: joined(daemon) == {"stays", "leaves"})

    def sending() -> bool:
        return any(flow["flow"].startswith("leaves") and flow["live"] for flow in flows(daemon.status()))

    cluster.run(staying, sending)
    for process in leaving.processes:
        os.kill(process.pid, signal.SIGKILL)
    cluster.run(staying, lambda: joined(daemon) == {"stays"})
    assert daemon.status()["fail_opens"] == 0 and daemon.process.poll() is None
    assert daemon.stop() == 0
    assert "Traceback" not in daemon.log()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "name"),
        ("name = [", "no TOML"),
        ('name = "h9"\nnic_gbps = 1\n[addresses]\nh0 = "10.0.0.1"', "a host of the topology"),
    ],
)
def test_a_configuration_that_is_no_good(tmp_path: Path, text: str, said: str) -> None:
    config = tmp_path / "hostd.toml"
    config.write_text(text)
    done = _hostd("--config", str(config))
    assert done.returncode == 2 and done.stdout == ""
    assert said in done.stderr and str(config) in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_a_configuration_that_is_not_there(tmp_path: Path) -> None:
    config = tmp_path / "none.toml"
    done = _hostd("--config", str(config))
    assert (done.returncode, done.stderr) == (2, f"hostd: {config}: No such file or directory\n")


@pytest.mark.parametrize("full_of", ["files", "bytes"])
def test_a_runtime_directory_that_is_full(tmp_path: Path, full_of: str) -> None:
    """In namespaces of its own: a small file system is mounted there."""
    runtime, config = tmp_path / "run", tmp_path / "hostd.toml"
    runtime.mkdir()
    config.write_text(f'name = "h0"\nnic_gbps = 1\nruntime_directory = "{runtime}"\n[addresses]\nh0 = "10.0.0.1"\n')
    fill = f"""
import ctypes, contextlib, os, sys
libc = ctypes.CDLL(None, use_errno=True)
assert libc.unshare(0x40020000) == 0 and libc.mount(b"none", b"/", None, 0x44000, None) == 0
options = b"size=16k,nr_inodes={2 if full_of == "files" else 100}"
assert libc.mount(b"none", {str(runtime).encode()}, b"tmpfs", 0, options) == 0
with contextlib.suppress(OSError), open({str(runtime / "junk")!r}, "wb", buffering=0) as junk:
    while True:
        junk.write(bytes(4096))
os.execv(sys.executable, [sys.executable, "-m", "hostd", "--config", {str(config)!r}])
"""
    done = subprocess.run([sys.executable, "-c", fill], cwd=ROOT, capture_output=True, text=True, timeout=30)
    said = [line for line in done.stderr.splitlines() if "is on no device of this host" not in line]
    assert said == [f"hostd: {runtime}/lock: No space left on device"]
    assert done.returncode == 2


def test_check_reads_and_starts_nothing(tmp_path: Path) -> None:
    config = tmp_path / "hostd.toml"
    top = f'name = "h0"\nnic_gbps = 1\nruntime_directory = "{tmp_path}/run"\n'
    config.write_text(top + '[addresses]\nh0 = "10.0.0.1"')
    assert _hostd("--config", str(config), "--check").returncode == 0
    assert not (tmp_path / "run").exists()


def test_a_journal_that_cannot_be_written(cluster: Cluster) -> None:
    status, said = end_of(cluster.hostd(start=False, journal=cluster.directory / "no" / "journal"))
    assert status == 1 and "No such file" in said and "Traceback" not in said
    with pytest.raises(OSError):
        ask(cluster.directory / "hostd-h0" / "control.sock", "status")


def test_a_broken_lease_does_not_keep_it_from_starting(cluster: Cluster) -> None:
    daemon = cluster.hostd(start=False)
    (daemon.place / "lease.json").write_bytes(b"\xffnonsense")
    cluster.start(daemon)
    assert (daemon.place / "lease.bad").read_bytes() == b"\xffnonsense"
    status = daemon.status()
    assert status["guardian_pid"] and any("lease.bad" in trouble for trouble in status["troubles"])
    assert "not an undo log" in daemon.log() and "Traceback" not in daemon.log()
    assert daemon.stop() == 0


def _hostd(*arguments: str) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", "hostd", *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60)
