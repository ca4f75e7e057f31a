"""Bytes and time of an iteration, from the iteration counter alone."""

from nccl_shim.segment.learning import IterationLearner, WaitingEstimate
from nccl_shim.segment.snapshot import IterationCounter

MS = 1_000_000


def counters(sizes: list[int], durations_ms: list[int] | None = None, tx_ratio: float = 1.0) -> list[IterationCounter]:
    total, now_ns, made = 0, 0, []
    for index, size in enumerate(sizes):
        duration_ns = (durations_ms[index] if durations_ms else 50) * MS
        total, now_ns = total + size, now_ns + duration_ns
        made.append(IterationCounter(index + 1, now_ns, total, int(total * tx_ratio), size, duration_ns))
    return made


def learn(observed: list[IterationCounter]) -> IterationLearner:
    learner = IterationLearner()
    for counter in observed:
        learner.observe(counter)
    return learner


def test_nothing_is_known_before_the_third_iteration() -> None:
    assert learn(counters([900, 500])).learned is None


def test_the_third_iteration_is_enough() -> None:
    learned = learn(counters([900, 700, 500])).learned
    assert (learned.bytes_per_iteration, learned.since_iteration, learned.changes) == (500, 3, 0)
    assert learned.iteration_ns == 50 * MS


def test_a_lone_odd_iteration_changes_nothing() -> None:
    learned = learn(counters([900, 700, 500, 500, 504, 500, 504, 500])).learned
    assert (learned.bytes_per_iteration, learned.changes, learned.steady) == (500, 0, True)


def test_a_new_size_seen_twice_is_learned() -> None:
    learned = learn(counters([900, 700, 500, 500, 640, 640])).learned
    assert (learned.bytes_per_iteration, learned.since_iteration, learned.changes) == (640, 6, 1)


def test_what_never_repeats_is_a_median_and_says_so() -> None:
    learned = learn(counters([9, 9, 100, 110, 120, 130, 140, 150])).learned
    assert not learned.steady and 110 <= learned.bytes_per_iteration <= 150


def test_steady_again_when_it_repeats() -> None:
    learned = learn(counters([9, 9, 100, 110, 120, 130, 140, 150, 77, 77])).learned
    assert (learned.steady, learned.bytes_per_iteration) == (True, 77)


def test_a_larger_batch_is_noticed_in_three_iterations() -> None:
    durations = [900, 80] + [50] * 8 + [80] * 3
    assert learn(counters([5] * 13, durations)).learned.iteration_ns == 80 * MS
    assert learn(counters([5] * 12, durations)).learned.iteration_ns == 50 * MS


def test_one_slow_iteration_is_not_a_change() -> None:
    assert learn(counters([5] * 11, [50] * 10 + [900])).learned.iteration_ns == 50 * MS


def test_skipped_and_repeated_polls_do_no_harm() -> None:
    every = counters([900, 700] + [500] * 20, tx_ratio=1.5)
    learned = learn([every[0], every[4], every[4], every[11], every[18], every[21]]).learned
    assert (learned.bytes_per_iteration, learned.changes, learned.tx_bytes_per_iteration) == (500, 0, 750)


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
