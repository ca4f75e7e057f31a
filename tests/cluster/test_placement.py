"""Every placement gives a job its GPUs, of servers that have them, or says wait."""

from functools import partial
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paceline.cluster.cassini.candidates import candidates
from paceline.cluster.gpu_sharing import SharedGpuState
from paceline.cluster.placement import PLACEMENTS, lwf
from paceline.cluster.state import ClusterState, Request


def cluster(servers: int = 6, gpus: int = 4) -> ClusterState:
    return ClusterState(gpus, {f"h{number}": f"tor{number // 3}" for number in range(servers)}, Random(1))


@pytest.mark.parametrize("name", PLACEMENTS)
@given(demands=st.lists(st.integers(1, 12), min_size=1, max_size=12), leave=st.integers(0, 3))
def test_gpus_are_neither_lost_nor_given_twice(name: str, demands: list[int], leave: int) -> None:
    state = cluster()
    for number, gpus in enumerate(demands):
        workers = PLACEMENTS[name](Request(f"j{number}", gpus), state)
        assert (workers is None) == (state.free_gpus < gpus)
        if workers is not None:
            assert sum(workers.values()) == gpus
            state.take(f"j{number}", workers)
        assert all(0 <= free <= 4 for free in state.free.values())
        assert state.free_gpus == sum(state.free.values())
        assert state.used_servers == sum(free < 4 for free in state.free.values())
    for job in list(state.placed)[leave:]:
        state.give_back(job)
    assert state.free_gpus == sum(state.free.values())


def test_first_fit_fills_servers_in_order_and_list_takes_the_emptiest() -> None:
    state = cluster()
    state.take("a", {"h0": 3})
    assert PLACEMENTS["first-fit"](Request("b", 4), state) == {"h0": 1, "h1": 3}
    assert PLACEMENTS["list"](Request("b", 4), state) == {"h1": 4}


def test_lwf_spreads_single_gpus_by_load_and_keeps_larger_jobs_together() -> None:
    """Both branches of Algorithm 1, on GPUs that are shared: h0 has the least loaded GPU, h2 is the least loaded."""
    state = SharedGpuState(2, {"h0": "r", "h1": "r", "h2": "r"}, Random(1), jobs_per_gpu=3)
    state.remaining_s = {"long": 900.0, "short": 100.0, "some": 200.0, "other": 300.0}
    for name, workers in {"long": {"h0": 1}, "short": {"h0": 1}, "some": {"h2": 2}, "other": {"h1": 2}}.items():
        state.take(name, workers)
    assert state.server_loads_s() == {"h0": 1000.0, "h1": 600.0, "h2": 400.0}
    assert lwf.place(Request("a", 1), state) == {"h0": 1}  # n ≤ κ: its GPU of 100 s
    assert lwf.place(Request("b", 2), state) == {"h2": 2}  # n > κ: the least loaded server, whole
    assert lwf.place(Request("c", 4), state) == {"h2": 2, "h1": 2}
    assert lwf.place(Request("d", 2), state, kappa=2) == {"h0": 1, "h2": 1}  # LS: wherever the load is least


@pytest.mark.parametrize("name", PLACEMENTS)
@given(demands=st.lists(st.integers(1, 12), min_size=1, max_size=20), leave=st.integers(0, 5))
def test_a_shared_gpu_has_no_more_jobs_than_room_and_no_job_twice(name: str, demands: list[int], leave: int) -> None:
    racks = {f"h{number}": "r" for number in range(4)}
    state = SharedGpuState(3, racks, Random(1), jobs_per_gpu=2)
    for number, gpus in enumerate(demands):
        workers = PLACEMENTS[name](Request(f"j{number}", gpus), state)
        assert (workers is None) == (state.free_gpus < gpus)
        if workers is not None:
            state.take(f"j{number}", workers)
            assert len(set(state.gpus_of[f"j{number}"])) == gpus
        assert all(len(jobs) <= 2 for jobs in state.jobs_on.values())
    before, tried = state.free.copy(), state.copy()
    for job in list(tried.placed):
        tried.give_back(job)
    assert not any(tried.jobs_on.values())
    assert state.free == before  # what is tried out on a copy does not happen
    for job in list(state.placed)[leave:]:
        state.give_back(job)
    assert sum(map(len, state.jobs_on.values())) == sum(sum(workers.values()) for workers in state.placed.values())
    assert state.used_gpus == sum(bool(jobs) for jobs in state.jobs_on.values())


@pytest.mark.parametrize("name", PLACEMENTS)
def test_candidates_are_placements_of_the_same_worth_that_differ(name: str) -> None:
    state = cluster()
    state.take("a", {"h0": 3})
    found = candidates(partial(PLACEMENTS[name], Request("b", 4)), state)
    assert len(found) > 1
    assert all(sum(workers.values()) == 4 for workers in found)
    assert all(found.count(workers) == 1 for workers in found)
    assert candidates(partial(PLACEMENTS[name], Request("c", 22)), state) == []


def test_what_is_not_there_cannot_be_taken() -> None:
    state = cluster()
    with pytest.raises(ValueError, match="wants 5 GPUs of h0"):
        state.take("a", {"h0": 5})
    assert state.free_gpus == 24
