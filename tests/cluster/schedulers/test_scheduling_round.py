"""A round never gives a GPU twice, whatever the scheduler; and what the baselines do in one."""

from math import inf
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paceline.cluster.delay import HOUR_S
from paceline.cluster.job import Job
from paceline.cluster.schedulers import NAMES, scheduler
from paceline.cluster.schedulers.scheduling_round import decide
from paceline.cluster.schedulers.tiresias import consolidated, consolidated_exactly
from paceline.cluster.state import ClusterState

RACK_OF = {f"h{number}": f"tor{number // 2}" for number in range(4)}

jobs = st.lists(
    st.tuples(st.integers(1, 9), st.floats(0.0, 1.0), st.booleans(), st.integers(0, 5)), min_size=1, max_size=8
)


@pytest.mark.parametrize("name", NAMES)
@given(described=jobs, rounds=st.integers(1, 3))
def test_gpus_are_neither_lost_nor_given_twice(
    name: str, described: list[tuple[int, float, bool, int]], rounds: int
) -> None:
    """Several rounds, hours apart, with jobs that ran at different speeds in between."""
    chosen, state = scheduler(name, backfill=True), ClusterState(4, RACK_OF, Random(1))
    waiting = {f"j{place}": given for place, given in enumerate(described)}
    running: dict[str, float] = {}
    for turn in range(rounds):
        now_s = turn * 5 * HOUR_S
        facts = {
            key: Job(
                key, gpus, arrival_s=float(arrival), running_since_s=running.get(key, inf), run_s=now_s,
                waiting_since_s=now_s if key in running else 0.0, iterations=10**6,
                iterations_done=round(speed * now_s), compute_s=1.0, model_mb=100.0, skewed=skewed,
            )
            for key, (gpus, speed, skewed, arrival) in waiting.items()
        }  # fmt: skip
        asks = [job for key, job in facts.items() if key not in running]
        found = decide(chosen, now_s, asks, [facts[key] for key in running], state)
        for key in found.stop:
            state.give_back(key)
            del running[key]
        for key, workers in found.start:
            state.take(key, workers)  # raises if a server has not as many
            more = name.startswith("elasticflow")  # it rounds up to a power of two
            assert sum(workers.values()) == facts[key].gpus or (more and sum(workers.values()) > facts[key].gpus)
            running[key] = now_s
        assert set(state.placed) == set(running)
        if turn == 0:
            assert running  # the cluster was empty, and some job fits


def test_plain_placements_hold_the_queue_unless_told_otherwise() -> None:
    asks = [Job("large", 16), Job("larger", 9, arrival_s=1.0), Job("small", 1, arrival_s=2.0)]
    state = ClusterState(4, RACK_OF, Random(1))
    state.take("x", {"h0": 1})
    assert decide(scheduler("first-fit"), 0.0, asks[:1] + asks[2:], [], state).start == ()
    found = decide(scheduler("first-fit", backfill=True), 0.0, asks, [], state)
    assert [name for name, _ in found.start] == ["larger", "small"]


def test_a_job_that_opens_machines_leaves_pieces_that_it_does_not_fill() -> None:
    free = {"h0": 3, "h1": 4, "h2": 4, "h3": 2}
    assert consolidated_exactly(3, free, 4) == {"h0": 3}
    assert consolidated_exactly(1, free, 4) == {"h1": 1}
    assert consolidated_exactly(5, free, 4) == {"h1": 4, "h2": 1}
    assert consolidated_exactly(9, free, 4) == {"h1": 4, "h2": 4, "h3": 1}  # no machine is idle: the tightest
    assert consolidated_exactly(12, free, 4) is None


def test_tiresias_consolidates_skewed_models_only() -> None:
    free = {"h0": 3, "h1": 4, "h2": 2, "h3": 4}
    assert consolidated(6, free, 4) == {"h1": 4, "h2": 2}
    assert consolidated(12, free, 4) is None
    state = ClusterState(4, RACK_OF, Random(1))
    state.take("x", {"h0": 1, "h2": 2})
    for skewed, expected in ((True, {"h1": 4, "h2": 2}), (False, {"h0": 3, "h1": 3})):
        job = Job("j", 6, skewed=skewed)
        assert decide(scheduler("tiresias"), 0.0, [job], [], state).start == (("j", expected),)
    small = Job("j", 1, skewed=True)
    for name, server in (("tiresias", "h2"), ("tiresias-exact", "h1")):
        assert decide(scheduler(name), 0.0, [small], [], state).start == (("j", {server: 1}),)


def test_tiresias_serves_the_job_that_had_least_and_stops_that_which_had_more() -> None:
    state = ClusterState(4, RACK_OF, Random(1))
    state.take("old", dict.fromkeys(RACK_OF, 4))
    old = Job("old", 16, running_since_s=0.0, run_s=HOUR_S)  # 16 GPU-hours: the last queue
    new = Job("new", 4, arrival_s=HOUR_S, waiting_since_s=HOUR_S)
    found = decide(scheduler("tiresias"), HOUR_S, [new], [old], state)
    assert found.stop == ("old",)
    assert [name for name, _ in found.start] == ["new"]
    same_queue = Job("old", 16, running_since_s=0.0, run_s=60.0)
    assert decide(scheduler("tiresias"), 60.0, [new], [same_queue], state).stop == ()
    starved = Job("starved", 4, run_s=2 * HOUR_S, waiting_since_s=0.0)
    assert scheduler("tiresias").rank(starved, 15 * HOUR_S) == 1.0
    assert scheduler("tiresias").rank(starved, 17 * HOUR_S) == 0.0


def test_gandiva_takes_turns_and_moves_to_a_better_tier_when_gpus_are_free() -> None:
    state = ClusterState(4, RACK_OF, Random(1))
    state.take("spread", {"h0": 2, "h2": 2})
    spread = Job("spread", 4, running_since_s=0.0, run_s=2 * HOUR_S, waiting_since_s=2 * HOUR_S)
    found = decide(scheduler("gandiva"), 2 * HOUR_S, [], [spread], state)
    assert found.start == (("spread", {"h0": 4}),)
    state = ClusterState(4, RACK_OF, Random(1))
    state.take("all", dict.fromkeys(RACK_OF, 4))
    whole = Job("all", 16, running_since_s=0.0, run_s=2 * HOUR_S, waiting_since_s=2 * HOUR_S)
    assert decide(scheduler("gandiva"), 2 * HOUR_S, [Job("new", 1)], [whole], state).stop == ("all",)
