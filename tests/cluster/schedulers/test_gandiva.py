"""Gandiva moves jobs to a better tier; gandiva-stay leaves them."""

from random import Random

from paceline.cluster.delay import HOUR_S
from paceline.cluster.job import Job
from paceline.cluster.schedulers import scheduler
from paceline.cluster.schedulers.scheduling_round import Decision, decide
from paceline.cluster.state import ClusterState


def test_only_gandiva_moves_a_job_that_is_spread() -> None:
    state = ClusterState(4, {"a": "r0", "b": "r0", "c": "r1"}, Random(1))
    state.take("j", {"a": 1, "c": 1})
    running = [Job("j", 2, running_since_s=0.0, run_s=2 * HOUR_S)]
    moved = decide(scheduler("gandiva"), 2 * HOUR_S, [], running, state)
    assert (moved.stop, len(moved.start[0][1])) == (("j",), 1)
    assert decide(scheduler("gandiva-stay"), 2 * HOUR_S, [], running, state) == Decision((), ())
