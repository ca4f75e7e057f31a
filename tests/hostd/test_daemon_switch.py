"""A switch that dies and returns: hostd decides alone meanwhile, in every slot, and comes back by itself."""

import signal

from bench.jobs_crew import Crew
from tests.hostd.cluster import Cluster, cluster, joined, nursery

__all__ = ["cluster", "nursery"]  # fixtures


def test_switchd_killed_and_restarted(cluster: Cluster) -> None:
    crew = cluster.jobs("a", "b")
    switch = cluster.switchd()
    daemon = cluster.hostd(with_switch=True, slot_ms=60.0)
    cluster.run(crew, lambda: joined(daemon) == {"a", "b"} and not daemon.status()["switch"]["deciding_alone"])
    iterations = _mean_iteration_s(cluster, crew, 2.0)
    missed = daemon.status()["missed_slots"]

    switch.signal(signal.SIGKILL)
    switch.process.wait()
    cluster.run(crew, lambda: daemon.status()["switch"]["deciding_alone"], 5.0)
    alone = _mean_iteration_s(cluster, crew, 2.0)
    assert daemon.status()["switch"]["why"]
    assert daemon.status()["backend"] == "htb", "its limits stay in force"

    switch.start()
    cluster.run(crew, lambda: not daemon.status()["switch"]["deciding_alone"])
    again = _mean_iteration_s(cluster, crew, 2.0)
    status = daemon.status()
    # A busy machine may cost a slot or two, an outage would cost dozens.
    assert status["missed_slots"] - missed <= 3
    assert status["fail_opens"] == 0 and status["troubles"] == {}
    assert max(alone, again) < 1.5 * iterations


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
