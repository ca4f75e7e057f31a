"""AdaDUAL against optima of Problem 1 that are found by trying."""

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from paceline.flowcore.allocation.fairshare import contended_bps
from paceline.flowcore.allocation.gates import GATES, Running, Task
from paceline.flowcore.allocation.gates.adadual import may_start
from paceline.flowcore.allocation.gates.contention import ETHERNET_10G, Contention
from paceline.flowcore.allocation.gates.srsf import remaining_service_s

MB = 1e6
PAIR = frozenset({"s0", "s1"})


def mean_end_s(first_bytes: float, second_bytes: float, second_at_s: float, law: Contention) -> float:
    """Eq. 9: the second starts before the first is through; while both run, a byte of each costs 2b + η."""
    alone_s, both_s = law.b_s, 2 * law.b_s + law.eta_s
    left_bytes = max(first_bytes - second_at_s / alone_s, 0.0)
    shared_bytes = min(left_bytes, second_bytes)
    shared_end_s = second_at_s + shared_bytes * both_s
    rest_bytes = (left_bytes - shared_bytes, second_bytes - shared_bytes)
    return sum(shared_end_s + rest * alone_s for rest in rest_bytes) / 2


@given(st.floats(1.0, 1000.0), st.floats(1.0, 1000.0), st.floats(0.0, 2.0))
def test_theorem_2_starting_at_once_is_the_optimum_exactly_below_the_threshold(
    new_mb: float, old_mb: float, eta_over_b: float
) -> None:
    """The best of 400 starting times is now where the gate says yes, and after the old one where it says no."""
    law = Contention(b_s=8.53e-10, eta_s=8.53e-10 * eta_over_b)
    new_bytes, old_bytes = new_mb * MB, old_mb * MB
    assume(abs(new_bytes / old_bytes - law.worthwhile) > 1e-3)
    alone_s = law.b_s * old_bytes
    starts_s = [alone_s * step / 400 for step in range(401)]
    best_s = min(starts_s, key=lambda start_s: mean_end_s(old_bytes, new_bytes, start_s, law))
    running = [Running(Task("old", PAIR, old_bytes), old_bytes)]
    assert may_start(Task("new", PAIR, new_bytes), running, law) == (best_s == 0.0)
    assert best_s == 0.0 or best_s == pytest.approx(alone_s)  # Theorem 2: never in between


@given(st.floats(1.0, 1000.0), st.floats(1.0, 1000.0))
def test_theorem_1_of_two_that_arrive_together_the_smaller_goes_first(one_mb: float, other_mb: float) -> None:
    small, large = sorted((one_mb * MB, other_mb * MB))
    law = ETHERNET_10G
    ways_s = [mean_end_s(small, large, law.b_s * small * step / 100, law) for step in range(101)]
    ways_s += [mean_end_s(large, small, law.b_s * large * step / 100, law) for step in range(101)]
    assert mean_end_s(small, large, law.b_s * small, law) <= min(ways_s) * (1 + 1e-9)


def running(*tasks: tuple[str, set[str], float]) -> list[Running]:
    return [Running(Task(job, frozenset(servers), mb * MB), mb * MB) for job, servers, mb in tasks]


def test_a_third_never_joins_and_tasks_on_other_servers_do_not_count() -> None:
    task = Task("new", PAIR, 1.0)
    assert may_start(task, running(("far", {"s5", "s6"}, 1.0)))
    assert may_start(task, running(("a", {"s1", "s2"}, 100.0)))
    assert not may_start(task, running(("a", {"s1", "s2"}, 100.0), ("b", {"s1", "s3"}, 100.0)))
    # One on each server: both must be long enough.
    assert may_start(task, running(("a", {"s0", "s2"}, 100.0), ("b", {"s1", "s3"}, 100.0)))
    assert not may_start(task, running(("a", {"s0", "s2"}, 100.0), ("b", {"s1", "s3"}, 1e-6)))


@pytest.mark.parametrize(("gate", "most"), [("srsf1", 1), ("srsf2", 2), ("srsf3", 3)])
def test_srsf_n_lets_n_on_a_server(gate: str, most: int) -> None:
    for already in range(4):
        others = running(*((f"j{number}", {"s1", f"x{number}"}, 1.0) for number in range(already)))
        assert GATES[gate](Task("new", PAIR, 1e9), others) == (already < most)


def test_eq_5_and_the_capacity_of_a_contended_link_are_one_law() -> None:
    law = Contention(a_s=0.0)
    for tasks in range(1, 9):
        each_bps = contended_bps(8.0 / law.b_s, tasks, law.eta_s / law.b_s) / tasks
        assert law.all_reduce_s(100 * MB, tasks) == pytest.approx(100 * MB * 8.0 / each_bps)


def test_eq_7_and_8_service_is_gpus_times_what_remains() -> None:
    assert remaining_service_s(4, 1000, 0.1, 0.2) == pytest.approx(1200.0)
