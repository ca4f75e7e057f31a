"""Every placement gives a job its GPUs, of servers that have them, or says wait."""

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cluster.placement import PLACEMENTS
from cluster.state import ClusterState, Request


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


def test_what_is_not_there_cannot_be_taken() -> None:
    state = cluster()
    with pytest.raises(ValueError, match="wants 5 GPUs of h0"):
        state.take("a", {"h0": 5})
    assert state.free_gpus == 24
