"""Traffic of no job, among what others send."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paceline.flowcore.detect.foreign import MEMORY_NS, MUCH, ForeignTraffic
from paceline.flowcore.model.units import transfer_bytes

LINK_BPS = 1e9
SAMPLE_NS = 500_000_000
LINK_BYTES = transfer_bytes(LINK_BPS, SAMPLE_NS)


class Link:
    """Connections of jobs, and whatever else is there."""

    def __init__(self) -> None:
        self.traffic, self.now_ns = ForeignTraffic(), 0
        self.of_jobs: dict[int, float] = {}

    def passes(self, jobs: dict[int, float], foreign: float = 0.0) -> bool:
        """Parts of the link, until the next sample."""
        self.now_ns += SAMPLE_NS
        self.traffic.sent((sum(jobs.values()) + foreign) * LINK_BYTES, SAMPLE_NS)
        for one, part in jobs.items():
            self.of_jobs[one] = self.of_jobs.get(one, 0.0) + part * LINK_BYTES
        self.traffic.sample({one: self.of_jobs[one] for one in jobs}, LINK_BPS, self.now_ns)
        return self.traffic.is_there(self.now_ns)


@pytest.mark.parametrize("jobs", [{}, {1: 0.5}, {1: 0.1, 2: 0.7}])
def test_what_no_job_sends_is_foreign_in_the_second_sample_and_until_it_has_long_ended(jobs: dict[int, float]) -> None:
    link = Link()
    for _ in range(3):
        assert not link.passes(jobs), "jobs alone"
    assert [link.passes(jobs, foreign=0.2) for _ in range(3)] == [False, True, True]
    ended_ns = link.now_ns
    while link.passes(jobs):
        assert link.now_ns < ended_ns + MEMORY_NS
    assert link.now_ns >= ended_ns + MEMORY_NS


@given(
    st.lists(
        st.tuples(st.dictionaries(st.integers(0, 5), st.floats(0.0, 1.0)), st.floats(0.0, 0.99 * MUCH)), max_size=40
    )
)
def test_jobs_whose_connections_come_and_go_and_a_little_beside_them_are_not(
    samples: list[tuple[dict[int, float], float]],
) -> None:
    link = Link()
    assert not any(link.passes(jobs, little) for jobs, little in samples)


def test_bytes_that_left_a_queue_after_the_sample_are_not() -> None:
    link = Link()
    for late in (0.2, -0.2, 0.2, -0.2):
        assert not link.passes({1: 0.5}, late)


def test_a_job_whose_connection_is_found_late_is_not() -> None:
    link = Link()
    assert not link.passes({}, foreign=0.5)
    assert not any(link.passes({1: 0.5}) for _ in range(5))
