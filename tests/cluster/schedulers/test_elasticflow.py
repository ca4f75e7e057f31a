"""ElasticFlow in the two readings that Titan's text allows."""

from random import Random

import pytest

from paceline.cluster.schedulers.elasticflow import place, place_exactly
from paceline.cluster.state import ClusterState, Request, Workers


def cluster(**free: int) -> ClusterState:
    state = ClusterState(8, dict.fromkeys(free, "r"), Random(1))
    for server, gpus in free.items():
        if gpus < 8:
            state.take(f"x{server}", {server: 8 - gpus})
    return state


@pytest.mark.parametrize(
    ("gpus", "free", "tightest", "exact"),
    [
        (2, {"a": 3, "b": 8}, {"a": 2}, {"b": 2}),
        (2, {"a": 3, "b": 8, "c": 2}, {"c": 2}, {"c": 2}),
        (3, {"a": 5, "b": 8}, {"a": 4}, {"b": 4}),  # rounded up
        (12, {"a": 7, "b": 8, "c": 8}, {"b": 8, "c": 8}, {"b": 8, "c": 8}),
        (9, {"a": 4, "b": 8, "c": 3}, {"b": 8, "c": 1}, {"b": 8, "c": 1}),  # 16 are too many, 1 has no exact fit
        (2, {"a": 3, "b": 5}, {"a": 2}, {"a": 2}),  # none is idle
        (8, {"a": 7, "b": 7}, {"a": 7, "b": 1}, {"a": 7, "b": 1}),
        (8, {"a": 3, "b": 4}, None, None),
    ],
)
def test_pieces_are_filled_or_left(gpus: int, free: Workers, tightest: Workers | None, exact: Workers | None) -> None:
    assert place(Request("j", gpus), cluster(**free)) == tightest
    assert place_exactly(Request("j", gpus), cluster(**free)) == exact
