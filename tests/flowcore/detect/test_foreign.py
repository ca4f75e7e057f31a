"""Traffic of no job, among what others send."""

from hypothesis import given
from hypothesis import strategies as st

from paceline.flowcore.detect.foreign import LEAST_BYTES, MEMORY_NS, SILENT, ForeignTraffic

LOOK_NS = 200_000_000


def test_connections_of_no_job_that_hold_much_are_foreign_until_they_have_long_ended() -> None:
    traffic = ForeignTraffic()
    traffic.sample(3, LEAST_BYTES, LOOK_NS)
    assert traffic.is_there(LOOK_NS) and traffic.is_there(LOOK_NS + MEMORY_NS - 1)
    traffic.sample(2, 0, 2 * LOOK_NS)
    assert traffic.is_there(2 * LOOK_NS) and not traffic.is_there(LOOK_NS + MEMORY_NS)


@given(st.lists(st.tuples(st.integers(1, 50), st.integers(0, LEAST_BYTES - 1)), max_size=60))
def test_jobs_connections_and_a_request_now_and_then_are_not(samples: list[tuple[int, int]]) -> None:
    traffic = ForeignTraffic()
    for number, (connections, foreign_bytes) in enumerate(samples):
        traffic.sample(connections, foreign_bytes, number * LOOK_NS)
        assert not traffic.is_there(number * LOOK_NS)


def test_what_no_connection_sends_is_foreign_but_not_at_once() -> None:
    """A burst may have gone before the sample."""
    traffic = ForeignTraffic()
    for number in range(2 * SILENT):
        traffic.sample(int(number == SILENT - 1), 0, number * LOOK_NS)
        assert traffic.is_there(number * LOOK_NS) == (number == 2 * SILENT - 1)
