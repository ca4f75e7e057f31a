"""Ceilings: what is left over may be used, what other flows were given may not."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from paceline.flowcore.allocation.borrowing import ceilings, ceilings_of_few

NOWHERE = 4
CAPACITY = np.array([10.0, 10.0, 10.0, 10.0, np.inf])  # NICs of hosts 0 and 1, then the links to 2 and 3


def ceilings_of(*flows: tuple[float, int, int, int]) -> list[float]:
    """Of flows of (share, host, link after its NIC, job)."""
    share, host, beyond, job = map(np.array, zip(*flows, strict=True))
    paths = np.stack([host, beyond], axis=1)
    ceiling, taken = ceilings(share.astype(float), paths, host, job, CAPACITY)
    named = [(str(one), str(other)) for one, other in paths.tolist()]
    by_name = {str(link): bps for link, bps in enumerate(CAPACITY.tolist())}
    few, of_few = ceilings_of_few(share.tolist(), named, host.tolist(), job.tolist(), by_name)
    assert few == pytest.approx(ceiling.tolist())
    assert list(of_few.values()) == pytest.approx([float(taken[int(link)]) for link in of_few])
    return [float(bps) for bps in ceiling]


def test_every_flow_may_use_what_is_left_over() -> None:
    assert ceilings_of((3.0, 0, 2, 0), (5.0, 1, 2, 1)) == [5.0, 7.0]


def test_on_a_full_nic_flows_take_what_their_neighbours_leave() -> None:
    assert ceilings_of((6.0, 0, 2, 0), (4.0, 0, 3, 1)) == [10.0, 10.0]


def test_a_job_with_a_link_to_itself_is_not_held_to_its_shares() -> None:
    """A server's two pushes: what one worker leaves the other takes."""
    assert ceilings_of((5.0, 0, 2, 0), (5.0, 1, 2, 0)) == [10.0, 10.0]


def test_neither_is_one_that_other_jobs_only_wait_for() -> None:
    assert ceilings_of((5.0, 0, 2, 0), (5.0, 1, 2, 0), (0.0, 1, 2, 1)) == [10.0, 10.0, 0.0]


def test_flows_that_wait_on_several_hosts_divide_what_is_left() -> None:
    """Together they would take from the one whose turn it is: a link knows no guarantees."""
    given = (6.0, 0, 2, 0)
    assert ceilings_of(given, (0.0, 1, 2, 1)) == [10.0, 4.0]
    assert ceilings_of(given, (0.0, 1, 2, 1), (0.0, 1, 2, 2)) == [10.0, 4.0, 4.0]  # one host: its NIC is one
    on_two_hosts = ceilings_of(given, (0.0, 1, 2, 1), (0.0, 0, 2, 2))
    assert on_two_hosts == [10.0, 2.0, 2.0]


def test_a_flow_that_a_full_link_holds_up_takes_no_part_of_what_is_left() -> None:
    given = (6.0, 0, 2, 0), (10.0, 1, 3, 3)
    assert ceilings_of(*given, (0.0, 0, 2, 1), (0.0, 1, 2, 2))[2:] == [4.0, 4.0]  # the last one's NIC is full


def test_where_no_other_job_was_given_anything_nothing_is_divided() -> None:
    assert ceilings_of((0.0, 0, 2, 0), (0.0, 1, 2, 1)) == [10.0, 10.0]


def test_but_where_another_job_was_given_something_it_is() -> None:
    assert ceilings_of((4.0, 0, 2, 0), (4.0, 1, 2, 0), (2.0, 1, 2, 1)) == [4.0, 4.0, 2.0]


@given(
    st.lists(
        st.tuples(st.floats(0.0, 3.0), st.integers(0, 1), st.integers(2, 3), st.integers(0, 2)), min_size=1, max_size=6
    )
)
def test_no_flow_borrows_what_another_job_was_given(flows: list[tuple[float, int, int, int]]) -> None:
    """Unless the two share a host whose NIC is full: there the kernel serves guarantees first."""
    found = ceilings_of(*flows)
    taken = np.zeros(5)
    for share, host, link, _ in flows:
        taken[[host, link]] += share
    for (share, host, link, job), ceiling in zip(flows, found, strict=True):
        assert ceiling >= share
        if taken[host] < 9.0 and ceiling > share:
            other_jobs = sum(other for other, _, there, of_job in flows if there == link and of_job != job)
            assert ceiling <= 10.0 - other_jobs + 1e-9 or other_jobs < 0.01


def test_the_sum_on_each_link_comes_with_it() -> None:
    _, taken = ceilings(np.array([3.0, 4.0]), np.array([[0, 2], [1, 2]]), np.array([0, 1]), np.array([0, 1]), CAPACITY)
    assert taken.tolist() == pytest.approx([3.0, 4.0, 7.0, 0.0, 0.0])
