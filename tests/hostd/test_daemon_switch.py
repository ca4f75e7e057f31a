"""A switch that dies and returns: hostd decides alone meanwhile, in every slot, and comes back by itself."""

import signal

from bench.jobs_crew import Crew
from tests.hostd.cluster import Cluster, cluster, joined, nursery

__all__ = ["cluster", "nursery"]  # fixtures


def test_switchd_killed_and_restarted(cluster: Cluster) -> None:
    crew = cluster.jobs("a", "b")
    local = cluster.hostd()
    cluster.run(crew, lambda: joined(local) == {"a", "b"})
    local_mode_s = _mean_iteration_s(cluster, crew, 3.0)
    assert local.stop() == 0
    switch = cluster.switchd()
    daemon = cluster.hostd(with_switch=True)
    cluster.run(crew, lambda: joined(daemon) == {"a", "b"} and not daemon.status()["switch"]["deciding_alone"])
    missed = daemon.status()["missed_slots"]

    switch.signal(signal.SIGKILL)
    switch.process.wait()
    without_s = _mean_iteration_s(cluster, crew, 3.0)  # from the first moment on
    assert daemon.status()["switch"]["deciding_alone"] and daemon.status()["switch"]["why"]
    assert daemon.status()["backend"] == "htb", "its limits stay in force"

    switch.start()
    again_s = _mean_iteration_s(cluster, crew, 3.0)
    cluster.run(crew, lambda: not daemon.status()["switch"]["deciding_alone"])
    status = daemon.status()
    # A busy machine may cost a slot or two, an outage would cost dozens.
    assert status["missed_slots"] - missed <= 3
    assert status["fail_opens"] == 0 and status["troubles"] == {}
    assert max(without_s, again_s) < 1.15 * local_mode_s, "no job slower than in local mode, as far as 3 s can tell"


def test_a_switch_with_other_terms_is_not_listened_to(cluster: Cluster) -> None:
    cluster.switchd(slot_ms=50.0)
    daemon = cluster.hostd(with_switch=True, slot_ms=60.0)
    daemon.await_hostd(connected=True)
    status = daemon.status()["switch"]
    assert "50 ms" in status["why"] and "configure the same here" in status["why"]
    assert "deciding alone" in daemon.log()


def _mean_iteration_s(cluster: Cluster, crew: Crew, duration_s: float) -> float:
    before = sum(len(member.numbers) for member in crew.members)
    cluster.pause(crew, duration_s)
    return duration_s * len(crew.members) / max(1, sum(len(member.numbers) for member in crew.members) - before)
