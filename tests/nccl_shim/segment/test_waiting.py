"""What seems to wait, against what does."""

from nccl_shim.segment.learning import IterationLearner
from nccl_shim.segment.waiting import WaitingEstimate
from tests.nccl_shim.segment.test_learning import counters, learn


def test_waiting_is_exact_for_our_own_feeds() -> None:
    estimate = WaitingEstimate()
    assert estimate.update(1000, 1000, 300, False, None) == 700
    assert estimate.update(1000, 1000, 1000, False, None) == 0


def waiting_after_each_half(tx_ratio: float) -> tuple[int, int]:
    """Iterations of 1000 payload bytes; returns what seems to wait after enqueueing and sending."""
    learner, estimate, sent = IterationLearner(), WaitingEstimate(), 0
    for counter in counters([1000] * 8, tx_ratio=tx_ratio):
        full = estimate.update(counter.enqueued_at_start, counter.enqueued_at_start, sent, True, learner.learned)
        learner.observe(counter)
        sent = counter.tx_at_start
        empty = estimate.update(counter.enqueued_at_start, counter.enqueued_at_start, sent, True, learner.learned)
    return full, empty


def test_waiting_follows_what_nccl_really_sends() -> None:
    assert waiting_after_each_half(1.0) == (1000, 0)
    assert waiting_after_each_half(2.0) == (2000, 0)  # the LL protocol doubles bytes


def test_a_rank_whose_neighbour_is_local_never_waits() -> None:
    assert waiting_after_each_half(0.0) == (0, 0)


def test_a_ratio_learned_in_mid_flight_is_put_right_when_the_flight_ends() -> None:
    doubled = learn(counters([1000] * 8, tx_ratio=2.0)).learned
    estimate = WaitingEstimate()
    assert estimate.update(1000, 1000, 500, True, None) == 500
    estimate.update(1000, 1000, 500, True, doubled)  # in truth 1500 of 2000 are still under way
    assert estimate.update(1000, 1000, 2000, True, doubled) == 0
    assert estimate.update(2000, 2000, 2000, True, doubled) == 2000
